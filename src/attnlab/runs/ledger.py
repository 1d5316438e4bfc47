"""The runs below a folder, and the status of each. It is read from the run directories, and not stored."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from attnlab.errors import FileError, UnknownNameError
from attnlab.runs.directory import RUN, RunDirectory, Status
from attnlab.storage.disk import refusal, size_of

DEFAULT_ROOT = Path("runs")


@dataclass(frozen=True)
class RunSummary:
    """A summary of a run. Values missing from its record are None; `problem` says why it cannot be read."""

    id: str
    path: Path
    status: Status | Literal["damaged"]
    bytes: int
    problem: str | None = None
    step: int | None = None
    steps: int | None = None
    validation_loss: float | None = None
    variant: str | None = None
    recipe: str | None = None
    size: str | None = None
    seed: int | None = None
    started: str | None = None


def find_runs(root: Path) -> list[RunSummary]:
    """Return every run below a folder, in the order of their names. A folder that does not exist has none."""
    return [summarise(path, root) for path in find_paths(root)]


def find_paths(root: Path) -> list[Path]:
    """Return the folder of every run below a folder, damaged ones included."""
    if root.exists() and not root.is_dir():
        raise FileError(f"{root} is no folder", hint="name the folder that the runs lie in")
    return sorted(folder for folder in _folders(root) if (folder / RUN).exists())


def _folders(root: Path) -> Iterator[Path]:
    """Yield all folders below one, without hidden ones and without those inside a run."""

    def refuse(error: OSError) -> None:
        raise refusal(f"{error.filename} cannot be read", error) from error

    for folder, below, files in os.walk(root, onerror=refuse if root.exists() else None):
        below[:] = [] if RUN in files else [name for name in below if not name.startswith(".")]
        yield Path(folder)


def locate_run(name: str | Path, root: Path) -> Path | None:
    """Return the folder of the run with this name below `root`, or else at the path `name`, if there is one."""
    return next((path for path in (root / name, Path(name)) if RunDirectory.exists(path)), None)


def find_run(name: str | Path, root: Path) -> Path:
    """Return the folder of the run with this name below `root`, or else at the path `name`."""
    found = locate_run(name, root)
    if found is not None:
        return found
    known = [run_id(path, root) for path in find_paths(root)]
    listed = f"the runs in {root}: {', '.join(known[:5])}{', …' if len(known) > 5 else ''}"
    for path in (root / name, Path(name)):
        if path.is_dir():
            raise FileError(
                f"{path} is no run directory: it has no {RUN}", hint=listed if known else "name the folder of a run"
            )
    if not known:
        raise FileError(f"there is no run called {str(name)!r}: no runs in {root}", hint="train one first")
    raise UnknownNameError("run", str(name), known)


def run_id(path: Path, root: Path) -> str:
    """Return the name of a run: its path below the folder of the runs."""
    return str(path.relative_to(root)) if path != root and path.is_relative_to(root) else path.name or str(path)


def summarise(path: Path, root: Path) -> RunSummary:
    """Return one line about a run, whatever state it is in."""
    name, size = run_id(path, root), size_of(path)
    try:
        run = RunDirectory.open(path)
        status, metrics, result = run.status, run.metrics(), run.result or {}
        saved = run.checkpoints.steps()
    except FileError as error:
        return RunSummary(name, path, "damaged", size, problem=error.message)
    found = run.record.get("spec")
    spec = found if isinstance(found, Mapping) else {}
    losses = [_number(entry.get("validation_loss")) for entry in (*reversed(metrics), result)]
    return RunSummary(
        name,
        path,
        status,
        size,
        step=metrics[-1]["step"] if metrics else saved[-1] if saved else None,
        steps=_whole(spec.get("steps")),
        validation_loss=next((loss for loss in losses if loss is not None), None),
        variant=_text(spec.get("variant")),
        recipe=_text(spec.get("recipe")),
        size=_text(spec.get("size")),
        seed=_whole(spec.get("seed")),
        started=_text(run.record.get("started")),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
