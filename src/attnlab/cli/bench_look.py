"""`attnlab bench look`: what looking inside a model takes."""

from __future__ import annotations

from pathlib import Path

from attnlab.bench.entries import check_threads
from attnlab.bench.looking import bench_look
from attnlab.bench.timing import check_rounds
from attnlab.cli.bench_races import Flag, Json, check_request, finish, warn_of_smoke
from attnlab.cli.listening import listening


def look(
    *,
    rounds: int = 3,
    threads: int | None = None,
    bars: Flag = False,
    strict: Flag = False,
    out: Path | None = None,
    as_json: Json = False,
    smoke: Flag = False,
) -> int:
    """Time `attnlab look`: every measure of 12 × 12 heads on 512 tokens, what each head is worth, and the page.

    Parameters
    ----------
    rounds
        How often heads are removed with and without reused prefixes.
    threads
        As many as cores, if not given.
    bars
        Judge what attnlab claims of itself.
    strict
        With --bars: end with exit code 1 unless every bar is met.
    out
        Also write a page to this HTML file.
    as_json
        Print the figures as JSON.
    smoke
        Tiny models, to try the tool; the figures mean nothing.
    """
    check_request(bars=bars, strict=strict, out=out)
    check_rounds(rounds)
    with listening() as listener:
        warn_of_smoke(listener, smoke=smoke)
        found = bench_look(listener, rounds=rounds, threads=check_threads(threads), smoke=smoke)
    return finish(found, bars=bars, strict=strict, out=out, as_json=as_json)
