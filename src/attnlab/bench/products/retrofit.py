"""The cost of retrofitting a pretrained model, and the gain.

costs         seconds and memory of `attnlab retrofit` to K = V and to a window of 256, layer by layer, without healing
tokens        tokens of held-out text on which each of these costs is measured
nothing       whether a retrofit to softmax keeps weights and logits bit for bit
generation    tokens per second with K = V ÷ those of the original, one text

`attnlab bench pretrained` measures logits and generation against Transformers, and `attnlab look` at the model.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from attnlab.bench.findings import Bar, BenchListener, Figures, NoteKeeper
from attnlab.bench.processes import run_command
from attnlab.bench.timing import Ratio, take_turns
from attnlab.lens.subjects import Subject, open_subject
from attnlab.models import LanguageModel, Sampling, generate
from attnlab.processes.machine import describe_machine, using_threads
from attnlab.retrofit import request_of, retrofit
from attnlab.retrofit.folder import ANSWER
from attnlab.storage.records import read_json
from attnlab.training import load_run

SECONDS = Bar("retrofit-costs", "the cost of K = V and a window of {window}, layer by layer", "seconds", 1800.0)
MEMORY = Bar("retrofit-memory", "the same", "GiB held at most", None)
TOKENS = Bar("retrofit-tokens", "each of these costs", "tokens of held-out text", 20_000, at_least=True)
NOTHING = Bar("retrofit-nothing", "a retrofit to softmax", "share of equal tensors and logits", 1.0, at_least=True)
SPEED = Bar("retrofit-speed", "generating one text with K = V", "tokens per second ÷ the original", 0.95, at_least=True)

_SAMPLE = 0.5  # seconds between two memory samples
_WINDOW = 256  # tokens, or half a text if that is shorter
_TIED = "tied-kv"


@dataclass(frozen=True)
class RetrofitPlan:
    """The amount of measurements."""

    tokens: int = 20_480  # of held-out text, at least
    fitting_texts: int = 16
    prompt: int = 256
    written: int = 100
    rounds: int = 5

    def smoke(self) -> RetrofitPlan:
        return RetrofitPlan(tokens=64, fitting_texts=2, prompt=8, written=4, rounds=1)


@dataclass(frozen=True)
class RetrofitBench(Figures):
    """The time, memory and gain of a retrofit of a pretrained model."""

    benchmark: ClassVar[str] = "retrofit"
    title: ClassVar[str] = "Retrofitting a pretrained model"
    lead: ClassVar[str] = "Another attention for a model that was trained elsewhere: what it takes to measure its cost."

    model: str
    command: str
    plan: RetrofitPlan

    def words(self) -> str:
        plan = self.plan
        return (
            f"`{self.command}`; {plan.written} tokens generated behind {plan.prompt}, rounds: {plan.rounds}; float32."
        )


def bench_retrofit(place: str, plan: RetrofitPlan, threads: int, listener: BenchListener) -> RetrofitBench:
    """Retrofit the model at a place without healing it, and measure what that takes."""
    keeper = NoteKeeper(listener)
    found: dict[Bar, Ratio | float] = {}
    with using_threads(threads), tempfile.TemporaryDirectory(prefix="attnlab-retrofit-") as name:
        folder = Path(name)
        keeper.step("opening the model", 0, 4)
        subject = open_subject(place)
        length = request_of(variants=(_TIED,)).text_length(subject.model.spec)
        window, texts = min(_WINDOW, length // 2), max(2, -(-plan.tokens // length))
        keeper.step("a retrofit to softmax", 1, 4)
        found[NOTHING] = _kept(subject, folder)
        words = ["retrofit", "--to", f"{_TIED},window:{window}", "--texts", str(texts)]
        words += ["--fitting-texts", str(plan.fitting_texts), "--threads", str(threads), "--workers", "1"]
        keeper.step("`attnlab retrofit`", 2, 4)
        where = str(Path(place).absolute()) if Path(place).exists() else place
        command = [sys.executable, "-m", "attnlab", *words, "--out", str(folder / "costs"), where]
        run = run_command(command, folder, "`attnlab retrofit`", sample_every=_SAMPLE)
        answer = read_json(next((folder / "costs").glob(f"*/{ANSWER}")))
        found |= {SECONDS: run.seconds, MEMORY: run.peak_bytes / 2**30}
        found[TOKENS] = answer["texts"] * answer["tokens_per_text"]
        keeper.step("generation", 3, 4)
        found[SPEED] = _race(subject.model, load_run(Path(answer["variants"][0]["converted"])).model, plan)
    lengths = {"window": window}
    figures = {
        f"{bar.what}: {bar.how}".format_map(lengths): value.median if isinstance(value, Ratio) else value
        for bar, value in found.items()
    }
    bars = tuple(bar.judge({Path(place).name: value}, lengths) for bar, value in found.items())
    asked = " ".join(["attnlab", *words, Path(place).name])
    return RetrofitBench(describe_machine(), plan.rounds, tuple(keeper.notes), bars, figures, place, asked, plan)


@torch.no_grad()
def _kept(subject: Subject, folder: Path) -> float:
    """Return the share of weights, and of the logits of one text, that a retrofit to softmax keeps bit by bit."""
    request = request_of(variants=("softmax",), texts=2, fitting_texts=2)
    made = retrofit(subject, request, out=folder / "nothing", threads=torch.get_num_threads(), workers=1)
    ours, theirs = load_run(made.variants[0].converted).model, subject.model
    tokens = torch.arange(made.length)[None] % theirs.spec.vocabulary_size
    pairs = [(ours(tokens), theirs(tokens))]
    known = dict(theirs.named_parameters())
    pairs += [(tensor, known[name]) for name, tensor in ours.named_parameters()]
    return sum(torch.equal(*pair) for pair in pairs) / len(pairs)


def _race(original: LanguageModel, tied: LanguageModel, plan: RetrofitPlan) -> Ratio:
    """Return how many times as fast K = V generates."""
    prompt = [number % original.spec.vocabulary_size for number in range(plan.prompt)]
    calls = {
        name: lambda model=model: generate(model, [prompt], plan.written, Sampling(temperature=0))
        for name, model in (("original", original), (_TIED, tied))
    }
    return take_turns(calls, plan.rounds).ratio("original", _TIED)
