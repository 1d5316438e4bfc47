"""The exhibits: which there are, and one of them run with parameters of the visitor's own."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from attnlab.exhibits import Check, exhibit_named, exhibits
from attnlab.exhibits.blocks import Block
from attnlab.processes.child import report_progress
from attnlab.studio.work.pages import drawn_parts


def course() -> dict[str, object]:
    """Return every exhibit, chapter by chapter."""
    described = [one.describe() for one in exhibits()]
    chapters = groupby(described, key=lambda one: one["chapter"])
    return {"chapters": [{"chapter": chapter, "exhibits": list(members)} for chapter, members in chapters]}


def exhibit(name: str) -> dict[str, object]:
    """Return what there is to know of an exhibit without running it."""
    return {"exhibit": exhibit_named(name).describe()}


def run_exhibit(name: str, settings: Mapping[str, str]) -> dict[str, object]:
    """Run an exhibit with parameters of the visitor's own."""
    outcome = exhibit_named(name).run(listener=_ProgressListener(), **settings)
    return {
        "page": drawn_parts(outcome.page(), ("Equation",)),
        "ok": outcome.ok,
        "held": sum(check.ok for check in outcome.checks),
        "checks": len(outcome.checks),
    }


class _ProgressListener:
    def shown(self, block: Block | Check) -> None:
        del block

    def progress(self, what: str, done: int, total: int | None) -> None:
        report_progress(what, done, total)
