"""The streams and the terminal of a command: characters, width, warnings, and an output that cannot be written."""

from __future__ import annotations

import io
import os
import shutil
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from attnlab.errors import AttnlabError
from attnlab.storage.disk import NO_SPACE, reason

_LOOP = "Symlink loop from "  # the message of Python up to 3.12 when it resolves a path
_LEAST_WIDTH = 20  # columns; narrower tables become endless


@contextmanager
def prepared() -> Iterator[None]:
    """Print warnings in one line, replace what the terminal cannot show, and use a least width, inside."""
    width, shown = os.environ.get("COLUMNS"), warnings.showwarning
    if shutil.get_terminal_size().columns < _LEAST_WIDTH:
        os.environ["COLUMNS"] = str(_LEAST_WIDTH)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and stream.errors == "strict":
            stream.reconfigure(errors="replace")
    hook = threading.excepthook
    warnings.showwarning = _show_warning
    threading.excepthook = lambda failure: _tell_thread(failure) or hook(failure)
    try:
        yield
    finally:
        warnings.showwarning, threading.excepthook = shown, hook
        if width is not None:
            os.environ["COLUMNS"] = width
        else:
            os.environ.pop("COLUMNS", None)


def _tell_thread(failure: threading.ExceptHookArgs) -> bool:
    """Say in one line what the system refused to a thread, such as TensorBoard's; return whether it was that."""
    if not isinstance(failure.exc_value, OSError):
        return False
    print(f"warning: a file cannot be read or written: {reason(failure.exc_value)}", file=sys.stderr)
    return True


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning without the place in the source that it comes from."""
    del category, filename, lineno, line
    print(f"warning: {message}", file=file or sys.stderr)


def explain_failure(error: Exception) -> AttnlabError | None:
    """Return what the system refused, in the form of our own errors; None if it is a defect of attnlab."""
    if isinstance(error, MemoryError):
        return AttnlabError("there is not enough memory for this", hint="use a smaller model, batch or number")
    if isinstance(error, RuntimeError) and str(error).startswith(_LOOP):
        path = str(error).removeprefix(_LOOP).strip("'")
        return AttnlabError(f"{path} cannot be used: its symbolic links form a loop", hint="name another path")
    if not isinstance(error, OSError):
        return None
    if error.filename is not None:
        hint = "check the path and your rights to it, or name another"
        return AttnlabError(f"{os.fsdecode(error.filename)} cannot be used: {reason(error)}", hint=hint)
    if error.errno in NO_SPACE:
        return AttnlabError(
            f"the output cannot be written: {reason(error)}", hint="free some space, or write the output elsewhere"
        )
    if error.errno is not None:
        return AttnlabError(
            f"a file cannot be read or written: {reason(error)}", hint="check the disk, or use a folder on another one"
        )
    return None


def discard_output() -> None:
    """Let what is left in the buffer of stdout go nowhere: Python flushes it once more when it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
