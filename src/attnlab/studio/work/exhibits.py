"""The exhibits: which there are, and one of them run with parameters of the visitor's own."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from attnlab.exhibits import Check, exhibit_named, exhibits
from attnlab.exhibits.frame.blocks import Block
from attnlab.studio.work.parts import page_data
from attnlab.studio.work.telling import tell_progress


def course() -> dict[str, Any]:
    """Every exhibit, chapter by chapter."""
    described = [one.describe() for one in exhibits()]
    chapters = groupby(described, key=lambda one: one["chapter"])
    return {"chapters": [{"chapter": chapter, "exhibits": list(members)} for chapter, members in chapters]}


def describe(name: str) -> dict[str, Any]:
    """What there is to know of one, without running it."""
    return {"exhibit": exhibit_named(name).describe()}


def run(name: str, settings: dict[str, str]) -> dict[str, Any]:
    """Run one of them."""
    outcome = exhibit_named(name).run(listener=_Told(), **settings)
    return {
        "page": page_data(outcome.page()),
        "ok": outcome.ok,
        "held": sum(check.ok for check in outcome.checks),
        "checks": len(outcome.checks),
    }


class _Told:
    """Passes on how far it is."""

    def shown(self, block: Block | Check) -> None:
        del block

    def progress(self, what: str, done: int, total: int | None) -> None:
        tell_progress(what, done, total)
