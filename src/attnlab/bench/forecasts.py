"""The reliability of forecasts over sizes: simulated ladders with known truth, and back-tests of real studies.

simulated    intervals one and two rungs ahead, for truths inside the fitted families and for crossovers outside them
back-test    the largest rung of a real study is held out and predicted, for every variant
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from attnlab.bench.findings import Bar, Findings, JudgedBar, judge_values, table_section
from attnlab.errors import AttnlabError, FileError
from attnlab.formats import fixed, interval, percent, signed
from attnlab.pages import Section
from attnlab.processes.machine import describe_machine
from attnlab.statistics import (
    Backtest,
    Interval,
    Ladder,
    LadderPoint,
    SimulatedForecasts,
    backtest,
    simulate_forecasts,
)

COVERAGE = Bar(
    "forecast-coverage",
    "simulated ladders, truth inside the families",
    "coverage of 90 % intervals",
    0.88,
    at_least=True,
)
REAL_COVERAGE = Bar(
    "backtest-coverage", "real variants, one rung ahead", "coverage of 90 % intervals", 0.8, at_least=True
)
DECISIONS = Bar(
    "backtest-decisions",
    "real variants, one rung ahead",
    "right signs of the forecast ÷ those of the naive rule",
    1.0,
    at_least=True,
)
FEWEST_VARIANTS = 12


@dataclass(frozen=True)
class ForecastBench(Findings):
    """The results of the simulations and, if a study was named, of its back-test."""

    benchmark: ClassVar[str] = "forecasts"
    title: ClassVar[str] = "Can the forecasts be trusted?"
    lead: ClassVar[str] = "How often intervals of forecasts hold the truth, and how often their sign is right."

    simulated: SimulatedForecasts
    real: Backtest | None

    def sections(self) -> list[Section]:
        tables = [_simulated_table(ahead, self.simulated) for ahead in self.simulated.distances]
        return tables if self.real is None else [*tables, *_real_tables(self.real)]


def bench_forecasts(ladders: int, studies: Sequence[Path], seed: int = 0) -> ForecastBench:
    """Simulate ladders and back-test the studies whose `scale.json` is named."""
    machine = describe_machine()
    simulated = simulate_forecasts(ladders, seed=seed)
    found = [ladder for path in studies for ladder in read_ladders(path)]
    real = backtest(found) if found else None
    notes = () if real is None or len(real.arms) >= FEWEST_VARIANTS else (f"only {len(real.arms)} variants",)
    return ForecastBench(machine, ladders, notes, tuple(_bars(simulated, real)), simulated, real)


def read_ladders(path: Path) -> list[Ladder]:
    """Return the ladders of all variants on all corpora of a study, from its scale.json."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return [
            Ladder(
                tuple(
                    LadderPoint(
                        rung["non_embedding"],
                        rung["tokens"],
                        tuple(rung["baseline"]),
                        tuple(rung["arm_losses"]),
                        tuple(rung["seeds"]),
                    )
                    for rung in arm["rungs"]
                ),
                f"{arm['arm']} on {corpus['corpus']}",
            )
            for corpus in data["corpora"]
            for arm in corpus["arms"]
            if not any(rung["diverged"] for rung in arm["rungs"])
        ]
    except OSError as error:
        raise FileError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
    except (ValueError, LookupError, TypeError) as error:
        if isinstance(error, AttnlabError):
            raise
        raise FileError(
            f"{path} is not the scale.json of a study: {error}", hint="a scale study writes it into its folder"
        ) from None


def _bars(simulated: SimulatedForecasts, real: Backtest | None) -> list[JudgedBar]:
    inside = {f"{one.ahead} ahead": one.coverage.mean for one in simulated.checks if one.truth == "all families"}
    if real is None:
        return [COVERAGE.judge(inside)]
    ratio = real.sign.mean / max(real.naive_sign.mean, 1 / len(real.arms))
    return [
        COVERAGE.judge(inside),
        *judge_values(f"{len(real.arms)} variants", {REAL_COVERAGE: real.coverage.mean, DECISIONS: ratio}),
    ]


def _simulated_table(ahead: int, simulated: SimulatedForecasts) -> Section:
    """Return the table of one distance, which fits into a terminal of 80 columns."""
    rows = [
        (
            one.truth,
            str(one.ladders),
            _share(one.coverage),
            percent(one.sign.mean, 1),
            fixed(one.width, 4),
            percent(one.naive_coverage.mean, 1),
            percent(one.naive_sign.mean, 1),
        )
        for one in simulated.checks
        if one.ahead == ahead
    ]
    words = "The naive rule says that what holds at the largest rung holds above it."
    if ahead == simulated.distances[0]:
        words += f" False positives of the trend: {_share(simulated.trend_false_positives)}."
    headings = ("truth", "ladders", "coverage", "sign", "width\n(nats)", "naive\ncoverage", "naive\nsign")
    return table_section(f"Simulated ladders, {ahead} rung{'s' if ahead > 1 else ''} ahead", words, headings, rows)


def _real_tables(real: Backtest) -> list[Section]:
    rows = [
        ("coverage", _share(real.coverage), _share(real.naive_coverage)),
        ("sign right", _share(real.sign), _share(real.naive_sign)),
        ("order of two right", _share(real.ranking), _share(real.naive_ranking)),
    ]
    arms = [
        (
            one.name,
            signed(one.forecast.mean, 4),
            interval(one.interval.low, one.interval.high, 4),
            signed(one.observed.mean, 4),
            "yes" if one.is_covered else "no",
        )
        for one in real.arms
    ]
    words = (
        f"The largest rung was hidden. Intervals would have to be {fixed(real.widening)} times as wide for their level."
    )
    headings = ("variant", "forecast\n(nats)", "interval for what\nis observed", "observed", "covered")
    return [
        table_section("Back-test", words, ("", "forecast", "naive rule"), rows),
        table_section("Every variant", "Differences to the baseline in nats.", headings, arms, text_columns=(0, 4)),
    ]


def _share(found: Interval) -> str:
    return f"{percent(found.mean, 1)} ({fixed(100 * found.low, 1)}–{fixed(100 * found.high, 1)})"
