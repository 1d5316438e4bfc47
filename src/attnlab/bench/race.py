"""Races between processes: each who takes part has one of its own, and they are asked in turn.

So neither the memory, the threads nor the processes of one touch another. A round asks each for a turn of about the
same length, and every second round goes backwards; who waits sleeps. A ratio is taken within each round, as in
`timing.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal

from attnlab.bench.entries import Entry
from attnlab.bench.progress import Listener
from attnlab.bench.timing import Durations, check_rounds, turn_order
from attnlab.training.children import Child

Work = Literal["train", "write"]

MODULE = "attnlab.bench.contestant"
_WARM_UP = 3


@dataclass(frozen=True)
class Race:
    """Seconds of one unit of work by round, and how long each took to begin, compilation included."""

    durations: Durations
    beginnings: dict[str, float]


@contextmanager
def contestant(entry: Entry) -> Iterator[Child]:
    """The process of one who takes part."""
    with Child(MODULE, [entry.model_dump_json()], name=entry.name) as child:
        yield child


def race(
    entries: Sequence[Entry],
    work: Work,
    rounds: int,
    listener: Listener,
    *,
    turn_seconds: float = 2.0,
    tokens: int = 0,
    what: str = "",
) -> Race:
    """Let all do the work in turn: take training steps, or write texts of so many tokens."""
    check_rounds(rounds)
    with ExitStack() as stack:
        children = {entry.name: stack.enter_context(contestant(entry)) for entry in entries}
        beginnings, counts = {}, {}
        for name, child in children.items():
            listener.step(f"{what}: {name} begins", 0, rounds)
            beginnings[name] = child.ask(do=work, count=1, tokens=tokens)["with_beginning"]
            seconds = child.ask(do=work, count=_WARM_UP, tokens=tokens)["seconds"] / _WARM_UP
            counts[name] = max(1, round(turn_seconds / max(seconds, 1e-9)))
        taken: dict[str, list[float]] = {name: [] for name in children}
        for number in range(rounds):
            listener.step(f"{what}: round {number + 1}", number, rounds)
            for name in turn_order(list(children), number):
                answer = children[name].ask(do=work, count=counts[name], tokens=tokens)
                taken[name].append(answer["seconds"] / counts[name])
    return Race(Durations({name: tuple(seconds) for name, seconds in taken.items()}), beginnings)
