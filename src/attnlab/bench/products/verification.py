"""The cost of making results verifiable, measured on the default comparison.

bundle     the size of the bundle
verify     seconds of `attnlab verify` on it, with five segments
training   the time of a run with its receipts ÷ that without them: all links of one run are computed again and timed
loading    the time to load a run ÷ that without checking any hash
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from attnlab.bench.findings import Bar, BenchListener, Figures, judge_values
from attnlab.bench.processes import CommandRun, run_command
from attnlab.bench.products.commands import SMOKE_REQUEST, options_of
from attnlab.bench.timing import Ratio, seconds_of, take_turns
from attnlab.errors import FileError
from attnlab.processes.machine import describe_machine
from attnlab.runs import RunDirectory
from attnlab.runs.directory import MODEL, RESULT, RUN
from attnlab.runs.receipts import RECEIPTS, TOKENIZER, ReceiptWriter, kept_steps, link_steps, read_state
from attnlab.storage.plans import PLAN
from attnlab.storage.records import read_json
from attnlab.storage.tensors import read_tensors
from attnlab.training import load_run
from attnlab.training.loading import load_directory

BUNDLE = Bar("verify-bundle", "the bundle of the default comparison", "MB", 40.0)
VERIFY = Bar("verify-seconds", "`attnlab verify` on it, five segments", "seconds", 60.0)
TRAINING = Bar("verify-training", "a training run", "time with receipts ÷ without", 1.01)
LOADING = Bar("verify-loading", "loading a run", "time with its check ÷ without", 1.05)

_SEGMENTS = 5


@dataclass(frozen=True)
class VerifyBench(Figures):
    """The size of a bundle, the time to verify it, and the cost of receipts."""

    benchmark: ClassVar[str] = "verify"
    title: ClassVar[str] = "Verifying a result"
    lead: ClassVar[str] = "What it takes to verify a comparison, and what the receipts cost while it is trained."

    command: str

    def words(self) -> str:
        return f"`{self.command}`; the costs of receipts from its largest run."


def bench_verify(
    listener: BenchListener, *, rounds: int, comparison: Path | None = None, smoke: bool = False
) -> VerifyBench:
    """Bundle and verify the default comparison, trained in an empty folder, or one that was trained before."""
    with tempfile.TemporaryDirectory(prefix="attnlab-verify-") as name:
        folder = Path(name)
        words = _words(folder, comparison, smoke)
        listener.step("the comparison and its bundle", 0, 4)
        _run(words, folder)
        listener.step("its verification", 1, 4)
        seconds = _run(["verify", "bundle.zip", "--segments", str(_SEGMENTS)], folder).seconds
        run = _largest(comparison if comparison is not None else folder)
        listener.step("receipts", 2, 4)
        trained = float((RunDirectory.open(run).result or {})["seconds"])
        receipts = _seconds_of_receipts(run, folder / "receipts")
        listener.step("loading", 3, 4)
        megabytes = (folder / "bundle.zip").stat().st_size / 1e6
        values: dict[Bar, Ratio | float | None] = {
            BUNDLE: megabytes,
            VERIFY: seconds,
            TRAINING: trained / (trained - receipts),
            LOADING: _loading(run, rounds),
        }
    figures = {
        "MB": megabytes,
        "seconds to verify": seconds,
        "seconds of a run": trained,
        "seconds of its receipts": receipts,
    }
    command = " ".join(["attnlab", *words])
    return VerifyBench(describe_machine(), rounds, (), judge_values("verify", values), figures, command)


def _words(folder: Path, comparison: Path | None, smoke: bool) -> list[str]:
    """Return the command that makes the bundle, of a comparison that is there or of a new one."""
    where = ["--out", str(folder / "runs"), *(options_of(SMOKE_REQUEST) if smoke else [])]
    if comparison is not None:
        if not (comparison / PLAN).is_file():
            raise FileError(f"{comparison} is no comparison", hint="name the folder of a finished comparison")
        where = [str(comparison.resolve())]
    return ["compare", *where, "--bundle", "bundle.zip", "--quiet"]


def _run(words: Sequence[str], folder: Path) -> CommandRun:
    return run_command([sys.executable, "-m", "attnlab", *words], folder, f"`attnlab {' '.join(words)}`")


def _largest(folder: Path) -> Path:
    """Return the run below a folder whose final weights are the largest."""
    return max(folder.rglob(MODEL), key=lambda path: ("checkpoints" not in path.parts, path.stat().st_size)).parent


def _seconds_of_receipts(run: Path, folder: Path) -> float:
    """Return how long all links of a finished run take, with the states that are kept."""
    directory = RunDirectory.open(run)
    result = directory.result or {}
    steps = int(result["steps"])
    state = read_state(run, kept_steps(steps)[-1])
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("checkpoints", RECEIPTS))
    writer = ReceiptWriter(folder, directory.record, steps)

    def write() -> None:
        writer.begin(state)
        for step in link_steps(steps):
            writer.add(step, state)
        writer.finish(steps, result)

    return seconds_of(write)


def _loading(run: Path, rounds: int) -> Ratio:
    """Return the time to load a run, as times that without comparing anything with its hash."""
    ways = {
        "checked": lambda: load_run(run),
        "plain": lambda: load_directory(_Unchecked(run, read_json(run / RUN))),
    }
    return take_turns(ways, rounds).ratio("checked", "plain")


class _Unchecked(RunDirectory):
    """A run whose files are loaded without checking their hashes."""

    @property
    def result(self) -> dict[str, Any]:
        return read_json(self.path / RESULT)

    def final_weights(self, result: Mapping[str, Any]) -> dict[str, Tensor]:  # noqa: ARG002
        return read_tensors(self.path / MODEL)

    def tokenizer(self) -> str:
        return str(read_json(self.path / TOKENIZER)["tokenizer"])
