"""How the bars are measured: each yardstick takes a variant and a setting, and gives one ratio.

Lengths follow from the setting's own N, so that a small setting measures the same things quickly: memory at 2N and 4N,
a window of N/4 at 8N, growth from N to 8N, decoding after 4N tokens.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import torch

from attnlab.attention import AttentionSpec, Cache, Mask, MultiHeadAttention, Variant
from attnlab.attention import variant as variant_called
from attnlab.bench.kernels.cases import Contest, Size, fused_softmax
from attnlab.bench.kernels.memory import peak_bytes
from attnlab.bench.results.timing import Call, Ratio, take_turns

DROPOUT = 0.1


@dataclass(frozen=True)
class Setting:
    """The size that bars are measured at, and in how many rounds."""

    size: Size = field(default_factory=Size)
    rounds: int = 15
    peaks: dict[tuple[str, int], int] = field(default_factory=dict)  # found so far, by variant and length

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
        """All lengths by name, for texts."""
        long, longest = self.long, self.longest
        return {"tokens": self.size.tokens, "half": long // 2, "long": long, "longest": longest, "window": self.window}


def over_fused(variant: Variant, setting: Setting) -> Ratio:
    """Forward and backward over fused softmax with the same mask: causal, or none at all."""
    return _over_fused(setting.size.spec_of(variant), setting)


def dropping_over_fused(variant: Variant, setting: Setting) -> Ratio:
    """The same with weights dropped, over fused softmax that drops none."""
    return _over_fused(setting.size.spec_of(variant).replace(weight_dropout=DROPOUT), setting)


def peer_over_variant(variant: Variant, setting: Setting) -> Ratio:
    """How many times as long as the variant the public implementation takes, forward and backward."""
    contest = Contest(setting.size.spec_of(variant), setting.size)
    return _ratio(contest.peer().forward_backward, contest.variant().forward_backward, setting.rounds)


def peak_over_scores(variant: Variant, setting: Setting) -> Ratio:
    """The peak of memory, forward and backward, over one matrix of scores for each head of the baseline."""
    return Ratio.exact(_peak(variant, setting, setting.long) / _one_sequence(setting, setting.long).scores_bytes)


def peak_growth(variant: Variant, setting: Setting) -> Ratio:
    """How the peak grows when the length doubles."""
    return Ratio.exact(_peak(variant, setting, setting.long) / _peak(variant, setting, setting.long // 2))


def fused_over_window(variant: Variant, setting: Setting) -> Ratio:
    """How many times as long as the window fused softmax over all that came before takes, forward and backward."""
    size = replace(setting.size, tokens=setting.longest)
    spec = size.spec_of(variant).replace(mask=Mask(window=setting.window))
    return _ratio(fused_softmax(size).forward_backward, Contest(spec, size).variant().forward_backward, setting.rounds)


def time_growth(variant: Variant, setting: Setting) -> Ratio:
    """How the time of forward and backward grows when the length becomes eight times as large."""
    short, large = setting.size, replace(setting.size, tokens=setting.longest)
    longer, shorter = (Contest(size.spec_of(variant), size).variant().forward_backward for size in (large, short))
    return _ratio(longer, shorter, setting.rounds)


def cache_over_softmax(variant: Variant, setting: Setting) -> Ratio:
    """The bytes of the cache after decoding a token, over softmax's, counted on the tensors that are held."""
    ours, baseline = (_Decoder(which, setting) for which in (variant, variant_called("softmax")))
    for decoder in (ours, baseline):
        decoder.step()
    return Ratio.exact(ours.held_bytes / baseline.held_bytes)


def decoding_over_softmax(variant: Variant, setting: Setting) -> Ratio:
    """The time of decoding a token, over softmax's."""
    ours, baseline = (_Decoder(which, setting) for which in (variant, variant_called("softmax")))
    return _ratio(ours.step, baseline.step, setting.rounds)


class _Decoder:
    """A layer that has read a long text and decodes one token more with each step."""

    def __init__(self, variant: Variant, setting: Setting) -> None:
        size = setting.size
        spec = replace(size, tokens=setting.longest).spec_of(variant)  # room for the tokens to come
        self._layer = MultiHeadAttention(spec).eval()
        self._cache = Cache()
        source = torch.Generator().manual_seed(0)
        text = torch.randn(size.batch, setting.long, spec.model_width, generator=source)
        self._token = text[:, :1].clone()
        with torch.no_grad():
            self._layer(text, cache=self._cache)

    def step(self) -> None:
        with torch.no_grad():
            self._layer(self._token, cache=self._cache)

    @property
    def held_bytes(self) -> int:
        return sum(tensor.numel() * tensor.element_size() for tensor in self._cache.held.values())


def _over_fused(spec: AttentionSpec, setting: Setting) -> Ratio:
    training = spec.weight_dropout > 0
    ours = Contest(spec, setting.size).variant(training=training)
    baseline = fused_softmax(setting.size, causal=spec.mask.causal)
    return _ratio(ours.forward_backward, baseline.forward_backward, setting.rounds)


def _ratio(call: Call, to: Call, rounds: int) -> Ratio:
    return take_turns({"to": to, "call": call}, rounds).ratio("call", "to")


def _one_sequence(setting: Setting, tokens: int) -> Size:
    return replace(setting.size, batch=1, tokens=tokens)


def _peak(variant: Variant, setting: Setting, tokens: int) -> int:
    if (variant.name, tokens) not in setting.peaks:
        size = _one_sequence(setting, tokens)
        call = Contest(size.spec_of(variant), size).variant().forward_backward
        setting.peaks[variant.name, tokens] = peak_bytes(call)
    return setting.peaks[variant.name, tokens]
