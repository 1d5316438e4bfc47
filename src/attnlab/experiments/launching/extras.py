"""Libraries that only some ways of launching need."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from attnlab.errors import AttnlabError


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
