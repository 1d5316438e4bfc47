"""`attnlab bench verdicts` and `attnlab bench compare`: whether the main job can be trusted, and what it takes."""

from __future__ import annotations

from pathlib import Path

from attnlab.bench.calibration import bench_verdicts
from attnlab.bench.main_job import bench_compare
from attnlab.bench.trained_null import train_null
from attnlab.cli.bench_races import Flag, Json, check_request, finish, warn_of_smoke
from attnlab.cli.listening import listening
from attnlab.experiments.progress import LaunchConsole

_TRAINED = 320  # runs: twenty comparisons of four and then eight seeds a side
_SMOKE_SIMULATIONS, _SMOKE_TRAINED = 20, 160


def verdicts(
    *,
    simulations: int = 2000,
    trained: Path | None = None,
    bars: Flag = False,
    strict: Flag = False,
    out: Path | None = None,
    as_json: Json = False,
    smoke: Flag = False,
) -> int:
    """Count how often verdicts are wrong where the truth is known: simulated comparisons, and trained ones.

    Parameters
    ----------
    simulations
        Comparisons to simulate for each question and kind of noise.
    trained
        Also train one spec at 320 seeds below this folder, and compare it with itself 20 times.
    bars
        Judge what attnlab claims of itself.
    strict
        With --bars: end with exit code 1 unless every bar is met.
    out
        Also write a page to this HTML file.
    as_json
        Print the figures as JSON.
    smoke
        A few simulations, to try the tool; the figures mean nothing.
    """
    check_request(bars=bars, strict=strict, out=out)
    losses = None
    if trained is not None:
        with LaunchConsole() as console:
            losses = train_null(_SMOKE_TRAINED if smoke else _TRAINED, trained, console, smoke=smoke)
    with listening() as listener:
        warn_of_smoke(listener, smoke=smoke)
        found = bench_verdicts(_SMOKE_SIMULATIONS if smoke else simulations, listener, losses)
    return finish(found, bars=bars, strict=strict, out=out, as_json=as_json)


def compare(
    *,
    bars: Flag = False,
    strict: Flag = False,
    out: Path | None = None,
    as_json: Json = False,
    smoke: Flag = False,
) -> int:
    """Time the main job: `attnlab compare` in an empty folder, from its start to the report, and asked again.

    Parameters
    ----------
    bars
        Judge what attnlab claims of itself.
    strict
        With --bars: end with exit code 1 unless every bar is met.
    out
        Also write a page to this HTML file.
    as_json
        Print the figures as JSON.
    smoke
        A tiny comparison, to try the tool; the figures mean nothing.
    """
    check_request(bars=bars, strict=strict, out=out)
    with listening() as listener:
        warn_of_smoke(listener, smoke=smoke)
        found = bench_compare(listener, smoke=smoke)
    return finish(found, bars=bars, strict=strict, out=out, as_json=as_json)
