"""What holds for the project as a whole: its version, its pinned dependencies, and its texts."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

import attnlab

ROOT = Path(__file__).parents[1]
GENERATED = {".git", ".hypothesis", ".venv", "__pycache__", "build", "dist", "runs"}

# What a build of torch for graphics cards brings along. Torch names those versions itself.
ACCELERATOR = re.compile(r"(nvidia|cuda|pytorch-triton)-.+|triton")

# A path that exists on somebody's machine only. Written so that it does not match itself.
MACHINE_PATH = re.compile(r"(?<![\w.])/(?:home|root|work|opt|tmp|mnt|srv|var|Users|Volumes)/|\b[A-Z]:\\(?=\w)")


def read_pins() -> dict[str, Requirement]:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [Requirement(line) for line in lines if line.strip() and not line.startswith("#")]
    names = [canonicalize_name(pin.name) for pin in pins]
    assert len(set(names)) == len(names), "a distribution is pinned twice"
    return dict(zip(names, pins, strict=True))


def find_needed(name: str, extras: frozenset[str]) -> set[str]:
    """All that `name[extras]` needs here, directly and indirectly."""
    needed: set[str] = set()
    seen: set[tuple[str, frozenset[str]]] = set()
    todo = [(name, extras)]
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        name, extras = current
        for text in distribution(name).requires or ():
            requirement = Requirement(text)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                found = canonicalize_name(requirement.name)
                needed.add(found)
                todo.append((found, frozenset(requirement.extras)))
    return {found for found in needed if found != "attnlab" and not ACCELERATOR.fullmatch(found)}


def list_files() -> list[Path]:
    """Every file that belongs to the project: what git tracks or would track, or without git what is not generated."""
    if shutil.which("git") and (ROOT / ".git").exists():
        command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        listing = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        if listing.returncode == 0:  # git refuses a repository that belongs to somebody else
            return [ROOT / name for name in listing.stdout.split("\0") if (ROOT / name).is_file()]
    return [path for path in ROOT.rglob("*") if path.is_file() and not is_generated(path)]


def is_generated(path: Path) -> bool:
    return any(part in GENERATED or part.endswith("_cache") for part in path.relative_to(ROOT).parts)


def test_version_is_that_of_pyproject() -> None:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert attnlab.__version__ == pyproject["project"]["version"]


def test_test_extra_covers_bench_extra() -> None:
    assert "entmax" in find_needed("attnlab", frozenset({"test"}))


def test_constraints_are_exact() -> None:
    for pin in read_pins().values():
        assert re.fullmatch(r"==[0-9][0-9a-z.]*", str(pin.specifier)), f"{pin} is not an exact version"
        assert not pin.extras
        assert pin.marker is None
        assert pin.url is None


def test_constraints_cover_all_that_is_needed() -> None:
    missing = find_needed("attnlab", frozenset({"bench", "test"})) - set(read_pins())
    assert not missing, f"not pinned in constraints.txt: {', '.join(sorted(missing))}"


def test_constraints_are_what_is_installed() -> None:
    pins = read_pins()
    needed = find_needed("attnlab", frozenset({"bench", "test"})) & set(pins)
    installed = {name: Version(distribution(name).version) for name in needed}
    # The specifier ignores the build of the installed version, as in 2.13.0+cpu.
    different = [
        f"{name} (installed: {found})" for name, found in installed.items() if found not in pins[name].specifier
    ]
    assert not different, f"constraints.txt pins another version of {', '.join(sorted(different))}"


def test_torch_is_pinned_to_the_release_we_measure_with() -> None:
    assert str(read_pins()["torch"].specifier) == "==2.13.0"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see /" + "home/ada/notes", True),
        ("file:///" + "opt/wheels", True),
        ("C:" + "\\Users\\ada", True),
        ("https://example.org/home/page", False),
        ("src/attnlab/home/", False),
        ("#!/usr/bin/env bash", False),
    ],
)
def test_machine_path_pattern(text: str, found: bool) -> None:
    assert bool(MACHINE_PATH.search(text)) is found


def test_no_file_holds_a_machine_path() -> None:
    files = list_files()
    assert ROOT / "pyproject.toml" in files
    found = []
    for path in files:
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # not a text
        found += [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
            for number, line in enumerate(text.splitlines(), start=1)
            if MACHINE_PATH.search(line)
        ]
    assert not found, "\n".join(found)


def test_decisions_are_numbered_without_gaps() -> None:
    names = sorted(path.name for path in (ROOT / "docs" / "decisions").iterdir())
    for number, name in enumerate(names, start=1):
        assert re.fullmatch(rf"{number:04}-[a-z0-9]+(-[a-z0-9]+)*\.md", name), f"{name} should have number {number:04}"
