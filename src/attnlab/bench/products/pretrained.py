"""A pretrained model compared with Transformers: logits, greedy text, generation speed; and the cost of `attnlab look`.

logits       the largest difference ÷ the standard deviation of Transformers' logits
text         how many greedy tokens are equal before the first difference
generation   tokens per second ÷ those of Transformers with its KV cache, one text
look         seconds and memory of `attnlab look` without the importance of heads, and the size of its page

Transformers loads the weights from a folder that attnlab writes.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from attnlab.bench.findings import Bar, BenchListener, Figures, NoteKeeper
from attnlab.bench.processes import run_command
from attnlab.bench.timing import Ratio, take_turns
from attnlab.errors import import_extra
from attnlab.formats import plural
from attnlab.lens.subjects import Subject, find_texts, open_subject
from attnlab.models import LanguageModel, Sampling, generate, save_gpt2, save_llama
from attnlab.processes.machine import describe_machine, using_threads

LOGITS = Bar("pretrained-logits", "logits of {tokens} tokens", "largest difference ÷ their standard deviation", 2e-3)
TEXT = Bar("pretrained-text", "a greedy text", "share of its tokens before the first that differs", 1.0, at_least=True)
SPEED = Bar("pretrained-generate", "generating one text", "tokens per second ÷ Transformers", 1.5, at_least=True)
SECONDS = Bar("pretrained-look", "`attnlab look` without the importance of heads", "seconds", 180.0)
MEMORY = Bar("pretrained-look-memory", "the same", "GiB held at most", 4.0)
PAGE = Bar("pretrained-look-page", "its page", "MB", 20.0)

_SAMPLE = 0.5  # seconds between two memory samples
_PROMPT = 16  # tokens


@dataclass(frozen=True)
class PretrainedPlan:
    """The amount of measurements."""

    tokens: int = 512  # tokens whose logits are compared
    written: int = 100
    looked: int = 256
    rounds: int = 5

    def smoke(self) -> PretrainedPlan:
        return PretrainedPlan(tokens=16, written=4, looked=8, rounds=1)


@dataclass(frozen=True)
class PretrainedBench(Figures):
    """The results of a pretrained model compared with Transformers."""

    benchmark: ClassVar[str] = "pretrained"
    title: ClassVar[str] = "A pretrained model"
    lead: ClassVar[str] = "A model that was trained elsewhere, in attnlab and in Transformers with the same weights."

    model: str
    plan: PretrainedPlan

    def words(self) -> str:
        plan = self.plan
        return (
            f"{self.model}: logits of {plural(plan.tokens, 'token')}, a greedy text of {plan.written}, generation in "
            f"{plural(plan.rounds, 'round')}, `attnlab look` on {plan.looked} tokens; float32."
        )


def bench_pretrained(place: str, plan: PretrainedPlan, threads: int, listener: BenchListener) -> PretrainedBench:
    """Measure a pretrained model by its place."""
    transformers = import_extra("transformers", "hf")
    keeper = NoteKeeper(listener)
    found: dict[Bar, Ratio | float] = {}
    with using_threads(threads), tempfile.TemporaryDirectory(prefix="attnlab-pretrained-") as name:
        folder = Path(name)
        keeper.step("opening the model", 0, 4)
        subject = open_subject(place)
        model, tokens = subject.model, _tokens(subject, max(plan.tokens, plan.looked))
        (save_llama if model.spec.gated else save_gpt2)(model, folder / "model")
        theirs = transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32).eval()
        keeper.step("logits", 1, 4)
        found[LOGITS] = _difference(model, theirs, tokens[:, : plan.tokens])
        keeper.step("generation", 2, 4)
        found[TEXT], found[SPEED] = _race(model, theirs, tokens[:, :_PROMPT], plan)
        keeper.step("`attnlab look`", 3, 4)
        page, text = folder / "look.html", subject.known_tokenizer().decode(tokens[0, : plan.looked].tolist())
        where = str(Path(place).absolute()) if Path(place).exists() else place
        command = [sys.executable, "-m", "attnlab", "look", where, text, "--no-importance", "--out", str(page)]
        looked = run_command(command, folder, "`attnlab look`", sample_every=_SAMPLE)
        found |= {SECONDS: looked.seconds, MEMORY: looked.peak_bytes / 2**30, PAGE: page.stat().st_size / 1e6}
    figures = {
        f"{bar.what}: {bar.how}".format(tokens=plan.tokens): value.median if isinstance(value, Ratio) else value
        for bar, value in found.items()
    }
    bars = tuple(bar.judge({Path(place).name: value}, {"tokens": plan.tokens}) for bar, value in found.items())
    return PretrainedBench(describe_machine(), plan.rounds, tuple(keeper.notes), bars, figures, place, plan)


def _tokens(subject: Subject, count: int) -> Tensor:
    """Return a text of so many tokens, or as many as the context has, (1, tokens)."""
    context = subject.model.spec.context_length
    rows = max(2, -(-count // min(context, 128)))
    inputs = find_texts(subject, rows=rows).batch.inputs
    return inputs.flatten()[None, : min(count, context)]


@torch.no_grad()
def _difference(model: LanguageModel, theirs: Any, tokens: Tensor) -> float:
    wanted = theirs(tokens).logits
    return float((model(tokens) - wanted).abs().max() / wanted.std())


def _race(model: LanguageModel, theirs: Any, prompt: Tensor, plan: PretrainedPlan) -> tuple[float, Ratio]:
    """Return the share of equal greedy tokens, and how many times as fast attnlab generates."""
    options: dict[str, Any] = {"max_new_tokens": plan.written, "do_sample": False, "eos_token_id": None}
    options |= {"attention_mask": torch.ones_like(prompt), "pad_token_id": 0}
    written: dict[str, list[int]] = {}

    def ours() -> None:
        written["attnlab"] = generate(model, prompt.tolist(), plan.written, Sampling(temperature=0))[0]

    def others() -> None:
        with torch.no_grad():
            written["Transformers"] = theirs.generate(prompt, **options)[0, prompt.shape[1] :].tolist()

    durations = take_turns({"attnlab": ours, "Transformers": others}, plan.rounds)
    pairs = zip(written["attnlab"], written["Transformers"], strict=True)
    equal = next((number for number, (a, b) in enumerate(pairs) if a != b), plan.written)
    return equal / plan.written, durations.ratio("Transformers", "attnlab")
