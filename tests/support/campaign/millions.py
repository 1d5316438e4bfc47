"""A large fact store in which writers are killed: whole batches are kept, and what was acknowledged is there."""

from __future__ import annotations

import signal
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from attnlab.knowledge.pairs import Pair
from attnlab.knowledge.store.store import FactStore
from support.campaign.children import Circumstances, Running, run
from support.campaign.system_calls import Trouble

if TYPE_CHECKING:
    from support.campaign.cases import Case

BATCH = 2000
_EACH = 3 * BATCH  # facts that a writer imports
_CHECK_EVERY = 20


def facts(case: Case) -> None:
    """Let two writers import at once, kill one, check the store, and let it import again."""
    folder = case.workshop.folder / "facts"
    store = folder / "facts.sqlite"
    if not store.exists():
        _fill(folder, case.workshop.facts)
    case.stays_in(folder)
    before = _count(store, "%")
    names = [f"{case.workshop.seed}-{case.number}-{one}-{time.time_ns()}" for one in ("killed", "other")]
    files = [folder / f"{name}.tsv" for name in names]
    for name, file in zip(names, files, strict=True):
        file.write_text("".join(f"Where is {name} {number}?\tTown {number % 9}\n" for number in range(_EACH)))
    trouble, after = None, None
    if case.chosen.random() < 0.5:
        trouble = Trouble(case.chosen.randrange(600), "signal", signal.SIGKILL)
    else:
        after = (case.chosen.uniform(0.02, 1.5), signal.SIGKILL)
    how = Circumstances(trouble, after=after, seconds=300)
    command = ("knowledge", "facts", "import", "--store", "facts.sqlite")
    writers = [Running((*command, files[0].name), folder, how), Running((*command, files[1].name), folder)]
    killed, other = (case.judge(writer.finish(), how) for writer in writers)
    case.tally.counts["faults"] += after is not None and killed.code != 0
    kept = _count(store, f"Where is {names[0]} %")
    if kept % BATCH or (killed.code == 0 and kept != _EACH):
        case.fail("lost", f"{kept} facts of a batch of {BATCH} are kept", killed)
    if other.code != 0 or _count(store, f"Where is {names[1]} %") != _EACH:
        case.fail("lost", "facts of the writer that was not killed", other)
    again = case.command((*command, files[0].name))
    if again.code != 0 or _count(store, "%") != before + 2 * _EACH:
        case.fail("lost", f"{before} facts became {_count(store, '%')}, not {2 * _EACH} more", again)
    else:
        case.tally.counts["resumes"] += killed.code != 0
    for file in files:
        file.unlink()
    if case.number % _CHECK_EVERY == 0:
        case.command(("knowledge", "facts", "check", "--store", "facts.sqlite"), Circumstances(seconds=600))


def _fill(folder: Path, count: int) -> None:
    folder.mkdir()
    (folder / "tmp").mkdir()

    def fill() -> int:
        with FactStore(folder / "new.sqlite") as store:
            pairs = (Pair(f"Where was Person {number} born?", f"Town {number % 997}") for number in range(count))
            store.import_facts(pairs, who="campaign", source="list", batch=50_000)
        return 0

    done = run(("fill",), folder, Circumstances(seconds=3600), fill)
    assert done.code == 0, done.err
    (folder / "new.sqlite").rename(folder / "facts.sqlite")


def _count(store: Path, like: str) -> int:
    """Return how many facts there are whose question begins so."""
    with closing(sqlite3.connect(store)) as database:
        low, high = like.removesuffix("%"), like.removesuffix("%") + "\U0010ffff"
        query = "SELECT COUNT(*) FROM facts WHERE question_key >= ? AND question_key < ?"
        if not low:
            return int(database.execute("SELECT COUNT(*) FROM facts").fetchone()[0])
        return int(database.execute(query, (low.casefold(), high.casefold())).fetchone()[0])
