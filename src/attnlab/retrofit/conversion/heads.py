"""The linear projections of an attention layer, head by head, and the second moments of their inputs.

The bias is the last column of each matrix, and tokens end with a 1, so that a single matrix represents an affine
projection. Second moments of its output follow from those of the tokens: E[(W x)(W x)ᵀ] = W E[x xᵀ] Wᵀ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from attnlab.attention import MultiHeadAttention

_FLOOR = 1e-7  # relative to the largest eigenvalue; directions below it count as absent


@dataclass(frozen=True)
class HeadMaps:
    """The projection matrices of one layer in float64, with biases as last columns."""

    query: Tensor  # (heads, key width, model width + 1)
    key: Tensor  # (key heads, key width, model width + 1)
    value: Tensor  # (key heads, value width, model width + 1)
    output: Tensor  # (model width, heads, value width)

    @classmethod
    def of(cls, layer: MultiHeadAttention) -> HeadMaps:
        """Return the maps of a layer whose keys and values are projected, perhaps by one projection."""
        spec = layer.spec
        maps = layer.projections
        key = _in_heads(maps["key"], spec.num_key_value_heads)
        value = _in_heads(maps["value"], spec.num_key_value_heads) if "value" in maps else key
        assert layer.output is not None
        output = layer.output.weight.detach().double().view(spec.model_width, spec.num_heads, spec.value_width)
        return cls(_in_heads(maps["query"], spec.num_heads), key, value, output)

    @property
    def group_size(self) -> int:
        """Return the number of query heads that share one key head."""
        return self.query.shape[0] // self.key.shape[0]

    def queries_of(self, head: int) -> Tensor:
        """Return the maps of the queries that use a key head, (heads of the group, key width, model width + 1)."""
        return self.query[head * self.group_size : (head + 1) * self.group_size]

    def outputs_of(self, head: int) -> Tensor:
        """Return the output maps of the heads that use a value head, (model width, heads of the group, value width)."""
        size = self.query.shape[0] // self.value.shape[0]
        return self.output[:, head * size : (head + 1) * size]

    def query_metric(self, head: int, moments: Tensor) -> Tensor:
        """Return Σ E[q qᵀ] over the queries that use a key head: how far they see an error of its keys."""
        queries = self.queries_of(head)
        return torch.einsum("hkc,cd,hld->kl", queries, moments, queries)

    def output_metric(self, head: int) -> Tensor:
        """Return Σ W_Oᵀ W_O over the heads that use a value head: how far an error of its values is passed on."""
        outputs = self.outputs_of(head)
        return torch.einsum("dhv,dhw->vw", outputs, outputs)

    def replace(self, **maps: Tensor) -> HeadMaps:
        """Return the maps with some of them changed."""
        return replace(self, **maps)


@torch.no_grad()
def put_maps(layer: MultiHeadAttention, maps: HeadMaps) -> None:
    """Write maps into a layer; where its key is its value, the key is taken."""
    for name, made in (("query", maps.query), ("key", maps.key), ("value", maps.value)):
        if name in layer.projections:
            put_map(layer.projections[name], made.flatten(0, 1))
    assert layer.output is not None
    layer.output.weight.copy_(maps.output.flatten(1))


@torch.no_grad()
def put_map(linear: torch.nn.Module, made: Tensor) -> None:
    """Write a map (rows, columns + 1) into a linear module; without a bias there, the last column is dropped."""
    linear.get_parameter("weight").copy_(made[:, :-1])
    bias = getattr(linear, "bias", None)
    if bias is not None:
        bias.copy_(made[:, -1])


def _in_heads(linear: torch.nn.Module, heads: int) -> Tensor:
    weight = linear.get_parameter("weight").detach().double()
    bias = getattr(linear, "bias", None)
    last = weight.new_zeros(len(weight)) if bias is None else bias.detach().double()
    return torch.cat([weight, last[:, None]], dim=1).view(heads, -1, weight.shape[1] + 1)


def total(stack: Tensor, moments: Tensor) -> float:
    """Return the variation of a stack of maps in all, and never nothing, to divide by."""
    return max(float(torch.einsum("rc,cd,rd->", stack, moments, stack)), 1e-30)


@dataclass(frozen=True)
class Moments:
    """The second moments of tokens that end with a 1, and those around their mean."""

    plain: Tensor  # (model width + 1, model width + 1)
    centred: Tensor

    @classmethod
    def of(cls, x: Tensor) -> Moments:
        """Return the moments of tokens (…, model width)."""
        tokens = with_one(x)
        plain = tokens.T @ tokens / len(tokens)
        mean = plain[-1]
        return cls(plain, plain - torch.outer(mean, mean))

    def around(self, *, mean: bool) -> Tensor:
        """Return the moments around the mean, where a constant can be made up for, or the plain ones."""
        return self.centred if mean else self.plain


def with_one(x: Tensor) -> Tensor:
    """Return tokens (…, width) as (tokens, width + 1) in float64, each with a 1 at its end."""
    flat = x.detach().double().flatten(0, -2)
    return torch.cat([flat, flat.new_ones(len(flat), 1)], dim=1)


def roots(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Return the square root of a symmetric matrix without negative eigenvalues, and the inverse of that root."""
    values, vectors = torch.linalg.eigh((matrix + matrix.T) / 2)
    values = values.clamp(min=_FLOOR * max(float(values[-1]), 1e-30)).sqrt()
    return (vectors * values) @ vectors.T, (vectors / values) @ vectors.T


def principal(stack: Tensor, moments: Tensor, width: int) -> Tensor:
    """Return the directions (rows, width) in which a stack of maps (rows, columns) varies most, as columns."""
    vectors: Tensor = torch.linalg.eigh(stack @ moments @ stack.T)[1]
    return vectors[:, -width:].flip(1)


def blocks(rows: Tensor, sizes: Sequence[int]) -> Sequence[Tensor]:
    """Return the rows of each of the maps that were stacked."""
    return torch.split(rows, list(sizes))
