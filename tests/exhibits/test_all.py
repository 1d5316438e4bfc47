"""Every exhibit: it runs and holds, is written in one form, uses public mathematics only, and all claims have one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import attnlab.exhibits as package
from attnlab.errors import UnknownNameError
from attnlab.exhibits import exhibit_named, exhibits
from attnlab.exhibits.gallery import CHAPTERS

FOLDERS = ("attention", "heads", "learning")
FILES = [
    path
    for folder in FOLDERS
    for path in sorted((Path(package.__file__).parent / folder).glob("*.py"))
    if path.name != "__init__.py"
]
NAMES = [path.stem.replace("_", "-") for path in FILES]
ROOMS = {
    "attention",
    "statistics",
    "corpora",
    "models",
    "cost",
    "training",
    "lens",
    "experiments",
    "errors",
    "exhibits",
}
OUTSIDE = {
    "__future__",
    "collections",
    "dataclasses",
    "itertools",
    "math",
    "pathlib",
    "statistics",
    "tempfile",
    "time",
    "typing",
}
LIBRARIES = {"numpy", "pydantic", "torch"}

# What the notes claim and an exhibit shows, by the ids of the list of claims.
CLAIMS = {
    "worked-example": {"0.1", "1.4", "1a", "1b", "1c", "1d", "1e", "1f"},
    "scaling": {"0.4", "2a", "2b", "2c"},
    "magnitude": {"0.2", "0.3"},
    "movies": {"0.6"},
    "copying": {"a"},
    "averaging": {"b"},
    "single-head": {"c.i", "c.ii"},
    "multi-head": {"d.i", "d.ii"},
    "identity-attention": {"e.i"},
    "kqv-construction": {"e.ii"},
    "masking": {"1.5"},
    "batches": {"r.1"},
    "shapes": {"r.2"},
    "residual-update": {"1.7"},
    "low-rank-value": {"1.9"},
    "heads-as-one-matrix": {"1.12", "r.3"},
    "synthesizer-limits": {"syn"},
    "cross-attention": {"1.10"},
    "adjective-noun": {"1.2"},
    "analogy": {"1.1"},
    "embedding-is-not-an-encoder": {"0.7"},
    "complexity": {"0.8", "1.6"},
    "almost-orthogonal": {"1.15"},
    "superposition": {"1.15"},
    "bias-variance": {"0.9"},
}


@pytest.mark.parametrize("name", NAMES)
def test_it_runs_and_every_check_holds(name: str) -> None:
    one = exhibit_named(name)
    outcome = one.run(**one.smoke)
    assert outcome.ok, [f"{check.claim} {check.what}: {check.figure}" for check in outcome.checks if not check.ok]
    assert {check.claim for check in outcome.checks} == set(one.claims)
    assert all(check.figure for check in outcome.checks)


@pytest.mark.parametrize("name", CLAIMS)
def test_every_claim_has_its_exhibit(name: str) -> None:
    assert set(exhibit_named(name).claims) >= CLAIMS[name]


def test_the_list_has_the_order_of_the_course() -> None:
    found = exhibits()
    assert sorted(one.name for one in found) == sorted(NAMES)
    places = [CHAPTERS.index(one.chapter) for one in found]
    assert places == sorted(places)
    assert [one.name for one in found[:3]] == ["worked-example", "scaling", "magnitude"]
    with pytest.raises(UnknownNameError, match="no exhibit called 'scalling'"):
        exhibit_named("scalling")


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_it_opens_as_a_notebook_that_reads_claim_equation_code(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# %% [markdown]\n")
    cells = [cell for cell in re.split(r"^# %%", text, flags=re.MULTILINE) if cell.strip()]
    assert len(cells) >= 4
    one = exhibit_named(path.stem.replace("_", "-"))
    lines = cells[0].splitlines()
    assert lines[0] == " [markdown]"
    assert lines[1] == f"# # {one.title}"
    assert len(" ".join(lines[2:])) > 80, "the first cell says what is claimed"
    for cell in cells:
        if cell.startswith(" [markdown]"):
            assert all(line.startswith("#") for line in cell.splitlines()[1:] if line)
        else:
            compile(cell, path.name, "exec")
    assert cells[-1].strip().startswith('if __name__ == "__main__":')
    assert one.claim.endswith((".", "?"))
    assert one.equation


@pytest.mark.parametrize("path", FILES, ids=NAMES)
def test_it_uses_public_mathematics_only(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
        modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else names
        for module in modules if names else []:
            parts = module.split(".")
            if parts[0] == "attnlab":
                assert parts[1] in ROOMS, f"{module} is no room that an exhibit may use"
            else:
                assert parts[0] in OUTSIDE | LIBRARIES, f"{module} is foreign"
            assert not any(part.startswith("_") and part != "__future__" for part in [*parts, *names])
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "a notebook has no package to import relative to"
        if isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_"), f"{node.attr} is private"


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_explained(name: str) -> None:
    one = exhibit_named(name)
    for field in one.parameters.describe():
        assert field["meaning"], f"{field['name']} of {name} says nothing"
    assert not one.smoke or one.trains or "measure" in one.smoke  # what is timed here would depend on the machine
    assert one.parameters(**one.smoke)
