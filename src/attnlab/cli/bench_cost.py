"""`attnlab bench cost`: whether what is predicted of memory and of growth is so."""

from __future__ import annotations

from attnlab.bench.products.cost import CostPlan, bench_cost
from attnlab.cli.bench_options import AS_USUAL, Showing

_ROUNDS = 5


def cost(
    *,
    rounds: int | None = None,
    threads: int | None = None,
    showing: Showing = AS_USUAL,
) -> int:
    """Measure the peak memory of training and the growth of its time with the context, beside what is predicted.

    Parameters
    ----------
    rounds
        How often each context is timed (5).
    threads
        Threads to compute with (as many as cores).
    showing
        How what was found is shown.
    """
    showing.check()
    rounds = showing.rounds(rounds, _ROUNDS)
    plan = CostPlan().smoke() if showing.smoke else CostPlan()
    with showing.listening() as listener:
        found = bench_cost(plan, threads, rounds, listener)
    return showing.finish(found)
