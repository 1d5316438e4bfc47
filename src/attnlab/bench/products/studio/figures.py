"""All figures of the studio in one run, and their limits."""

from __future__ import annotations

import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from attnlab.bench.findings import Bar, BenchListener, Figures, NoteKeeper, judge_values
from attnlab.bench.processes import TreePeak, open_chromium
from attnlab.bench.products.studio.beside import BesidePlan, watch_training
from attnlab.bench.products.studio.crowd import PLAYGROUND, TYPE, edit_in_a_crowd
from attnlab.bench.products.studio.hover import HEADS, LAYERS, TOKENS, hover, plant_model
from attnlab.bench.products.studio.serving import at, serve_studio, visit
from attnlab.bench.products.studio.usage import LongUse, use_long
from attnlab.bench.timing import percentile
from attnlab.errors import InputError
from attnlab.processes.machine import describe_machine

_SEEN = f"Attention with {LAYERS} × {HEADS} heads and {TOKENS} tokens"
START = Bar("studio-start", "the studio", "seconds from its start to the first numbers, median", 3.0)
EDIT = Bar("studio-edit", "the playground", "ms from a changed cell to new numbers, median", 60.0)
CROWD = Bar("studio-crowd", "2 browsers and 30 more visitors", "seconds of an edit, 95th percentile", 0.6)
MEMORY = Bar("studio-memory", "the studio with its workers", "MB at most", 450.0)
HOVER = Bar("studio-hover", _SEEN, "ms from pointing at a head to its frame, 95th percentile", 50.0)
LAST = Bar("studio-last", _SEEN, "share of fast movements after which the last head is shown", 1.0, at_least=True)
BESIDE = Bar(
    "studio-beside", "a comparison that trains", "steps per second, its page open ÷ closed", 0.97, at_least=True
)
HELD = Bar("studio-held", "the studio with its workers after long use", "MB in the last tenth of the time", 450.0)
GROWTH = Bar("studio-growth", "the same", "MB in the end ÷ after half of the time", 1.05)
BARS = (START, EDIT, CROWD, MEMORY, HOVER, LAST, BESIDE, HELD, GROWTH)

_SMOKE_MINUTES = 0.1


@dataclass(frozen=True)
class StudioBench(Figures):
    """The start-up time of the studio, its response times, its memory, and its effect on training."""

    benchmark: ClassVar[str] = "studio"
    title: ClassVar[str] = "The studio"
    lead: ClassVar[str] = (
        "How soon `attnlab studio` is there, how soon it answers alone and in a crowd, and what it takes from training."
    )

    def words(self) -> str:
        return "Each figure from this one run, in Chromium."


@dataclass(frozen=True)
class StudioPlan:
    """The number of repetitions of each measurement."""

    starts: int = 7
    edits: int = 40
    visitors: int = 30
    crowd_edits: int = 10
    hovers: int = 144
    movements: int = 5
    beside: BesidePlan = field(default_factory=BesidePlan)
    minutes: float | None = None  # of scripted use; None skips it
    sample_every: float = 5.0  # seconds between two memory samples in long use

    def __post_init__(self) -> None:
        if self.minutes is not None and not 0 < self.minutes < float("inf"):
            raise InputError(f"minutes must be above 0, got {self.minutes:g}", hint="use 60 for the bars")

    def smoke(self) -> StudioPlan:
        """Return the least that shows that everything is measured."""
        return StudioPlan(1, 3, 3, 2, 5, 1, self.beside.smoke(), self.minutes or _SMOKE_MINUTES, 0.2)


def bench_studio(plan: StudioPlan, listener: BenchListener) -> StudioBench:
    """Start a studio on an empty folder, visit it, and train a comparison concurrently.

    Parameters
    ----------
    plan
        The number of repetitions of each measurement.
    listener
        Called with each step.
    """
    keeper, steps = NoteKeeper(listener), 5 if plan.minutes is None else 6
    used: LongUse | None = None
    with tempfile.TemporaryDirectory(prefix="attnlab-studio-") as name, open_chromium() as browser:
        folder = Path(name)
        keeper.step("the start", 0, steps)
        starts = [_seconds_to_start(browser, folder) for _ in range(plan.starts)]
        with serve_studio(folder) as (process, address):
            page = visit(browser, at(address, PLAYGROUND))
            with TreePeak(process.pid, every=1.0) as peak:
                keeper.step("edits alone", 1, steps)
                page.evaluate(TYPE, 3)  # to warm up
                alone = page.evaluate(TYPE, plan.edits)
                keeper.step("edits in a crowd", 2, steps)
                crowd = edit_in_a_crowd(browser, address, page, plan.visitors, plan.crowd_edits)
            page.close()
            keeper.step("pointing at heads", 3, steps)
            plant_model(folder)
            hovering = hover(browser, address, plan.hovers, plan.movements)
            keeper.step("training beside it", 4, steps)
            beside = watch_training(browser, address, folder, plan.beside)
            if plan.minutes is None:
                keeper.note("memory after long use is left out: `minutes=60` measures it")
            else:
                keeper.step(f"{plan.minutes:g} minutes of use", 5, steps)
                used = use_long(browser, address, process.pid, folder, plan.minutes, plan.sample_every)
    figures = {
        "seconds to the first numbers, median": statistics.median(starts),
        "ms of an edit, median": statistics.median(alone),
        "seconds of an edit in a crowd, 95th percentile": percentile(crowd, 0.95),
        "MB at most": peak.bytes / 1e6,
        "ms to draw a head, 95th percentile": percentile(hovering.milliseconds, 0.95),
        "share of fast movements that end well": statistics.mean(hovering.shown),
        "steps per second, page open ÷ closed": beside.median,
    }
    judged = dict(zip(BARS[:6], figures.values(), strict=False))
    values = {**judged, BESIDE: beside, HELD: None, GROWTH: None}
    if used is not None:
        figures["MB after long use"] = values[HELD] = used.bytes / 1e6
        figures["MB in the end ÷ after half of the time"] = values[GROWTH] = used.growth
    return StudioBench(describe_machine(), 1, tuple(keeper.notes), judge_values("studio", values), figures)


def _seconds_to_start(browser: Any, folder: Path) -> float:
    begin = time.perf_counter()
    with serve_studio(folder) as (_, address):
        visit(browser, address).close()
        return time.perf_counter() - begin
