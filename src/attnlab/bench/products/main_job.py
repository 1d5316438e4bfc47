"""The main job as somebody meets it on a fresh machine: `attnlab compare`, in processes of its own, from start to end.

minutes      from the start of the command to the report
memory       the most that the command and all that it starts hold at once
overhead     the time of all processes ÷ that of the training loops inside them, less 1
again        seconds of the same command once more
page         the report's size
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from attnlab.bench.results.findings import Findings, FoundTable
from attnlab.bench.results.judging import Claim, judge_claim
from attnlab.bench.results.progress import Listener
from attnlab.bench.results.resident import TreePeak
from attnlab.bench.results.timing import Ratio
from attnlab.errors import AttnlabError
from attnlab.experiments.reporting.answer import find_answer
from attnlab.experiments.request import Request
from attnlab.processes.machine import describe_machine

MINUTES = Claim("compare-minutes", "the default comparison", "minutes from its start to the report", 10.0)
MEMORY = Claim("compare-memory", "the default comparison", "GiB that all its processes hold at most", 2.0)
OVERHEAD = Claim("compare-overhead", "the default comparison", "time of all processes ÷ training loops", 1.05)
AGAIN = Claim("compare-again", "a finished plan asked again", "seconds", 2.0)
PAGE = Claim("compare-page", "the default comparison", "the report's size in MB", 6.0)
BELOW = Claim("compare-bigram", "the baseline's loss", "nats below the best bigram table", 0.2, at_least=True)

_LOOK = 2.0  # seconds between two looks at the memory, which take time from what is timed

SMOKE = Request(
    variants=("tied-kv",),
    corpus="kinship",
    steps=4,
    changes=("num_layers=1", "model_width=16", "num_heads=2", "context_length=8", "batch_size=4", "validation_rows=4"),
    seeds=2,
    pilot=0,
)


@dataclass(frozen=True)
class MainJobBench(Findings):
    """What the main job took."""

    benchmark: ClassVar[str] = "compare"
    title: ClassVar[str] = "The main job"
    lead: ClassVar[str] = "What `attnlab compare` takes from its start to its report, and when it is asked again."

    command: str
    figures: dict[str, float]

    def tables(self) -> list[FoundTable]:
        rows = [(name, f"{value:.3g}") for name, value in self.figures.items()]
        words = f"`{self.command}`, each figure from this one run."
        return [FoundTable(self.title, words, ("", "figure"), rows)]


def bench_compare(listener: Listener, *, smoke: bool = False) -> MainJobBench:
    """Ask for the default comparison in an empty folder, and then once more."""
    request = SMOKE if smoke else Request()
    words = ["attnlab", "compare", *(_options(request) if smoke else [])]
    with tempfile.TemporaryDirectory(prefix="attnlab-compare-") as folder:
        out = Path(folder) / "runs"
        listener.step("the comparison", 0, 2)
        seconds, peak = _timed([*words, "--out", str(out)], folder)
        answer = find_answer(request, out)
        if answer is None:
            raise AttnlabError("the comparison left no answer behind", hint="run `attnlab compare` to see why")
        listener.step("the same again", 1, 2)
        again = min(_timed([*words, "--out", str(out)], folder)[0] for _ in range(3))
        page = Path(answer.report).stat().st_size / 1e6
        figures = {"minutes": seconds / 60, "GiB": peak / 2**30, "seconds again": again, "MB of report": page}
        figures |= _inside(answer.data)
    claims = {
        MINUTES: figures["minutes"],
        MEMORY: figures["GiB"],
        OVERHEAD: figures["overhead"],
        AGAIN: again,
        PAGE: page,
        BELOW: figures.get("nats below bigram"),
    }
    bars = tuple(
        judge_claim(claim, {} if value is None else {"compare": Ratio.exact(value)}) for claim, value in claims.items()
    )
    return MainJobBench(describe_machine(), 1, (), bars, " ".join(words), figures)


def _inside(data: dict[str, Any]) -> dict[str, float]:
    """What the comparison itself has on record."""
    sizes = [data["arms"], *(rung["arms"] for rung in data["rungs"])]
    loops = sum(run["seconds"] for arms in sizes for arm in arms for run in arm["runs"])
    found = {"overhead": data["seconds"] * data["plan"]["processes"] / loops}
    if data["plan"]["bigram_loss"] is not None:
        found["nats below bigram"] = data["plan"]["bigram_loss"] - data["arms"][0]["loss"]
    return found


def _timed(words: Sequence[str], folder: str) -> tuple[float, int]:
    """Seconds of a command and the peak of its memory."""
    begin = time.perf_counter()
    with (Path(folder) / "said").open("wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", *words], stdout=subprocess.DEVNULL, stderr=said, env={**os.environ}
        )
        with TreePeak(process.pid, every=_LOOK) as peak:
            code = process.wait()
    if code:
        last = (Path(folder) / "said").read_text(encoding="utf-8", errors="replace").splitlines()[-5:]
        raise AttnlabError(f"`{' '.join(words)}` ended with code {code}:\n" + "\n".join(last))
    return time.perf_counter() - begin, peak.bytes


def _options(request: Request) -> list[str]:
    words = [*request.variants, "--corpus", request.corpus, "--steps", str(request.steps)]
    words += ["--seeds", str(request.seeds), "--pilot", "0"]
    for change in request.changes:
        words += ["--change", change]
    return words
