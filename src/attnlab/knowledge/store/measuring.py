"""The fact store measured: how long a look-up takes among many facts, and what kills and other writers do to it.

Questions are asked in a random order, so that no page of the file is in memory because the last one was: as they are
kept, without their accents, and such that have no answer; and names are looked for in texts.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from attnlab.knowledge.material.pairs import Pair, QuestionTemplate
from attnlab.knowledge.store.store import FactStore

TEMPLATE = QuestionTemplate("Where was ", " born?")
FACTS, LOOK_UPS, KILLS, WRITERS = 200_000, 2_000, 8, 4
_BATCH = 500
_WRITTEN = 2_000  # facts by each writer
_PLACES = 500

# What another process does: import so many facts about people of one family.
_IMPORT = """
import sys
from pathlib import Path
from attnlab.knowledge.store.measuring import import_family
import_family(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
"""


@dataclass(frozen=True)
class StoreFigures:
    """What was measured; times in milliseconds, of each kind of look-up."""

    facts: int
    bytes: int
    seconds_to_import: float
    milliseconds: dict[str, tuple[float, ...]]
    kills: int
    unsound: int  # files that a kill left damaged or with half a batch
    written: int  # facts that writers at once were told are kept
    lost: int


def name(number: int) -> str:
    """A person; the parts are shared by many, as names are."""
    return f"José{number % 997} Núñez{number // 997}"


def measure_store(
    folder: Path,
    facts: int = FACTS,
    look_ups: int = LOOK_UPS,
    kills: int = KILLS,
    writers: int = WRITERS,
    tell: Callable[[str, int, int], object] = lambda *_: None,
) -> StoreFigures:
    """Fill a store, look things up in it, kill those who write to it, and let several write at once."""
    tell(f"import {facts} facts", 0, 4)
    path = folder / "facts.sqlite"
    begin = time.perf_counter()
    with FactStore(path) as store:
        pairs = (Pair(TEMPLATE.ask(name(number)), f"Town {number % _PLACES}") for number in range(facts))
        store.import_facts(pairs, who="bench", source="list")
        seconds = time.perf_counter() - begin
        texts = (f"{name(facts + number)} was born in Town {number % _PLACES}." for number in range(facts // 10))
        store.import_documents(texts, who="bench", source="text")
        tell("look up", 1, 4)
        milliseconds = _look_up(store, facts, look_ups)
    tell("kill", 2, 4)
    unsound = sum(_kill(folder / f"killed-{number}.sqlite", 0.02 + 0.1 * number) for number in range(kills))
    tell("write at once", 3, 4)
    written, lost = _write_at_once(folder / "shared.sqlite", writers)
    return StoreFigures(facts, path.stat().st_size, seconds, milliseconds, kills, unsound, written, lost)


def _look_up(store: FactStore, facts: int, count: int) -> dict[str, tuple[float, ...]]:
    numbers = np.random.default_rng(0).integers(facts, size=count).tolist()
    questions = [TEMPLATE.ask(name(number)) for number in numbers]
    bare = [question.replace("é", "e").replace("ú", "u").replace("ñ", "n") for question in questions]
    people = [name(facts + number % (facts // 10)) for number in numbers]
    return {
        "a question": _time(store.answers, questions),
        "a question without its accents": _time(store.answers, bare),
        "a question that has no answer": _time(store.answers, [f"{question}?" for question in questions]),
        "a name in the texts": _time(store.documents_naming, people),
        "words": _time(store.search, people),
    }


def _time(call: Callable[[str], object], things: Sequence[str]) -> tuple[float, ...]:
    taken = []
    for thing in things:
        begin = time.perf_counter()
        found = call(thing)
        taken.append(1000 * (time.perf_counter() - begin))
        assert found is not None
    return tuple(taken)


def import_family(path: Path, family: str, count: int) -> None:
    """Import people of one family, in batches, when told to."""
    pairs = [Pair(TEMPLATE.ask(f"{number} {family}"), "Town") for number in range(count)]
    print("ready", flush=True)
    sys.stdin.readline()
    with FactStore(path) as store:
        store.import_facts(pairs, who=family, source="list", batch=_BATCH)


def _start(path: Path, family: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _IMPORT, str(path), family, str(count)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def _let_go(processes: Sequence[subprocess.Popen[str]]) -> None:
    """Wait until all are ready, and let them begin at once."""
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()


def _kill(path: Path, delay: float) -> bool:
    """Whether a kill after so many seconds leaves anything but a sound file with whole batches."""
    process = _start(path, "Poe", 200_000)
    _let_go([process])
    time.sleep(delay)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with FactStore(path) as store:
        return bool(store.check()) or store.counts()["facts"] % _BATCH != 0


def _write_at_once(path: Path, writers: int) -> tuple[int, int]:
    processes = [_start(path, f"Family{number}", _WRITTEN) for number in range(writers)]
    _let_go(processes)
    kept = sum(_WRITTEN for process in processes if (process.communicate(), process.returncode)[1] == 0)
    with FactStore(path) as store:
        return kept, kept - store.counts()["facts"]
