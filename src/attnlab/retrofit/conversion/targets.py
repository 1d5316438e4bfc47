"""The target spec of a layer: the spec of a variant, derived from the layer's own spec.

Conversions without training:

    mask            weights unchanged: window, sink-window
    sharing         K = V by least squares: tied-kv
    key heads       merged by least squares, or repeated exactly: gqa, mqa
    widths          reduced by least squares: low-rank-value, low-rank-key (without RoPE)
    latent          low-rank: mla
    normaliser      with fitted temperature, and a fitted bias if a shift of all scores matters: sigmoid, relu, …
    anything that keeps the projections (operators, head outputs, scores): weights unchanged, and new parameters at
                    the variant's initialisation

Other changes to the position, the number of heads or the projections are refused.
"""

from __future__ import annotations

from attnlab.attention import AttentionSpec, BiasedDot, Dot, Latent, Learned, Rope, ScaledDot, Variant, variant
from attnlab.attention.layer import projection_shapes
from attnlab.errors import SpecError, UnsupportedError
from attnlab.models import ModelSpec
from attnlab.retrofit.conversion.latents import latent_spec

_SUPPORTED = "tied-kv, gqa, mqa, mla, low-rank-value, window, sink-window, and other normalisers such as sigmoid"
_PRODUCTS = (ScaledDot, Dot, BiasedDot)  # scores that are linear in queries and in keys
_MERGED = ("sharing", "num_key_value_heads", "key_width", "value_width", "compression")


def target_layers(model: ModelSpec, name: str) -> tuple[AttentionSpec, ...]:
    """Return the spec that a variant makes of each layer of a model."""
    if model.family != "decoder":
        raise UnsupportedError(f"a model of the family {model.family} cannot be retrofitted", hint="give a decoder")
    one = variant(name)
    found = tuple(_target(spec, one, model.context_length) for spec in model.attention)
    if one.changes and found == model.attention:
        raise SpecError(f"{name} changes nothing about this model", hint=_nothing_changed(model.attention[0], one))
    return found


def is_merged(source: AttentionSpec, target: AttentionSpec) -> bool:
    """Return whether keys or values of a layer are made by other maps than before."""
    return any(getattr(source, name) != getattr(target, name) for name in _MERGED)


def is_rescored(source: AttentionSpec, target: AttentionSpec) -> bool:
    """Return whether a layer gets another normaliser, to which its scores are fitted by scaling its queries."""
    plain = target.operator is None and target.normaliser.maps == 1 and not target.biased
    return source.normaliser != target.normaliser and plain and isinstance(target.score, _PRODUCTS)


def _target(source: AttentionSpec, one: Variant, context: int) -> AttentionSpec:
    _check_source(source)
    changes = set(one.changes)
    if "compression" in changes:
        changes -= {"position", "key_width", "value_width"}
        if changes != {"compression"}:
            raise UnsupportedError(
                f"{one.name} changes more than the latent of keys and values", hint="retrofit mla alone, as in mla:128"
            )
        every = source.replace(position=Learned(), num_key_value_heads=source.num_heads)
        latent = one.change(every, context).compression
        assert isinstance(latent, Latent)
        _check_latent(source, latent)
        return latent_spec(source, latent)
    target = one.change(source, context)
    _check_target(source, target, one, context)
    rescored = is_rescored(source, target) and not target.normaliser.shift_invariant
    return target.replace(score=BiasedDot()) if rescored and target.score == ScaledDot() else target


def _check_source(source: AttentionSpec) -> None:
    if source.layer is not None or source.values is not None or source.operator is not None:
        what = source.layer or source.values or source.operator
        raise UnsupportedError(f"a layer with {what} cannot be retrofitted", hint="give a model with plain attention")


def _can_merge(source: AttentionSpec) -> bool:
    """Return whether keys and values of a layer enter it linearly, so that others can take their place."""
    linear = isinstance(source.score, _PRODUCTS) and source.head_output is None
    return linear and source.compression is None and source.normaliser.maps == 1


def _check_latent(source: AttentionSpec, latent: Latent) -> None:
    held = source.num_key_value_heads * (source.key_width + source.value_width)
    if source.sharing != "none" or not _can_merge(source):
        raise UnsupportedError("only plain keys and values can be made from a latent", hint="retrofit the model first")
    if not 2 <= latent.width < held:
        raise SpecError(
            f"a latent of width {latent.width} saves nothing beside keys and values of {held} numbers in all",
            hint=f"use mla:{max(2, held // 2)}, for instance",
        )


def _check_target(source: AttentionSpec, target: AttentionSpec, one: Variant, context: int) -> None:
    if target.mask.is_idle(context):
        raise SpecError(
            f"a window of {target.mask.window} tokens hides nothing in a context of {context}",
            hint=f"use a window below {context}",
        )
    if target.position != source.position:
        raise UnsupportedError(f"{one.name} changes the position", hint=f"use one of {_SUPPORTED}")
    if target.mask.causal != source.mask.causal or target.mask.prefix != source.mask.prefix:
        raise UnsupportedError(f"{one.name} shows tokens that come later", hint=f"use one of {_SUPPORTED}")
    narrower = target.key_width != source.key_width
    if narrower and isinstance(source.position, Rope):
        raise UnsupportedError(f"{one.name} changes the width of rotated keys", hint=f"use one of {_SUPPORTED}")
    rows = (source.num_key_value_heads, target.num_key_value_heads)
    uneven = max(rows) % min(rows) != 0
    if uneven:
        raise SpecError(
            f"{rows[0]} key and value heads cannot be divided into {rows[1]}", hint=f"use a divisor of {rows[0]}"
        )
    other = {"num_heads", "value_map", "join", "values", "layer"}
    changed = [name for name in other if getattr(target, name) != getattr(source, name)]
    tied = target.sharing not in {"none", "key-value"} or (source.sharing != "none" and target.sharing == "none")
    same = projection_shapes(source) == projection_shapes(target)
    fits = _can_merge(source) and _can_merge(target) if is_merged(source, target) else same
    if changed or tied or not fits or target.of_model:
        raise UnsupportedError(
            f"no weights for {one.name} can be had from those of this model", hint=f"use one of {_SUPPORTED}"
        )


def _nothing_changed(source: AttentionSpec, one: Variant) -> str:
    if "num_key_value_heads" in one.changes:
        return f"it has {source.num_key_value_heads} key and value heads; use mqa, or gqa:N with fewer"
    return "name another variant"
