"""The public API: every name has a docstring, which names every parameter of a function."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from typing import Any

from website.reference import public_packages


def public_names() -> Iterator[tuple[str, Any]]:
    for package in public_packages():
        module = importlib.import_module(package)
        for name in module.__all__:
            yield f"{package}.{name}", getattr(module, name)


def test_every_public_name_has_a_docstring() -> None:
    missing = []
    for name, found in public_names():
        if inspect.isclass(found) or inspect.isfunction(found):
            text = vars(found).get("__doc__") if inspect.isclass(found) else found.__doc__
            if not text or text.startswith(f"{found.__name__}("):  # what a dataclass writes by itself
                missing.append(name)
    assert missing == []


def test_docstrings_name_the_parameters() -> None:
    incomplete = [
        name
        for name, found in public_names()
        if inspect.isfunction(found)
        and any(parameter not in (found.__doc__ or "") for parameter in inspect.signature(found).parameters)
    ]
    assert incomplete == []


def test_columns_in_docstrings_are_indented() -> None:
    """Only what is indented keeps its columns on a page."""
    for name, found in public_names():
        shown = [found, *vars(found).values()] if inspect.isclass(found) else [found]
        texts = [inspect.getdoc(one) or "" for one in shown if inspect.isroutine(one) or inspect.isclass(one)]
        assert not re.search(r"^\S.*\S {3,}\S", "\n".join(texts), re.MULTILINE), name
