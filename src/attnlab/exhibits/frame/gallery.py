"""The gallery: every file in a folder of exhibits holds one; it is found by name and shown where it is called."""

from __future__ import annotations

import builtins
import importlib
import pkgutil
import sys
from functools import cache
from typing import Any

import attnlab.exhibits as package
from attnlab.errors import UnknownNameError
from attnlab.exhibits.frame.exhibit import Exhibit


def exhibits() -> list[Exhibit[Any]]:
    """Return all exhibits, in the order of the course."""
    return sorted(map(_load, _modules().values()), key=lambda one: one.order)


def exhibit_named(name: str) -> Exhibit[Any]:
    """Return the exhibit of this name."""
    known = _modules()
    if name not in known:
        raise UnknownNameError("exhibit", name, known)
    return _load(known[name])


def _modules() -> dict[str, str]:
    """Return the module of each exhibit by the exhibit's name, from every folder beside this one."""
    folders = [one.name for one in pkgutil.iter_modules(package.__path__) if one.ispkg and one.name != "frame"]
    return {
        module.name.replace("_", "-"): f"{package.__name__}.{folder}.{module.name}"
        for folder in folders
        for module in pkgutil.iter_modules([f"{package.__path__[0]}/{folder}"])
    }


@cache
def _load(module_name: str) -> Exhibit[Any]:
    module = importlib.import_module(module_name)
    found = [one for one in vars(module).values() if isinstance(one, Exhibit)]
    assert len(found) == 1, f"{module_name} holds {len(found)} exhibits, not one"
    name = module_name.rpartition(".")[2].replace("_", "-")
    assert found[0].name == name, f"{module_name} holds {found[0].name!r}"
    return found[0]


def show_here(one: Exhibit[Any]) -> None:
    """Run an exhibit with its defaults; in a terminal the program ends with 1 if a check fails."""
    if hasattr(builtins, "get_ipython") or hasattr(builtins, "__IPYTHON__"):
        from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

        display(one.run())  # type: ignore[no-untyped-call,unused-ignore]
        return
    from attnlab.exhibits.frame.terminal import Printer

    printer = Printer()
    printer.begin(one)
    outcome = one.run(listener=printer)
    printer.end(outcome)
    if not outcome.ok:
        sys.exit(1)
