"""Rules: which fields of a spec cannot be combined, why, and what the nearest valid spec is.

Each rule has a condition on a spec, the reason why such a spec is impossible, and the changes that lead to the nearest
valid one. The user sees the error of the first rule that a spec breaks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnlab.attention.parts.masks import Mask
from attnlab.attention.parts.normalisers import Normaliser, Softmax
from attnlab.attention.parts.operators import Operator
from attnlab.attention.parts.positions import Alibi, DecoupledRope, Learned, NoPosition, Rope
from attnlab.attention.parts.scores import ScaledDot, Score
from attnlab.errors import SpecError

if TYPE_CHECKING:
    from attnlab.attention.spec import AttentionSpec


@dataclass(frozen=True)
class Rule:
    breaks: Callable[[AttentionSpec], bool]
    reason: Callable[[AttentionSpec], str]
    mend: Callable[[AttentionSpec], dict[str, object]]


def largest_divisor(number: int, at_most: int) -> int:
    return next(d for d in range(min(number, at_most), 0, -1) if number % d == 0)


def _mend_odd_width(s: AttentionSpec) -> dict[str, object]:
    if s.sharing == "identity":  # its width is fixed
        return {"position": Learned()}
    wider: dict[str, object] = {"key_width": s.key_width + 1}
    return wider | ({"value_width": s.key_width + 1} if s.value_width == s.key_width else {})


def _wrongly_projected(s: AttentionSpec) -> dict[str, object]:
    """Return the fields whose parts need projections of the tokens and cannot have them, with their defaults."""
    parts = {"normaliser": s.normaliser, "mask": s.mask, "position": s.position}
    names = (name for name, part in parts.items() if part is not None and part.projections(s))
    return {name: type(s).model_fields[name].default for name in names}


def _made_otherwise(s: AttentionSpec) -> dict[str, object]:
    """Return the fields that do not work with keys and values from a latent, with their plain values."""
    plain: dict[str, object] = {"sharing": "none", "num_key_value_heads": s.num_heads, "operator": None}
    plain["values"] = None
    if s.normaliser.maps > 1:
        plain["normaliser"] = Softmax()
    return {name: value for name, value in plain.items() if getattr(s, name) != value}


def _mend_rotary(s: AttentionSpec) -> dict[str, object]:
    if s.compression is None:
        return {"position": Rope() if s.key_width % 2 == 0 else Learned()}
    even = (s.key_width - 1) // 2 * 2
    return {"position": DecoupledRope(width=even) if even else Learned()}


def _rotates_badly(s: AttentionSpec) -> bool:
    position = s.position
    if not isinstance(position, DecoupledRope):
        return False
    return s.compression is None or position.width % 2 == 1 or position.width >= s.key_width


def _looking_back(s: AttentionSpec) -> dict[str, Score | Normaliser | Operator]:
    """Return those of score, normaliser and operator that cannot handle keys after the query, by field."""
    middle: dict[str, Score | Normaliser | Operator] = {"score": s.score, "normaliser": s.normaliser}
    parts = middle if s.operator is None else {"operator": s.operator}
    return {name: part for name, part in parts.items() if part.looks_back}


def _shows_later_keys(mask: Mask) -> bool:
    return not mask.causal or mask.prefix is not None


def _halves_unevenly(s: AttentionSpec) -> bool:
    """Return whether the maps of the normaliser cannot have equal halves of queries and keys, or of RoPE's pairs."""
    matched = s.score.projects_query and s.score.projects_key
    pieces = 2 * s.normaliser.maps if isinstance(s.position, Rope) else s.normaliser.maps
    return s.operator is None and s.normaliser.maps > 1 and not (matched and s.key_width % pieces == 0)


def _without_effect(s: AttentionSpec) -> dict[str, object]:
    """Return the fields that a whole layer ignores and that differ from their plain values, with these values."""
    if s.layer is None:
        return {}
    names = ["score", "normaliser", "sharing", "value_map", "join", "operator", "head_output"]
    names += ["compression", "values"]
    each = s.model_width // s.num_heads
    plain = {name: type(s).model_fields[name].default for name in names}
    plain |= {"num_key_value_heads": s.num_heads, "key_width": each, "value_width": each}
    return {name: value for name, value in plain.items() if getattr(s, name) != value}


def _unmasked(s: AttentionSpec) -> bool:
    """Return whether a whole layer cannot apply the mask of the spec."""
    if s.layer is None:
        return False
    return s.mask.adds_bias or (s.source == "self" and "mask" not in s.layer.takes and s.mask != Mask())


def _sized(s: AttentionSpec) -> str:
    """Return the kind of the part whose parameters may have the size of the longest sequence."""
    return s.score.kind if s.layer is None else s.layer.kind


_ONE_VECTOR = {"key-value", "query-key-value", "identity"}

RULES: tuple[Rule, ...] = (
    Rule(
        lambda s: bool(_without_effect(s)),
        lambda s: (
            f"the layer {s.layer} takes the place of all attention: "
            f"{', '.join(f'{name}={_shown(getattr(s, name))}' for name in _without_effect(s))} would do nothing"
        ),
        _without_effect,
    ),
    Rule(
        lambda s: s.layer is not None and s.source == "cross" and "source" not in s.layer.takes,
        lambda s: f"the layer {s.layer} takes no source, and cross-attention attends to another sequence",
        lambda _: {"source": "self"},
    ),
    Rule(
        _unmasked,
        lambda s: (
            f"the layer {s.layer} takes no mask and is causal by itself: it has no {s.mask} form"
            if s.layer is not None and "mask" not in s.layer.takes
            else f"{s.mask} adds to scores, and the layer {s.layer} has none"
        ),
        lambda s: {"mask": Mask(causal=s.source == "self")},
    ),
    Rule(
        lambda s: s.layer is not None and (isinstance(s.position, Rope) or s.position in s.biased),
        lambda s: f"{s.position} acts on queries, keys or scores, and the layer {s.layer} has none",
        lambda s: {"position": Learned() if s.source == "self" else NoPosition()},
    ),
    Rule(
        lambda s: s.layer is not None and s.weight_dropout > 0 and "dropout" not in s.layer.sizes,
        lambda s: f"the constructor of the layer {s.layer} takes no dropout",
        lambda _: {"weight_dropout": 0.0},
    ),
    Rule(
        lambda s: s.num_heads % s.num_key_value_heads != 0,
        lambda s: f"{s.num_heads} query heads cannot share {s.num_key_value_heads} key and value heads evenly",
        lambda s: {"num_key_value_heads": largest_divisor(s.num_heads, s.num_key_value_heads)},
    ),
    Rule(
        lambda s: s.sharing in {"query-key", "query-key-value", "identity"} and s.group_size > 1,
        lambda s: (
            f"sharing={s.sharing!r} makes one vector both query and key, so there must be as many key heads as "
            f"query heads, not {s.num_key_value_heads} for {s.num_heads}"
        ),
        lambda s: {"num_key_value_heads": s.num_heads},
    ),
    Rule(
        lambda s: s.sharing != "none" and not (s.score.projects_query and s.score.projects_key),
        lambda s: f"{s.score.kind} has no key to share: its scores do not come from query and key vectors",
        lambda _: {"sharing": "none"},
    ),
    Rule(
        lambda s: s.sharing in _ONE_VECTOR and s.value_map == "full",
        lambda s: f"sharing={s.sharing!r} makes the key also the value, and a full value map makes it another vector",
        lambda s: {"value_map": "factored", "value_width": s.key_width},
    ),
    Rule(
        lambda s: s.sharing == "identity" and s.num_heads * s.key_width != s.model_width,
        lambda s: (
            f"without projections the heads are slices of the token, so {s.num_heads} heads of width {s.key_width} "
            f"must make up the model width {s.model_width}"
        ),
        lambda s: (
            {"key_width": s.model_width // s.num_heads, "value_width": s.model_width // s.num_heads}
            if s.model_width % s.num_heads == 0
            else {"num_heads": 1, "num_key_value_heads": 1, "key_width": s.model_width, "value_width": s.model_width}
        ),
    ),
    Rule(
        lambda s: s.sharing in _ONE_VECTOR and s.key_width != s.value_width,
        lambda s: (
            f"sharing={s.sharing!r} makes one vector both key and value, so their widths {s.key_width} and "
            f"{s.value_width} must be equal"
        ),
        lambda s: {"value_width": s.key_width},
    ),
    Rule(
        lambda s: s.value_map == "full" and s.value_width != s.model_width,
        lambda s: f"a full value map goes from the model width to itself: {s.model_width}, not {s.value_width}",
        lambda s: {"value_width": s.model_width},
    ),
    Rule(
        lambda s: s.compression is not None and bool(_made_otherwise(s)),
        lambda s: (
            f"compression makes the keys and values of every head from a latent, which leaves no place for "
            f"{next(iter(_made_otherwise(s)))}={_shown(getattr(s, next(iter(_made_otherwise(s)))))}"
        ),
        _made_otherwise,
    ),
    Rule(
        lambda s: s.compression is not None and not s.score.projects_key,
        lambda s: f"{s.score.kind} has no keys to make from a latent",
        lambda _: {"score": ScaledDot(), "context_length": None},
    ),
    Rule(
        lambda s: s.compression is not None and isinstance(s.position, Rope),
        lambda _: "rope rotates whole keys, and those that are made from a latent cannot be cached as one",
        _mend_rotary,
    ),
    Rule(
        _rotates_badly,
        lambda s: (
            f"{s.position} is for a key that ends in an even number of rotated numbers behind those made from a "
            f"latent, and this one has a width of {s.key_width} and {s.compression or 'no compression'}"
        ),
        _mend_rotary,
    ),
    Rule(
        lambda s: s.needs_context and s.context_length is None,
        lambda s: f"the parameters of {_sized(s)} have the size of the longest sequence: context_length is missing",
        lambda _: {"context_length": 1024},
    ),
    Rule(
        lambda s: s.score.needs_context and s.source == "cross",
        lambda s: f"{s.score.kind} scores positions of its own sequence, and cross-attention attends to another",
        lambda _: {"source": "self"},
    ),
    Rule(
        lambda s: not s.needs_context and s.context_length is not None,
        lambda s: f"{_sized(s)} has no parameter that depends on context_length={s.context_length}",
        lambda _: {"context_length": None},
    ),
    Rule(
        lambda s: isinstance(s.position, Rope) and not (s.score.projects_query and s.score.projects_key),
        lambda s: f"rope rotates queries and keys, and {s.score.kind} does not match them",
        lambda _: {"position": Alibi()},
    ),
    Rule(
        lambda s: isinstance(s.position, Rope) and s.key_width % 2 == 1,
        lambda s: f"rope rotates pairs of numbers, so the key width must be even, not {s.key_width}",
        _mend_odd_width,
    ),
    Rule(
        lambda s: s.source == "cross" and s.mask != Mask(causal=False),
        lambda s: f"cross-attention attends to another sequence, where a {s.mask} mask has no meaning",
        lambda _: {"mask": Mask(causal=False)},
    ),
    Rule(
        lambda s: s.source == "cross" and s.position is not None and s.position.relative,
        lambda s: f"{s.position} works by the distance between query and key, and two sequences have none in common",
        lambda _: {"position": NoPosition()},
    ),
    Rule(
        lambda s: s.score.sign == "never positive" and s.normaliser.only_positive,
        lambda s: f"{s.score.kind} scores are never positive, and {s.normaliser.kind} gives weight to nothing else",
        lambda _: {"normaliser": Softmax()},
    ),
    Rule(
        lambda s: bool(_looking_back(s)) and _shows_later_keys(s.mask),
        lambda s: (
            f"{' and '.join(part.kind for part in _looking_back(s).values())} attends only to earlier tokens, and a "
            f"{s.mask} mask shows keys after it"
        ),
        lambda s: (
            {name: type(s).model_fields[name].default for name in _looking_back(s)}
            if s.source == "cross"
            else {"mask": Mask(window=s.mask.window)}
        ),
    ),
    Rule(
        _halves_unevenly,
        lambda s: (
            f"{s.normaliser.kind} halves queries and keys, and those of {s.score.kind} with a key width of "
            f"{s.key_width}" + (" and rope" * isinstance(s.position, Rope)) + " cannot be halved"
        ),
        lambda _: {"normaliser": Softmax()},
    ),
    Rule(
        lambda s: s.values is not None and s.sharing in _ONE_VECTOR,
        lambda s: f"sharing={s.sharing!r} makes the key also the value, and values={s.values} makes it another vector",
        lambda _: {"values": None},
    ),
    Rule(
        lambda s: s.head_output is not None and s.head_output.takes_value and s.source == "cross",
        lambda s: f"{s.head_output} takes the token's own value, and cross-attention has those of another sequence",
        lambda _: {"head_output": None},
    ),
    Rule(
        lambda s: bool(_wrongly_projected(s)),
        lambda s: (
            f"the {next(iter(_wrongly_projected(s)))} needs vectors of the tokens, which only scores, operators and "
            "head outputs can have"
        ),
        _wrongly_projected,
    ),
    Rule(
        lambda s: s.operator is not None and s.score != ScaledDot(),
        lambda s: f"the operator {s.operator} replaces score and normaliser: {s.score} would do nothing",
        lambda _: {"score": ScaledDot()},
    ),
    Rule(
        lambda s: s.operator is not None and s.normaliser != Softmax(),
        lambda s: f"the operator {s.operator} replaces score and normaliser: {s.normaliser} would do nothing",
        lambda _: {"normaliser": Softmax()},
    ),
    Rule(
        lambda s: s.operator is not None and (s.mask.window is not None or s.mask.prefix is not None),
        lambda s: f"the operator {s.operator} sums over all that came before: it has no {s.mask} form",
        lambda s: {"mask": Mask(causal=s.mask.causal)},
    ),
    Rule(
        lambda s: s.mask.first is not None and (bool(s.biased) or s.score.looks_back or s.normaliser.looks_back),
        lambda s: f"a {s.mask} mask forgets tokens between those that it shows, and this attention counts distances",
        lambda s: {"mask": Mask(window=s.mask.window)},
    ),
    Rule(
        lambda s: s.mask.first is not None and s.needs_context,
        lambda s: f"a {s.mask} mask moves keys to other places in the cache, and {_sized(s)} scores places",
        lambda s: {"mask": Mask(window=s.mask.window)},
    ),
    Rule(
        lambda s: s.operator is not None and s.weight_dropout > 0,
        lambda s: f"the operator {s.operator} has no attention weights to drop",
        lambda _: {"weight_dropout": 0.0},
    ),
    Rule(
        lambda s: s.operator is not None and (isinstance(s.position, Rope) or s.position in s.biased),
        lambda s: f"{s.position} acts on scores, and the operator {s.operator} has none",
        lambda _: {"position": Learned()},
    ),
)


def check(spec: AttentionSpec) -> None:
    """Refuse a spec that breaks a rule, and name the nearest valid one."""
    broken = next((rule for rule in RULES if rule.breaks(spec)), None)
    if broken is None:
        return
    changes: dict[str, object] = {}
    draft = spec
    for _ in RULES:  # one fix may break another rule, but not endlessly
        changes |= next((rule.mend(draft) for rule in RULES if rule.breaks(draft)), {})
        draft = spec.model_copy(update=changes)
    assert not any(rule.breaks(draft) for rule in RULES), f"the rules contradict each other for {spec!r}"
    nearest = type(spec)(**{name: getattr(draft, name) for name in type(spec).model_fields})
    told = ", ".join(f"{name}={_shown(value)}" for name, value in changes.items())
    raise SpecError(broken.reason(spec), hint=f"the nearest that is possible has {told}", nearest=nearest)


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, str) else str(value)
