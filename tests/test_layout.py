"""The layout of the source: folders and files that can be read, and one implementation of what everyone needs."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "attnlab"
FILES = sorted(SOURCE.rglob("*.py"))
TREES = {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in FILES}

MOST_FILES = 14  # in a folder
MOST_LINES = 400  # in a file
MOST_REPEATED = 10  # class names that are used more than once
MOST_LOOSE = 90  # parameters and results that are a dict[str, Any]


def test_folders_and_files_are_small() -> None:
    assert {
        str(folder): count for folder, count in Counter(path.parent for path in FILES).items() if count > MOST_FILES
    } == {}
    lines = {path.name: len(path.read_text(encoding="utf-8").splitlines()) for path in FILES}
    assert {name: count for name, count in lines.items() if count > MOST_LINES} == {}


def test_packages_list_their_files() -> None:
    """The docstring of a package names every file and folder in it."""
    missing = {}
    for init in SOURCE.rglob("__init__.py"):
        words = ast.get_docstring(ast.parse(init.read_text(encoding="utf-8"))) or ""
        inside = {path.stem for path in init.parent.glob("*.py")} | {
            path.parent.name for path in init.parent.glob("*/__init__.py")
        }
        if left := sorted(name for name in inside - {"__init__", "__main__"} if name not in words):
            missing[init.parent.relative_to(SOURCE).as_posix()] = left
    assert missing == {}


def test_a_class_name_means_one_thing() -> None:
    places = defaultdict(list)
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    repeated = {name: found for name, found in places.items() if len(found) > 1}
    assert len(repeated) <= MOST_REPEATED, repeated


def test_signatures_say_what_they_take() -> None:
    loose = []
    for name, tree in TREES.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                given = [
                    argument.annotation for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
                ]
                loose += [
                    f"{name}: {node.name}"
                    for one in (*given, node.returns)
                    if one and "dict[str, Any]" in ast.unparse(one)
                ]
    assert len(loose) <= MOST_LOOSE, loose


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("os.fsync(", {"storage/disk.py"}),
        ("def signed(", {"formats.py"}),
        ("def to_plain(", {"storage/records.py"}),
        # Matrices to type into and those beside them are no tables of rows.
        ("<table", {"pages/tables.py", "studio/matrices.py"}),
        ("as_spec_error(", {"errors.py", "specification.py"}),
        ("stdin=subprocess.PIPE", {"processes/child.py"}),
    ],
)
def test_one_implementation(text: str, places: set[str]) -> None:
    assert {path.relative_to(SOURCE).as_posix() for path in FILES if text in path.read_text(encoding="utf-8")} == places
