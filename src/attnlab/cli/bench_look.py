"""`attnlab bench look`: what looking inside a model takes."""

from __future__ import annotations

from attnlab.bench.products.looking import bench_look
from attnlab.bench.races.entries import check_threads
from attnlab.bench.results.timing import check_rounds
from attnlab.cli.bench_options import AS_USUAL, Showing


def look(
    *,
    rounds: int = 3,
    threads: int | None = None,
    showing: Showing = AS_USUAL,
) -> int:
    """Time `attnlab look`: every measure of 12 × 12 heads on 512 tokens, what each head is worth, and the page.

    Parameters
    ----------
    rounds
        How often heads are removed with and without reused prefixes.
    threads
        As many as cores, if not given.
    showing
        How what was found is shown.
    """
    showing.check()
    check_rounds(rounds)
    with showing.listening() as listener:
        found = bench_look(listener, rounds=rounds, threads=check_threads(threads), smoke=showing.smoke)
    return showing.finish(found)
