"""`attnlab bench facts`: the fact store at size, killed, and written by several at once."""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

from attnlab.bench.results.findings import Findings, FoundTable
from attnlab.bench.results.judging import Claim, judge_claim
from attnlab.bench.results.timing import Ratio
from attnlab.cli.bench_options import AS_USUAL, Showing
from attnlab.knowledge.store.benchmark import FACTS, KILLS, LOOK_UPS, WRITERS, StoreFigures, measure_store
from attnlab.processes.machine import describe_machine

LOOK_UP = Claim("facts-look-up", "a look-up in the fact store", "milliseconds", 10.0)
SOUND = Claim(
    "facts-killed", "imports killed at any moment", "share of files that are sound and whole", 1.0, at_least=True
)
KEPT = Claim("facts-writers", "several writers at once", "share of facts that are kept", 1.0, at_least=True)
_NONE = 1e-9  # for a share of 0, which a limit cannot be divided by


@dataclass(frozen=True)
class FactsBench(Findings):
    """What the store took and withstood."""

    benchmark: ClassVar[str] = "facts"
    title: ClassVar[str] = "The fact store"
    lead: ClassVar[str] = "How long a look-up takes among many facts, and what kills and other writers do to the file."

    figures: StoreFigures

    def tables(self) -> list[FoundTable]:
        rows = [
            (what, *(f"{value:.2f}" for value in (ratio.median, ratio.low, ratio.high, _last(times))))
            for what, times in self.figures.milliseconds.items()
            for ratio in (Ratio.over(times),)
        ]
        words = (
            f"{self.figures.facts:,} facts in {self.figures.bytes / 1e6:.0f} MB, imported in "
            f"{self.figures.seconds_to_import:.0f} s; {self.rounds} look-ups of each kind, in a random order."
        )
        headings = ("look up, in ms", "median", "10 %", "90 %", "99 %")
        return [FoundTable(self.title, words, headings, rows)]

    def to_dict(self) -> dict[str, Any]:
        figures = asdict(self.figures)
        figures["milliseconds"] = {
            what: {**asdict(Ratio.over(times)), "percentile_99": _last(times)}
            for what, times in self.figures.milliseconds.items()
        }
        return {**super().to_dict(), "figures": figures}


def facts(
    *,
    count: int = FACTS,
    showing: Showing = AS_USUAL,
) -> int:
    """Measure the fact store: look-ups among many facts, imports that are killed, and writers at once.

    Parameters
    ----------
    count
        How many facts.
    showing
        How what was found is shown.
    """
    showing.check()
    with tempfile.TemporaryDirectory(prefix="attnlab-facts-") as folder, showing.listening() as listener:
        size = (1000, 20, 1, 2) if showing.smoke else (count, LOOK_UPS, KILLS, WRITERS)
        found = measure_store(Path(folder), *size, listener.step)
    taken = {what: Ratio.over(times) for what, times in found.milliseconds.items()}
    verdicts = (
        judge_claim(LOOK_UP, taken),
        judge_claim(SOUND, {f"{found.kills} kills": _share(found.kills - found.unsound, found.kills)}),
        judge_claim(KEPT, {f"{found.written} facts": _share(found.written - found.lost, found.written)}),
    )
    measured = FactsBench(describe_machine(), size[1], (), verdicts, found)
    return showing.finish(measured)


def _share(number: int, of: int) -> Ratio:
    return Ratio.exact(max(_NONE, number / max(1, of)))


def _last(times: tuple[float, ...]) -> float:
    """What 99 of 100 stay below."""
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]
