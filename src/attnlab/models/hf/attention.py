"""attnlab's attention inside Transformers models (needs the extra `hf`).

    from transformers import AutoModelForCausalLM
    from attnlab.models import hf

    hf.register()
    model = AutoModelForCausalLM.from_config(config, attn_implementation="attnlab:sigmoid")

The model's projections, rotation and cache are unchanged. A variant is registered if it is a function of the query, key
and value that the model passes: a score, a normaliser, a window, ALiBi, an operator, and combinations of these such as
"window+sigmoid". `register` returns which variants are left out, and why.

Which settings come from the model, and which from the variant:

    scaling    the model's for the scaled dot product; the raw product, cosine, distance and operators are as defined
    mask       the product of the model's mask and the variant's window; `n` of a normaliser counts the visible keys
    position   the model's; ALiBi is added to it
    dropout    the model's, of the weights (`attn_pdrop`, `attention_dropout`); an operator has no weights to drop

Attention weights are returned for `output_attentions=True`, computed by the reference.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attnlab.attention import Alibi, AttentionSpec, Mask, ScaledDot, Variant, attend, variant, variants
from attnlab.errors import UnsupportedError
from attnlab.models.hf.masks import as_padding, make_mask, read_mask

PREFIX = "attnlab:"

_OFFERED_FIELDS = {"score", "normaliser", "mask", "position", "operator"}
_RESERVED = ("flash", "flex_attention", "sdpa")
_REFUSED_ARGUMENTS = {
    "position_bias": "adds a bias of its own to the scores",
    "softcap": "caps its scores",
    "s_aux": "has attention sinks of its own",
    "cache": "keeps keys and values in pages",
}


@dataclass(frozen=True)
class Registration:
    """What `register` did, by the names of the variants."""

    registered: dict[str, str]  # variant → value of `attn_implementation`
    left_out: dict[str, str]  # variant → why

    def __str__(self) -> str:
        lines = [*self.registered.values()]
        return "\n".join(lines + [f"left out: {name}: {reason}" for name, reason in self.left_out.items()])


def register(names: str | Iterable[str] | None = None) -> Registration:
    """Register variants with Transformers as `attnlab:<name>`; without names, all that are supported.

    If a given name is not supported, this is an error and nothing is registered. Variants added later need another
    call; calling again is harmless.
    """
    attentions, masks = _interfaces()
    if names is None:
        wanted = list(variants())
    else:
        wanted = [variant(name) for name in ([names] if isinstance(names, str) else names)]
    reasons = {one.name: reason for one in wanted if (reason := why_not(one)) is not None}
    if names is not None and reasons:
        name, reason = next(iter(reasons.items()))
        raise UnsupportedError(
            f"the variant {name!r} cannot be used in a model of Transformers: {reason}",
            hint="register() offers all that can be, and says which; attnlab's own models take every variant",
        )
    offered = [one for one in wanted if one.name not in reasons]
    for one in offered:
        attentions.register(PREFIX + one.name, VariantAttention(one))
        masks.register(PREFIX + one.name, make_mask)
    return Registration({one.name: PREFIX + one.name for one in offered}, reasons)


def why_not(one: Variant) -> str | None:
    """Return why a variant is not a function of the model's query, key and value; None if it is."""
    spec = one.spec()
    parameters = sorted(spec.parameters)
    others = sorted(one.changes.keys() - _OFFERED_FIELDS)
    taken = [word for word in _RESERVED if word in one.name]
    if others:
        return f"it changes {', '.join(others)}, and that is for the model's own projections and layers to say"
    if parameters:
        return f"it has parameters of its own ({', '.join(parameters)}), and the model has no place for them"
    if not (spec.score.projects_query and spec.score.projects_key):
        return f"its score {spec.score} is not made from query and key"
    if spec.position is not None and not isinstance(spec.position, Alibi):
        return f"the position {spec.position.kind!r} enters before the scores, where the model has its own"
    if spec.mask.prefix is not None or spec.mask == Mask(causal=False):
        return f"its mask ({spec.mask}) shows more than a causal one, and only the model can show more"
    if spec.normaliser.looks_back:
        return f"its normaliser {spec.normaliser} needs a causal mask, and the model gives masks as patterns"
    if taken:
        return f"Transformers takes a name with {taken[0]!r} in it for a kernel of its own: name it otherwise"
    return None


class VariantAttention:
    """A variant as `AttentionInterface` calls it."""

    def __init__(self, one: Variant) -> None:
        spec = one.spec()
        self.variant = one
        self.own_mask = spec.mask if "mask" in one.changes else None
        self.by_distance = self.own_mask is not None or isinstance(spec.position, Alibi)
        self.is_operator = spec.operator is not None
        self.takes_scaling = isinstance(spec.score, ScaledDot) and not self.is_operator
        self._specs: dict[tuple[Any, ...], AttentionSpec] = {}

    def __call__(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        dropout: float = 0.0,
        scaling: float | None = None,
        is_causal: bool | None = None,
        **others: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Return the attention output, (batch, queries, heads, width), and the attention weights, if requested.

        `query` has the shape (batch, heads, queries, width), `key` and `value` (batch, key-value heads, keys, width).
        `dropout` is 0 when the model is not training.
        """
        causal = bool(getattr(module, "is_causal", True) if is_causal is None else is_causal)
        self._refuse(module, causal, query, key, dropout, others)
        lengths = query.shape[2], key.shape[2]
        view = read_mask(attention_mask, *lengths, causal=causal, own=self.own_mask, by_distance=self.by_distance)
        if self.is_operator:
            view = as_padding(view, key.shape[0], causal=causal)
        if self.is_operator and causal:  # a static cache may hold empty slots after the last query
            key, value = (vectors[:, :, : view.query_start + query.shape[2]] for vectors in (key, value))
        if self.takes_scaling:
            query = _rescaled(query, scaling)
        call = functools.partial(
            attend,
            query,
            key,
            value,
            self._spec(query, key, value, view.mask, dropout),
            query_start=view.query_start,
            padding=None if view.padding is None else view.padding[:, : key.shape[2]],
            visible=view.visible,
            training=dropout > 0,
        )
        if _weights_wanted(others):
            output, weights = call(return_weights=True)
            return output.transpose(1, 2).contiguous(), weights
        return call().transpose(1, 2).contiguous(), None

    def _spec(self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, dropout: float) -> AttentionSpec:
        """Return the spec of the variant at the model's heads and widths."""
        asked = query.shape[1], key.shape[1], query.shape[-1], value.shape[-1], mask.text, dropout
        if asked not in self._specs:
            base = AttentionSpec(
                model_width=query.shape[1] * query.shape[-1],
                num_heads=query.shape[1],
                num_key_value_heads=key.shape[1],
                key_width=query.shape[-1],
                value_width=value.shape[-1],
            )
            self._specs[asked] = self.variant.change(base).replace(mask=mask, weight_dropout=dropout)
        return self._specs[asked]

    def _refuse(
        self, module: nn.Module, causal: bool, query: Tensor, key: Tensor, dropout: float, others: Mapping[str, object]
    ) -> None:
        """Refuse what the model asks of attention and the variant cannot give."""
        name = self.variant.name
        for argument, what in _REFUSED_ARGUMENTS.items():
            if others.get(argument) is not None:
                raise UnsupportedError(
                    f"{type(module).__name__} {what} ({argument}), and the variant {name!r} has no place for that",
                    hint="use another model, or another `attn_implementation`",
                )
        if self.is_operator and dropout > 0:
            raise UnsupportedError(
                f"the model drops attention weights with probability {dropout:g}, and {name!r} has none",
                hint="set that dropout of the configuration to 0: attn_pdrop in GPT-2, attention_dropout in Llama",
            )
        if self.by_distance and _two_sequences(module, causal, query, key):
            raise UnsupportedError(
                f"the variant {name!r} needs the distance of query and key, which cross-attention does not have",
                hint="use it in models without cross-attention",
            )


def _rescaled(query: Tensor, scaling: float | None) -> Tensor:
    """Return the query times the factor that turns 1/√D_k into the model's own scale."""
    factor = 1.0 if scaling is None else scaling * math.sqrt(query.shape[-1])
    return query if math.isclose(factor, 1.0, rel_tol=1e-6) else query * factor


def _two_sequences(module: nn.Module, causal: bool, query: Tensor, key: Tensor) -> bool:
    """Return whether queries and keys come from different sequences, as far as a module tells."""
    named = "cross" in type(module).__name__.lower() or bool(getattr(module, "is_cross_attention", False))
    return named or (not causal and (bool(getattr(module, "is_decoder", False)) or query.shape[2] != key.shape[2]))


def _weights_wanted(others: Mapping[str, object]) -> bool:
    """Return whether attention weights are requested. Some models do not pass the flag on, but collect the weights."""
    if others.get("output_attentions"):
        return True
    from transformers.utils import output_capturing

    collector = getattr(output_capturing, "_active_collector", None)
    if collector is None or torch.compiler.is_compiling():
        return False
    return any(name.endswith("attentions") for name in collector.get() or {})


def _interfaces() -> tuple[Any, Any]:
    """Return the registries of Transformers for attention functions and mask functions."""
    try:
        from transformers import AttentionInterface
        from transformers.masking_utils import AttentionMaskInterface
    except ImportError as error:
        raise UnsupportedError(
            f"the models of Transformers need Transformers 5 or later: {error}", hint="pip install 'attnlab[hf]'"
        ) from None
    return AttentionInterface, AttentionMaskInterface
