"""Pretrain, finetune and evaluate on the held-out pairs in one call, on your text or on a generated world.

outcome = run(gather(text, pairs), recipe("fast"), Length(minutes=12))
outcome.path, outcome.evaluation.accuracy

On a generated world (`tell`) it is known who is in the text and who is not. It compares

finetuned only             a model that was finetuned without pretraining on the text
the commonest place        the baseline without any knowledge
pretrained, then asked     the same model after pretraining, by how many documents name a person
unseen entities            people who appear nowhere: any answer about them is made up. How well does each confidence
                           score tell them from known people, and how many are rejected at the threshold that keeps
                           nine tenths of the known?
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from attnlab.corpora import World
from attnlab.errors import InputError, SpecError
from attnlab.knowledge.answers.evaluation import Evaluation, Proportion, evaluate
from attnlab.knowledge.answers.guarantee import SCORES, ScoreName, score_of
from attnlab.knowledge.answers.model import KnowledgeModel, ModelAnswer
from attnlab.knowledge.material import Material, gather_world
from attnlab.knowledge.pairs import Pair
from attnlab.knowledge.training.recipes import KnowledgeRecipe
from attnlab.knowledge.training.recipes import recipe as recipe_by_name
from attnlab.knowledge.training.stage_run import Length, Options
from attnlab.knowledge.training.stages import finetune, pretrain
from attnlab.statistics import Interval, auroc
from attnlab.training.progress import Silent

StorySize = Literal["full", "smoke"]
KEPT = 0.9  # share of known people that the threshold keeps
_SAMPLES = 10

_WORLDS: dict[StorySize, dict[str, int | str]] = {
    "full": {"people": 600, "unseen": 200, "places": 60, "exposures": "1,2,4,8"},
    "smoke": {"people": 30, "unseen": 10, "places": 6, "exposures": "1,2"},
}


@dataclass(frozen=True)
class PipelineResult:
    """The result of `run`: the finetuned run, its pretrained parent, and its evaluation on the heldout questions."""

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
) -> PipelineResult:
    """Pretrain, finetune and evaluate; `alone` also finetunes a fresh model. The same request resumes it.

    Minutes are for both stages together, divided as the recipe says; epochs are those of pretraining.

    Parameters
    ----------
    material
        The text, the pairs and their splits.
    recipe
        The shape of the model, its tokenizer and its training settings.
    length
        The length of each stage; None takes the recipe's own.
    options
        The folder for runs, processes, seed and progress; None takes the defaults.
    alone
        Whether to finetune a fresh model as well, for comparison.
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
        return PipelineResult(path, pretrained, found)
    reporter.note("finetuning a fresh model, for comparison")
    alone_path = finetune(None, material, recipe, options=options).path
    return PipelineResult(
        path, pretrained, found, evaluate(KnowledgeModel.open(alone_path), material.heldout), alone_path
    )


def stage_lengths(length: Length, recipe: KnowledgeRecipe) -> tuple[Length, Length]:
    """Return how long each of the two stages is."""
    if length.minutes is None:
        return length, Length()
    return (
        Length(minutes=length.minutes * recipe.pretraining_share),
        Length(minutes=length.minutes * recipe.finetuning_share),
    )


@dataclass(frozen=True)
class Separation:
    """How well a confidence score separates known from unseen entities."""

    score: ScoreName
    auroc: Interval
    threshold: float  # the one that keeps nine tenths of the known
    rejected: Proportion  # of the unseen, below it


@dataclass(frozen=True)
class Story:
    """The results on a generated world."""

    world: World
    outcome: PipelineResult
    never_seen: tuple[ModelAnswer, ...]
    separations: tuple[Separation, ...]
    invented: Proportion  # unseen people for whom the model gave the true place by chance

    def plain(self) -> dict[str, object]:
        assert self.outcome.alone is not None
        return {
            "run": str(self.outcome.path),
            "world": {"seed": self.world.seed, **self.world.options.model_dump()},
            "without_pretraining": self.outcome.alone.plain(answers=False),
            "pretrained": self.outcome.evaluation.plain(answers=False),
            "never_seen": {
                "right_by_chance": self.invented.plain(),
                "scores": [
                    {
                        "score": one.score,
                        "auroc": vars(one.auroc),
                        "threshold": one.threshold,
                        "rejected": one.rejected.plain(),
                    }
                    for one in self.separations
                ],
            },
        }


def story_recipe(size: StorySize) -> KnowledgeRecipe:
    """Return the fast recipe, scaled to the size of the world."""
    fast = recipe_by_name("fast")
    layers, width, heads, vocabulary = (3, 128, 4, 1024) if size == "full" else (1, 32, 2, 320)
    read, asked, alone = (6, 40, 20) if size == "full" else (1, 1, 1)
    return fast.replace(
        num_layers=layers,
        model_width=width,
        num_heads=heads,
        vocabulary_size=vocabulary,
        unseen_entities=1.0,  # there are few pairs, so this costs little
        pretraining=fast.pretraining.replace(epochs=read),
        finetuning=fast.finetuning.replace(epochs=asked, batch_size=64),
        epochs_alone=alone,
    )


def tell(size: StorySize = "full", options: Options | None = None, recipe: KnowledgeRecipe | None = None) -> Story:
    """Generate a world and train a model on it.

    Parameters
    ----------
    size
        full, or smoke for a test of a few seconds.
    options
        The folder for runs, processes, seed and progress; None takes the defaults.
    recipe
        The recipe; None takes the one for the size.
    """
    options = options or Options()
    world = World.generate(options.seed, **_WORLDS[size])
    material = gather_world(world)
    outcome = run(material, recipe or story_recipe(size), Length(), options, alone=True)
    model = KnowledgeModel.open(outcome.path)
    known = evaluate(model, material.heldout, _SAMPLES, options.seed)
    unseen = evaluate(model, [Pair(*pair) for pair in world.pairs("unseen")], _SAMPLES, options.seed)
    separations = tuple(separate(score, known, unseen.answers) for score in SCORES)
    return Story(world, replace(outcome, evaluation=known), unseen.answers, separations, unseen.exact_match)


def separate(score: ScoreName, known: Evaluation, unseen: Sequence[ModelAnswer]) -> Separation:
    """Measure how well one confidence score separates known from unseen entities."""
    ours, theirs = ([score_of(answer, score) for answer in answers] for answers in (known.answers, unseen))
    threshold = keeping(ours, KEPT)
    rejected = Proportion(sum(value < threshold for value in theirs), len(theirs))
    return Separation(score, auroc(ours, theirs), threshold, rejected)


def keeping(values: Sequence[float], share: float) -> float:
    """Return the largest threshold that at least this share of the values reaches."""
    ordered = sorted(values, reverse=True)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]
