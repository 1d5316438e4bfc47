"""Carry out a study and publish it in docs/: its report, the table of all runs, and the figures that pages there show.

    python -m website.publishing docs/study scale tied-kv --rungs 14k,25k,55k

What follows the folder is a command of attnlab: `scale`, or `compare` with or without `--ladder`. Runs that are there
already are only judged again. The report reads plotly.js from the site: a few hundred kilobytes are kept instead of
five megabytes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from website.shared import share

_FIRST = "-figure-1.svg"  # the first figure of a section


def publish(to: Path, command: Sequence[str]) -> None:
    """Write what a reader needs into `to`, a folder directly below docs/."""
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        report, figures = Path(name) / "report.html", Path(name) / "figures"
        files = ("--report", str(report), "--csv", str(to / "runs.csv"), "--figures", str(figures))
        subprocess.run([sys.executable, "-m", "attnlab", *command, *files], check=True)
        (to / report.name).write_text(share(report.read_text(encoding="utf-8"), "../"), encoding="utf-8")
        pages = "".join(page.read_text(encoding="utf-8") for page in to.parent.glob("*.md"))
        for figure in figures.glob(f"*{_FIRST}"):
            shown = to / f"{figure.name.removesuffix(_FIRST)}.svg"
            if f"({to.name}/{shown.name})" in pages:
                shutil.copy(figure, shown)


if __name__ == "__main__":
    publish(Path(sys.argv[1]), sys.argv[2:])
