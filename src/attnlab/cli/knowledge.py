"""Teach a model facts from a text, and find out what it knows and what it makes up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from attnlab.cli.knowledge_after import learn, report
from attnlab.cli.knowledge_facts import facts
from attnlab.cli.knowledge_options import DEFAULT_MAKING, DEFAULT_SPLITTING, Flag, Making, Splitting
from attnlab.cli.knowledge_tables import score_rows, show_evaluation, show_story
from attnlab.cli.printing import make_table, say, show, show_json
from attnlab.errors import AttnlabError, FileError
from attnlab.knowledge.answers.evaluation import evaluate as evaluate_pairs
from attnlab.knowledge.answers.evaluation import write_predictions
from attnlab.knowledge.answers.model import KnowledgeModel
from attnlab.knowledge.material.material import Material, gather
from attnlab.knowledge.material.pairs import Pair, read_pairs
from attnlab.knowledge.pipeline import PipelineResult, tell
from attnlab.knowledge.pipeline import run as run_all
from attnlab.knowledge.training.stage_run import Options
from attnlab.knowledge.training.stages import finetune as finetune_run
from attnlab.knowledge.training.stages import pretrain as pretrain_run
from attnlab.runs import RunDirectory
from attnlab.runs.ledger import DEFAULT_ROOT
from attnlab.training import RunResult
from attnlab.training.progress import ConsoleReporter, Silent

Json = Annotated[bool, Parameter(name="--json", negative="", show_default=False)]

knowledge = App(name="knowledge", help=__doc__)


@knowledge.command
def pretrain(
    *,
    text: Path,
    pairs: Path | None = None,
    splitting: Splitting = DEFAULT_SPLITTING,
    steps: int | None = None,
    making: Making = DEFAULT_MAKING,
    as_json: Json = False,
) -> None:
    """Let a fresh model read a text, one document on each line; the same command goes on after any interruption.

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
    material = _put_aside(text, pairs or (), splitting, making)
    result = pretrain_run(material, making.made(), making.length(steps), making.options())
    _tell(result, as_json)


@knowledge.command
def finetune(
    run: Path | None = None,
    /,
    *,
    pairs: Path | None = None,
    text: Path | None = None,
    splitting: Splitting = DEFAULT_SPLITTING,
    steps: int | None = None,
    making: Making = DEFAULT_MAKING,
    as_json: Json = False,
) -> None:
    """Teach a model to answer questions: one that has read a text, or, without RUN, a fresh one for comparison.

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
    parent = None if run is None else find(run, making.out)
    if parent is None and (text is None or pairs is None):
        raise AttnlabError("there is no run to finetune", hint="name one, or give --text and --pairs for a fresh model")
    before = None if parent is None else Material.read(parent)
    if before is not None and pairs is None and splitting.heldout is None:
        material = before
    else:
        source = text if text is not None else before.documents if before is not None else ()
        known = pairs if pairs is not None else [] if before is None else [*before.train]
        material = _put_aside(source, known, splitting, making, before)
    result = finetune_run(parent, material, making.made(parent), making.length(steps), making.options())
    _tell(result, as_json)


@knowledge.command
def evaluate(
    run: Path,
    /,
    *,
    pairs: Path | None = None,
    samples: int = 0,
    seed: int = 0,
    predictions: Path | None = None,
    out: Path = DEFAULT_ROOT,
    as_json: Json = False,
) -> None:
    """Ask a model questions whose answers are known, and say how many it has right, with an interval.

    Parameters
    ----------
    run
        A finetuned run.
    pairs
        Questions and answers, a tab between them; by default those that the run kept back.
    samples
        Draw so many answers to each question as well, for their agreement.
    seed
        What they are drawn from.
    predictions
        Write every answer into this file, with tabs between the columns.
    out
        The folder that holds the runs.
    as_json
        Print it as JSON, with every answer.
    """
    model = KnowledgeModel.open(find(run, out))
    if pairs is None:
        asked = list(model.pairs("heldout"))
        if not asked:
            raise AttnlabError(f"{run} kept no pairs back", hint="give some with --pairs")
    else:
        known = read_pairs(pairs)
        asked = list(known.pairs)
        if known.problems is not None:
            say(f"{pairs}: {known.problems}")
    learned = {pair.question for pair in model.pairs("train")}
    inside = sum(pair.question in learned for pair in asked)
    if inside:
        say(f"{inside} of the {len(asked)} questions are in the training split of this run")
    found = evaluate_pairs(model, asked, samples, seed)
    if predictions is not None:
        write_predictions(predictions, found)
    if as_json:
        show_json({"run": str(run), "questions_in_training_split": inside, **found.plain()})
        return
    show_evaluation(found)


@knowledge.command
def run(
    *,
    text: Path,
    pairs: Path,
    splitting: Splitting = DEFAULT_SPLITTING,
    alone: Flag = False,
    making: Making = DEFAULT_MAKING,
    as_json: Json = False,
) -> None:
    """Do all of it: pretrain, finetune, and ask what was kept back.

    Minutes are for everything together, epochs for pretraining. The same command goes on after any interruption.

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
    material = _put_aside(text, pairs, splitting, making)
    outcome = run_all(material, making.made(), making.length(), making.options(), alone=alone)
    if as_json:
        show_json(_plain(outcome))
        return
    show(
        make_table(
            ["", ""], [["run", str(outcome.path)], ["pretrained", str(outcome.pretrained)]], left=(0, 1), wrap=()
        )
    )
    if outcome.alone is not None:
        rows = score_rows({"without pretraining": outcome.alone.exact_match})
        show(make_table(["", "right", "of", "share", "95 % interval"], rows))
    show_evaluation(outcome.evaluation)


@knowledge.command
def demo(
    *,
    smoke: Flag = False,
    seed: int = 0,
    out: Path = DEFAULT_ROOT,
    threads: int | None = None,
    workers: int | None = None,
    quiet: Flag = False,
    as_json: Json = False,
) -> None:
    """Tell the whole story on a generated world: what is known, what is made up, and whether confidence tells.

    Parameters
    ----------
    smoke
        At a size that takes seconds and shows nothing but that it runs.
    seed
        The world, the initial weights and the order of the data.
    out
        The folder that holds the runs.
    threads
        Threads of each process.
    workers
        Processes that share each batch.
    quiet
        Say nothing while it trains.
    as_json
        Print it as JSON.
    """
    reporter = Silent() if quiet else ConsoleReporter()
    options = Options(out, seed, reporter, wishes={"threads": threads, "workers": workers})
    story = tell("smoke" if smoke else "full", options)
    if as_json:
        show_json(story.plain())
    else:
        show_story(story)


def find(run: Path, out: Path) -> Path:
    """A run by its path or its name."""
    for path in (run, out / run):
        if RunDirectory.exists(path):
            return path
    raise FileError(f"{run} is no run directory", hint="`attnlab runs list` shows those that are there")


def _put_aside(
    text: Path | Sequence[str],
    pairs: Path | Sequence[Pair],
    splitting: Splitting,
    making: Making,
    before: Material | None = None,
) -> Material:
    """Text and pairs, each pair with its use; what is odd about them is said."""
    material = gather(
        text,
        pairs,
        heldout=splitting.asked,
        calibration=splitting.calibration_share,
        seed=making.seed,
        before=before,
    )
    for note in material.notes:
        say(note)
    return material


def _tell(result: RunResult, as_json: bool) -> None:
    if as_json:
        show_json(
            {"run": str(result.path), "steps": result.steps, "seconds": result.seconds, "already": result.already}
        )
        return
    if result.already:
        say(f"{result.path} has finished before, and is left as it is.")
    rows = [["run", str(result.path)], ["steps", str(result.steps)], ["seconds", f"{result.seconds:.0f}"]]
    show(make_table(["", ""], rows, left=(0, 1), wrap=(1,)))


def _plain(outcome: PipelineResult) -> dict[str, Any]:
    return {
        "run": str(outcome.path),
        "pretrained": str(outcome.pretrained),
        "without_pretraining": None if outcome.alone is None else outcome.alone.plain(answers=False),
        **outcome.evaluation.plain(),
    }


for verb in (facts, learn, report):
    knowledge.command(verb)
