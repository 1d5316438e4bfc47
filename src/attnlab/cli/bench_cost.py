"""`attnlab bench cost`: whether what is predicted of memory and of growth is so."""

from __future__ import annotations

from pathlib import Path

from attnlab.bench.cost import CostPlan, bench_cost
from attnlab.bench.timing import check_rounds
from attnlab.cli.bench_races import Flag, Json, check_request, finish, warn_of_smoke
from attnlab.cli.listening import listening

_ROUNDS, _SMOKE_ROUNDS = 5, 2


def cost(
    *,
    rounds: int | None = None,
    threads: int | None = None,
    bars: Flag = False,
    strict: Flag = False,
    out: Path | None = None,
    as_json: Json = False,
    smoke: Flag = False,
) -> int:
    """Measure the peak memory of training and the growth of its time with the context, beside what is predicted.

    Parameters
    ----------
    rounds
        How often each context is timed (5).
    threads
        Threads to compute with (as many as cores).
    bars
        Judge what attnlab claims of itself.
    strict
        With --bars: end with exit code 1 unless every bar is met.
    out
        Also write a page to this HTML file.
    as_json
        Print the figures as JSON.
    smoke
        Tiny shapes and 2 rounds, to try the tool; the figures mean nothing.
    """
    check_request(bars=bars, strict=strict, out=out)
    rounds = rounds if rounds is not None else _SMOKE_ROUNDS if smoke else _ROUNDS
    check_rounds(rounds)
    plan = CostPlan().smoke() if smoke else CostPlan()
    with listening() as listener:
        warn_of_smoke(listener, smoke=smoke)
        found = bench_cost(plan, threads, rounds, listener)
    return finish(found, bars=bars, strict=strict, out=out, as_json=as_json)
