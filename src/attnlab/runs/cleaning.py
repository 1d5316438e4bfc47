"""Remove runs from the disk: a whole run, or files of runs that are not needed any more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError, safe_open

from attnlab.errors import AttnlabError, FileError
from attnlab.runs.directory import CHECKPOINTS, MODEL, RUN, RunDirectory, RunHeldError
from attnlab.runs.ledger import find_paths, run_id
from attnlab.storage import disk
from attnlab.storage.locks import find_holder, holding
from attnlab.storage.records import read_json


def check_removable(path: Path) -> None:
    """Refuse paths that `remove_run` would not remove: no run, a run held by a process, or the current folder."""
    if not RunDirectory.exists(path):
        raise FileError(f"{path} is no run directory: it has no {RUN}", hint="remove other folders by other means")
    if Path.cwd().is_relative_to(path.resolve()):
        raise FileError(f"{path} is the folder you are in, or one above it", hint="change to another folder first")
    try:
        record = read_json(path / RUN)
    except FileError:
        pass  # a damaged run may be removed
    else:
        if not isinstance(record.get("format"), int):
            raise FileError(f"{path / RUN} was not written by attnlab", hint="remove that folder by other means")
    _check_free(path)


def _check_free(path: Path) -> None:
    holder = find_holder(path)
    if holder is not None:
        raise RunHeldError(path, holder)


def remove_run(path: Path) -> int:
    """Remove a run, all of it or nothing, and return how many bytes that was."""
    check_removable(path)
    size = disk.size_of(path)
    try:
        with holding(path):
            disk.move_away(path)
    except OSError as error:
        raise disk.refusal(f"{path} cannot be removed", error) from error
    return size


@dataclass(frozen=True)
class Garbage:
    """The superfluous files of one run, or of the folder itself; `problem` says why they were not removed."""

    run: str
    what: str
    bytes: int
    problem: str | None = None


def collect_garbage(root: Path, *, dry_run: bool = False) -> list[Garbage]:
    """Remove what was left half-written, and the checkpoints of runs whose final weights are there."""
    runs = find_paths(root)
    found = []
    for folder in sorted({root, *(parent for path in runs for parent in path.parents if parent.is_relative_to(root))}):
        found += _remove(run_id(folder, root), "half-removed runs", disk.find_temporaries(folder), dry_run=dry_run)
    for path in runs:
        name = run_id(path, root)
        try:
            _check_free(path)
            with nullcontext() if dry_run else holding(path):
                for what, paths in _superfluous(path):
                    found += _remove(name, what, paths, dry_run=dry_run)
        except RunHeldError as error:
            found.append(Garbage(name, "nothing", 0, f"held by {error.holder}"))
        except AttnlabError as error:
            found.append(Garbage(name, "nothing", 0, error.message))
    return found


def _superfluous(path: Path) -> Iterator[tuple[str, list[Path]]]:
    """Yield what a run does not need, while no other process works in it."""
    folders = path, path / CHECKPOINTS
    yield "temporary files", [left for folder in folders for left in disk.find_temporaries(folder, of_living=True)]
    run = RunDirectory.open(path)
    if run.result is not None and _is_readable(path / MODEL):
        yield "checkpoints", [run.checkpoints.path(step) for step in run.checkpoints.steps()]


def _is_readable(model: Path) -> bool:
    """Return whether the final weights are there, as far as the header and the length of the file tell."""
    try:
        with safe_open(model, framework="pt"):
            return True
    except (OSError, SafetensorError):
        return False


def _remove(run: str, what: str, paths: list[Path], *, dry_run: bool) -> list[Garbage]:
    if not paths:
        return []
    size = sum(disk.size_of(path) for path in paths)
    try:
        for path in [] if dry_run else paths:
            disk.move_away(path)
    except OSError as error:
        return [Garbage(run, what, 0, (error.strerror or str(error)).lower())]
    return [Garbage(run, what, size)]
