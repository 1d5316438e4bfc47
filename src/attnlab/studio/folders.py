"""The folders of comparisons and studies, their names in a browser, and the processes that work in them."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from attnlab.errors import AttnlabError
from attnlab.experiments.scale.record import study_folders as folders_of_studies
from attnlab.storage.plans import PLAN

LOG = "studio.log"  # the output of a process that the studio started, in its folder
COMPARISON, STUDY = "comparison", "study"


def comparison_folders(runs: Path) -> list[str]:
    """Return the folders of all comparisons below that of the runs, those inside of studies too, as relative paths."""
    found = {path.parent for pattern in ("*", "*/*", "*/*/*") for path in runs.glob(f"{pattern}/{PLAN}")}
    found |= {path.parent for path in runs.glob(f"*/{LOG}")}  # of those that have no plan yet
    names = (folder.relative_to(runs) for folder in found)
    return sorted(str(name) for name in names if not any(part.startswith(".") for part in name.parts))


def study_folders(runs: Path) -> list[str]:
    """Return the folders of all studies below that of the runs, as relative paths."""
    return [str(folder.relative_to(runs)) for folder in folders_of_studies(runs)]


def find_folder(runs: str | Path, name: str) -> Path:
    """Return the folder of a comparison or study by the name that a browser knows it by."""
    root = Path(runs)
    for folder in (*comparison_folders(root), *study_folders(root)):
        if opaque_id(folder) == name:
            return root / folder
    raise AttnlabError("there is no such comparison or study here", hint="Compare lists those there are")


def opaque_id(name: str) -> str:
    """Return a name for a run, comparison or study that does not tell where it lies, as for a browser."""
    return hashlib.sha256(name.encode()).hexdigest()[:16]


def launch(folder: Path, log: str, words: Sequence[str]) -> subprocess.Popen[bytes]:
    """Run a command of attnlab that continues when the studio ends, with what it says in a file of its folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / log).open("wb") as said:
            return subprocess.Popen(
                [sys.executable, "-m", "attnlab", *words],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        raise unwritable(folder, error) from None


def unwritable(folder: Path, error: OSError) -> AttnlabError:
    """Return the error of a folder that cannot be written."""
    return AttnlabError(
        f"{folder} cannot be written: {(error.strerror or str(error)).lower()}",
        hint="start the studio with another folder: `runs=FOLDER`",
    )
