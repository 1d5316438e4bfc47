"""Races between processes: each contestant has one or several of its own, and they are asked in turn.

So neither the memory, the threads nor the processes of one touch another. A round asks each for a turn of about the
same length, and every second round goes backwards; a contestant that waits sleeps. A ratio is taken within each round,
as in `timing.py`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from attnlab.bench.races.entries import CONTESTANT, RaceEntry, contestant_module
from attnlab.bench.results.findings import BenchListener
from attnlab.bench.results.timing import Durations, check_rounds, turn_order
from attnlab.processes.child import Child

Work = Literal["train", "write"]

_WARM_UP = 3


@dataclass(frozen=True)
class Race:
    """Seconds of one unit of work by round, and how long each took to begin, compilation included."""

    durations: Durations
    beginnings: dict[str, float]


@contextmanager
def contestant(entry: RaceEntry) -> Iterator[Child]:
    """Start the process of one contestant. Another attnlab is imported from its own folder."""
    hidden, environment, module = {"copies"}, {}, CONTESTANT
    if entry.kind == "attnlab" and entry.folder is not None:
        module = contestant_module(Path(entry.folder)) or CONTESTANT
        paths = [entry.folder, *filter(None, [os.environ.get("PYTHONPATH")])]
        hidden, environment = {"copies", "folder"}, {"PYTHONPATH": os.pathsep.join(paths)}
    told = entry.model_dump_json(exclude=hidden)  # only what an older attnlab knows, too
    with Child(module, [told], name=entry.name, environment=environment) as child:
        yield child


class Contestant:
    """All processes of one contestant, which are asked at the same time."""

    def __init__(self, entry: RaceEntry, stack: ExitStack) -> None:
        self._children = [stack.enter_context(contestant(entry)) for _ in range(entry.copies)]
        self._pool = stack.enter_context(ThreadPoolExecutor(entry.copies))

    def ask(self, work: Work, count: int, tokens: int) -> list[dict[str, Any]]:
        return list(self._pool.map(lambda child: child.ask(do=work, count=count, tokens=tokens), self._children))

    def seconds(self, work: Work, count: int, tokens: int) -> float:
        """Return the seconds of one unit of work: those of one process, divided by how many work at once."""
        taken: list[float] = [answer["seconds"] for answer in self.ask(work, count, tokens)]
        return 1 / sum(count / seconds for seconds in taken)


def race(
    entries: Sequence[RaceEntry],
    work: Work,
    rounds: int,
    listener: BenchListener,
    *,
    turn_seconds: float = 2.0,
    tokens: int = 0,
    what: str = "",
) -> Race:
    """Let all do the work in turn: take training steps, or generate texts of so many tokens."""
    check_rounds(rounds)
    with ExitStack() as stack:
        contestants = {entry.name: Contestant(entry, stack) for entry in entries}
        beginnings, counts = {}, {}
        for entry in entries:
            name, one = entry.name, contestants[entry.name]
            listener.step(f"{what}: {name} begins", 0, rounds)
            beginnings[name] = max(answer["with_beginning"] for answer in one.ask(work, 1, tokens))
            seconds = one.seconds(work, _WARM_UP, tokens) * entry.copies
            counts[name] = max(1, round(turn_seconds / max(seconds, 1e-9)))
        taken: dict[str, list[float]] = {name: [] for name in contestants}
        for number in range(rounds):
            listener.step(f"{what}: round {number + 1}", number, rounds)
            for name in turn_order(list(contestants), number):
                taken[name].append(contestants[name].seconds(work, counts[name], tokens))
    return Race(Durations({name: tuple(seconds) for name, seconds in taken.items()}), beginnings)
