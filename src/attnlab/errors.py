"""Every error that attnlab raises on purpose.

An error holds one sentence (the bad value, and what is allowed) and, where there is something to do about it, a hint.
The command line and the studio print `str(error)`; a traceback is shown only on request.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError


class AttnlabError(Exception):
    """The root: whatever is raised because of what a user asked for. A command ends with `exit_code`."""

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return self.message if self.hint is None else f"{self.message}\n\nhint: {self.hint}"


class Terminated(KeyboardInterrupt):
    """SIGTERM, where it is heard like Ctrl-C."""


class SpecError(AttnlabError, ValueError):
    """A specification that cannot be built. `nearest` is the closest one that can, where there is one."""

    def __init__(self, message: str, *, hint: str | None = None, nearest: object | None = None) -> None:
        super().__init__(message, hint=hint)
        self.nearest = nearest


class InputError(AttnlabError, ValueError):
    """Tensors that do not fit: a wrong shape, type, device or mask size."""


class UnknownNameError(AttnlabError, LookupError):
    """A name that is in no catalogue.

    `near` are spellings of known names that may be meant; `other` describes what can be given instead of a name.
    """

    def __init__(
        self, kind: str, name: str, known: Iterable[str], near: Iterable[str] = (), other: str | None = None
    ) -> None:
        self.name, self.known, self.near = name, sorted(known), sorted(near)
        close = get_close_matches(name.lower(), [*self.known, *self.near], n=1, cutoff=0.5)
        names = ", ".join(self.known) + (f", or {other}" if other else "")
        hint = f"did you mean {close[0]!r}?" if close else f"known: {names}"
        super().__init__(f"there is no {kind} called {name!r}", hint=hint)


class UnsupportedError(AttnlabError, NotImplementedError):
    """Something that is well defined but that this code does not do, such as a second derivative of a fast kernel."""


class FileError(AttnlabError, OSError):
    """A file that cannot be read or written, or that does not hold what it should."""


_BOUNDS = {"gt": "above {}", "ge": "from {} on", "lt": "below {}", "le": "up to {}"}  # by their names in pydantic


def as_spec_error(
    error: ValidationError, what: str, *, fields: Iterable[str] = (), hint: str | None = None
) -> AttnlabError:
    """Return the first complaint of a validation of `what` as one sentence, or the error of ours that pydantic wrapped.

    With `fields`, an unknown field gets the closest of them as its hint; `hint` is for values of a wrong kind.
    """
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, AttnlabError):
        return cause
    where = ".".join(map(str, first["loc"]))
    if first["type"] == "extra_forbidden":
        close = get_close_matches(where, known := list(fields), n=1, cutoff=0.5)
        spelling = f"known: {', '.join(known)}" if known else f"remove {where!r} or check its spelling"
        return SpecError(f"{what} has no field {where!r}", hint=f"did you mean {close[0]!r}?" if close else spelling)
    if first["type"] == "missing":
        return SpecError(f"{what} needs {where!r}", hint=f"give {where}=…")
    message = first["msg"][0].lower() + first["msg"][1:]
    allowed = [_BOUNDS[name].format(limit) for name, limit in first.get("ctx", {}).items() if name in _BOUNDS]
    if first["type"] == "finite_number":
        allowed = ["that is finite"]
    range_hint = f"use a number {' '.join(allowed)} for `{where}`" if allowed and where else hint
    return SpecError(f"{where or 'the text'} of {what} is {first['input']!r}: {message}", hint=range_hint)


def check_extra(name: str, extra: str) -> None:
    """Refuse now what would fail later because a library is missing; it is not imported yet."""
    if importlib.util.find_spec(name) is None:
        raise AttnlabError(f"{name} is not installed", hint=f"pip install 'attnlab[{extra}]'")


def import_extra(name: str, extra: str) -> Any:
    """Import a library of an extra, or say how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise AttnlabError(f"{name} cannot be imported: {error}", hint=f"pip install 'attnlab[{extra}]'") from error
