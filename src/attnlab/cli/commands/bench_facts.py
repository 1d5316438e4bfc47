"""`attnlab bench facts`: the fact store with many facts, with killed imports, and with concurrent writers.

`attnlab.knowledge` measures; the results are judged here because that package does not know about bars.
"""

from __future__ import annotations

import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from attnlab.bench.findings import Bar, BenchListener, Findings, table_section
from attnlab.bench.timing import Ratio, percentile
from attnlab.cli.measuring import BENCH_OUTPUT, BenchOutput
from attnlab.formats import byte_count, fixed
from attnlab.knowledge.store.benchmark import FACTS, KILLS, LOOK_UPS, WRITERS, StoreFigures, measure_store
from attnlab.pages import Section
from attnlab.processes.machine import describe_machine

LOOK_UP = Bar("facts-look-up", "a look-up in the fact store", "milliseconds", 10.0)
SOUND = Bar(
    "facts-killed", "imports killed at any moment", "share of files that are sound and whole", 1.0, at_least=True
)
KEPT = Bar("facts-writers", "several writers at once", "share of facts that are kept", 1.0, at_least=True)
_NONE = 1e-9  # stands for a share of 0, to avoid a division by zero


@dataclass(frozen=True)
class FactsBench(Findings):
    """The latencies of the store, and the outcome of kills and concurrent writers."""

    benchmark: ClassVar[str] = "facts"
    title: ClassVar[str] = "The fact store"
    lead: ClassVar[str] = "How long a look-up takes among many facts, and what kills and other writers do to the file."

    figures: StoreFigures

    def sections(self) -> list[Section]:
        rows = []
        for what, times in self.figures.milliseconds.items():
            ratio = Ratio.over(times)
            rows.append((what, *map(fixed, (ratio.median, ratio.low, ratio.high, percentile(times, 0.99)))))
        words = (
            f"{self.figures.facts:,} facts in {byte_count(self.figures.bytes)}, imported in "
            f"{fixed(self.figures.seconds_to_import, 0)} s; {self.rounds} look-ups of each kind, in a random order."
        )
        headings = ("look up, in ms", "median", "10 %", "90 %", "99 %")
        return [table_section(self.title, words, headings, rows)]

    def to_dict(self) -> dict[str, object]:
        figures = asdict(self.figures)
        figures["milliseconds"] = {
            what: {**asdict(Ratio.over(times)), "percentile_99": percentile(times, 0.99)}
            for what, times in self.figures.milliseconds.items()
        }
        return {**super().to_dict(), "figures": figures}


def facts(*, count: int = FACTS, output: BenchOutput = BENCH_OUTPUT) -> int:
    """Measure the fact store: look-ups among many facts, imports that are killed, and writers at once.

    Parameters
    ----------
    count
        How many facts.
    """
    size = (1000, 20, 1, 2) if output.smoke else (count, LOOK_UPS, KILLS, WRITERS)

    def measure(listener: BenchListener) -> FactsBench:
        with tempfile.TemporaryDirectory(prefix="attnlab-facts-") as folder:
            found = measure_store(Path(folder), *size, listener.step)
        bars = (
            LOOK_UP.judge({what: Ratio.over(times) for what, times in found.milliseconds.items()}),
            SOUND.judge({f"{found.kills} kills": _share(found.kills - found.unsound, found.kills)}),
            KEPT.judge({f"{found.written} facts": _share(found.written - found.lost, found.written)}),
        )
        return FactsBench(describe_machine(), size[1], (), bars, found)

    return output.run(measure)


def _share(number: int, of: int) -> float:
    return max(_NONE, number / max(1, of))
