"""The calls that are timed: attention on prepared tensors, forward or forward and backward.

A spec is called through the functional API, with tensors of its own head counts and widths. The timing excludes the
projections, transformations of the values and the concatenation of heads; it includes the rotation. Vectors that the
spec shares are one tensor here. The public implementation to compare with is the `entmax` package, which works on a
materialised score matrix.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention import (
    AttentionSpec,
    Matched,
    Normaliser,
    Parameter,
    Rope,
    Variant,
    Visibility,
    attend,
)
from attnlab.attention.functional import finish
from attnlab.attention.groups import for_every_query_head
from attnlab.attention.reference import scores
from attnlab.errors import SpecError
from attnlab.formats import plural

PEER = "entmax"

_BYTES = 4  # of a float32
# entmax returns NaN for a row that contains −∞, so masked positions get a finite score that is lower than any other.
_HIDDEN = -1e6


@dataclass(frozen=True)
class CallSize:
    """The shape of the calls. `heads` and `width` are the baseline's; a variant may change them."""

    batch: int = 2
    heads: int = 6
    tokens: int = 1024
    width: int = 64

    def __post_init__(self) -> None:
        for name, number in vars(self).items():
            if number < 1:
                raise SpecError(f"a measurement at {name} {number} is impossible", hint=f"use `{name}=1` or more")

    @classmethod
    def smoke(cls) -> CallSize:
        """Return a size so small that a measurement takes no time and means nothing."""
        return cls(batch=1, heads=2, tokens=128, width=16)

    @property
    def scores_bytes(self) -> int:
        """The bytes of one materialised matrix of scores for each head of each sequence."""
        return self.batch * self.heads * self.tokens**2 * _BYTES

    def spec_of(self, variant: Variant) -> AttentionSpec:
        """Return the spec of a variant, without what happens to the values before."""
        spec = variant.spec(model_width=self.heads * self.width, num_heads=self.heads, context_length=self.tokens)
        return spec.replace(values=None)

    def __str__(self) -> str:
        return f"batch {self.batch}, {plural(self.heads, 'head')} of width {self.width}, {self.tokens} tokens, float32"


@dataclass(frozen=True)
class Case:
    """A call of attention with its tensors."""

    run: Callable[[], Tensor]
    inputs: tuple[Tensor, ...]
    upstream: Tensor  # the gradient of the output

    def forward(self) -> Tensor:
        with torch.no_grad():
            return self.run()

    def forward_backward(self) -> tuple[Tensor, ...]:
        """Return the gradients of all inputs."""
        return torch.autograd.grad(self.run(), self.inputs, self.upstream)


def learned(spec: AttentionSpec) -> dict[str, Parameter]:
    """Return what is learned and used from queries, keys and values on; a latent comes before them."""
    before = {} if spec.compression is None else spec.parameters_of(spec.compression)
    return {name: one for name, one in spec.parameters.items() if name not in before}


@dataclass(frozen=True)
class Inputs:
    """The tensors of a spec, in the same order as `attend` takes them."""

    query: Tensor | None  # (batch, heads, tokens, key width)
    key: Tensor | None  # (batch, key-value heads, tokens, key width)
    value: Tensor  # (batch, key-value heads, tokens, value width)
    extras: dict[str, Tensor]

    @classmethod
    def make(cls, spec: AttentionSpec, size: CallSize) -> Inputs:
        """Draw normal numbers, the same each time."""
        source = torch.Generator().manual_seed(0)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=source).requires_grad_()

        tied = {"key-value": "kv", "query-key": "qk", "query-key-value": "qkv", "identity": "qkv"}.get(spec.sharing, "")
        value = normal(size.batch, spec.num_key_value_heads, size.tokens, spec.value_width)
        key = query = None
        if spec.score.projects_key:
            fresh = "kv" not in tied
            key = normal(size.batch, spec.num_key_value_heads, size.tokens, spec.key_width) if fresh else value
        if spec.score.projects_query:
            fresh = "qk" not in tied
            query = normal(size.batch, spec.num_heads, size.tokens, spec.key_width) if fresh else key
        extras = {
            name: torch.normal(
                one.initial, one.std, one.stored_shape(spec.num_heads), generator=source
            ).requires_grad_()
            for name, one in learned(spec).items()
        }
        for name, projection in spec.projections.items():
            extras[name] = normal(size.batch, projection.heads(spec.num_heads), size.tokens, projection.width)
        return cls(query, key, value, extras)

    @property
    def leaves(self) -> tuple[Tensor, ...]:
        """Return each tensor once, even if it serves as several."""
        present = (tensor for tensor in (self.query, self.key, self.value, *self.extras.values()) if tensor is not None)
        return tuple({id(tensor): tensor for tensor in present}.values())

    def rotated(self, spec: AttentionSpec) -> tuple[Tensor | None, Tensor | None]:
        """Return query and key, rotated where the spec says so."""
        if not isinstance(spec.position, Rope) or self.query is None or self.key is None:
            return self.query, self.key
        return spec.position.rotate(self.query, 0), spec.position.rotate(self.key, 0)


def fused_softmax(size: CallSize, *, causal: bool = True) -> Case:
    """Return the baseline: PyTorch's own fused attention on the plain shape."""
    source = torch.Generator().manual_seed(0)
    shape = size.batch, size.heads, size.tokens, size.width
    query, key, value = inputs = tuple(torch.randn(shape, generator=source).requires_grad_() for _ in range(3))
    run = partial(F.scaled_dot_product_attention, query, key, value, is_causal=causal)
    return Case(run, inputs, torch.randn(shape, generator=source))


class SpecCases:
    """One spec computed in several ways from the same tensors."""

    def __init__(self, spec: AttentionSpec, size: CallSize) -> None:
        self.spec = spec
        self._inputs = Inputs.make(spec, size)
        self._tokens = size.tokens
        shape = size.batch, spec.num_heads, size.tokens, spec.value_width
        self._upstream = torch.randn(shape, generator=torch.Generator().manual_seed(1))

    def variant(self, *, training: bool = False) -> Case:
        """Compute with the kernel that the spec selects."""
        return self._case(partial(self._attend, training=training))

    def reference(self) -> Case:
        """Compute by the definition, with every weight in one matrix."""
        return self._case(self._define)

    def peer(self) -> Case:
        """Compute with the public implementation."""
        return self._case(self._peer)

    def _case(self, run: Callable[[], Tensor]) -> Case:
        return Case(run, self._inputs.leaves, self._upstream)

    def _attend(self, *, training: bool) -> Tensor:
        query, key = self._inputs.rotated(self.spec)
        value, extras = self._inputs.value, self._inputs.extras
        return attend(query, key, value, self.spec, num_queries=self._tokens, extras=extras, training=training)

    def _define(self) -> Tensor:
        query, key = self._inputs.rotated(self.spec)
        value, extras = self._inputs.value, self._inputs.extras
        if self.spec.operator is not None:
            assert query is not None
            assert key is not None
            key, value = (for_every_query_head(tensor, self.spec) for tensor in (key, value))
            own = self.spec.own(self.spec.operator, extras)
            heads = self.spec.operator.define(query, key, value, self._visibility, **own)
            return finish(heads, self.spec, extras, value)
        return attend(query, key, value, self.spec, num_queries=self._tokens, extras=extras, return_weights=True)[0]

    def _peer(self) -> Tensor:
        query, key = self._inputs.rotated(self.spec)
        value = for_every_query_head(self._inputs.value, self.spec)
        given = Matched(query, key, self._tokens, self._tokens, extras=self._inputs.extras)
        hidden = ~self._visibility.grid(value.device)
        return _normalise(self.spec.normaliser)(scores(given, self.spec, value).masked_fill(hidden, _HIDDEN)) @ value

    @property
    def _visibility(self) -> Visibility:
        return Visibility(self.spec.mask, self._tokens, self._tokens)


def peer_is_installed() -> bool:
    return importlib.util.find_spec(PEER) is not None


def has_peer(spec: AttentionSpec) -> bool:
    """Return whether the package computes this normaliser."""
    return spec.operator is None and spec.normaliser.order is not None and spec.normaliser.order > 1


def _normalise(normaliser: Normaliser) -> Callable[[Tensor], Tensor]:
    import entmax  # an optional dependency

    assert normaliser.order is not None
    exact = {2.0: entmax.sparsemax, 1.5: entmax.entmax15}.get(normaliser.order)
    return partial(exact, dim=-1) if exact else partial(entmax.entmax_bisect, alpha=normaliser.order, dim=-1)
