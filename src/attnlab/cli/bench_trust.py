"""`attnlab bench verdicts`, `forecasts` and `compare`: how far results can be trusted, and what the main job takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from attnlab.bench.products.main_job import bench_compare
from attnlab.bench.trust.calibration import bench_verdicts
from attnlab.bench.trust.forecasts import bench_forecasts
from attnlab.bench.trust.trained_null import train_null
from attnlab.cli.bench_options import AS_USUAL, Showing
from attnlab.experiments.launching.progress import LaunchConsole

_TRAINED = 320  # runs: twenty comparisons of four and then eight seeds a side
_SMOKE_SIMULATIONS, _SMOKE_TRAINED, _SMOKE_LADDERS = 20, 160, 16


def verdicts(
    *,
    simulations: int = 2000,
    trained: Path | None = None,
    showing: Showing = AS_USUAL,
) -> int:
    """Count how often verdicts are wrong where the truth is known: simulated comparisons, and trained ones.

    Parameters
    ----------
    simulations
        Comparisons to simulate for each question and kind of noise.
    trained
        Also train one spec at 320 seeds below this folder, and compare it with itself 20 times.
    showing
        How what was found is shown.
    """
    showing.check()
    losses = None
    if trained is not None:
        with LaunchConsole() as console:
            losses = train_null(_SMOKE_TRAINED if showing.smoke else _TRAINED, trained, console, smoke=showing.smoke)
    with showing.listening() as listener:
        found = bench_verdicts(_SMOKE_SIMULATIONS if showing.smoke else simulations, listener, losses)
    return showing.finish(found)


def forecasts(
    *,
    ladders: int = 1000,
    study: Annotated[Sequence[Path], Parameter(name="--study", negative="")] = (),
    showing: Showing = AS_USUAL,
) -> int:
    """Measure how good forecasts over sizes are: simulated ladders, and real studies with the largest rung hidden.

    Parameters
    ----------
    ladders
        Ladders to simulate.
    study
        The scale.json of a study to back-test; may be repeated.
    showing
        How the results are shown.
    """
    showing.check()
    with showing.listening():
        found = bench_forecasts(_SMOKE_LADDERS if showing.smoke else ladders, study)
    return showing.finish(found)


def compare(
    *,
    showing: Showing = AS_USUAL,
) -> int:
    """Time the main job: `attnlab compare` in an empty folder, from its start to the report, and asked again.

    Parameters
    ----------
    showing
        How what was found is shown.
    """
    showing.check()
    with showing.listening() as listener:
        found = bench_compare(listener, smoke=showing.smoke)
    return showing.finish(found)
