"""Operators: attention that does not factor into a score and a normaliser, and so has its own kernel.

    linear    o_i = Σ_j φ(q_i)·φ(k_j) v_j / Σ_j φ(q_i)·φ(k_j),   φ(x) = elu(x) + 1          (arXiv 2006.16236)

The sums over j of φ(k_j) v_jᵀ and φ(k_j) are a state of fixed size: time grows linearly with N, and decoding needs no
cache of keys. There is no attention map to show.

A user-defined operator only needs `define`: autograd differentiates it, and it decodes from a cache of keys and values.
Its parameters are passed by name to each of these functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention.gradients import by_heads
from attnlab.attention.groups import repeated
from attnlab.attention.parts.masks import Visibility
from attnlab.attention.parts.part import Declared, Part

_CHUNK = 64


class Operator(Part):
    """The base class: an operator maps queries, keys and values to outputs, all (batch, heads, tokens, width)."""

    family: ClassVar[str] = "operator"
    equation: ClassVar[str]
    takes_groups: ClassVar[bool] = False  # whether `attend` and `decode` take keys and values of fewer heads
    recomputes: ClassVar[bool] = False  # whether the backward pass of `attend` repeats the forward pass
    looks_back: ClassVar[bool] = False  # whether it reads the sequence in order, so that its mask must be causal

    @property
    def keeps_state(self) -> bool:
        """Return whether it decodes from a state of fixed size, and not from a cache of keys and values."""
        return type(self).decode is not Operator.decode

    def define(
        self, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, *args: Any, **own: Any
    ) -> Tensor:
        """Return the output by its equation, materialised."""
        raise NotImplementedError

    def attend(
        self, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, *args: Any, **own: Any
    ) -> Tensor:
        """Return the output of `define`, by a faster kernel if the class has one."""
        return self.define(query, key, value, visibility, *args, **own)

    def decode(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        state: Tensor | None,
        padding: Tensor | None = None,
        *args: Any,
        **own: Any,
    ) -> tuple[Tensor, Tensor]:
        """Return the output for tokens that follow those in the state, and the new state.

        `padding` (batch, tokens) is True for each real token; the others do not change the state.
        """
        raise NotImplementedError

    def state_shape(self, key_width: int, value_width: int) -> tuple[int, ...]:
        """Return the shape of the state of one head of one sequence."""
        raise NotImplementedError

    def kept_states(self, tokens: int) -> int:  # noqa: ARG002
        """Return how many states of each head an operator that recomputes keeps for the backward pass."""
        return 0

    def defined_multiply_adds(self, key_width: int, value_width: int, queries: int, keys: int) -> int:
        """Return the multiply–adds of matrix products in `define`, for one head of one sequence."""
        raise NotImplementedError

    def multiply_adds(self, key_width: int, value_width: int, queries: int, keys: int, *, causal: bool) -> int:
        """Return the multiply–adds of `attend`, or of `decode` if causal and with more keys than queries."""
        raise NotImplementedError


@contextmanager
def full_precision(like: Tensor) -> Iterator[Callable[[Tensor], Tensor]]:
    """Disable autocast inside, and yield the cast to float32, or to float64 for float64. Long sums need it."""
    exact = torch.float64 if like.dtype == torch.float64 else torch.float32
    with torch.autocast(like.device.type, enabled=False):
        yield lambda tensor: tensor.to(exact)


class LinearAttention(Operator):
    """Attention without softmax, as a running sum."""

    kind: ClassVar[str] = "linear"
    takes_groups: ClassVar[bool] = True
    recomputes: ClassVar[bool] = True
    equation: ClassVar[str] = "Σ φ(q)·φ(k_j) v_j / Σ φ(q)·φ(k_j), φ = elu + 1"
    variants = (
        Declared(
            "linear",
            "A running sum in place of softmax: time and memory grow with N.",
            "Katharopoulos et al. 2020, arXiv 2006.16236",
            "0.8, 1.6: the square grid is the bottleneck",
        ),
    )

    def define(self, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
        similarity = _feature(query) @ _feature(key).transpose(-2, -1)
        similarity = similarity * visibility.grid(query.device)
        return _ratio(similarity @ _with_one(value))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
        def some_heads(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
            query, key, value = _feature(query), _real(_feature(key), visibility.padding), _with_one(value)
            if not visibility.mask.causal:
                return _ratio(query @ (key.transpose(-2, -1) @ value))
            before = visibility.query_start
            state = key.new_zeros(*key.shape[:2], key.shape[-1], value.shape[-1])
            if before:
                state = key[..., :before, :].transpose(-2, -1) @ value[..., :before, :]
            return _causal(query, key[..., before:, :], value[..., before:, :], state)

        return by_heads(some_heads, query, key, value)

    def decode(
        self, query: Tensor, key: Tensor, value: Tensor, state: Tensor | None, padding: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        query, key, value = _feature(query), _real(_feature(key), padding), _with_one(value)
        if state is None:
            state = key.new_zeros(*key.shape[:2], key.shape[-1], value.shape[-1])
        shared = (repeated(tensor, query.shape[1]) for tensor in (key, value, state))
        return _causal(query, *shared), state + key.transpose(-2, -1) @ value

    def state_shape(self, key_width: int, value_width: int) -> tuple[int, ...]:
        return key_width, value_width + 1

    def defined_multiply_adds(self, key_width: int, value_width: int, queries: int, keys: int) -> int:
        return queries * keys * (key_width + value_width + 1)

    def multiply_adds(self, key_width: int, value_width: int, queries: int, keys: int, *, causal: bool) -> int:
        state = key_width * (value_width + 1)
        if not causal:
            return (queries + keys) * state
        chunk = min(_CHUNK, queries)
        filled = queries + -queries % chunk
        new_state = queries * state if keys > queries else 0
        return filled * (2 * state + chunk * (key_width + value_width + 1)) + new_state


def _feature(vectors: Tensor) -> Tensor:
    """Return elu(x) + 1, without losing e^x to the rounding of e^x − 1 + 1 where x is far below 0."""
    return torch.where(vectors > 0, vectors + 1, vectors.clamp(max=0).exp())


def _real(key: Tensor, padding: Tensor | None) -> Tensor:
    """Return the features of keys, 0 for padding."""
    return key if padding is None else key * padding[:, None, :, None]


def _with_one(value: Tensor) -> Tensor:
    """Append a 1 to each value, so that one product gives the numerator and the denominator."""
    return torch.cat([value, torch.ones_like(value[..., :1])], dim=-1)


def _ratio(sums: Tensor) -> Tensor:
    """Divide the numerator by the denominator; the result is 0 for a query that sees nothing."""
    total = sums[..., -1:]
    return sums[..., :-1] / torch.where(total > 0, total, 1.0)


def _causal(query: Tensor, key: Tensor, value: Tensor, state: Tensor) -> Tensor:
    """Compute the causal output chunk by chunk: within a chunk by a small grid of weights, before it by the state."""
    tokens = query.shape[-2]
    chunk = max(1, min(_CHUNK, tokens))
    missing = -tokens % chunk
    query, key, value = (_chunked(F.pad(x, (0, 0, 0, missing)), chunk) for x in (query, key, value))
    added = key.transpose(-2, -1) @ value  # (batch, heads, chunks, key width, value width + 1)
    # The state before each chunk; the chunk itself does not affect it, not even by rounding.
    before = torch.cat([state.unsqueeze(2), added[:, :, :-1]], dim=2).cumsum(dim=2)
    inside = (query @ key.transpose(-2, -1)).tril() @ value
    return _ratio(query @ before + inside).flatten(2, 3)[..., :tokens, :]


def _chunked(vectors: Tensor, size: int) -> Tensor:
    """Split into chunks: (batch, heads, tokens, width) → (batch, heads, chunks, size, width)."""
    batch, heads, tokens, width = vectors.shape
    return vectors.contiguous().view(batch, heads, tokens // size, size, width)
