"""Finding the exhibits: every file beside this folder holds one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from typing import Any

import attnlab.exhibits as room
from attnlab.errors import UnknownNameError
from attnlab.exhibits.frame.exhibit import Exhibit


def exhibits() -> list[Exhibit[Any]]:
    """All of them, in the order of the course."""
    return sorted((_load(name) for name in _names()), key=lambda one: one.order)


def exhibit_named(name: str) -> Exhibit[Any]:
    """One of them."""
    known = {module.replace("_", "-"): module for module in _names()}
    if name not in known:
        raise UnknownNameError("exhibit", name, known)
    return _load(known[name])


def _names() -> Iterator[str]:
    return (module.name for module in pkgutil.iter_modules(room.__path__) if not module.ispkg)


@cache
def _load(module_name: str) -> Exhibit[Any]:
    module = importlib.import_module(f"{room.__name__}.{module_name}")
    found = [one for one in vars(module).values() if isinstance(one, Exhibit)]
    assert len(found) == 1, f"{module.__name__} holds {len(found)} exhibits, not one"
    assert found[0].name == module_name.replace("_", "-"), f"{module.__name__} holds {found[0].name!r}"
    return found[0]
