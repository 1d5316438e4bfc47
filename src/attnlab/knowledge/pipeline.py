"""All of it in one call: pretrain, finetune, and ask what was kept back.

outcome = run(gather(text, pairs), recipe("fast"), Length(minutes=12))
outcome.path, outcome.evaluation.accuracy
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from attnlab.errors import InputError, SpecError
from attnlab.knowledge.answers.answering import KnowledgeModel
from attnlab.knowledge.answers.evaluating import Evaluation, evaluate
from attnlab.knowledge.material.material import Material
from attnlab.knowledge.training.finetuning import finetune
from attnlab.knowledge.training.pretraining import pretrain
from attnlab.knowledge.training.recipes import KnowledgeRecipe
from attnlab.knowledge.training.staging import Length, Options
from attnlab.training.progress import Silent


@dataclass(frozen=True)
class Outcome:
    """What `run` leaves: the finetuned run, what it came from, and what it knows of the heldout questions."""

    path: Path
    pretrained: Path
    evaluation: Evaluation
    alone: Evaluation | None = None  # the same without pretraining
    alone_path: Path | None = None


def run(
    material: Material,
    recipe: KnowledgeRecipe,
    length: Length | None = None,
    options: Options | None = None,
    *,
    alone: bool = False,
) -> Outcome:
    """Pretrain, finetune and evaluate; `alone` finetunes a fresh model as well. Asking again goes on where it was.

    Minutes are for both stages together, as the recipe divides them; epochs are those of pretraining.
    """
    length, options = length or Length(), options or Options()
    if length.steps is not None:
        raise SpecError("steps are those of one stage", hint="give minutes or epochs, or use pretrain and finetune")
    if not material.heldout:
        raise InputError("no pairs are kept back to ask", hint="put a share of them aside, or give others")
    first, second = stage_lengths(length, recipe)
    reporter = options.reporter or Silent()
    reporter.note(f"pretraining on {len(material.documents)} documents")
    pretrained = pretrain(material, recipe, first, options).path
    reporter.note(f"finetuning on {len(material.train)} pairs")
    path = finetune(pretrained, material, recipe, second, options).path
    found = evaluate(KnowledgeModel.open(path), material.heldout)
    if not alone:
        return Outcome(path, pretrained, found)
    reporter.note("finetuning a fresh model, for comparison")
    alone_path = finetune(None, material, recipe, options=options).path
    return Outcome(path, pretrained, found, evaluate(KnowledgeModel.open(alone_path), material.heldout), alone_path)


def stage_lengths(length: Length, recipe: KnowledgeRecipe) -> tuple[Length, Length]:
    """How long each of the two stages is."""
    if length.minutes is None:
        return length, Length()
    return (
        Length(minutes=length.minutes * recipe.pretraining_share),
        Length(minutes=length.minutes * recipe.finetuning_share),
    )
