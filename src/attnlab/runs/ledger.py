"""Which runs there are below a folder, and how far each is. It is read from the run directories, and kept nowhere."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from attnlab.errors import FileError, UnknownNameError
from attnlab.runs.directory import RUN, RunDirectory, Status
from attnlab.storage.disk import refusal, size_of

DEFAULT_ROOT = Path("runs")
_VALIDATION = ("validation_loss", "val_loss")


@dataclass(frozen=True)
class RunSummary:
    """One line about a run. What its record does not say is None; `problem` is why it cannot be read."""

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
    """Every run below a folder, in the order of their names. There are none in a folder that does not exist."""
    return [summarise(path, root) for path in find_paths(root)]


def find_paths(root: Path) -> list[Path]:
    """The folder of every run below a folder, the readable and the damaged."""
    if root.exists() and not root.is_dir():
        raise FileError(f"{root} is no folder", hint="name the folder that the runs lie in")
    return sorted(folder for folder in _folders(root) if (folder / RUN).exists())


def _folders(root: Path) -> Iterator[Path]:
    """All folders below one, without what is hidden and without those inside a run."""

    def refuse(error: OSError) -> None:
        raise refusal(f"{error.filename} cannot be read", error) from error

    for folder, below, files in os.walk(root, onerror=refuse if root.exists() else None):
        below[:] = [] if RUN in files else [name for name in below if not name.startswith(".")]
        yield Path(folder)


def find_run(name: str, root: Path) -> Path:
    """The folder of the run that is called so below `root`, or that lies at the path `name`."""
    for path in (root / name, Path(name)):
        if RunDirectory.exists(path):
            return path
    for path in (root / name, Path(name)):
        if path.is_dir():
            raise FileError(f"{path} is no run directory: it has no {RUN}", hint="`attnlab runs list` shows the runs")
    known = [run_id(path, root) for path in find_paths(root)]
    if not known:
        raise FileError(f"there is no run called {name!r}: no runs in {root}", hint="`attnlab train` begins one")
    raise UnknownNameError("run", name, known)


def run_id(path: Path, root: Path) -> str:
    """What a run is called: its path below the folder of the runs."""
    return str(path.relative_to(root)) if path != root and path.is_relative_to(root) else path.name or str(path)


def summarise(path: Path, root: Path) -> RunSummary:
    """One line about a run, whatever state it is in."""
    name, size = run_id(path, root), size_of(path)
    try:
        run = RunDirectory.open(path)
        status, metrics, result = run.status, run.metrics(), run.result or {}
        saved = run.checkpoints.steps()
    except FileError as error:
        return RunSummary(name, path, "damaged", size, problem=error.message)
    spec = _mapping(run.record.get("spec"))
    return RunSummary(
        name,
        path,
        status,
        size,
        step=metrics[-1]["step"] if metrics else saved[-1] if saved else None,
        steps=_whole(spec.get("steps")),
        validation_loss=_last(metrics, _VALIDATION, result),
        variant=_variant(spec),
        recipe=_name(spec.get("recipe")),
        size=_name(spec.get("size")),
        seed=_whole(spec.get("seed")),
        started=_name(run.record.get("started")),
    )


def _last(metrics: Sequence[Mapping[str, Any]], names: Sequence[str], result: Mapping[str, Any]) -> float | None:
    """The last number that goes by one of these names, in the metrics or else in the result."""
    for entry in (*reversed(metrics), result):
        for name in names:
            value = entry.get(name)
            if isinstance(value, int | float) and not isinstance(value, bool):
                return float(value)
    return None


def _variant(spec: Mapping[str, Any]) -> str | None:
    """The variant's name, or what the run changes."""
    treatments = spec.get("treatments")
    if spec.get("variant") is None and isinstance(treatments, list):
        return "+".join(filter(None, map(_name, treatments))) or None
    return _name(spec.get("variant")) or _name(treatments)


def _name(value: object) -> str | None:
    """A thing's name: itself, or what it says of itself."""
    if isinstance(value, Mapping):
        value = value.get("name")
    return str(value) if isinstance(value, str | int | float) and value != "" else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
