"""What looking inside a model takes: measuring all heads, removing each of them, and the page that shows them.

measures     seconds for all that is told of every head but its worth, maps included
worth        seconds to remove every part in turn; and how many times as long one whole pass for each part takes
page         its size, and the seconds from its opening until all maps in sight are drawn, in Chromium
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnlab.bench.results.findings import Figures
from attnlab.bench.results.judging import Claim, judge_claim
from attnlab.bench.results.progress import Listener, Noting
from attnlab.bench.results.timing import Ratio, take_turns
from attnlab.corpora import Batch, ByteTokenizer
from attnlab.lens.heads.ablation import ablate
from attnlab.lens.heads.study import study_heads
from attnlab.lens.pages.look import look_at
from attnlab.models import LanguageModel, ModelSpec, build_model
from attnlab.processes.machine import describe_machine, using_threads

MEASURES = Claim("look-measures", "everything about 12 × 12 heads on 512 tokens", "seconds", 60.0)
WORTH = Claim("look-worth", "what each head is worth, 6 layers of width 384, 8 × 128 tokens", "seconds", 60.0)
PREFIXES = Claim("look-prefixes", "a whole pass for each part", "× the time with reused prefixes", 1.5, at_least=True)
SIZE = Claim("look-page-size", "the page of 12 × 12 heads on 512 tokens", "MB", 15.0)
VIEW = Claim("look-page-view", "the same page in Chromium", "seconds to its first view", 2.0)

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_DRAWN = """() => [...document.querySelectorAll('.maps-small canvas')]
  .every(canvas => canvas.width > 1 || canvas.getBoundingClientRect().top > innerHeight)"""


@dataclass(frozen=True)
class LookShapes:
    """The models that are looked at."""

    layers: int = 12
    heads: int = 12
    width: int = 768
    tokens: int = 512
    vocabulary: int = 50257
    worth_layers: int = 6
    worth_heads: int = 6
    worth_width: int = 384
    worth_tokens: int = 128


SMOKE = LookShapes(2, 2, 16, 16, 64, 2, 2, 16, 16)


@dataclass(frozen=True)
class LookBench(Figures):
    """What looking took."""

    benchmark: ClassVar[str] = "look"
    title: ClassVar[str] = "Looking inside"
    lead: ClassVar[str] = "What it takes to measure every head of a model, to remove each, and to show them all."
    words: ClassVar[str] = "Random weights; each figure from this one run."


def bench_look(listener: Listener, *, rounds: int, threads: int, smoke: bool = False) -> LookBench:
    """Look at a model of GPT-2 small's shape, and remove every part of a smaller one."""
    shapes = SMOKE if smoke else LookShapes()
    noting = Noting(listener)
    found: dict[Claim, Ratio] = {}
    with using_threads(threads), tempfile.TemporaryDirectory(prefix="attnlab-look-") as folder:
        noting.step("every measure of every head", 0, 3)
        model = _model(shapes.vocabulary, shapes.layers, shapes.heads, shapes.width, shapes.tokens)
        page = Path(folder) / "look.html"
        found[MEASURES] = Ratio.exact(_timed(lambda: _measure(model, shapes.tokens, page)))
        found[SIZE] = Ratio.exact(page.stat().st_size / 1e6)
        noting.step("what each head is worth", 1, 3)
        small = _model(256, shapes.worth_layers, shapes.worth_heads, shapes.worth_width, shapes.worth_tokens)
        batch = _batch(256, 8, shapes.worth_tokens)
        calls = {"reused": lambda: ablate(small, [batch]), "whole": lambda: ablate_plainly(small, batch)}
        durations = take_turns(calls, rounds)
        found[WORTH] = Ratio.exact(durations.median("reused"))
        found[PREFIXES] = durations.ratio("whole", "reused")
        noting.step("the page in a browser", 2, 3)
        view = _first_view(page, noting)
    bars = [judge_claim(claim, {"look": ratio}) for claim, ratio in found.items()]
    bars.append(judge_claim(VIEW, {} if view is None else {"look": Ratio.exact(view)}))
    figures = {f"{claim.what}: {claim.how}": ratio.median for claim, ratio in found.items()}
    if view is not None:
        figures[f"{VIEW.what}: {VIEW.how}"] = view
    return LookBench(describe_machine(), rounds, tuple(noting.notes), tuple(bars), figures)


def ablate_plainly(model: LanguageModel, batch: Batch) -> dict[str, float]:
    """What `ablate` finds, without its thrift: a whole pass of the model for each part that is removed."""
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
    """What replaces an output, or one head of it, by its mean over all tokens of all texts."""
    if head is None:
        mean = made.mean((0, 1))
        return lambda x: mean.expand_as(x)
    mean = made[:, head].mean((0, 1))

    def replace(x: Tensor) -> Tensor:
        x = x.clone()
        x[:, head] = mean
        return x

    return replace


def _measure(model: LanguageModel, tokens: int, page: Path) -> None:
    """All that `attnlab look` does with one model but for its worth."""
    text = "".join(chr(33 + (17 * place) % 90) for place in range(tokens))
    study_heads(model, _batch(model.spec.vocabulary_size, 2, tokens), delimiters=range(8), worth=False)
    look_at(model, text, tokenizer=ByteTokenizer()).write(page)


def _model(vocabulary: int, layers: int, heads: int, width: int, context: int) -> LanguageModel:
    shape: dict[str, Any] = {"num_layers": layers, "num_heads": heads, "model_width": width, "context_length": context}
    model = build_model(ModelSpec.build("nano", vocabulary_size=max(vocabulary, 256), **shape), seed=0).eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():  # so that maps are as hard to pack as those of a trained model
        for block in model.stack.blocks:
            for parameter in block.parameters():
                parameter.add_(0.05 * torch.randn(parameter.shape, generator=generator))
    return model


def _batch(vocabulary: int, rows: int, tokens: int) -> Batch:
    drawn = torch.randint(0, vocabulary, (rows, tokens + 1), generator=torch.Generator().manual_seed(0))
    return Batch(drawn[:, :-1], drawn[:, 1:])


def _timed(call: Callable[[], None]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _first_view(page: Path, listener: Listener) -> float | None:
    """Seconds until a browser that is already open has drawn what is in sight; None where there is none."""
    browser_path = next((path for name in _BROWSERS if (path := shutil.which(name))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        browser_path = None
    if browser_path is None:
        listener.note("the page is not timed: that takes Chromium and the package playwright")
        return None
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1280, "height": 900})
        shown.goto("about:blank")
        begin = time.perf_counter()
        shown.goto(page.as_uri())
        shown.wait_for_function(_DRAWN)
        seconds = time.perf_counter() - begin
        browser.close()
    return seconds
