"""Showing an exhibit where it is called: as a page in a notebook, as text in a terminal."""

from __future__ import annotations

import builtins
import sys
from typing import Any

from attnlab.exhibits.frame.exhibit import Exhibit
from attnlab.exhibits.frame.terminal import Printer


def show_here(one: Exhibit[Any]) -> None:
    """Run it with its defaults. In a terminal the program ends with 1 if a check fails."""
    if hasattr(builtins, "get_ipython") or hasattr(builtins, "__IPYTHON__"):
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

        display(one.run())  # type: ignore[no-untyped-call,unused-ignore]
        return
    printer = Printer()
    printer.begin(one)
    outcome = one.run(listener=printer)
    printer.end(outcome)
    if not outcome.ok:
        sys.exit(1)
