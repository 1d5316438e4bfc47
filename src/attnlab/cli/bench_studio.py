"""`attnlab bench studio`: how soon the studio is there, and how soon it answers."""

from __future__ import annotations

from pathlib import Path

from attnlab.bench.studio import bench_studio
from attnlab.cli.bench_races import Flag, Json, check_request, finish, warn_of_smoke
from attnlab.cli.listening import listening


def studio(
    *, bars: Flag = False, strict: Flag = False, out: Path | None = None, as_json: Json = False, smoke: Flag = False
) -> int:
    """Time the studio in Chromium: its start, an edit in the playground, and the same in a crowd.

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
        A few edits, to try the tool; the figures mean nothing.
    """
    check_request(bars=bars, strict=strict, out=out)
    with listening() as listener:
        warn_of_smoke(listener, smoke=smoke)
        found = bench_studio(listener, smoke=smoke)
    return finish(found, bars=bars, strict=strict, out=out, as_json=as_json)
