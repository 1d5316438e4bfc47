"""The gated delta rule: a memory that forgets, and replaces what is stored under a key (arXiv 2412.06464).

    S_t = α_t (I − β_t k_tᵀ k_t) S_{t−1} + β_t k_tᵀ v_t,   o_t = q_t S_t
    β_t = σ(x_t·w_β),   α_t = e^(−a softplus(x_t·w_α + b)),   q and k of length 1

Each head learns its a and b. As in the authors' code, the length of a vector is √(Σ x² + 10⁻⁶), and the output of each
head is normalised and multiplied by SiLU(x W_G); this is the head output `gated-norm`, which the variant includes. The
paper's layer also applies a short convolution and SiLU to queries, keys and values. Both are omitted here, so that
these depend on one token only, as in the other variants. a and b are initialised from normal distributions with the
mean and standard deviation of the authors' code, in logarithms.

With Γ_tj = Π_{j<i≤t} α_i, a chunk that begins with the state S writes k_tᵀ u_t for each token, where

    (I + L) U = Diag(β) (V − Diag(Γ_t0) K S),   L_tj = β_t Γ_tj k_t·k_j for j < t

U is linear in S (the WY representation), so one inverse of I + L per chunk is enough, computed for all chunks at once.
Each Γ is the exponential of its own sum, not a quotient, so that strong gates cause neither overflow nor cancellation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention.parts.part import Declared, Parameter, Projection
from attnlab.attention.parts.recurrent.recurrence import Recurrence, chunk_size, filled, masked

_SHORTEST = 1e-6  # added to the squared length


class GatedDelta(Recurrence):
    """A linear memory with error correction and a forget gate for each head."""

    kind: ClassVar[str] = "gated-delta"
    equation: ClassVar[str] = "q S_t, S_t = α_t (I − β_t k_tᵀ k_t) S_{t−1} + β_t k_tᵀ v_t, |q| = |k| = 1"
    variants = (
        Declared(
            "gated-delta",
            "A memory that replaces what it holds under a key, and forgets; the output is normed and gated.",
            "Yang et al. 2024, arXiv 2412.06464",
            "0.8, 1.6: the square grid is the bottleneck",
            also={"head_output": "gated-norm"},
        ),
    )
    learned: ClassVar[Mapping[str, Parameter]] = {
        "log_rate": Parameter(math.log(16) - 1, std=1.0),  # log a, for a uniform in (0, 16)
        "rate_bias": Parameter(-4.6, std=1.33),  # softplus(b) between 0.001 and 0.1, uniform in its logarithm
    }
    projected: ClassVar[Mapping[str, Projection]] = {"rate": Projection(of="key"), "write": Projection(of="key")}

    def prepare(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        real: Tensor | None,
        log_rate: Tensor,
        rate_bias: Tensor,
        rate: Tensor,
        write: Tensor,
    ) -> list[Tensor]:
        if torch.compiler.is_compiling():  # which gets the strides of the gradients of transposed gates wrong
            rate, write = rate.contiguous(), write.contiguous()
        log_gate = -log_rate.exp() * F.softplus(rate + rate_bias)
        return [_unit(query), _unit(key), value, masked(log_gate, real), masked(torch.sigmoid(write), real)]

    def update(self, state: Tensor | None, key: Tensor, value: Tensor, log_gate: Tensor, beta: Tensor) -> Tensor:
        if state is None:
            return key.mT @ (beta * value)
        kept = log_gate.exp() * state
        return kept + key.mT @ (beta * (value - key @ kept))

    def advance(
        self, state: Tensor, query: Tensor, key: Tensor, value: Tensor, log_gate: Tensor, beta: Tensor
    ) -> tuple[Tensor, Tensor]:
        size, width = value.shape[-2:]
        since = log_gate.expand(*log_gate.shape[:-1], size).tril(-1).cumsum(dim=-2).exp().tril()  # Γ_tj
        start = log_gate.cumsum(dim=-2).exp()  # Γ_t0, (batch, heads, chunks, tokens, 1)
        inverse = _inverse((beta * (key @ key.mT) * since).tril(-1))
        written, read = (inverse @ torch.cat([beta * value, beta * start * key], dim=-1)).split_with_sizes(
            [width, key.shape[-1]], dim=-1
        )
        to_end, total = key * since[..., -1:, :].mT, start[..., -1:, :]
        states, written_at_last = [], []
        for value_part, read_part, key_part, kept in zip(
            *(vectors.unbind(dim=2) for vectors in (written, read, to_end, total)), strict=True
        ):
            states.append(state)
            written_at_last.append(value_part - read_part @ state)
            state = kept * state + key_part.mT @ written_at_last[-1]
        inside = (query @ key.mT * since) @ torch.stack(written_at_last, dim=2)
        return (query * start) @ torch.stack(states, dim=2) + inside, state

    def defined_multiply_adds(self, key_width: int, value_width: int, queries: int, keys: int) -> int:  # noqa: ARG002
        return (3 * queries - 1) * key_width * value_width

    def multiply_adds(self, key_width: int, value_width: int, queries: int, keys: int, *, causal: bool) -> int:  # noqa: ARG002
        size = chunk_size(queries)
        inverse = max(0, size**2 - 4) // 3
        return filled(queries) * (3 * key_width * value_width + size * (3 * key_width + 2 * value_width) + inverse)


def _unit(vectors: Tensor) -> Tensor:
    return vectors * torch.rsqrt(vectors.square().sum(dim=-1, keepdim=True) + _SHORTEST)


def _inverse(lower: Tensor) -> Tensor:
    """Return (I + L)⁻¹ for strictly lower triangular L, (…, size, size) with a power of two.

    Blocks on the diagonal are inverted, and pairs of them are merged into blocks of twice the size:

        [ A 0 ]⁻¹   [    A⁻¹      0  ]
        [ B D ]   = [ −D⁻¹ B A⁻¹ D⁻¹ ]
    """
    count, size = lower.shape[-1], 1
    blocks = torch.ones_like(lower[..., :1]).unsqueeze(-1)  # (…, blocks, size, size)
    while size < count:
        pairs = lower.reshape(*lower.shape[:-2], -1, 2, size, count // (2 * size), 2, size)
        between = pairs[..., 1, :, :, 0, :].diagonal(dim1=-4, dim2=-2).movedim(-1, -3)  # B of each pair of blocks
        first, second = blocks[..., 0::2, :, :], blocks[..., 1::2, :, :]
        corner = -between if size == 1 else -second @ between @ first
        upper = torch.cat([first, torch.zeros_like(first)], dim=-1)
        blocks, size = torch.cat([upper, torch.cat([corner, second], dim=-1)], dim=-2), 2 * size
    return blocks.squeeze(-3)
