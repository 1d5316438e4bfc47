"""The checks: none fails on the catalogue, and each planted mistake is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from attnlab.attention import (
    HeadOutput,
    LinearAttention,
    Mask,
    Matched,
    Normaliser,
    Parameter,
    Part,
    Projection,
    ScaledDot,
    Sigmoid,
    Softmax,
    Variant,
    Visibility,
    variants,
)
from attnlab.attention.names import catalogue
from attnlab.attention.parts.masks import Block
from attnlab.cli import main
from attnlab.conformance import check_variant, require_sound
from attnlab.conformance.suite import CHECKS
from attnlab.errors import UnsupportedError

QUICK = {check.name for check in CHECKS if check.quick}


@pytest.mark.parametrize("one", variants(), ids=lambda one: one.name)
def test_no_variant_of_the_catalogue_fails(one: Variant) -> None:
    report = check_variant(one)
    assert [(finding.check, finding.detail) for finding in report.failures] == []
    assert {finding.check for finding in report.findings} == {check.name for check in CHECKS} | {"speed"}
    assert sum(finding.outcome == "pass" for finding in report.findings) >= 10


@pytest.mark.parametrize("name", ["gqa:2", "gqa:3", "gqa:6+window:3"])
def test_a_number_may_need_more_heads(name: str) -> None:
    """The checks have few heads, and a number of key and value heads may not fit those."""
    assert check_variant(name).failures == ()


class ForgottenMask(Normaliser):
    kind = "planted-forgotten-mask"
    equation = "e^s_j / Σ e^s_l over all keys"

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        del visible
        return torch.softmax(scores.nan_to_num(neginf=0.0), dim=-1)


class HiddenInDenominator(Normaliser):
    kind = "planted-denominator"
    equation = "e^s_j / Σ e^s_l over all keys, hidden ones put to 0"

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return torch.softmax(scores.nan_to_num(neginf=0.0), dim=-1) * visible


class HiddenCounted(Normaliser):
    kind = "planted-count"
    equation = "ReLU(s_j) / number of keys, hidden ones too"

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.relu().masked_fill(~visible, 0.0) / scores.shape[-1]


class WideWindow(Mask):
    """Says W keys, and shows W + 1."""

    kind = "planted-wide-window"

    def interval(self, position: Any, num_keys: int) -> Any:
        low, high = super().interval(position, num_keys)
        return (low - 1).clamp(min=0) if isinstance(low, Tensor) else max(0, low - 1), high


class NarrowWindow(HeadOutput):
    """Forgets the first token."""

    kind = "planted-blind"
    equation = "0"

    def apply(self, heads: Tensor) -> Tensor:
        return heads.detach() * 0 + heads[:, :, :1] * 0


class LearnedPower(Normaliser):
    kind = "planted-power"
    equation = "e^s_j / (Σ e^s_l)^γ"
    learned: ClassVar = {"gamma": Parameter(initial=1.0)}

    def weights(self, scores: Tensor, visible: Tensor, gamma: Tensor) -> Tensor:
        scores = scores.masked_fill(~visible, float("-inf"))
        return torch.exp(scores - gamma * scores.logsumexp(-1, keepdim=True))


class DetachedParameter(LearnedPower):
    """Uses its parameter with a gradient where it hardly matters, and without where it does."""

    kind = "planted-detached"

    def weights(self, scores: Tensor, visible: Tensor, gamma: Tensor) -> Tensor:
        return super().weights(scores, visible, gamma.detach() + 1e-3 * (gamma - gamma.detach()))


class LostGradient(LearnedPower):
    """A backward pass that forgets the parameter."""

    kind = "planted-lost-gradient"

    def backward(self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block, **own: Any) -> Any:
        found, learned = super().backward(weights, gradient, context, block, **own)
        return found, {name: torch.zeros_like(tensor) for name, tensor in learned.items()}


class WrongScale(ScaledDot):
    kind = "planted-scale"

    def logits(self, given: Matched) -> Any:
        made = super().logits(given)
        return type(made)(made.query, made.key, 1.1 * made.scale)


class WrongKernel(Sigmoid):
    kind = "planted-kernel"

    def forward(self, scores: Tensor, block: Block) -> tuple[Tensor, Tensor | None]:
        del block
        return scores.sub_(1.0).sigmoid_(), None


class WrongBackward(Sigmoid):
    kind = "planted-backward"

    def backward(self, weights: Tensor, gradient: Tensor, context: Tensor | None, block: Block) -> Tensor:
        return super().backward(weights, gradient, context, block).mul_(1.01)


class ForgetfulState(LinearAttention):
    kind = "planted-forgetful"

    def decode(self, query: Tensor, key: Tensor, value: Tensor, state: Tensor | None, padding: Any = None) -> Any:
        output, new = super().decode(query, key, value, state, padding)
        return output, 0.9 * new


class LeakingOperator(LinearAttention):
    kind = "planted-leaking-operator"

    def define(self, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
        return super().define(query, key, value, visibility) + 0.1 * value.mean(-2, keepdim=True)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
        return super().attend(query, key, value, visibility) + 0.1 * value.mean(-2, keepdim=True)


class MixedTokens(HeadOutput):
    """Normalises over tokens, and so looks ahead."""

    kind = "planted-mixed-tokens"
    equation = "o − mean over tokens"

    def apply(self, heads: Tensor) -> Tensor:
        return heads - heads.mean(2, keepdim=True)


class Noise(HeadOutput):
    kind = "planted-noise"
    equation = "o + noise"

    def apply(self, heads: Tensor) -> Tensor:
        return heads + 1e-3 * torch.rand_like(heads)


class Overflow(Normaliser):
    kind = "planted-overflow"
    equation = "e^s_j / Σ e^s_l without a shift"

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        raised = torch.exp(scores).masked_fill(~visible, 0.0)
        return raised / raised.sum(-1, keepdim=True)


class Raises(Normaliser):
    kind = "planted-raises"
    equation = "?"

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        raise ValueError(f"not yet for {scores.shape} and {visible.shape}")


MISTAKES: dict[str, tuple[Callable[[], dict[str, Any]], set[str]]] = {
    "mask forgotten": (lambda: {"normaliser": ForgottenMask()}, {"hidden tokens"}),
    "hidden keys in the denominator": (
        lambda: {"normaliser": HiddenInDenominator()},
        {"cut sequences"},
    ),
    "hidden keys counted": (lambda: {"normaliser": HiddenCounted()}, {"cut sequences"}),
    "nothing is seen": (lambda: {"head_output": NarrowWindow()}, {"visible tokens"}),
    "detached parameter": (lambda: {"normaliser": DetachedParameter()}, {"gradients"}),
    "gradient lost by the kernel": (lambda: {"normaliser": LostGradient()}, {"gradients", "kernel"}),
    "wrong scale in the kernel": (lambda: {"score": WrongScale()}, {"kernel"}),
    "wrong kernel": (lambda: {"normaliser": WrongKernel()}, {"kernel"}),
    "wrong backward pass": (lambda: {"normaliser": WrongBackward()}, {"gradients", "kernel"}),
    "cache that forgets": (lambda: {"operator": ForgetfulState()}, {"decoding"}),
    "operator that looks ahead": (lambda: {"operator": LeakingOperator()}, {"hidden tokens"}),
    "head output that looks ahead": (
        lambda: {"head_output": MixedTokens()},
        {"hidden tokens", "cut sequences", "decoding"},
    ),
    "noise": (lambda: {"head_output": Noise()}, {"determinism"}),
    "overflow": (lambda: {"normaliser": Overflow()}, {"corner cases"}),
    "an equation that raises": (lambda: {"normaliser": Raises()}, {"shapes and types", "hidden tokens"}),
}


def planted(name: str) -> Variant:
    return Variant("planted", "A mistake.", MISTAKES[name][0]())


@pytest.mark.parametrize("name", MISTAKES)
def test_each_planted_mistake_is_found(name: str) -> None:
    report = check_variant(planted(name))
    failed = {finding.check for finding in report.failures}
    assert MISTAKES[name][1] <= failed, report.findings
    assert report.summary.startswith("planted fails")
    quick = {finding.check for finding in check_variant(planted(name), quick=True).failures}
    assert quick == failed & QUICK
    later = {"nothing is seen", "cache that forgets", "overflow"}  # neither a leak nor a lost gradient
    assert bool(quick) == (name not in later)


def test_a_window_that_shows_one_key_too_many() -> None:
    """The mask itself is wrong, so it is the cache that tells: it forgets what the window says."""
    one = Variant("planted", "A mistake.", {"mask": WideWindow(window=2)})
    failed = {finding.check for finding in check_variant(one).failures}
    assert "decoding" in failed


def test_the_shortest_input_is_told() -> None:
    finding = next(one for one in check_variant(planted("mask forgotten")).findings if one.check == "hidden tokens")
    assert "2 tokens: changing token 2 changes the output at token 1" in finding.detail


class HeadGate(HeadOutput):
    kind = "planted-not-gate"
    equation = "σ(x·w) o"
    projected: ClassVar = {"gate": Projection(width=1)}

    def apply(self, heads: Tensor, gate: Tensor) -> Tensor:
        return heads * torch.sigmoid(gate)


@pytest.mark.parametrize(
    "changes", [{"normaliser": LearnedPower()}, {"head_output": HeadGate()}], ids=["power", "gate"]
)
def test_sound_ideas_pass(changes: dict[str, Part]) -> None:
    assert check_variant(Variant("idea", "An idea.", changes)).failures == ()


@pytest.fixture
def known() -> dict[str, Variant]:
    return catalogue._known


def test_training_refuses_what_leaks(known: dict[str, Variant]) -> None:
    known["leaks"] = replace(planted("mask forgotten"), name="leaks")
    known["fine"] = Variant("fine", "Fine.", {"normaliser": Softmax()})
    assert require_sound(["softmax", "tied-kv,window", "gqa+rope", "window:3*2,(gqa:4+cosine:0.5)"]) == []
    assert [report.variant for report in require_sound(["softmax,(fine*2),softmax", "fine"])] == ["fine"]
    with pytest.raises(
        UnsupportedError, match="'leaks' fails the check of hidden tokens: mask causal, 2 tokens"
    ) as caught:
        require_sound(["fine", "softmax,(leaks),softmax"])
    assert "unchecked" in caught.value.hint


IDEA = """
import torch
from attnlab.attention import Normaliser, Parameter, Variant, add_variant


class SoftmaxPower(Normaliser):
    kind = "softmax-power-{number}"
    equation = "e^s_j / (Σ e^s_l)^γ"
    learned = {{"gamma": Parameter(initial=1.0)}}

    def weights(self, scores, visible, gamma):
        scores = scores.masked_fill(~visible, float("-inf"))
        return torch.exp(scores - gamma * scores.logsumexp(-1, keepdim=True))


add_variant(Variant("softmax-power-{number}", "A learned exponent.", {{"normaliser": "softmax-power-{number}"}}))
"""


@pytest.mark.usefixtures("known")
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, page = tmp_path / "idea.py", tmp_path / "page.html"
    file.write_text(IDEA.format(number=1))
    assert main(["check", str(file), "--out", str(page)]) == 0
    printed = capsys.readouterr().out
    assert "p_j = e^s_j / (Σ e^s_l)^γ" in printed
    assert "softmax-power-1 passes all 13 checks that apply." in " ".join(printed.split())
    assert "Check of softmax-power-1" in page.read_text()
    assert main(["check", "softmax", "--quick", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["passes"] is True
    assert {one["check"] for one in found["findings"]} == QUICK


def test_the_command_checks_all_variants_of_a_mixture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pages = tmp_path / "pages"
    assert main(["check", "gqa:2,(window:3)", "--quick", "--json", "--out", str(pages)]) == 0
    assert [one["variant"] for one in json.loads(capsys.readouterr().out)] == ["gqa:2", "window:3"]
    assert sorted(page.name for page in pages.iterdir()) == ["check-gqa-2.html", "check-window-3.html"]
    assert main(["check", "relu:3"]) == 2
    assert "takes no number" in capsys.readouterr().err


@pytest.mark.usefixtures("known")
def test_the_command_fails_with_a_code_of_its_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "idea.py"
    file.write_text(IDEA.format(number=2).replace('float("-inf")', "0.0"))
    assert main(["check", str(file), "--json"]) == 3
    (found,) = json.loads(capsys.readouterr().out)
    assert found["passes"] is False
    assert main(["check", "softmacks"]) == 2
    assert main(["check", str(tmp_path / "none.py")]) == 2
    assert main(["check", str(file), "--out", str(tmp_path / "missing" / "page.html")]) == 2


LEAK = IDEA.replace('float("-inf")', "0.0")


@pytest.mark.usefixtures("known")
def test_training_and_comparing_begin_with_the_quick_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "leak.py"
    file.write_text(LEAK.format(number=3))
    own = ["--variants-from", str(file), "--out", str(tmp_path / "runs"), "--corpus", "kinship", "--quiet"]
    train = ["train", "--variant", "softmax-power-3", "--steps", "2", "--change", "context_length=32", *own]
    small = ["--size", "14k", "--steps", "4", "--seeds", "2", "--pilot", "0", "--change", "context_length=32"]
    compare = ["compare", "softmax-power-3", *small, *own]
    study = ["scale", "softmax-power-3", "--rungs", "14k,25k,55k", "--plan", *own]
    for command in (train, compare, study):
        assert main(command) == 2
        assert "'softmax-power-3' fails the check of" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists() or not any((tmp_path / "runs").iterdir())
    assert main([*train, "--unchecked"]) == 0
    capsys.readouterr()
    assert main([*compare, "--unchecked", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert "without the check for leaks and lost gradients" in json.dumps(found)


def test_the_whole_catalogue(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    few = {name: catalogue._known[name] for name in ("softmax", "prefix")}
    monkeypatch.setattr(catalogue, "_known", few)
    assert main(["check", "--quick"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith(("softmax", "prefix"))]
    assert [row[:4] for row in rows] == [["softmax", "7", "none", "0"], ["prefix", "6", "none", "1"]]
