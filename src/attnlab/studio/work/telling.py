"""How a worker tells how far it is: a line on stderr that begins with a sign of its own."""

from __future__ import annotations

import sys
import time

SIGN = "\x1e"
_SECONDS = 0.2  # between two lines
_last = 0.0


def tell_progress(what: str, done: int, total: int | None) -> None:
    """Tell it now and then."""
    global _last
    if done != total and time.monotonic() - _last < _SECONDS:
        return
    _last = time.monotonic()
    print(f"{SIGN}{what}: {done}" + ("" if total is None else f" of {total}"), file=sys.stderr, flush=True)
