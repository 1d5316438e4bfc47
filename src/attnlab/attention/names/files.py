"""User-defined variants: from a Python file, from its text in another process, or from an installed package.

A package provides variants by an entry point in the group `attnlab.variants`. It names a module that calls
`add_variant`:

    [project.entry-points."attnlab.variants"]
    mine = "my_package.attention"
"""

from __future__ import annotations

import functools
import hashlib
import random
import signal
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from attnlab.attention.names import catalogue
from attnlab.attention.names.catalogue import Variant, variant
from attnlab.attention.names.mixtures import mixture
from attnlab.errors import AttnlabError, FileError

GROUP = "attnlab.variants"
LIMIT = 20.0  # seconds that a file may run
_AGAIN = 0.1  # seconds until the next alarm, if the file caught one
_LINES = 12  # within this many lines, a file that caught an alarm is interrupted again


def load_variants(path: Path) -> tuple[Variant, ...]:
    """Run a user's Python file, and return the variants that it added.

    Parameters
    ----------
    path
        A Python file that calls `add_variant` or `add_layer`.
    """
    return load_source(read_source(path), str(path))


def read_source(path: Path) -> str:
    """Return the text of a Python file."""
    from attnlab.storage.files import read_file  # not needed by `import attnlab.attention`

    try:
        return read_file(path).decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
    except FileError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise FileError(f"{path} is no Python file: {reason}", hint="give a .py file that calls add_variant") from None


def load_source(text: str, name: str) -> tuple[Variant, ...]:
    """Run the text of a file, and return the variants that it added; `name` is the file's, for messages."""
    module = types.ModuleType(f"attnlab_variants_{Path(name).stem}")

    def run() -> None:
        exec(compile(text, name, "exec"), module.__dict__)

    with _time_limit(name):
        added = _added_by(run, name)
    digest = hashlib.sha256(text.encode()).hexdigest()
    for one in added:
        catalogue._known[one.name] = replace(one, file_hash=digest)
    return tuple(catalogue._known[one.name] for one in added)


def file_hashes(names: str) -> dict[str, str]:
    """Return the variants of a mixture that came from a file, each with the hash of that file."""
    parts = (part for one in mixture(names).variants for part in one.name.split("+"))
    found = {part: variant(part).file_hash for part in parts}
    return {name: known for name, known in found.items() if known}


class _TooLongError(BaseException):
    """A file exceeded its time limit. `except Exception` does not catch this, but a bare `except` does."""


@contextmanager
def _time_limit(name: str) -> Iterator[None]:
    """Interrupt code inside that runs longer than `LIMIT`; in the main thread only, as alarms need it."""
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        yield
        return

    def interrupt(_: int, frame: types.FrameType | None) -> None:
        _raise_later(frame, name)
        raise _TooLongError

    before, traced = signal.signal(signal.SIGALRM, interrupt), sys.gettrace()
    signal.setitimer(signal.ITIMER_REAL, LIMIT, _AGAIN)
    try:
        yield
    except _TooLongError:
        raise FileError(
            f"{name} did not end within {LIMIT:g} s",
            hint="let it only call add_variant: what takes time belongs elsewhere",
        ) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.settrace(traced)


def _raise_later(frame: types.FrameType | None, name: str) -> None:
    """Raise again at a later line of the file, in case it catches everything: some line is outside of any `try`."""
    left = random.randrange(_LINES)

    def trace(where: types.FrameType, *_: object) -> Any:
        nonlocal left
        if where.f_code.co_filename == name:  # in other code it could skip necessary cleanup
            left -= 1
            if left < 0:
                raise _TooLongError
        return trace

    while frame is not None and frame.f_code.co_filename != __file__:
        frame.f_trace = trace
        frame = frame.f_back
    sys.settrace(trace)


@functools.cache
def load_installed() -> None:
    """Load the variants of installed packages, once; a package that fails is skipped with a warning."""
    for point in entry_points(group=GROUP):
        try:
            _added_by(point.load, f"the entry point {point.name} = {point.value}")
        except AttnlabError as error:
            warnings.warn(str(error), stacklevel=2)


def _added_by(run: Callable[[], object], name: str) -> tuple[Variant, ...]:
    """Run code that adds variants, and return these; if it fails, add none."""
    before = dict(catalogue._known)
    try:
        with catalogue.adding_once():
            run()
    except (Exception, SystemExit, _TooLongError) as error:
        catalogue._known.clear()
        catalogue._known.update(before)
        if isinstance(error, AttnlabError | _TooLongError):
            raise
        raise FileError(
            f"{name} failed: {type(error).__name__}: {error}", hint="run it by itself to see where"
        ) from error
    added = tuple(made for key, made in catalogue._known.items() if before.get(key) is not made)
    if not added:
        raise FileError(f"{name} adds no variant", hint="call attnlab.attention.add_variant(Variant(…)) in it")
    return added
