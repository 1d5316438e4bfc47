"""What a grid may be told to call after each run."""

from __future__ import annotations

from pathlib import Path

from attnlab.errors import InputError


def refuse(path: Path) -> None:
    raise InputError(f"1 and 2 are not enough for {path.name}")
