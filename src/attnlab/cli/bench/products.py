"""`attnlab bench` for the waiting times of users and for the reliability of results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from attnlab.bench.products.cost import CostPlan, bench_cost
from attnlab.bench.products.look import bench_look
from attnlab.bench.products.main_job import bench_compare
from attnlab.bench.products.studio import bench_studio
from attnlab.bench.races.entries import check_threads
from attnlab.bench.results.timing import check_rounds
from attnlab.bench.trust.calibration import bench_verdicts, train_null
from attnlab.bench.trust.forecasts import bench_forecasts
from attnlab.cli.bench.output import BENCH_OUTPUT, BenchOutput
from attnlab.experiments.launching.progress import LaunchConsole

_COST_ROUNDS = 5
_TRAINED = 320  # runs: twenty comparisons of four and then eight seeds a side
_SMOKE_SIMULATIONS, _SMOKE_TRAINED, _SMOKE_LADDERS = 20, 160, 16


def verdicts(*, simulations: int = 2000, trained: Path | None = None, output: BenchOutput = BENCH_OUTPUT) -> int:
    """Count how often verdicts are wrong where the truth is known: simulated comparisons, and trained ones.

    Parameters
    ----------
    simulations
        Comparisons to simulate for each question and kind of noise.
    trained
        Also train one spec at 320 seeds below this folder, and compare it with itself 20 times.
    """
    output.check()
    losses = None
    if trained is not None:
        with LaunchConsole() as console:
            losses = train_null(_SMOKE_TRAINED if output.smoke else _TRAINED, trained, console, smoke=output.smoke)
    count = _SMOKE_SIMULATIONS if output.smoke else simulations
    return output.run(lambda listener: bench_verdicts(count, listener, losses))


def forecasts(
    *,
    ladders: int = 1000,
    study: Annotated[Sequence[Path], Parameter(negative="", show_default=False)] = (),
    output: BenchOutput = BENCH_OUTPUT,
) -> int:
    """Measure how good forecasts over sizes are: simulated ladders, and real studies with the largest rung hidden.

    Parameters
    ----------
    ladders
        Ladders to simulate.
    study
        The scale.json of a study to back-test; may be repeated.
    """
    return output.run(lambda _: bench_forecasts(_SMOKE_LADDERS if output.smoke else ladders, study))


def cost(*, rounds: int | None = None, threads: int | None = None, output: BenchOutput = BENCH_OUTPUT) -> int:
    """Measure the peak memory of training and the growth of its time with the context, beside what is predicted.

    Parameters
    ----------
    rounds
        How often each context is timed (5).
    threads
        Threads to compute with (as many as cores).
    """
    times = output.rounds(rounds, _COST_ROUNDS)
    plan = CostPlan().smoke() if output.smoke else CostPlan()
    return output.run(lambda listener: bench_cost(plan, threads, times, listener))


def compare(*, output: BenchOutput = BENCH_OUTPUT) -> int:
    """Time the main job: `attnlab compare` in an empty folder, from its start to the report, and asked again."""
    return output.run(lambda listener: bench_compare(listener, smoke=output.smoke))


def look(*, rounds: int = 3, threads: int | None = None, output: BenchOutput = BENCH_OUTPUT) -> int:
    """Time `attnlab look`: every measure of 12 × 12 heads on 512 tokens, what each head is worth, and the page.

    Parameters
    ----------
    rounds
        How often heads are removed with and without reused prefixes.
    threads
        As many as cores, if not given.
    """
    check_rounds(rounds)
    cores = check_threads(threads)
    return output.run(lambda listener: bench_look(listener, rounds=rounds, threads=cores, smoke=output.smoke))


def studio(*, output: BenchOutput = BENCH_OUTPUT) -> int:
    """Time the studio in Chromium: its start, an edit in the playground, and the same in a crowd."""
    return output.run(lambda listener: bench_studio(listener, smoke=output.smoke))
