"""`attnlab bench studio`: how soon the studio is there, and how soon it answers."""

from __future__ import annotations

from attnlab.bench.products.studio import bench_studio
from attnlab.cli.bench_options import AS_USUAL, Showing


def studio(*, showing: Showing = AS_USUAL) -> int:
    """Time the studio in Chromium: its start, an edit in the playground, and the same in a crowd.

    Parameters
    ----------
    showing
        How what was found is shown.
    """
    showing.check()
    with showing.listening() as listener:
        found = bench_studio(listener, smoke=showing.smoke)
    return showing.finish(found)
