"""Benchmark the fact store: the latency of look-ups among many facts, and its safety against kills and other writers.

Questions are asked in random order, so that the previous question does not bring the next one's page into memory. Some
are asked as stored, some without their accents, some have no answer; names are also searched for in texts. Run as a
module, this file is the other process, which imports facts about people of one family on request.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from attnlab.knowledge.pairs import Pair, QuestionTemplate
from attnlab.knowledge.store.store import FactStore
from attnlab.processes.child import Child, ChildError, serve

TEMPLATE = QuestionTemplate("Where was ", " born?")
FACTS, LOOK_UPS, KILLS, WRITERS = 200_000, 2_000, 8, 4
_BATCH = 500
_WRITTEN = 2_000  # facts by each writer
_PLACES = 500
_WRITER = "attnlab.knowledge.store.benchmark"  # run as a module: the other process


@dataclass(frozen=True)
class StoreFigures:
    """The measurements; times in milliseconds for each kind of look-up."""

    facts: int
    bytes: int
    seconds_to_import: float
    milliseconds: dict[str, tuple[float, ...]]
    kills: int
    unsound: int  # files that a kill left damaged or with a partial batch
    written: int  # facts that concurrent writers were told are kept
    lost: int


def name(number: int) -> str:
    """Return the name of a person; many people share its parts, as with real names."""
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


def _kill(path: Path, delay: float) -> bool:
    """Return whether a kill after `delay` seconds leaves a damaged file or a partial batch."""
    with Child(_WRITER, name="a writer") as writer, ThreadPoolExecutor() as threads:
        writer.ask(count=0)
        asked = threads.submit(writer.ask, path=str(path), family="Poe", count=200_000)
        time.sleep(delay)
        writer.kill()
        asked.exception()
    with FactStore(path) as store:
        return bool(store.check()) or store.counts()["facts"] % _BATCH != 0


def _write_at_once(path: Path, writers: int) -> tuple[int, int]:
    """Return how many facts writers at once were told are kept, and how many of these are lost."""
    with ExitStack() as stack, ThreadPoolExecutor(writers) as threads:
        processes = [stack.enter_context(Child(_WRITER, name="a writer")) for _ in range(writers)]
        for process in processes:
            process.ask(count=0)  # so that all are ready and start together
        asked = [
            threads.submit(process.ask, path=str(path), family=f"Family{number}", count=_WRITTEN)
            for number, process in enumerate(processes)
        ]
        kept = sum(one.result()["kept"] for one in asked if not isinstance(one.exception(), ChildError))
    with FactStore(path) as store:
        return kept, kept - store.counts()["facts"]


def import_family(question: Mapping[str, Any]) -> Mapping[str, Any]:
    """Import people of one family, in batches; with a `count` of 0, only say that the process is ready."""
    count = question["count"]
    if count:
        pairs = (Pair(TEMPLATE.ask(f"{number} {question['family']}"), "Town") for number in range(count))
        with FactStore(Path(question["path"])) as store:
            store.import_facts(pairs, who=question["family"], source="list", batch=_BATCH)
    return {"kept": count}


if __name__ == "__main__":
    serve(import_family)
