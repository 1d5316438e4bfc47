"""Bundles that commands write, and the sentence that cites a result. This file imports nothing heavy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attnlab
from attnlab.cli.printing import say

_CITED = 32  # characters of a receipt: 128 bits


def citation(name: str, receipt: str) -> str:
    """Return the sentence to paste into a paper."""
    return (
        f"“All runs are recorded with attnlab {attnlab.__version__}, receipt {receipt[:_CITED]}; "
        f"`attnlab verify {Path(name).name} --receipt {receipt[:_CITED]}` checks them.”"
    )


def bundled(
    path: Path,
    root: Path,
    limit: float,
    runs: Sequence[Path],
    comparisons: Sequence[Path] = (),
    studies: Sequence[Path] = (),
) -> None:
    """Write a bundle of what lies below `root`, and say what it holds."""
    from attnlab.verification.bundles import files_of, write_bundle

    say(f"bundle: {write_bundle(path, root, files_of(runs, comparisons, studies), limit)}")
