"""Whole layers for the tests: three that are sound, and a way to forget what a test added."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.attention import Part, add_layer
from attnlab.attention.names import catalogue


class ConvGate(nn.Module):
    """A causal convolution of each channel, with a gate."""

    def __init__(self, model_width: int, kernel: int = 3) -> None:
        super().__init__()
        self.gate = nn.Linear(model_width, model_width)
        self.mix = nn.Conv1d(model_width, model_width, kernel, groups=model_width)
        self.output = nn.Linear(model_width, model_width)

    def forward(self, x: Tensor) -> Tensor:
        past = F.pad(x.transpose(1, 2), (self.mix.kernel_size[0] - 1, 0))
        result: Tensor = self.output(torch.sigmoid(self.gate(x)) * self.mix(past).transpose(1, 2))
        return result


class FadingMean(nn.Module):
    """A mean over the past whose weights fade, with a cache of its own."""

    def __init__(self, model_width: int) -> None:
        super().__init__()
        self.fading = nn.Parameter(torch.zeros(model_width))
        self.register_buffer("unit", torch.ones(model_width))
        self.output = nn.Linear(model_width, model_width)

    def forward(self, x: Tensor, cache: dict[str, Tensor] | None = None) -> Tensor:
        keep = torch.sigmoid(self.fading)
        state = cache["state"] if cache else x.new_zeros(x.shape[0], x.shape[2])
        made = []
        for token in x.unbind(1):
            state = keep * state + (self.unit - keep) * token
            made.append(state)
        if cache is not None:
            cache["state"] = state
        result: Tensor = self.output(torch.stack(made, 1))
        return result


class MemoryAttention(nn.Module):
    """Attention to tokens and to learned vectors; it takes a mask and another sequence."""

    def __init__(self, model_width: int, num_heads: int, slots: int = 2, dropout: float = 0.0) -> None:
        super().__init__()
        self.num_heads, self.slots, self.dropout = num_heads, slots, dropout
        self.memory = nn.Parameter(torch.randn(slots, model_width))
        self.query, self.key, self.value, self.output = (nn.Linear(model_width, model_width) for _ in range(4))

    def forward(self, x: Tensor, mask: Tensor, source: Tensor | None = None) -> Tensor:
        seen = torch.cat([self.memory.expand(x.shape[0], -1, -1), x if source is None else source], 1)
        query, key, value = (
            made.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for made in (self.query(x), self.key(seen), self.value(seen))
        )
        mask = F.pad(mask, (self.slots, 0), value=True)
        rate = self.dropout if self.training else 0.0
        heads = F.scaled_dot_product_attention(query, key, value, mask, rate)
        result: Tensor = self.output(heads.transpose(1, 2).flatten(2))
        return result


# A file of one's own.
SHIFT = """
from torch import nn
from attnlab.attention import add_layer

class Shift(nn.Module):
    '''The token before.'''
    def __init__(self, model_width):
        super().__init__()
        self.output = nn.Linear(model_width, model_width)
    def forward(self, x):
        return self.output(nn.functional.pad(x, (0, 0, 1, 0))[:, :-1])

add_layer("shift", Shift)
"""


@contextlib.contextmanager
def forgetting() -> Iterator[None]:
    """Forget variants and parts that are added inside."""
    names, parts = dict(catalogue._known), dict(Part._known)
    try:
        yield
    finally:
        for known, before in ((catalogue._known, names), (Part._known, parts)):
            known.clear()
            known.update(before)


@contextlib.contextmanager
def sound_layers() -> Iterator[None]:
    """Know the three layers inside, by the names conv-gate, fading-mean and memory."""
    with forgetting():
        add_layer("conv-gate", ConvGate, number="kernel")
        add_layer("fading-mean", FadingMean)
        add_layer("memory", MemoryAttention, claim="learned vectors are seen")
        yield
