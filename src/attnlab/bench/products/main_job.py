"""The main job on a fresh machine: `attnlab compare`, in processes of its own, from start to end.

minutes      from the start of the command to the report
memory       the most that the command and all that it starts hold at once
overhead     the time of all processes ÷ that of the training loops inside them, less 1
again        seconds of the same command once more
page         the report's size
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from attnlab.bench.results.commands import CommandRun, run_command
from attnlab.bench.results.findings import BenchListener, Figures
from attnlab.bench.results.judging import Bar, judge_values
from attnlab.errors import AttnlabError
from attnlab.experiments.reporting.answer import find_answer
from attnlab.experiments.request import Request
from attnlab.processes.machine import describe_machine

MINUTES = Bar("compare-minutes", "the default comparison", "minutes from its start to the report", 10.0)
MEMORY = Bar("compare-memory", "the default comparison", "GiB that all its processes hold at most", 2.0)
OVERHEAD = Bar("compare-overhead", "the default comparison", "time of all processes ÷ training loops", 1.05)
AGAIN = Bar("compare-again", "a finished plan asked again", "seconds", 2.0)
PAGE = Bar("compare-page", "the default comparison", "the report's size in MB", 6.0)
BELOW = Bar("compare-bigram", "the baseline's loss", "nats below the best bigram table", 0.2, at_least=True)

_SAMPLE = 2.0  # seconds between two samples of the memory, which take time from what is timed

SMOKE = Request(
    variants=("tied-kv",),
    corpus="kinship",
    steps=4,
    changes=("num_layers=1", "model_width=16", "num_heads=2", "context_length=8", "batch_size=4", "validation_rows=4"),
    seeds=2,
    pilot=0,
)


@dataclass(frozen=True)
class MainJobBench(Figures):
    """The time, memory and report of the main job."""

    benchmark: ClassVar[str] = "compare"
    title: ClassVar[str] = "The main job"
    lead: ClassVar[str] = "What `attnlab compare` takes from its start to its report, and when it is asked again."

    command: str

    def words(self) -> str:
        return f"`{self.command}`, each figure from this one run."


def bench_compare(listener: BenchListener, *, smoke: bool = False) -> MainJobBench:
    """Run the default comparison in an empty folder, and then once more."""
    request = SMOKE if smoke else Request()
    words = ["attnlab", "compare", *(_options(request) if smoke else [])]
    with tempfile.TemporaryDirectory(prefix="attnlab-compare-") as name:
        folder = Path(name)

        def run() -> CommandRun:
            command = [sys.executable, "-m", *words, "--out", str(folder / "runs")]
            return run_command(command, folder, f"`{' '.join(words)}`", sample_every=_SAMPLE)

        listener.step("the comparison", 0, 2)
        first = run()
        answer = find_answer(request, folder / "runs")
        if answer is None:
            raise AttnlabError("the comparison left no answer behind", hint="run `attnlab compare` to see why")
        listener.step("the same again", 1, 2)
        again = min(run().seconds for _ in range(3))
        page = Path(answer.report).stat().st_size / 1e6
        figures = {
            "minutes": first.seconds / 60,
            "GiB": first.peak_bytes / 2**30,
            "seconds again": again,
            "MB of report": page,
            **_recorded(answer.data),
        }
    values = {
        MINUTES: figures["minutes"],
        MEMORY: figures["GiB"],
        OVERHEAD: figures["overhead"],
        AGAIN: again,
        PAGE: page,
        BELOW: figures.get("nats below bigram"),
    }
    return MainJobBench(describe_machine(), 1, (), judge_values("compare", values), figures, " ".join(words))


def _recorded(data: Mapping[str, Any]) -> dict[str, float]:
    """Return the figures that the comparison itself has recorded."""
    sizes = [data["arms"], *(rung["arms"] for rung in data["rungs"])]
    loops = sum(run["seconds"] for arms in sizes for arm in arms for run in arm["runs"])
    found = {"overhead": data["seconds"] * data["plan"]["processes"] / loops}
    if data["plan"]["bigram_loss"] is not None:
        found["nats below bigram"] = data["plan"]["bigram_loss"] - data["arms"][0]["loss"]
    return found


def _options(request: Request) -> list[str]:
    words = [*request.variants, "--corpus", request.corpus, "--steps", str(request.steps)]
    words += ["--seeds", str(request.seeds), "--pilot", "0"]
    for change in request.changes:
        words += ["--change", change]
    return words
