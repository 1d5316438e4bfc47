"""Train a model on facts in a text, and measure what it knows and what it invents."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cyclopts import App, Parameter

from attnlab.cli.knowledge.evaluation import evaluate, learn, report, score_table, show_evaluation, show_story
from attnlab.cli.knowledge.facts import facts
from attnlab.cli.options import EXECUTION, RUNS, ExecutionOptions, Flag, Json, JsonFlag, Quiet, RunsFolder
from attnlab.cli.printing import say, show, show_json, show_pairs
from attnlab.errors import AttnlabError
from attnlab.formats import fixed
from attnlab.knowledge.material import CALIBRATION, HELDOUT, Material, gather, read_record
from attnlab.knowledge.pairs import Pair
from attnlab.knowledge.pipeline import run as run_all
from attnlab.knowledge.pipeline import tell
from attnlab.knowledge.training.recipes import KnowledgeRecipe
from attnlab.knowledge.training.recipes import recipe as recipe_by_name
from attnlab.knowledge.training.stage_run import Length, Options
from attnlab.knowledge.training.stages import finetune as finetune_run
from attnlab.knowledge.training.stages import pretrain as pretrain_run
from attnlab.runs.ledger import find_run
from attnlab.training import RunResult, Saving
from attnlab.training.progress import ConsoleReporter, Silent

knowledge = App(name="knowledge", help=__doc__)


@Parameter(name="*")
@dataclass(frozen=True)
class SplitOptions:
    """Which pairs are held out.

    Parameters
    ----------
    heldout
        Pairs in another file, to be asked and never learned; by default a share of the pairs.
    heldout_share
        The share of the pairs that is kept back to be asked, where there is no other file.
    calibration_share
        The share of the pairs that is kept back for setting a threshold.
    """

    heldout: Path | None = None
    heldout_share: float = HELDOUT
    calibration_share: float = CALIBRATION


@Parameter(name="*")
@dataclass(frozen=True)
class ModelOptions:
    """The model, and how long it is trained.

    Parameters
    ----------
    recipe
        fast (the most in the time given) or assignment (the course assignment's protocol); by default fast, or that of
        the run that is finetuned.
    variant
        The attention: a name of the catalogue, perhaps with a number (window:256), or a+b for both changes; over the
        layers a*2,b takes turns and a,(b),c repeats b. `attnlab variants NAME` explains any of these.
    objective
        span (span corruption), lm (language modelling) or mix.
    tokenizer
        char or bpe.
    vocabulary_size
        How many tokens bpe is to have.
    num_layers
        How many layers.
    model_width
        How wide the model is.
    num_heads
        How many heads each layer has.
    context_length
        How many tokens the model reads at most.
    dropout
        The share of activations that training leaves out; some variants have no weights to drop and need 0.
    document_qa
        Document-conditioned QA in pretraining: documents of the training split are followed by question and answer.
    synthetic_qa
        Synthetic QA in finetuning: also learn the pairs that the pretrained model writes about the text.
    epochs
        How often everything is read; by default as the recipe says.
    minutes
        How long instead: the steps that fit are measured first.
    seed
        The initial weights, the order of the data, and which pairs are put aside.
    """

    recipe: str | None = None
    variant: str | None = None
    objective: Literal["span", "lm", "mix"] | None = None
    tokenizer: Literal["char", "bpe"] | None = None
    vocabulary_size: int | None = None
    num_layers: int | None = None
    model_width: int | None = None
    num_heads: int | None = None
    context_length: int | None = None
    dropout: float | None = None
    document_qa: bool | None = None
    synthetic_qa: bool | None = None
    epochs: int | None = None
    minutes: float | None = None
    seed: int = 0
    execution: ExecutionOptions = EXECUTION

    def knowledge_recipe(self, parent: Path | None = None) -> KnowledgeRecipe:
        """Return the recipe with its changes; that of the parent if none is named."""
        if self.recipe is None and parent is not None:
            base = KnowledgeRecipe(**read_record(parent)["settings"])
        else:
            base = recipe_by_name(self.recipe or "fast")
        elsewhere = ("recipe", "epochs", "minutes", "seed", "execution")
        changes = {name: value for name, value in vars(self).items() if name not in elsewhere}
        if self.tokenizer == "char":
            base = base.model_copy(update={"vocabulary_size": None})
        return base.replace(**changes)

    def length(self, steps: int | None = None) -> Length:
        return Length(self.epochs, steps, self.minutes)

    def options(self) -> Options:
        execution = self.execution
        execution.check()
        return Options(
            execution.out,
            self.seed,
            Silent() if execution.quiet else ConsoleReporter(),
            Saving(seconds=execution.checkpoint_seconds),
            {"threads": execution.threads, "workers": execution.workers},
        )


SPLIT, MODEL = SplitOptions(), ModelOptions()


@knowledge.command
def pretrain(
    *,
    text: Path,
    pairs: Path | None = None,
    split: SplitOptions = SPLIT,
    steps: int | None = None,
    model: ModelOptions = MODEL,
    as_json: JsonFlag = False,
) -> None:
    """Pretrain a new model on a text, one document per line; the same command resumes after any interruption.

    Parameters
    ----------
    text
        The text.
    pairs
        Questions and answers, a tab between them. Those of the training split are read with their documents by the
        recipe fast; without them, it only reads.
    steps
        How many steps.
    as_json
        Print the result as JSON.
    """
    material = _gather(text, pairs or (), split, model)
    result = pretrain_run(material, model.knowledge_recipe(), model.length(steps), model.options())
    _tell(result, as_json)


@knowledge.command
def finetune(
    run: str | None = None,
    /,
    *,
    pairs: Path | None = None,
    text: Path | None = None,
    split: SplitOptions = SPLIT,
    steps: int | None = None,
    model: ModelOptions = MODEL,
    as_json: JsonFlag = False,
) -> None:
    """Finetune a model on questions: a pretrained one, or, without RUN, a new one for comparison.

    Parameters
    ----------
    run
        A pretrained run.
    pairs
        Questions and answers, a tab between them; by default those that the run was pretrained with.
    text
        Without RUN: the text whose characters or words the model has.
    steps
        How many steps.
    as_json
        Print the result as JSON.
    """
    parent = None if run is None else find_run(run, model.execution.out)
    if parent is None and (text is None or pairs is None):
        raise AttnlabError("there is no run to finetune", hint="name one, or give --text and --pairs for a fresh model")
    before = None if parent is None else Material.read(parent)
    if before is not None and pairs is None and split.heldout is None:
        material = before
    else:
        source = text if text is not None else before.documents if before is not None else ()
        known = pairs if pairs is not None else [] if before is None else [*before.train]
        material = _gather(source, known, split, model, before)
    result = finetune_run(parent, material, model.knowledge_recipe(parent), model.length(steps), model.options())
    _tell(result, as_json)


@knowledge.command
def run(
    *,
    text: Path,
    pairs: Path,
    split: SplitOptions = SPLIT,
    alone: Flag = False,
    model: ModelOptions = MODEL,
    as_json: JsonFlag = False,
) -> None:
    """Run all stages: pretrain, finetune, and evaluate on held-out questions.

    Minutes are for everything together, epochs for pretraining. The same command resumes after any interruption.

    Parameters
    ----------
    text
        The text, one document on each line.
    pairs
        Questions and answers, a tab between them.
    alone
        Finetune a model that has read nothing as well, for comparison.
    as_json
        Print it as JSON, with every answer.
    """
    material = _gather(text, pairs, split, model)
    outcome = run_all(material, model.knowledge_recipe(), model.length(), model.options(), alone=alone)
    if as_json:
        alone_scores = None if outcome.alone is None else outcome.alone.plain(answers=False)
        paths = {"run": outcome.path, "pretrained": outcome.pretrained}
        show_json({**paths, "without_pretraining": alone_scores, **outcome.evaluation.plain()})
        return
    show_pairs({"run": str(outcome.path), "pretrained": str(outcome.pretrained)})
    if outcome.alone is not None:
        show(score_table("", {"without pretraining": outcome.alone.exact_match}))
    show_evaluation(outcome.evaluation)


@knowledge.command
def demo(
    *,
    smoke: Flag = False,
    seed: int = 0,
    out: RunsFolder = RUNS,
    threads: int | None = None,
    workers: int | None = None,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Run all stages on a generated world: what the model knows, what it invents, and whether the confidence tells.

    Parameters
    ----------
    smoke
        At a size that takes seconds and only shows that it runs.
    seed
        The world, the initial weights and the order of the data.
    threads
        Threads of each process.
    workers
        Processes that share each batch.
    """
    reporter = Silent() if quiet else ConsoleReporter()
    options = Options(out, seed, reporter, wishes={"threads": threads, "workers": workers})
    story = tell("smoke" if smoke else "full", options)
    if as_json:
        show_json(story.plain())
    else:
        show_story(story)


def _gather(
    text: Path | Sequence[str],
    pairs: Path | Sequence[Pair],
    split: SplitOptions,
    model: ModelOptions,
    before: Material | None = None,
) -> Material:
    """Return text and pairs, each pair with its use; print what is odd about them."""
    heldout = split.heldout_share if split.heldout is None else split.heldout
    material = gather(text, pairs, heldout=heldout, calibration=split.calibration_share, seed=model.seed, before=before)
    for note in material.notes:
        say(note)
    return material


def _tell(result: RunResult, as_json: bool) -> None:
    if as_json:
        found = {"run": result.path, "steps": result.steps, "seconds": result.seconds, "already": result.already}
        show_json(found)
        return
    if result.already:
        say(f"{result.path} has finished before, and is left as it is.")
    show_pairs({"run": str(result.path), "steps": str(result.steps), "seconds": fixed(result.seconds, 0)})


for verb in (evaluate, facts, learn, report):
    knowledge.command(verb)
