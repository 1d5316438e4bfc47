"""`attnlab knowledge learn` and `report`: teach a model what was kept, and show all that is known about it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from attnlab.cli.printing import make_table, say, show, show_json
from attnlab.knowledge.answers.guarantee import DELTA, RISK, ScoreName
from attnlab.knowledge.asker import DEFAULT_STORE
from attnlab.knowledge.report import describe, report_page
from attnlab.knowledge.store.store import FactStore
from attnlab.knowledge.training.learning import BeforeAfter, LearningResult, learn_kept
from attnlab.pages import write_page
from attnlab.runs.ledger import DEFAULT_ROOT, find_run
from attnlab.storage.files import check_writable
from attnlab.training.progress import ConsoleReporter, Silent

DEFAULT_PAGE = Path("knowledge.html")

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Json = Annotated[bool, Parameter(name="--json", negative="", show_default=False)]


def learn(
    run: str,
    /,
    *,
    store: Path = DEFAULT_STORE,
    every: Flag = False,
    epochs: int | None = None,
    out: Path = DEFAULT_ROOT,
    quiet: Flag = False,
    as_json: Json = False,
) -> None:
    """Teach a model what people told the store, mixed with all that it was taught before, in a new run beside it.

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
    out
        The folder that holds the runs.
    quiet
        Say nothing while it trains.
    as_json
        Print it as JSON.
    """
    path = find_run(run, out)
    with FactStore(store, create=False) as opened:
        found = learn_kept(path, opened, every=every, epochs=epochs, reporter=Silent() if quiet else ConsoleReporter())
    if as_json:
        show_json(found.to_dict())
        return
    _show(found)


def _show(found: LearningResult) -> None:
    headings = ["questions", "of", "right before", "right after", "change"]
    rows = [_row("new", found.gained), _row("taught before", found.taught)]
    if found.heldout is not None:
        rows.append(_row("held out", found.heldout))
    show(make_table(headings, rows))
    for one in found.contradictions:
        say(f"note: not learned, for it has several answers: {one.question} {', '.join(one.answers)}")
    show("", f"run {found.run}")
    say(f"the threshold is void until it is set again: `attnlab ask {found.run}` does so")


def _row(name: str, found: BeforeAfter) -> list[str]:
    before, after = found.before.share.mean, found.after.share.mean
    sign = "−" if found.change < 0 else "+"
    return [
        name,
        str(found.before.total),
        f"{100 * before:.1f} %",
        f"{100 * after:.1f} %",
        f"{sign}{abs(found.change):.1f} points",
    ]


def report(
    run: str,
    /,
    *,
    page: Path | None = None,
    samples: int = 10,
    risk: float = RISK,
    delta: float = DELTA,
    score: ScoreName = "probability",
    seed: int = 0,
    out: Path = DEFAULT_ROOT,
    as_json: Json = False,
) -> None:
    """Show all that is known about a model's knowledge, as one page that works offline.

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
    out
        The folder that holds the runs.
    as_json
        Print the figures as JSON; a page is then written only with --page.
    """
    target = page if as_json else page or DEFAULT_PAGE
    if target is not None:
        check_writable(target)  # before the work
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
