"""The reference of the public API: a page for each package, with a directive of mkdocstrings for each public name."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator, Mapping
from types import ModuleType

import attnlab

# Packages without names for others. `attnlab.bench` and `attnlab.cli` are used from the command line.
_INTERNAL = (
    "attnlab.attention.kernels",
    "attnlab.attention.parts",
    "attnlab.bench.",
    "attnlab.cli",
    "attnlab.studio.",
    "attnlab.training.engine",
)


def public_packages() -> list[str]:
    """Return the names of the packages whose `__all__` is for users, in alphabetical order."""
    found = pkgutil.walk_packages(attnlab.__path__, "attnlab.")
    names = [one.name for one in found if one.ispkg and not one.name.startswith(_INTERNAL)]
    return sorted(name for name in names if hasattr(importlib.import_module(name), "__all__"))


def reference_pages() -> dict[str, str]:
    """Return the text of each page by its path below `reference/`."""
    packages = {name: importlib.import_module(name) for name in public_packages()}
    pages = {f"{_short(name)}.md": _page(name, package) for name, package in packages.items()}
    pages["index.md"] = "\n".join(_overview(packages))
    return pages


def _short(name: str) -> str:
    return name.removeprefix("attnlab.")


def _first_sentence(package: ModuleType) -> str:
    return (package.__doc__ or "").partition("\n")[0]


def _overview(packages: dict[str, ModuleType]) -> Iterator[str]:
    yield "# Python\n"
    yield "Everything that `from attnlab.PACKAGE import …` offers. Other names may change without notice.\n"
    yield "| package | what it holds |\n| --- | --- |"
    for name, package in packages.items():
        yield f"| [`{name}`]({_short(name)}.md) | {_first_sentence(package)} |"


def _page(name: str, package: ModuleType) -> str:
    """Return the page of a package: functions, classes and then constants, each in alphabetical order."""
    public = {one: getattr(package, one) for one in sorted(package.__all__, key=str.lower)}
    functions = [_directive(name, one) for one, found in public.items() if inspect.isfunction(found)]
    classes = [_directive(name, one) for one, found in public.items() if inspect.isclass(found)]
    constants = [_constant(one, found) for one, found in public.items() if not callable(found)]
    parts = [f"# `{name}`\n\n{_first_sentence(package)}\n"]
    for heading, lines in (("Functions", functions), ("Classes", classes), ("Constants", constants)):
        if lines:
            parts += [f"## {heading}\n", *lines]
    return "\n".join(parts)


def _directive(package: str, name: str) -> str:
    return f"::: {package}.{name}\n    options:\n      heading_level: 3\n"


def _constant(name: str, value: object) -> str:
    """Return a constant with its value, or with its keys if it has any."""
    shown = ", ".join(f"`{key}`" for key in value) if isinstance(value, Mapping) else f"`{value!r}`"
    return f"- `{name}`: {shown if len(shown) < 400 else f'a {type(value).__name__}'}"
