"""The time that `attnlab compare` and `attnlab look` take.

compare, the main job on a fresh machine, in separate processes, from start to end:

minutes      from the start of the command to the report
memory       the peak of the command and all processes that it starts
overhead     the time of all processes ÷ that of the training loops inside them, minus 1
again        seconds of the same command when it is repeated
page         the report's size

look: measuring all heads, ablating each of them, and the page that shows them:

measures     seconds for all measures of every head except its importance, attention matrices included
importance   seconds to ablate every part in turn, and the speed-up over one full forward pass for each part
page         its size, and the seconds from opening it until all visible attention matrices are drawn, in Chromium
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnlab.bench.findings import Bar, BenchListener, Figures, NoteKeeper, judge_values
from attnlab.bench.processes import CommandRun, open_chromium, open_page, run_command
from attnlab.bench.races.race import Shape
from attnlab.bench.timing import Ratio, seconds_of, take_turns
from attnlab.corpora import Batch, ByteTokenizer
from attnlab.errors import AttnlabError
from attnlab.experiments.reporting.answer import find_answer
from attnlab.experiments.request import Request
from attnlab.lens.heads.ablation import ablate
from attnlab.lens.heads.study import study_heads
from attnlab.lens.pages.look import look_at
from attnlab.models import LanguageModel, build_model
from attnlab.processes.machine import describe_machine, using_threads

MINUTES = Bar("compare-minutes", "the default comparison", "minutes from its start to the report", 10.0)
MEMORY = Bar("compare-memory", "the default comparison", "GiB that all its processes hold at most", 2.0)
OVERHEAD = Bar("compare-overhead", "the default comparison", "time of all processes ÷ training loops", 1.05)
AGAIN = Bar("compare-again", "a finished plan asked again", "seconds", 2.0)
PAGE = Bar("compare-page", "the default comparison", "the report's size in MB", 6.0)
BELOW = Bar("compare-bigram", "the baseline's loss", "nats below the best bigram table", 0.2, at_least=True)

_SAMPLE = 2.0  # seconds between two memory samples, which slow down the measured command

SMOKE_REQUEST = Request(
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
    request = SMOKE_REQUEST if smoke else Request()
    words = ["attnlab", "compare", *(options_of(request) if smoke else [])]
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


def options_of(request: Request) -> list[str]:
    """Return the arguments of `attnlab compare` that ask for this."""
    words = [*request.variants, "--corpus", request.corpus, "--steps", str(request.steps)]
    words += ["--seeds", str(request.seeds), "--pilot", "0"]
    for change in request.changes:
        words += ["--change", change]
    return words


MEASURES = Bar("look-measures", "everything about 12 × 12 heads on 512 tokens", "seconds", 60.0)
IMPORTANCE = Bar("look-importance", "importance of heads, 6 layers of width 384, 8 × 128 tokens", "seconds", 60.0)
PREFIXES = Bar("look-prefixes", "a whole pass for each part", "× the time with reused prefixes", 1.5, at_least=True)
SIZE = Bar("look-page-size", "the page of 12 × 12 heads on 512 tokens", "MB", 15.0)
VIEW = Bar("look-page-view", "the same page in Chromium", "seconds to its first view", 2.0)

_DRAWN = """() => [...document.querySelectorAll('.maps-small canvas')]
  .every(canvas => canvas.width > 1 || canvas.getBoundingClientRect().top > innerHeight)"""


_LOOKED = Shape("GPT-2 small", 12, 768, 12, 512, 2, 50257)
_ABLATED = Shape("smaller", 6, 384, 6, 128, 8, 256)
_SMOKE_SHAPE = Shape("smoke", 2, 16, 2, 16, 2, 256)


@dataclass(frozen=True)
class LookBench(Figures):
    """The times of `attnlab look`, and the size of its page."""

    benchmark: ClassVar[str] = "look"
    title: ClassVar[str] = "Looking inside"
    lead: ClassVar[str] = "What it takes to measure every head of a model, to remove each, and to show them all."

    def words(self) -> str:
        return "Random weights; each figure from this one run."


def bench_look(listener: BenchListener, *, rounds: int, threads: int, smoke: bool = False) -> LookBench:
    """Look at a model of GPT-2 small's shape, and ablate every part of a smaller one."""
    looked, ablated = (_SMOKE_SHAPE, _SMOKE_SHAPE) if smoke else (_LOOKED, _ABLATED)
    keeper = NoteKeeper(listener)
    found: dict[Bar, Ratio | float | None] = {}
    with using_threads(threads), tempfile.TemporaryDirectory(prefix="attnlab-look-") as folder:
        keeper.step("every measure of every head", 0, 3)
        model, batch = _model(looked), _batch(looked)
        page = Path(folder) / "look.html"
        found[MEASURES] = seconds_of(lambda: _measure(model, batch, page))
        found[SIZE] = page.stat().st_size / 1e6
        keeper.step("the importance of each head", 1, 3)
        small, rows = _model(ablated), _batch(ablated)
        calls = {"reused": lambda: ablate(small, [rows]), "whole": lambda: ablate_plainly(small, rows)}
        durations = take_turns(calls, rounds)
        found[IMPORTANCE] = durations.median("reused")
        found[PREFIXES] = durations.ratio("whole", "reused")
        keeper.step("the page in a browser", 2, 3)
        found[VIEW] = _first_view(page, keeper)
    figures = {
        f"{bar.what}: {bar.how}": value.median if isinstance(value, Ratio) else value
        for bar, value in found.items()
        if value is not None
    }
    return LookBench(describe_machine(), rounds, tuple(keeper.notes), judge_values("look", found), figures)


def ablate_plainly(model: LanguageModel, batch: Batch) -> dict[str, float]:
    """Return what `ablate` finds, by a whole pass of the model for each part that is removed."""
    names = [
        f"blocks.{layer}.{point}"
        for layer in range(model.spec.num_layers)
        for point in ("attention.heads", "attention.output", "mlp.output")
    ]
    found: dict[str, float] = {}
    with torch.no_grad():
        with model.tap(*names) as seen:
            whole = model.loss(batch.inputs, batch.targets).item()
        for name in names:
            heads = range(seen[name].shape[1]) if name.endswith("heads") else [None]
            for head in heads:
                with model.tap({name: _removing(seen[name], head)}):
                    loss = model.loss(batch.inputs, batch.targets).item() - whole
                part = name.removesuffix(".output")
                found[part if head is None else f"{part}.{head}"] = loss
    return found


def _removing(made: Tensor, head: int | None) -> Callable[[Tensor], Tensor]:
    """Return a function that replaces an output, or one head of it, by its mean over all tokens of all texts."""
    if head is None:
        mean = made.mean((0, 1))
        return lambda x: mean.expand_as(x)
    mean = made[:, head].mean((0, 1))

    def replace(x: Tensor) -> Tensor:
        x = x.clone()
        x[:, head] = mean
        return x

    return replace


def _measure(model: LanguageModel, batch: Batch, page: Path) -> None:
    """Do all that `attnlab look` does with one model but for the importance of heads."""
    text = "".join(chr(33 + (17 * place) % 90) for place in range(model.spec.context_length))
    study_heads(model, batch, delimiters=range(8), importance=False)
    look_at(model, text, tokenizer=ByteTokenizer()).write(page)


def _model(shape: Shape) -> LanguageModel:
    model = build_model(shape.model(), seed=0).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():  # so that the matrices compress as poorly as those of a trained model
        for block in model.stack.blocks:
            for parameter in block.parameters():
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return model


def _batch(shape: Shape) -> Batch:
    size = shape.batch_size, shape.context_length + 1
    drawn = torch.randint(0, shape.vocabulary_size, size, generator=torch.Generator().manual_seed(0))
    return Batch(drawn[:, :-1], drawn[:, 1:])


def _first_view(page: Path, listener: BenchListener) -> float | None:
    """Return the seconds until an open browser has drawn the maps in sight; None where there is no browser."""
    try:
        with open_chromium() as browser:
            shown = open_page(browser)
            shown.goto("about:blank")
            begin = time.perf_counter()
            shown.goto(page.as_uri())
            shown.wait_for_function(_DRAWN)
            return time.perf_counter() - begin
    except AttnlabError as error:
        listener.note(f"the page is not timed: {error.message}")
        return None
