"""`attnlab knowledge evaluate`, `learn` and `report`: measure what a model knows, and teach it more."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attnlab.cli.figures import FiguresFolder, check_figures_folder, save_figures
from attnlab.cli.options import RUNS, Flag, Json, JsonFlag, Quiet, RunsFolder
from attnlab.cli.printing import say, show, show_json
from attnlab.errors import AttnlabError
from attnlab.formats import fixed, general, percent
from attnlab.knowledge.answers.evaluation import Evaluation, Proportion, write_predictions
from attnlab.knowledge.answers.evaluation import evaluate as evaluate_pairs
from attnlab.knowledge.answers.guarantee import DELTA, RISK, ScoreName
from attnlab.knowledge.answers.model import KnowledgeModel
from attnlab.knowledge.asker import DEFAULT_STORE
from attnlab.knowledge.pairs import read_pairs
from attnlab.knowledge.pipeline import KEPT, Story
from attnlab.knowledge.report import describe, report_page
from attnlab.knowledge.store.store import FactStore
from attnlab.knowledge.training.learning import HEADINGS, learn_kept
from attnlab.pages import Table, write_page
from attnlab.runs.ledger import find_run
from attnlab.statistics import Interval
from attnlab.storage.files import check_writable
from attnlab.training.progress import ConsoleReporter, Silent

DEFAULT_PAGE = Path("knowledge.html")


def evaluate(
    run: str,
    /,
    *,
    pairs: Path | None = None,
    samples: int = 0,
    seed: int = 0,
    predictions: Path | None = None,
    out: RunsFolder = RUNS,
    as_json: JsonFlag = False,
) -> None:
    """Ask a model questions with known answers, and print how many it answers correctly, with an interval.

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
    as_json
        Print it as JSON, with every answer.
    """
    model = KnowledgeModel.open(find_run(run, out))
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
        show_json({"run": run, "questions_in_training_split": inside, **found.plain()})
        return
    show_evaluation(found)


def learn(
    run: str,
    /,
    *,
    store: Path = DEFAULT_STORE,
    every: Flag = False,
    epochs: int | None = None,
    out: RunsFolder = RUNS,
    quiet: Quiet = False,
    as_json: Json = False,
) -> None:
    """Finetune a new run on the facts that people added, mixed with everything that the model was finetuned on before.

    Shows what was gained on the new questions and whether old answers were lost. The guarantee of `attnlab ask` is void
    for the new run until its threshold is set again, which `attnlab ask` does.

    Parameters
    ----------
    run
        A finetuned run.
    store
        The store.
    every
        Learn every fact of the store, and not only those that people told it one by one.
    epochs
        How often everything is gone through; by default as the recipe says.
    """
    path = find_run(run, out)
    with FactStore(store, create=False) as opened:
        found = learn_kept(path, opened, every=every, epochs=epochs, reporter=Silent() if quiet else ConsoleReporter())
    if as_json:
        show_json(found.to_dict())
        return
    rows = [found.gained.row("new"), found.taught.row("taught before")]
    if found.heldout is not None:
        rows.append(found.heldout.row("held out"))
    show(Table(HEADINGS, rows, wrap_columns=(0,)))
    for one in found.contradictions:
        say(f"note: not learned, for it has several answers: {one.question} {', '.join(one.answers)}")
    show("", f"run {found.run}")
    say(f"the threshold is void until it is set again: `attnlab ask {found.run}` does so")


def report(
    run: str,
    /,
    *,
    page: Path | None = None,
    figures: FiguresFolder = None,
    samples: int = 10,
    risk: float = RISK,
    delta: float = DELTA,
    score: ScoreName = "probability",
    seed: int = 0,
    out: RunsFolder = RUNS,
    as_json: JsonFlag = False,
) -> None:
    """Write a report on a model's knowledge, as one page that works offline.

    Exact match with intervals and baselines, accuracy by exposure, calibration, risk against coverage for three scores
    of confidence, whether they tell the retrieved from the invented, and the threshold with its guarantee.

    Parameters
    ----------
    run
        A finetuned run.
    page
        Where to write the page; knowledge.html if not said.
    samples
        Draw so many answers to each question, for their agreement.
    risk
        The risk that the threshold is set to.
    delta
        The chance with which that may fail.
    score
        The score that the threshold is on.
    seed
        What samples and names of unseen entities are drawn from.
    as_json
        Print the figures as JSON; a page is then written only with --page.
    """
    target = page if as_json else page or DEFAULT_PAGE
    if target is not None:
        check_writable(target)  # before the work
    check_figures_folder(figures)
    path = find_run(run, out)
    say(f"asking {path}")
    found = describe(path, samples=samples, risk=risk, delta=delta, score=score, seed=seed)
    if target is not None:
        write_page(report_page(found), target)
    if as_json:
        show_json(found.to_dict())
    else:
        for line in found.sentences():
            show(line)
    if target is not None:
        say(f"wrote {target}")
    if figures is not None:
        save_figures(report_page(found), figures)


def show_evaluation(found: Evaluation) -> None:
    """Print exact matches beside the commonest answer, and by how many documents name a person."""
    rows = {"exact match": found.exact_match}
    if found.commonest is not None:
        rows[f"always {found.commonest_answer}"] = found.commonest
    show(score_table("", rows))
    by_exposure = found.by_exposure
    if len(by_exposure) > 1:
        show("", score_table("documents about them", by_exposure))
    unfit = sum(not answer.fits for answer in found.answers)
    if unfit:
        say(f"{unfit} questions are not of the kind that the model was trained on")
    for answer in found.answers:
        if answer.problem is not None:
            say(f"not answered: {answer.problem}")
    say(f"{len(found.answers)} questions in {fixed(found.seconds, 1)} s")


def show_story(story: Story) -> None:
    """Print the results on the generated world as three tables."""
    outcome = story.outcome
    found = outcome.evaluation
    rows: dict[str, Proportion] = {}
    if outcome.alone is not None:
        rows["finetuned without having read the text"] = outcome.alone.exact_match
    if found.commonest is not None:
        rows[f"always the commonest place, {found.commonest_answer}"] = found.commonest
    rows["pretrained, then finetuned"] = found.exact_match
    rows["the same about people who are nowhere in the text"] = story.invented
    show("Questions that were never learned", "", score_table("", rows))
    show("", "By how many documents speak of a person", "")
    show(score_table("documents", found.by_exposure))
    show("", "Does the confidence separate recalled from invented answers?", "")
    rows_of_scores = [
        [
            one.score.replace("_", "-"),
            fixed(one.auroc.mean, 3),
            f"{fixed(one.auroc.low, 3)} – {fixed(one.auroc.high, 3)}",
            general(one.threshold, 3),
            percent(one.rejected.share.mean, 1),
            _percents(one.rejected.share),
        ]
        for one in story.separations
    ]
    headings = ("score", "AUROC", "95 % interval", "threshold", "rejected", "95 % interval")
    show(Table(headings, rows_of_scores))
    say(
        f"The threshold accepts {percent(KEPT)} of the people in the text who were asked about; below it unseen "
        f"entities are rejected. Ask the model: attnlab ask {outcome.path}"
    )


def score_table(heading: str, scores: Mapping[str, Proportion]) -> Table:
    """Return a row for each score, with its share and the interval of it."""
    rows = [
        [words, str(score.correct), str(score.total), percent(score.share.mean, 1), _percents(score.share)]
        for words, score in scores.items()
    ]
    return Table((heading, "right", "of", "share", "95 % interval"), rows, wrap_columns=(0,))


def _percents(share: Interval) -> str:
    return f"{percent(share.low, 1)} – {percent(share.high, 1)}"
