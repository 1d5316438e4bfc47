"""Gated linear attention: a running sum that forgets, with a gate for each key dimension (arXiv 2312.06635).

    S_t = Diag(α_t) S_{t−1} + k_tᵀ v_t,   o_t = q_t S_t,   α_t = σ(x_t W₁ W₂ + b)^(1/16)

W₁ maps a token to 16 numbers for all heads, W₂ maps these to the key width of each head. The paper's layer normalises
the output of each head and multiplies it by SiLU(x W_G); this is the head output `gated-norm`, which the variant
includes. The paper states LayerNorm there, but the authors' code uses RMSNorm, as does this one. Their code also
divides queries by √D_k, which the norm cancels.

Within a chunk, the weight of token j for token t is Σ_c q_tc k_jc Π_{j<i≤t} α_ic. A quotient of two products of gates
may overflow, so nothing is divided here: tokens are merged into pairs, pairs into fours, and so on. For two
neighbouring blocks, the queries of the later one are multiplied by their gates since its start, and the keys of the
earlier one by the gates up to its end; both products are at most 1 for any gates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
import torch.nn.functional as F
from pydantic import PositiveFloat, PositiveInt
from torch import Tensor

from attnlab.attention.parts.part import Declared, Parameter, Projection
from attnlab.attention.parts.recurrent.recurrence import Recurrence, chunk_size, filled, masked

if TYPE_CHECKING:
    from attnlab.attention.spec import AttentionSpec


class GatedLinear(Recurrence):
    """Linear attention whose state forgets, with a gate from the token for each key dimension."""

    kind: ClassVar[str] = "gated-linear"
    equation: ClassVar[str] = "q S_t, S_t = Diag(α_t) S_{t−1} + k_tᵀ v_t, α_t = σ(x_t W₁ W₂ + b)^(1/τ)"
    variants = (
        Declared(
            "gated-linear",
            "A running sum that forgets: each token gates every row of the state; the output is normed and gated.",
            "Yang et al. 2023, arXiv 2312.06635",
            "0.8, 1.6: the square grid is the bottleneck",
            also={"head_output": "gated-norm"},
        ),
    )

    rank: PositiveInt = 16
    temperature: PositiveFloat = 16.0

    def parameters(self, spec: AttentionSpec) -> dict[str, Parameter]:
        width = spec.key_width
        return {"gate_map": Parameter(std=0.02, shape=(self.rank, width)), "gate_bias": Parameter(shape=(width,))}

    def projections(self, spec: AttentionSpec) -> dict[str, Projection]:  # noqa: ARG002
        return {"gate": Projection(self.rank, of="key", per="layer")}

    def prepare(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        real: Tensor | None,
        gate: Tensor,
        gate_map: Tensor,
        gate_bias: Tensor,
    ) -> list[Tensor]:
        log_gate = F.logsigmoid(gate @ gate_map + gate_bias) / self.temperature
        return [query, masked(key, real), value, masked(log_gate, real)]

    def update(self, state: Tensor | None, key: Tensor, value: Tensor, log_gate: Tensor) -> Tensor:
        added = key.mT @ value
        return added if state is None else log_gate.exp().mT * state + added

    def advance(
        self, state: Tensor, query: Tensor, key: Tensor, value: Tensor, log_gate: Tensor
    ) -> tuple[Tensor, Tensor]:
        output = (query * key).sum(dim=-1, keepdim=True) * value  # each token's contribution to its own output
        total = log_gate.exp()  # the product of the gates of each block
        query, size = query * total, 1
        while size < query.shape[-2]:
            (q, later_q), (k, later_k), (v, _) = (_halves(vectors, size) for vectors in (query, key, value))
            seen = (later_q @ k.mT) @ v
            output = output + _joined(torch.zeros_like(seen), seen)
            before, after = _halves(total, 1)
            query, key = _joined(q, later_q * before), _joined(k * after, later_k)
            total, size = (before * after).squeeze(-2), 2 * size
        added = key.mT @ value  # (batch, heads, chunks, key width, value width)
        states = []
        for kept, new in zip(total.mT.unbind(dim=2), added.unbind(dim=2), strict=True):
            states.append(state)
            state = kept * state + new
        return output + query @ torch.stack(states, dim=2), state

    def defined_multiply_adds(self, key_width: int, value_width: int, queries: int, keys: int) -> int:
        return queries * 2 * key_width * value_width + keys * self.rank * key_width

    def multiply_adds(self, key_width: int, value_width: int, queries: int, keys: int, *, causal: bool) -> int:  # noqa: ARG002
        both = (chunk_size(queries) - 1) * (key_width + value_width) // 2
        return filled(queries) * (2 * key_width * value_width + both) + queries * self.rank * key_width


def _halves(vectors: Tensor, size: int) -> tuple[Tensor, Tensor]:
    """Divide (…, tokens, width) into pairs of blocks, and return the first and the second, (…, pairs, size, width)."""
    pairs = vectors.reshape(*vectors.shape[:-2], -1, 2, size, vectors.shape[-1])
    return pairs[..., 0, :, :], pairs[..., 1, :, :]


def _joined(first: Tensor, second: Tensor) -> Tensor:
    """Return the vectors of pairs of blocks in their original order, (…, tokens, width)."""
    return torch.stack([first, second], dim=-3).flatten(-4, -2)
