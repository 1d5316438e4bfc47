"""The catalogue: variants by name.

A variant states only what it changes in GPT-2's attention; the command line, the cost model, the benchmarks and the
tests all read this list. `a+b` names a variant that combines both changes, `a:5` one with a number. A variant that
replaces a part of GPT-2's is declared by the class of that part; those that change a field of the spec are listed
below.

To add a variant, in a notebook or in a file:

    from attnlab.attention import Variant, add_variant

    add_variant(Variant("sharp", "Softmax at half the temperature.", {"score": {"kind": "cosine", "temperature": 0.5}}))
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from attnlab.attention.kernels import Kernel, kernel_for
from attnlab.attention.layers.own import OwnLayer, check_heads
from attnlab.attention.names.changes import Change, OfContext, read_number, resolved, with_number
from attnlab.attention.parts.compression import Latent
from attnlab.attention.parts.head_outputs import HeadOutput
from attnlab.attention.parts.masks import Mask
from attnlab.attention.parts.normalisers import Normaliser
from attnlab.attention.parts.operators import Operator
from attnlab.attention.parts.part import Declared, Number, Part
from attnlab.attention.parts.positions import DecoupledRope, Position, Rope
from attnlab.attention.parts.scores import Score
from attnlab.attention.parts.values import Values
from attnlab.attention.rules import largest_divisor
from attnlab.attention.spec import AttentionSpec
from attnlab.errors import SpecError, UnknownNameError


@dataclass(frozen=True)
class Variant:
    """A named change of attention. A change may be a function of the spec that it starts from."""

    name: str
    meaning: str
    changes: Mapping[str, Change]
    source: str = ""
    asks: str = ""  # the question that it examines, after the ids of its claims in docs/claims.md
    builtin: bool = False
    file_hash: str = ""  # of the file that added it, if one did
    number: Number | None = None  # that may follow the name

    def spec(
        self, model_width: int = 768, num_heads: int = 12, context_length: int = 1024, **fields: Any
    ) -> AttentionSpec:
        """Return its spec at a size; `fields` are further fields of the base spec, such as `bias` or `source`."""
        base = AttentionSpec(model_width=model_width, num_heads=num_heads, **fields)
        return self.change(base, context_length)

    def change(self, base: AttentionSpec, context_length: int = 1024) -> AttentionSpec:
        """Return the spec `base` with the changes of this variant."""
        changes = {name: resolved(change, base, context_length) for name, change in self.changes.items()}
        sized: dict[str, type[Score | OwnLayer]] = {"score": Score, "layer": OwnLayer}
        needs = [family.parse(changes[field]).needs_context for field, family in sized.items() if field in changes]
        if needs:
            changes["context_length"] = context_length if any(needs) else None
        return base.replace(**changes)

    def numbered(self, text: str) -> Variant:
        """Return the variant with a number after its name, as in `window:256`."""
        name = f"{self.name}:{text}"
        if self.number is None:
            takers = ", ".join(f"{one.name}:{one.number.example}" for one in _known.values() if one.number)
            raise SpecError(f"the variant {self.name!r} takes no number, got {name!r}", hint=f"those that do: {takers}")
        value = read_number(text)
        if value is None:
            raise SpecError(
                f"{text!r} in {name!r} is not a number", hint=f"write {self.name}:{self.number.example}, for instance"
            )
        field, _, inner = self.number.field.partition(".")
        change = with_number(self.changes[field], inner, value) if inner else value
        if inner:
            base = AttentionSpec(model_width=768, num_heads=12)
            _FAMILIES[field].parse(resolved(change, base, 1024))  # refuse a number out of range now
        changes = {**self.changes, field: change}
        return replace(self, name=name, meaning=self.number.meaning.format(text), changes=changes, number=None)

    @property
    def kernel(self) -> Kernel:
        """Return which kernel serves it in training on whole sequences."""
        return kernel_for(self.spec())

    def equations(self) -> list[str]:
        """Return the equations of the variant, line by line."""
        return equations(self.spec())


def equations(spec: AttentionSpec) -> list[str]:
    """Return the equations of a spec, in the order of computation."""
    if spec.layer is not None:
        return [spec.layer.formula()]
    made = {
        "none": "q = x W_Q,  k = y W_K,  v = y W_V",
        "key-value": "q = x W_Q,  k = v = y W_K",
        "query-key": "q = x W_Q,  k = y W_Q,  v = y W_V",
        "query-key-value": "q = x W_Q,  k = v = y W_Q",
        "identity": "q = x,  k = v = y",
    }[spec.sharing]
    if not spec.score.projects_key:
        made = "v = y W_V"
    if spec.compression is not None:
        made = spec.compression.formula(rotary=isinstance(spec.position, DecoupledRope))
    lines = [made.replace("y W", "x W") if spec.source == "self" else made]
    if spec.values is not None:
        lines.append(f"v ← {spec.values.equation}")
    if spec.group_size > 1:
        lines.append(f"each key and value head serves {spec.group_size} query heads")
    ordinary = spec.model_width / spec.num_heads
    if {spec.key_width, spec.value_width} != {ordinary} and spec.value_map == "factored":
        lines.append(f"D_k = {spec.key_width}, D_v = {spec.value_width}")
    if isinstance(spec.position, Rope):
        lines.append(spec.position.formula())
    if spec.operator is not None:
        lines.append(f"o = {spec.operator.equation}")
    else:
        biases = "".join(f" + {part.equation}" for part in spec.biased).replace("+ −", "− ")
        lines.append(f"s_j = {spec.score.formula()}{biases}")
        lines.append(f"p_j = {spec.normaliser.formula()}")
        lines.append("o = Σ p_j v_j")
    lines.append(f"over the keys j that the mask shows: {spec.mask}")
    if spec.head_output is not None:
        lines.append(f"o ← {spec.head_output.formula()}")
    inner = {"projection": "(o_1, …, o_H)", "average": "mean(o_1, …, o_H)"}[spec.join] if spec.num_heads > 1 else "o"
    if spec.value_map == "full":
        inner = {"projection": "o_1 + … + o_H", "average": inner}[spec.join]
    lines.append(f"out = {inner}" + ("" if spec.value_map == "full" else " W_O"))
    return lines


def _declared(family: type[Part]) -> Iterator[Variant]:
    """Yield the variants that the parts of a family declare."""
    for part in family.members():
        for one in vars(part).get("variants", ()):
            field = _field(part)
            number = one.number and replace(one.number, field=f"{field}.{one.number.field}")
            changes = {field: _change(part, one), **one.also}
            yield Variant(one.name, one.meaning, changes, one.source, one.asks, builtin=True, number=number)


def _change(part: type[Part], one: Declared) -> Change:
    if not one.numbers:
        return part.kind
    numbers = {name: OfContext(value) if callable(value) else value for name, value in one.numbers.items()}
    return {"kind": part.kind, **numbers}


def _field(family: type[Part]) -> str:
    """Return the name of the field of a spec that holds a part of this family."""
    return family.family.replace(" ", "_")


def _of_spec(
    name: str, meaning: str, source: str, asks: str, number: Number | None = None, **changes: Change
) -> Variant:
    """Return a built-in variant that changes fields of the spec."""
    return Variant(name, meaning, changes, source, asks, builtin=True, number=number)


_FAMILIES = {
    _field(family): family
    for family in (Score, Normaliser, Mask, Position, Operator, HeadOutput, Latent, Values, OwnLayer)
}
_NOTES = "docs/claims.md"
_SHARING = "0.5: what sharing costs"
_BUILTIN: tuple[Variant, ...] = (
    _of_spec(
        "softmax",
        "GPT-2's attention: the baseline.",
        "Vaswani et al. 2017, arXiv 1706.03762",
        "0.1: the scaled dot product, then softmax",
    ),
    *_declared(Score),
    *_declared(Normaliser),
    _of_spec(
        "differential",
        "The difference of two softmax maps, with half as many heads, each normed.",
        "Ye et al. 2024, arXiv 2410.05258",
        "0.11: alternatives to softmax",
        normaliser="differential",
        num_heads=lambda base: largest_divisor(base.num_heads, max(1, base.num_heads // 2)),
        head_output={"kind": "norm", "factor": 0.2},
    ),
    _of_spec(
        "tied-kv",
        "One projection is both key and value: what is matched is what is returned.",
        "docs/claims.md; arXiv 2606.04032",
        "0.5, 0.10: train GPT-2 with the same key and value parameters",
        sharing="key-value",
    ),
    _of_spec(
        "tied-qk",
        "One projection is both query and key: scores are symmetric.",
        "Kitaev et al. 2020, arXiv 2001.04451",
        _SHARING,
        sharing="query-key",
    ),
    _of_spec("tied-qkv", "One projection is query, key and value.", _NOTES, _SHARING, sharing="query-key-value"),
    _of_spec(
        "identity",
        "No projections: tokens attend with themselves as query, key and value.",
        _NOTES,
        "e.i: what attention cannot do without K, Q and V",
        sharing="identity",
    ),
    _of_spec(
        "gqa",
        "Two query heads share one key and value head.",
        "Ainslie et al. 2023, arXiv 2305.13245",
        _SHARING,
        Number("num_key_value_heads", "4", "Query heads share {} key and value heads."),
        num_key_value_heads=lambda base: largest_divisor(base.num_heads, max(1, base.num_heads // 2)),
    ),
    _of_spec(
        "mqa",
        "All query heads share one key and value head.",
        "Shazeer 2019, arXiv 1911.02150",
        _SHARING,
        num_key_value_heads=1,
    ),
    _of_spec(
        "mla",
        "Keys and values of all heads are made from one small vector of each token, which is all that is cached.",
        "DeepSeek-AI 2024, arXiv 2405.04434",
        _SHARING,
        Number("compression.width", "128", "Keys and values of all heads are made from one vector of width {}."),
        compression=Latent.usual,
        position=lambda base: DecoupledRope(width=Latent.usual_rotary_width(base)),
        key_width=lambda base: base.key_width + Latent.usual_rotary_width(base),
        value_width=lambda base: base.value_width,
    ),
    _of_spec(
        "low-rank-value",
        "Values half as wide as keys.",
        "arXiv 2506.09342",
        "1.8, 1.9: the value map through a small space",
        Number("value_width", "16", "Values of width {}."),
        value_width=lambda base: max(1, base.key_width // 2),
    ),
    _of_spec(
        "low-rank-key",
        "Queries and keys half as wide as values.",
        "arXiv 2506.09342",
        "1.3: a small key space",
        Number("key_width", "16", "Queries and keys of width {}."),
        key_width=lambda base: max(1, base.key_width // 2),
        value_width=lambda base: base.value_width,
    ),
    _of_spec(
        "full-value",
        "Each head has a value map from the model's width to itself, not factored through a head.",
        _NOTES,
        "1.8, 1.9: what the unfactored map costs",
        value_map="full",
    ),
    _of_spec(
        "averaged-heads",
        "The mean of the heads in place of their concatenation.",
        _NOTES,
        "d.i–ii: the average of two heads is steadier than one",
        join="average",
    ),
    _of_spec(
        "single-head", "One head as wide as the model.", _NOTES, "c.i–ii: the drawbacks of a single head", num_heads=1
    ),
    *_declared(Mask),
    *_declared(Position),
    *_declared(Operator),
    *_declared(HeadOutput),
    *_declared(Values),
)
_adding: set[str] | None = None  # the names that are added by one file
_NOTATION = frozenset("+:,*()&=")  # characters that combine names
_known: dict[str, Variant] = {variant.name: variant for variant in _BUILTIN}


def add_variant(variant: Variant) -> Variant:
    """Register a variant under its name. User-defined ones may be replaced, built-in ones may not."""
    check_name(variant.name)
    _check_number(variant)
    variant.spec()  # refuse an impossible variant now, not in the middle of a comparison
    _known[variant.name] = variant
    if _adding is not None:
        _adding.add(variant.name)
    return variant


def check_name(name: str) -> None:
    """Refuse a name that a user-defined variant cannot have."""
    if name.split() != [name] or not _NOTATION.isdisjoint(name):
        raise SpecError(f"{name!r} cannot name a variant", hint="use letters, digits and hyphens")
    holder = _known.get(name)
    if holder is not None and holder.builtin:
        raise SpecError(f"the name {name!r} belongs to a variant of attnlab", hint="choose another name")
    if _adding is not None and name in _adding:
        raise SpecError(f"two variants are named {name!r}", hint="give each a name of its own")


@contextlib.contextmanager
def adding_once() -> Iterator[None]:
    """Refuse a name that is added twice inside, as by two classes of one file."""
    global _adding
    before, _adding = _adding, set()
    try:
        yield
    finally:
        _adding = before


def _check_number(variant: Variant) -> None:
    """Refuse a number of a field that the variant does not change."""
    if variant.number is None:
        return
    field, _, inner = variant.number.field.partition(".")
    change = variant.changes.get(field)
    if field not in variant.changes or (inner and (field not in _FAMILIES or callable(change))):
        raise SpecError(
            f"the number of {variant.name!r} is for {variant.number.field!r}, which the variant does not change",
            hint=f"name one of {', '.join(variant.changes)}, or a field of a part as in 'normaliser.alpha'",
        )
    variant.numbered(variant.number.example).spec()


def variants() -> tuple[Variant, ...]:
    """Return all known variants, the baseline first."""
    _load_installed()
    return tuple(_known.values())


def variant(name: str) -> Variant:
    """Return a variant by its name, with its number after a colon if it takes one, or several joined by `+`."""
    parts = [_single(part.strip()) for part in name.split("+")]
    if len(parts) == 1:
        return parts[0]
    changes: dict[str, Change] = {}
    for part in parts:
        clash = changes.keys() & part.changes.keys()
        if clash:
            both = ", ".join(sorted(clash))
            raise SpecError(f"{name!r} changes {both} twice", hint="join variants that change different things")
        changes |= part.changes
    check_heads(name, changes)
    return Variant(
        "+".join(part.name for part in parts),
        " ".join(part.meaning for part in parts),
        changes,
        "; ".join(dict.fromkeys(part.source for part in parts if part.source)),
        "; ".join(part.asks for part in parts if part.asks),
        builtin=all(part.builtin for part in parts),
    )


def _load_installed() -> None:
    from attnlab.attention.names.files import load_installed  # which adds to this catalogue

    load_installed()


def _single(name: str) -> Variant:
    known, colon, number = (part.strip() for part in name.partition(":"))
    if known not in _known:
        _load_installed()
    if known not in _known:
        raise UnknownNameError("variant", name, _known, near=_with_numbers_like(name))
    return _known[known].numbered(number) if colon else _known[known]


def _with_numbers_like(name: str) -> list[str]:
    """Return names that take a number, with the one that a misspelt name ends in: `gqa:4` for `gqa4` or `gqq:4`."""
    found = re.search(r"[0-9.]+(?:e-?[0-9]+)?$", name)
    near: list[str] = []
    for one in _known.values():
        if found is not None and one.number is not None:
            with contextlib.suppress(SpecError):
                near.append(one.numbered(found[0]).name)
    return near
