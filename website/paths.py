"""Where the site's parts are. Everything that is made lies below build/, which `make clean` removes."""

from __future__ import annotations

import hashlib
from pathlib import Path

ROOT = Path(__file__).parents[1]
ASSETS = ROOT / "website" / "assets"
NOTEBOOKS = ROOT / "docs" / "tutorials"
WORK = ROOT / "build" / "site-work"  # kept between builds: runs, pages of the gallery, executed notebooks
GALLERY = WORK / "gallery"
TUTORIALS = WORK / "tutorials"
RUNS = WORK / "runs"
TUTORIAL_RUNS = WORK / "notebooks"


def source_hash(*more: str) -> str:
    """Return a hash of the source code and of `more`: what was made from the same is not made again."""
    digest = hashlib.sha256("\0".join(more).encode())
    for path in sorted((ROOT / "src").rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(path.relative_to(ROOT).as_posix().encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def is_current(made: Path, key: str) -> bool:
    """Return whether a file was made from what `key` is the hash of."""
    stamp = made.with_name(f".{made.name}.key")
    return made.exists() and stamp.exists() and stamp.read_text(encoding="utf-8") == key


def keep(made: Path, key: str) -> None:
    """Write down what a file was made from."""
    made.with_name(f".{made.name}.key").write_text(key, encoding="utf-8")
