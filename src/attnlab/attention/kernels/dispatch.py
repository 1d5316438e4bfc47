"""Select the kernel of a spec, and call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from torch import Tensor

from attnlab.attention.groups import for_every_query_head, repeated
from attnlab.attention.kernels.differentiable import CallOptions, Tensors, blocked_attention
from attnlab.attention.kernels.dropout import WeightDropout
from attnlab.attention.kernels.fused import can_add_sink, fused_softmax, fused_softmax_sink
from attnlab.attention.parts.masks import Visibility
from attnlab.attention.parts.normalisers import Normaliser
from attnlab.attention.parts.operators import full_precision
from attnlab.attention.parts.scores import InnerProduct, Matched, Table
from attnlab.attention.spec import AttentionSpec
from attnlab.errors import InputError

Kernel = Literal["fused", "blocked", "operator", "module"]


def kernel_for(spec: AttentionSpec, visibility: Visibility | None = None, *, dropout: bool | None = None) -> Kernel:
    """Return which kernel serves a spec; by default in training, for whole sequences of equal length without padding.

    Parameters
    ----------
    spec
        The specification of the layer.
    visibility
        Which keys queries see; None for whole sequences.
    dropout
        Whether weights are dropped; None follows the spec.
    """
    spec = spec.one_map
    visibility = visibility or Visibility(spec.mask, 4096, 4096)
    if spec.layer is not None:
        return "module"
    dropout = spec.weight_dropout > 0 if dropout is None else dropout
    if spec.operator is not None:
        return "operator"
    reducible = (
        spec.normaliser.fused != "no"
        and spec.score.pure_product
        and len(spec.biased) == 0  # `torch.compile` refuses `not` for a tuple
        and not dropout
        and spec.key_width == spec.value_width  # otherwise padding the narrower one costs more than it saves
        and (visibility.plainly_causal or visibility.hides_nothing)
    )
    return "fused" if reducible else "blocked"


def attend(
    given: Matched, value: Tensor, spec: AttentionSpec, visibility: Visibility, dropout: WeightDropout | None = None
) -> Tensor:
    """Return the output (batch, heads, queries, value width) of the fastest exact kernel. Differentiable once."""
    if spec.operator is not None:
        if visibility.pattern is not None:
            raise InputError(f"the operator {spec.operator} does not accept your own mask", hint="give padding instead")
        query, key = given.vectors
        if not spec.operator.takes_groups:
            key, value = (for_every_query_head(vectors, spec) for vectors in (key, value))
        with full_precision(value) as cast:
            own = {name: cast(tensor) for name, tensor in spec.own(spec.operator, given.extras).items()}
            return spec.operator.attend(cast(query), cast(key), cast(value), visibility, **own).to(value.dtype)
    if given.key is not None and not spec.score.takes_groups:
        given = replace(given, key=for_every_query_head(given.key, spec))
    logits = spec.score.logits(given, **spec.own(spec.score, given.extras))
    if isinstance(logits, InnerProduct) and kernel_for(spec, visibility, dropout=dropout is not None) == "fused":
        causal, value = visibility.plainly_causal, repeated(value, logits.key.shape[1])
        logits = with_row_factors(logits, spec, visibility, given.extras)
        if spec.normaliser.fused == "plain":
            return fused_softmax(logits, value, causal=causal)
        if can_add_sink(value):
            return fused_softmax_sink(logits, value, **spec.own(spec.normaliser, given.extras), causal=causal)
    return _blocked(logits, given.extras, value, spec, visibility, dropout)


def with_row_factors(
    logits: InnerProduct, spec: AttentionSpec, visibility: Visibility, extras: Mapping[str, Tensor]
) -> InnerProduct:
    """Return the logits for the fused kernel: queries times the row factor of the normaliser, if it has one."""
    normaliser = spec.normaliser
    if type(normaliser).row_factor is Normaliser.row_factor:
        return logits
    factor = normaliser.row_factor(visibility.counts(logits.query), **spec.own(normaliser, extras))
    return replace(logits, query=(logits.query * factor).to(logits.query.dtype))


def idle_queries(product: InnerProduct, spec: AttentionSpec) -> bool:
    """Return whether the terms of the queries change neither the weights nor a gradient."""
    return spec.normaliser.shift_invariant and not product.cancels


def _blocked(
    logits: InnerProduct | Table,
    extras: Mapping[str, Tensor],
    value: Tensor,
    spec: AttentionSpec,
    visibility: Visibility,
    dropout: WeightDropout | None,
) -> Tensor:
    table = logits.entries if isinstance(logits, Table) else None
    product = None if isinstance(logits, Table) else logits
    learned = {
        (part.family, name): (part.parameters(spec)[name].per == "head", tensor)
        for part in (spec.normaliser, *spec.biased)
        for name, tensor in spec.own(part, extras).items()
    }
    tensors = Tensors(
        query=None if product is None else product.query,
        key=None if product is None else product.key,
        query_bias=None if product is None or idle_queries(product, spec) else product.query_bias,
        key_bias=None if product is None else product.key_bias,
        table=table,
        value=value,
        padding=visibility.padding,
        pattern=visibility.pattern,
        seed=None if dropout is None else dropout.seed,
        learned=tuple(tensor for _, tensor in learned.values()),
    )
    options = CallOptions(
        normaliser=spec.normaliser,
        mask=visibility.mask,
        position=spec.position,
        learned=tuple((*names, per_head) for names, (per_head, _) in learned.items()),
        num_heads=spec.num_heads,
        num_queries=visibility.num_queries,
        query_start=visibility.query_start,
        scale=1.0 if product is None else product.scale,
        dropout=0.0 if dropout is None else dropout.rate,
    )
    return blocked_attention(tensors, options)
