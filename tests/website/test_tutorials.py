"""The tutorials: notebooks that are kept without output, and run at smoke size as they are."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab.attention.names import catalogue
from attnlab.attention.parts import Part

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "tutorials").glob("*.ipynb"))


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    """Forget what a notebook added."""
    names, parts = dict(catalogue._known), dict(Part._known)
    yield
    for known, before in ((catalogue._known, names), (Part._known, parts)):
        known.clear()
        known.update(before)


def cells(path: Path, kind: str) -> list[dict[str, Any]]:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    return [cell for cell in notebook["cells"] if cell["cell_type"] == kind]


def show(cell: str, namespace: dict[str, Any]) -> None:
    """Run a cell, and show the value of its last line as a notebook does."""
    tree = ast.parse(cell)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), namespace)
    if last is not None:
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), namespace)
        if hasattr(value, "_repr_html_"):
            assert value._repr_html_()


def test_there_are_four_in_the_order_of_reading() -> None:
    assert [path.name[0] for path in NOTEBOOKS] == ["1", "2", "3", "4"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_kept_without_output_and_begins_with_its_readers(path: Path) -> None:
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells(path, "code"))
    title, blank, lead = cells(path, "markdown")[0]["source"][:3]
    assert title.startswith("# ")
    assert not blank.strip()
    assert lead.startswith("For ")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_at_smoke_size(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTNLAB_SMOKE", "1")
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "cache"))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for cell in cells(path, "code"):
        show("".join(cell["source"]), namespace)
