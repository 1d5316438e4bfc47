"""A run directory: all there is to know about one run, and the only truth about it.

runs/<id>/  run.json           what is trained and with what; written once, before step 0
            metrics.jsonl      one line for each thing measured
            checkpoints/       see `checkpoints`
            model.safetensors  the final weights
            result.json        how it ended; a run that has none is unfinished
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import attnlab
from attnlab.errors import FileError, InputError
from attnlab.runs.checkpoints import Checkpoints
from attnlab.storage import disk
from attnlab.storage.locks import Holder, RunHeldError, find_holder, holding
from attnlab.storage.records import read_json, to_plain, write_json

__all__ = ["FORMAT", "Holder", "RunDirectory", "RunHeldError", "Status"]

FORMAT = 1
RUN, METRICS, RESULT, CHECKPOINTS, MODEL = (
    "run.json",
    "metrics.jsonl",
    "result.json",
    "checkpoints",
    "model.safetensors",
)

Status = Literal["new", "unfinished", "running", "finished", "diverged"]

_NOT_FINITE = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


class RunDirectory:
    """One run on disk. Whoever changes it holds it; everybody may look."""

    def __init__(self, path: Path, record: Mapping[str, Any]) -> None:
        """Use `create` or `open`."""
        self.path = path
        self._record = dict(record)

    @classmethod
    def create(cls, path: Path, record: Mapping[str, Any]) -> RunDirectory:
        """Begin a run: make its folder, and write its record."""
        content = to_plain({"format": FORMAT, **{key: value for key, value in record.items() if key != "format"}})
        try:
            disk.make_folders(path)
        except OSError as error:
            raise disk.refusal(f"the run directory {path} cannot be made", error) from error
        with holding(path):  # so that of two who begin at once, one is told
            if cls.exists(path):
                hint = "go on with it by the command that began it, or choose another folder with --out"
                raise FileError(f"there is a run in {path} already", hint=hint)
            write_json(path / RUN, content)
        return cls(path, content)

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """A run that was begun."""
        if not path.is_dir():
            raise FileError(f"there is no run directory {path}", hint="`attnlab runs list` shows those there are")
        if not cls.exists(path):
            raise FileError(f"{path} is no run directory: it has no {RUN}", hint="`attnlab train` begins one")
        try:
            record = read_json(path / RUN)
        except FileError as error:
            hint = error.hint or "its other files may be whole; begin the run again in another folder with --out"
            raise FileError(error.message, hint=hint) from error
        if record.get("format") != FORMAT:
            raise _of_another_version(path, record)
        return cls(path, record)

    @staticmethod
    def exists(path: Path) -> bool:
        """Whether a run was begun here."""
        return (path / RUN).is_file()

    @property
    def record(self) -> dict[str, Any]:
        """What run.json says; a copy."""
        return copy.deepcopy(self._record)

    @contextmanager
    def _held(self) -> Iterator[None]:
        with holding(self.path):
            if not self.exists(self.path):
                raise FileError(f"the run in {self.path} was removed", hint="begin it again")
            yield

    def hold(self) -> AbstractContextManager[None]:
        """Be the one who works here, or get a `RunHeldError` that says who is. A killed process holds nothing."""
        return self._held()

    @property
    def holder(self) -> Holder | None:
        """Who works here now, this process included."""
        return find_holder(self.path)

    @property
    def status(self) -> Status:
        """How far the run is; "running" as long as somebody holds it without a result."""
        result = self.result
        if result is not None:
            return "diverged" if result.get("outcome") == "diverged" else "finished"
        if self.holder is not None:
            return "running"
        begun = (self.path / METRICS).exists() or self.checkpoints.steps()
        return "unfinished" if begun else "new"

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """Its checkpoints. What was logged before one lasts when it does."""
        return Checkpoints(self.path / CHECKPOINTS, flush_first=[self.path / METRICS])

    def log(self, entry: Mapping[str, float | int | str | None]) -> None:
        """Add a line to the metrics. A number that is not finite is written as a word, and read as the number."""
        if not _is_step(entry.get("step")):
            raise InputError(f"metrics need the step they belong to: {dict(entry)}", hint='give "step", a whole number')
        line = json.dumps(to_plain(entry), ensure_ascii=False) + "\n"
        path = self.path / METRICS
        try:
            if not _ends_a_line(path):
                self._keep([text for text, _ in _read_lines(path)])
            disk.append(path, line.encode("utf-8", "surrogatepass"))
        except OSError as error:
            raise disk.refusal(f"{path} cannot be written", error) from error

    def metrics(self) -> list[dict[str, Any]]:
        """Every line of the metrics. Lines cut or garbled at the end, as a crash leaves them, are left out."""
        return [entry for _, entry in _read_lines(self.path / METRICS)]

    def rewind(self, step: int) -> None:
        """Forget what was measured after `step`, to measure it again; what a crash garbled at the end goes as well."""
        path = self.path / METRICS
        if not path.exists():
            return
        self._keep([text for text, entry in _read_lines(path) if entry["step"] <= step])

    def _keep(self, lines: list[str]) -> None:
        path = self.path / METRICS
        kept = "".join(line + "\n" for line in lines).encode("utf-8", "surrogatepass")
        try:
            if path.read_bytes() != kept:
                disk.replace_file(path, kept)
        except OSError as error:
            raise disk.refusal(f"{path} cannot be written", error) from error

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write how the run ended, which ends it."""
        write_json(self.path / RESULT, result)

    @property
    def result(self) -> dict[str, Any] | None:
        """How the run ended, if it has."""
        return read_json(self.path / RESULT) if (self.path / RESULT).exists() else None


def _of_another_version(path: Path, record: Mapping[str, Any]) -> FileError:
    versions = record.get("versions")
    writer = versions.get("attnlab") if isinstance(versions, dict) else None
    by = f" by attnlab {writer}" if writer else ""
    return FileError(
        f"{path} was written{by} in format {record.get('format')}; this attnlab ({attnlab.__version__}) reads format "
        f"{FORMAT}",
        hint="use the version that wrote it, or begin another run with --out",
    )


def _is_step(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _ends_a_line(path: Path) -> bool:
    """Whether the next line can be added: not so after half a line."""
    if not path.exists() or path.stat().st_size == 0:
        return True
    with path.open("rb") as file:
        file.seek(-1, 2)
        return file.read() == b"\n"


def _read_lines(path: Path) -> list[tuple[str, dict[str, Any]]]:
    """Each line as text and as data, without what cannot be read at the end; what cannot be read before is an error."""
    try:
        raw = path.read_bytes().split(b"\n") if path.exists() else []
    except OSError as error:
        raise disk.refusal(f"{path} cannot be read", error) from error
    lines = [_read_line(line) for line in raw]
    while lines and lines[-1] is None:
        lines.pop()
    for number, line in enumerate(lines, start=1):
        if line is None:
            raise FileError(f"line {number} of {path} is damaged", hint="remove that line, and nothing else is lost")
    return [line for line in lines if line is not None]


def _read_line(line: bytes) -> tuple[str, dict[str, Any]] | None:
    try:
        text = line.decode("utf-8", "surrogatepass")
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not _is_step(entry.get("step")):
        return None
    return text, {
        key: _NOT_FINITE.get(value, value) if isinstance(value, str) else value for key, value in entry.items()
    }
