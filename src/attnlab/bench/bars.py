"""The bars of attention kernels: the limits that attnlab claims for speed and memory, and how each is measured.

Lengths follow from the setting's own N, so that a small setting measures the same things quickly: memory at 2N and 4N,
a window of N/4 at 8N, growth from N to 8N, decoding after 4N tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar

import torch

from attnlab.attention import (
    AttentionSpec,
    Cache,
    Entmax,
    Mask,
    MultiHeadAttention,
    Recurrence,
    Variant,
    kernel_for,
)
from attnlab.attention import variant as variant_called
from attnlab.bench.attention import check_peer, fitting
from attnlab.bench.cases import CallSize, SpecCases, fused_softmax, has_peer
from attnlab.bench.findings import Bar, BenchListener, Findings, NoteKeeper
from attnlab.bench.processes import peak_bytes
from attnlab.bench.timing import Call, Ratio, check_rounds, take_turns
from attnlab.errors import SpecError
from attnlab.pages import Section
from attnlab.processes.machine import describe_machine

DROPOUT = 0.1


@dataclass(frozen=True)
class BarSetting:
    """The size at which bars are measured, and the number of rounds."""

    size: CallSize = field(default_factory=CallSize)
    rounds: int = 15
    peaks: dict[tuple[str, int], int] = field(default_factory=dict)  # measured so far, by variant and length

    @property
    def long(self) -> int:
        """The length for memory and for decoding."""
        return 4 * self.size.tokens

    @property
    def longest(self) -> int:
        """The length for what need not look at every pair of tokens."""
        return 8 * self.size.tokens

    @property
    def window(self) -> int:
        return max(1, self.size.tokens // 4)

    @property
    def lengths(self) -> dict[str, int]:
        """Return all lengths by name, for texts."""
        long, longest = self.long, self.longest
        return {"tokens": self.size.tokens, "half": long // 2, "long": long, "longest": longest, "window": self.window}


@dataclass(frozen=True)
class VariantBar(Bar):
    """A bar about the variants that it concerns; the lengths in its text are those of the setting."""

    concerns: Callable[[AttentionSpec], bool]
    measure: Callable[[Variant, BarSetting], Ratio]
    needs_peer: bool = False


@dataclass(frozen=True)
class BarsBench(Findings):
    """All bars that one run measured, at one size."""

    benchmark: ClassVar[str] = "attention bars"
    title: ClassVar[str] = "The bars of attnlab's attention"
    lead: ClassVar[str] = "What attnlab claims of its speed and memory, measured on this machine as ratios."

    size: CallSize

    @property
    def conditions(self) -> str:
        return str(self.size)

    def sections(self) -> list[Section]:
        return []  # there is nothing besides the bars


def bench_bars(
    variants: Sequence[Variant],
    size: CallSize,
    rounds: int = 15,
    listener: BenchListener | None = None,
    *,
    bars: Sequence[VariantBar] | None = None,
) -> BarsBench:
    """Measure the `bars` that concern the `variants`, by default all, with the threads that PyTorch has now.

    Each is timed `rounds` times at this `size`. The `listener` is called with the progress.
    """
    listener = NoteKeeper(listener)
    check_rounds(rounds)
    machine, setting = describe_machine(), BarSetting(size, rounds)
    chosen = fitting([*variants, *_probes(variants)], size, machine, listener)
    tasks = [(bar, [variant for variant, spec in chosen if bar.concerns(spec)]) for bar in bars or BARS]
    tasks = [(bar, concerned) for bar, concerned in tasks if concerned]
    if not tasks:
        names = ", ".join(variant.name for variant in variants)
        raise SpecError(f"no bar concerns {names}", hint="leave out `bars` to measure it, or name other variants")
    peer = check_peer([spec for _, spec in chosen], listener)
    total, done = sum(len(concerned) for _, concerned in tasks), 0
    outcomes = []
    for bar, concerned in tasks:
        ratios = {}
        for variant in concerned:
            listener.step(f"{bar.name}: {variant.name}", done, total)
            done += 1
            if peer or not bar.needs_peer:
                ratios[variant.name] = bar.measure(variant, setting)
        outcomes.append(bar.judge(ratios, setting.lengths))
    return BarsBench(machine, rounds, tuple(listener.notes), tuple(outcomes), size)


def _probes(variants: Sequence[Variant]) -> list[Variant]:
    """Return what is measured besides the catalogue: entmax at an α whose powers are not whole numbers."""
    if all(variant.name != "entmax" for variant in variants):
        return []
    odd = {"normaliser": Entmax(alpha=1.3)}
    return [Variant("entmax-1.3", "α-entmax at an α that is no simple fraction.", odd)]


def _is_of_group(group: str, spec: AttentionSpec) -> bool:
    return spec.operator is None and spec.normaliser.group == group


_is_pointwise = partial(_is_of_group, "pointwise")


def _is_near_fused(spec: AttentionSpec) -> bool:
    """Return whether it is pointwise, or softmax (with a sink) of an inner product; fused kernels count as well."""
    soft = _is_soft(spec) and spec.score.pure_product and not _is_latent(spec)
    return _is_pointwise(spec) or kernel_for(spec) == "fused" or soft


def _is_latent(spec: AttentionSpec) -> bool:
    """Return whether keys and values are made from a latent, so that keys are wider than values."""
    return spec.compression is not None


def _is_soft(spec: AttentionSpec) -> bool:
    """Return whether it is softmax (with a sink), causal and nothing else, with values through the head."""
    return _is_of_group("exponential", spec) and spec.mask == Mask() and spec.value_map != "full"


def _is_lean(spec: AttentionSpec) -> bool:
    return spec.value_map != "full" and not spec.score.materialised


def over_fused(variant: Variant, setting: BarSetting, dropout: float = 0.0) -> Ratio:
    """Measure forward and backward over fused softmax with the same mask, which drops no weights."""
    spec = setting.size.spec_of(variant).replace(weight_dropout=dropout)
    ours = SpecCases(spec, setting.size).variant(training=dropout > 0)
    baseline = fused_softmax(setting.size, causal=spec.mask.causal)
    return _ratio(ours.forward_backward, baseline.forward_backward, setting.rounds)


def over_fused_when_long(variant: Variant, setting: BarSetting) -> Ratio:
    """Measure the same at the length for memory."""
    return over_fused(variant, replace(setting, size=replace(setting.size, tokens=setting.long)))


def peer_over_variant(variant: Variant, setting: BarSetting) -> Ratio:
    """Measure how many times as long as the variant the public implementation takes, forward and backward."""
    cases = SpecCases(setting.size.spec_of(variant), setting.size)
    return _ratio(cases.peer().forward_backward, cases.variant().forward_backward, setting.rounds)


def peak_over_scores(variant: Variant, setting: BarSetting) -> Ratio:
    """Measure the peak of memory, forward and backward, over one matrix of scores for each head of the baseline."""
    one_sequence = replace(setting.size, batch=1, tokens=setting.long)
    return Ratio.exact(_peak(variant, setting, setting.long) / one_sequence.scores_bytes)


def peak_growth(variant: Variant, setting: BarSetting) -> Ratio:
    """Measure how the peak grows when the length doubles."""
    return Ratio.exact(_peak(variant, setting, setting.long) / _peak(variant, setting, setting.long // 2))


def fused_over_window(variant: Variant, setting: BarSetting) -> Ratio:
    """Measure how many times as long as the window fused softmax without one takes, forward and backward."""
    size = replace(setting.size, tokens=setting.longest)
    spec = size.spec_of(variant).replace(mask=Mask(window=setting.window))
    return _ratio(
        fused_softmax(size).forward_backward, SpecCases(spec, size).variant().forward_backward, setting.rounds
    )


def time_growth(variant: Variant, setting: BarSetting) -> Ratio:
    """Measure how the time of forward and backward grows when the length becomes eight times as large."""
    short, large = setting.size, replace(setting.size, tokens=setting.longest)
    longer, shorter = (SpecCases(size.spec_of(variant), size).variant().forward_backward for size in (large, short))
    return _ratio(longer, shorter, setting.rounds)


def cache_over_softmax(variant: Variant, setting: BarSetting) -> Ratio:
    """Count the bytes of the cache after decoding a token, over softmax's, counted on the tensors that are held."""
    ours, baseline = _decoders(variant, setting)
    return Ratio.exact(ours.held_bytes / baseline.held_bytes)


def decoding_over_softmax(variant: Variant, setting: BarSetting) -> Ratio:
    """Measure the time of decoding a token, over softmax's."""
    ours, baseline = _decoders(variant, setting)
    return _ratio(ours.step, baseline.step, setting.rounds)


def _decoders(variant: Variant, setting: BarSetting) -> tuple[_Decoder, _Decoder]:
    """Return the variant and softmax, each after a token that is not timed."""
    return _Decoder(variant, setting), _Decoder(variant_called("softmax"), setting)


class _Decoder:
    """A layer that has processed a long text and decodes one more token per step."""

    def __init__(self, variant: Variant, setting: BarSetting) -> None:
        size = setting.size
        spec = replace(size, tokens=setting.longest).spec_of(variant)  # space for the tokens to be decoded
        self._layer = MultiHeadAttention(spec).eval()
        self._cache = Cache()
        source = torch.Generator().manual_seed(0)
        text = torch.randn(size.batch, setting.long, spec.model_width, generator=source)
        self._token = text[:, :1].clone()
        with torch.no_grad():
            self._layer(text, cache=self._cache)
        self.step()

    def step(self) -> None:
        with torch.no_grad():
            self._layer(self._token, cache=self._cache)

    @property
    def held_bytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self._cache.held.values())


def _ratio(call: Call, to: Call, rounds: int) -> Ratio:
    return take_turns({"to": to, "call": call}, rounds).ratio("call", "to")


def _peak(variant: Variant, setting: BarSetting, tokens: int) -> int:
    if (variant.name, tokens) not in setting.peaks:
        size = replace(setting.size, batch=1, tokens=tokens)
        call = SpecCases(size.spec_of(variant), size).variant().forward_backward
        setting.peaks[variant.name, tokens] = peak_bytes(call)
    return setting.peaks[variant.name, tokens]


_TIME = "forward+backward time ÷ fused softmax"
_CACHE = "bytes of the cache after {long} tokens ÷ softmax's"
_DECODING = "time of one token after {long} ÷ softmax's"
_LEAN = "all but full values and the random synthesizer"
_TIED = "one vector that is key and value"
_LATENT = "one latent that all keys and values are made from"
_RECURRENT = "gated linear attention and the gated delta rule"
_GROWTH = "forward+backward time at {longest} tokens ÷ at {tokens}"


def _is_recurrent(spec: AttentionSpec) -> bool:
    return isinstance(spec.operator, Recurrence)


def _is_linear(spec: AttentionSpec) -> bool:
    return spec.operator is not None and not _is_recurrent(spec)


def _is_tied(spec: AttentionSpec) -> bool:
    return spec.sharing == "key-value"


BARS: tuple[VariantBar, ...] = (
    VariantBar(
        "speed",
        "pointwise normalisers, and softmax (with a sink) of inner products",
        _TIME,
        1.15,
        _is_near_fused,
        over_fused,
    ),
    VariantBar(
        "speed-scores",
        "softmax of scores that are more than a product",
        _TIME,
        None,
        lambda spec: _is_soft(spec) and not spec.score.pure_product and not spec.score.looks_back,
        over_fused,
    ),
    VariantBar(
        "speed-gated",
        "softmax of scores with a forget gate",
        _TIME,
        1.2,
        lambda spec: _is_soft(spec) and spec.score.looks_back,
        over_fused,
    ),
    VariantBar(
        "speed-capped",
        "softmax of capped scores",
        _TIME,
        1.2,
        partial(_is_of_group, "capped"),
        over_fused,
    ),
    VariantBar(
        "speed-sparse",
        "sparsemax, entmax and softpick",
        _TIME,
        2.5,
        partial(_is_of_group, "sparse"),
        over_fused,
    ),
    VariantBar(
        "speed-sequential",
        "stick-breaking",
        _TIME,
        2.5,
        partial(_is_of_group, "sequential"),
        over_fused,
    ),
    VariantBar(
        "speed-difference",
        "the difference of two maps",
        _TIME,
        2.5,
        partial(_is_of_group, "difference"),
        over_fused,
    ),
    VariantBar(
        "speed-peer",
        "sparsemax and entmax",
        "forward+backward time of the entmax package ÷ ours",
        2.0,
        has_peer,
        peer_over_variant,
        at_least=True,
        needs_peer=True,
    ),
    VariantBar(
        "speed-dropout",
        f"pointwise normalisers that drop {DROPOUT} of the weights",
        f"{_TIME} that drops none",
        1.5,
        _is_pointwise,
        partial(over_fused, dropout=DROPOUT),
    ),
    VariantBar(
        "memory",
        _LEAN,
        "peak of forward+backward at {long} tokens ÷ one N×N matrix per head",
        1 / 8,
        _is_lean,
        peak_over_scores,
    ),
    VariantBar(
        "memory-growth", _LEAN, "peak of forward+backward at {long} tokens ÷ at {half}", 2.3, _is_lean, peak_growth
    ),
    VariantBar(
        "window",
        "a causal window of {window} tokens at {longest}",
        "forward+backward time of fused softmax ÷ ours",
        8.0,
        lambda spec: spec.mask.causal and spec.mask.window is not None,
        fused_over_window,
        at_least=True,
    ),
    VariantBar("linear-growth", "linear attention", _GROWTH, 9.0, _is_linear, time_growth),
    VariantBar("recurrent-growth", _RECURRENT, _GROWTH, 9.5, _is_recurrent, time_growth),
    VariantBar("recurrent-speed", _RECURRENT, f"{_TIME} at {{long}} tokens", 1.0, _is_recurrent, over_fused_when_long),
    VariantBar("cache", _TIED, _CACHE, 0.5, _is_tied, cache_over_softmax),
    VariantBar("decoding", _TIED, _DECODING, None, _is_tied, decoding_over_softmax),
    VariantBar("speed-latent", _LATENT, _TIME, None, _is_latent, over_fused),
    VariantBar("cache-latent", _LATENT, _CACHE, 0.3, _is_latent, cache_over_softmax),
    VariantBar("decoding-latent", _LATENT, _DECODING, None, _is_latent, decoding_over_softmax),
)
