"""A run directory: the complete and only record of one run.

runs/<id>/  run.json           the specification, the environment, and its own hash; written once, before step 0
            metrics.jsonl      one line per measurement
            receipts.jsonl     see `receipts`
            checkpoints/       see `checkpoints`
            tokenizer.json     the tokenizer
            model.safetensors  the final weights
            result.json        the outcome; a run without it is unfinished
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

import attnlab
from attnlab.errors import FileError
from attnlab.runs.checkpoints import Checkpoints
from attnlab.runs.metrics import Metrics
from attnlab.runs.receipts import METRICS, RECEIPTS, TOKENIZER, ReceiptWriter
from attnlab.runs.verification import (
    check_record,
    check_result,
    check_tokenizer,
    read_final_weights,
    seal,
    train_again,
)
from attnlab.storage import disk
from attnlab.storage.locks import Holder, RunHeldError, find_holder, holding
from attnlab.storage.records import read_json, to_plain, write_json

__all__ = ["FORMAT", "METRICS", "Holder", "RunDirectory", "RunHeldError", "RunResult", "Status"]

FORMAT = 1
RUN, RESULT = "run.json", "result.json"
CHECKPOINTS, MODEL = "checkpoints", "model.safetensors"

Status = Literal["new", "unfinished", "running", "finished", "diverged"]


@dataclass(frozen=True)
class RunResult:
    """The result of a run so far. `outcome` is "finished", "diverged", or "stopped" when it was asked to end early."""

    path: Path
    outcome: str
    steps: int
    validation_loss: float | None
    seconds: float
    tokens_per_second: float | None = None
    weights_sha256: str | None = None
    message: str | None = None
    signal: int | None = None  # the signal that stopped the run
    already: bool = False  # the run had already ended, so nothing was done

    @classmethod
    def of(cls, directory: RunDirectory, *, already: bool = False) -> RunResult:
        """Return the result of an ended run, as its folder says."""
        result = directory.result or {}
        names = ("outcome", "steps", "validation_loss", "seconds", "tokens_per_second", "weights_sha256", "message")
        known: dict[str, Any] = {name: result.get(name) for name in names}
        return cls(path=directory.path, already=already, **known)

    @classmethod
    def of_ended(cls, directory: RunDirectory) -> RunResult:
        """Return the result of a run that had ended before, after checking what it left."""
        directory.check_end()
        return cls.of(directory, already=True)

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> RunResult:
        """Return a result that came as JSON, as `to_plain` makes it."""
        return cls(**{**data, "path": Path(data["path"])})

    @property
    def why_unfinished(self) -> str | None:
        """Return why the run must be resumed, if it must: its process was asked to end."""
        return "the process was asked to end, and saved its run" if self.outcome == "stopped" else None


class RunDirectory:
    """One run on disk. A process must hold it to change it; any process may read it."""

    def __init__(self, path: Path, record: Mapping[str, Any]) -> None:
        """Use `create` or `open`."""
        self.path = path
        self._record = dict(record)
        self._metrics = Metrics(path / METRICS)

    @classmethod
    def create(cls, path: Path, record: Mapping[str, Any]) -> RunDirectory:
        """Begin a run: make its folder, and write its record."""
        content = to_plain({"format": FORMAT, **{key: value for key, value in record.items() if key != "format"}})
        try:
            disk.make_folders(path)
        except OSError as error:
            raise disk.refusal(f"the run directory {path} cannot be made", error) from error
        with holding(path):  # if two processes begin the run at once, one gets an error
            if cls.exists(path):
                hint = "resume it as it was begun, or choose another folder by `out=FOLDER`"
                raise FileError(f"there is a run in {path} already", hint=hint)
            write_json(path / RUN, seal(content))
        return cls(path, content)

    @classmethod
    def open(cls, path: Path) -> RunDirectory:
        """Return the run that was begun in a folder."""
        if not path.is_dir():
            raise FileError(f"there is no run directory {path}", hint="name the folder of a run")
        if not cls.exists(path):
            raise FileError(f"{path} is no run directory: it has no {RUN}", hint="name the folder of a run")
        try:
            record = read_json(path / RUN)
        except FileError as error:
            hint = error.hint or "its other files may be whole; begin the run again in another folder by `out=FOLDER`"
            raise FileError(error.message, hint=hint) from error
        if record.get("format") != FORMAT:
            raise _of_another_version(path, record)
        return cls(path, check_record(path / RUN, record))

    @staticmethod
    def exists(path: Path) -> bool:
        """Return whether a run was begun here."""
        return (path / RUN).is_file()

    @property
    def record(self) -> dict[str, Any]:
        """Return a copy of run.json."""
        return copy.deepcopy(self._record)

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Hold the directory, or raise a `RunHeldError` that names its holder. A killed process holds nothing."""
        with holding(self.path):
            if not self.exists(self.path):
                raise FileError(f"the run in {self.path} was removed", hint="begin it again")
            yield

    @property
    def holder(self) -> Holder | None:
        """Return the process that works here now, which may be this one."""
        return find_holder(self.path)

    @property
    def status(self) -> Status:
        """Return how far the run is; it is "running" as long as a process holds it without a result."""
        result = self.result
        if result is not None:
            return "diverged" if result.get("outcome") == "diverged" else "finished"
        if self.holder is not None:
            return "running"
        begun = (self.path / METRICS).exists() or self.checkpoints.steps()
        return "unfinished" if begun else "new"

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """Return the checkpoints. Metrics and receipts are flushed to disk before each of them."""
        return Checkpoints(self.path / CHECKPOINTS, flush_first=[self.path / METRICS, self.path / RECEIPTS])

    def receipts(self, steps: int) -> ReceiptWriter:
        """Return the writer of the receipts of this run, which has `steps` steps."""
        return ReceiptWriter(self.path, self._record, steps)

    def log(self, entry: Mapping[str, float | int | str | None]) -> None:
        """Add a line to the metrics; it names its step."""
        self._metrics.append(entry)

    def metrics(self) -> list[dict[str, Any]]:
        """Return every line of the metrics. Lines cut or garbled at the end, as a crash leaves them, are left out."""
        return self._metrics.read()

    def rewind(self, step: int) -> None:
        """Remove what was measured after `step`, to measure it again."""
        self._metrics.rewind(step)

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write result.json, which ends the run."""
        write_json(self.path / RESULT, result)

    @property
    def result(self) -> dict[str, Any] | None:
        """Return result.json, if the run has ended."""
        if not (self.path / RESULT).exists():
            return None
        result = read_json(self.path / RESULT)
        check_result(self.path / RESULT, result)
        return result

    def final_weights(self, result: Mapping[str, Any]) -> dict[str, Tensor]:
        """Return the weights that the run finished with, checked against the hash in its result."""
        return read_final_weights(self.path / MODEL, result.get("weights_sha256"))

    def tokenizer(self) -> str:
        """Return the tokenizer as text, checked against the hash in run.json."""
        path = self.path / TOKENIZER
        text = read_json(path).get("tokenizer")
        if not isinstance(text, str):
            raise FileError(f"{path} holds no tokenizer", hint=train_again(path))
        check_tokenizer(path, text, self._tokenizer_hash)
        return text

    def write_tokenizer(self, text: str) -> None:
        """Write the tokenizer, also over a damaged one."""
        write_json(self.path / TOKENIZER, {"tokenizer": text})

    def check_end(self) -> None:
        """Refuse a finished run whose weights or tokenizer are missing or were changed."""
        result = self.result or {}
        if result.get("outcome") == "finished":
            self.final_weights(result)
            if self._tokenizer_hash is not None:
                self.tokenizer()

    @property
    def _tokenizer_hash(self) -> str | None:
        corpus = self._record.get("corpus")
        return corpus.get("tokenizer_sha256") if isinstance(corpus, dict) else None


def _of_another_version(path: Path, record: Mapping[str, Any]) -> FileError:
    versions = record.get("versions")
    writer = versions.get("attnlab") if isinstance(versions, dict) else None
    by = f" by attnlab {writer}" if writer else ""
    return FileError(
        f"{path} was written{by} in format {record.get('format')}; this attnlab ({attnlab.__version__}) reads format "
        f"{FORMAT}",
        hint="use the version that wrote it, or begin another run by `out=FOLDER`",
    )
