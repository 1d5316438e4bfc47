"""The catalogue: variants by name.

A variant says what it changes about GPT-2's attention, and nothing else; the command line, the cost model, the
benchmarks and the tests read the list from here. `a+b` names a variant that changes both. A variant that puts a part in
the place of GPT-2's is declared by the class of that part; those that change a field of the spec stand below.

One's own, in a notebook or in a file:

    from attnlab.attention import Variant, add_variant

    add_variant(Variant("sharp", "Softmax at half the temperature.", {"score": {"kind": "cosine", "temperature": 0.5}}))
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from attnlab.attention.kernels import Kernel, kernel_for
from attnlab.attention.parts.head_outputs import HeadOutput
from attnlab.attention.parts.masks import Mask
from attnlab.attention.parts.normalisers import Normaliser
from attnlab.attention.parts.operators import Operator
from attnlab.attention.parts.part import Declared, Part
from attnlab.attention.parts.positions import Position
from attnlab.attention.parts.scores import Score
from attnlab.attention.rules import largest_divisor
from attnlab.attention.spec import AttentionSpec
from attnlab.errors import SpecError, UnknownNameError

Change = Any | Callable[[AttentionSpec], Any]


@dataclass(frozen=True)
class OfContext:
    """A change that is a function of the context length."""

    make: Callable[[int], Any]


@dataclass(frozen=True)
class Variant:
    """A named change of attention. A change may be a function of the spec that it starts from."""

    name: str
    meaning: str
    changes: Mapping[str, Change]
    source: str = ""
    asks: str = ""  # what the notes ask of it, with the ids of their claims
    builtin: bool = False
    file_hash: str = ""  # of the file that added it, if one did

    def spec(
        self, model_width: int = 768, num_heads: int = 12, context_length: int = 1024, **fields: Any
    ) -> AttentionSpec:
        """The variant at a size; `fields` are those of the spec that is changed, such as `bias` or `source`."""
        base = AttentionSpec(model_width=model_width, num_heads=num_heads, **fields)
        return self.change(base, context_length)

    def change(self, base: AttentionSpec, context_length: int = 1024) -> AttentionSpec:
        """The same change made to another spec."""
        changes = {name: _made(change, base, context_length) for name, change in self.changes.items()}
        if "score" in changes:
            needed = Score.parse(changes["score"]).needs_context
            changes["context_length"] = context_length if needed else None
        return base.replace(**changes)

    @property
    def kernel(self) -> Kernel:
        """Which kernel serves it in training on whole sequences."""
        return kernel_for(self.spec())

    def equations(self) -> list[str]:
        """What it computes, line by line."""
        return equations(self.spec())


def _made(change: Change, base: AttentionSpec, context_length: int) -> Any:
    if isinstance(change, OfContext):
        return change.make(context_length)
    return change(base) if callable(change) else change


def equations(spec: AttentionSpec) -> list[str]:
    """A spec as equations, in the order of computing."""
    made = {
        "none": "q = x W_Q,  k = y W_K,  v = y W_V",
        "key-value": "q = x W_Q,  k = v = y W_K",
        "query-key": "q = x W_Q,  k = y W_Q,  v = y W_V",
        "query-key-value": "q = x W_Q,  k = v = y W_Q",
        "identity": "q = x,  k = v = y",
    }[spec.sharing]
    if not spec.score.projects_key:
        made = "v = y W_V"
    lines = [made.replace("y", "x") if spec.source == "self" else made]
    if spec.group_size > 1:
        lines.append(f"each key and value head serves {spec.group_size} query heads")
    ordinary = spec.model_width / spec.num_heads
    if {spec.key_width, spec.value_width} != {ordinary} and spec.value_map == "factored":
        lines.append(f"D_k = {spec.key_width}, D_v = {spec.value_width}")
    if spec.position is not None and spec.position.kind == "rope":
        lines.append("q and k rotated by their position")
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
    """The variants that the parts of a family declare."""
    for part in family.members():
        for one in vars(part).get("variants", ()):
            field = part.family.replace(" ", "_")
            yield Variant(one.name, one.meaning, {field: _change(part, one)}, one.source, one.asks, builtin=True)


def _change(part: type[Part], one: Declared) -> Change:
    if not one.numbers:
        return part.kind
    if not any(callable(number) for number in one.numbers.values()):
        return {"kind": part.kind, **one.numbers}

    def make(context: int) -> dict[str, object]:
        numbers = {name: value(context) if callable(value) else value for name, value in one.numbers.items()}
        return {"kind": part.kind, **numbers}

    return OfContext(make)


def _of_spec(name: str, meaning: str, source: str, asks: str, **changes: Change) -> Variant:
    """A variant that changes fields of the spec."""
    return Variant(name, meaning, changes, source, asks, builtin=True)


_NOTES = "the notes"
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
        "tied-kv",
        "One projection is both key and value: what is matched is what is returned.",
        "the notes; arXiv 2606.04032",
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
        "low-rank-value",
        "Values half as wide as keys.",
        "arXiv 2506.09342",
        "1.8, 1.9: the value map through a small space",
        value_width=lambda base: max(1, base.key_width // 2),
    ),
    _of_spec(
        "low-rank-key",
        "Queries and keys half as wide as values.",
        "arXiv 2506.09342",
        "1.3: a small key space",
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
)
_adding: set[str] | None = None  # the names that are added by one file
_known: dict[str, Variant] = {variant.name: variant for variant in _BUILTIN}


def add_variant(variant: Variant) -> Variant:
    """Make a variant known by its name. One's own may be replaced, those of attnlab may not."""
    if not variant.name or "+" in variant.name or variant.name.split() != [variant.name]:
        raise SpecError(f"{variant.name!r} cannot name a variant", hint="use letters, digits and hyphens")
    holder = _known.get(variant.name)
    if holder is not None and holder.builtin:
        raise SpecError(f"the name {variant.name!r} belongs to a variant of attnlab", hint="choose another name")
    if _adding is not None and variant.name in _adding:
        raise SpecError(f"two variants are named {variant.name!r}", hint="give each a name of its own")
    variant.spec()  # refuse what is impossible now, and not in the middle of a comparison
    _known[variant.name] = variant
    if _adding is not None:
        _adding.add(variant.name)
    return variant


@contextmanager
def adding_once() -> Iterator[None]:
    """Refuse a name that is added twice inside, as by two classes of one file."""
    global _adding
    before, _adding = _adding, set()
    try:
        yield
    finally:
        _adding = before


def variants() -> tuple[Variant, ...]:
    """All known variants, the baseline first."""
    _load_installed()
    return tuple(_known.values())


def file_hashes(names: str) -> dict[str, str]:
    """Return the variants among these names that came from a file, each with the hash of that file."""
    single = (_single(part.strip()) for name in names.split(",") for part in name.split("+"))
    return {one.name: one.file_hash for one in single if one.file_hash}


def variant(name: str) -> Variant:
    """A variant by its name, or several joined by `+`."""
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
    return Variant(
        "+".join(part.name for part in parts),
        " ".join(part.meaning for part in parts),
        changes,
        "; ".join(dict.fromkeys(part.source for part in parts if part.source)),
        "; ".join(part.asks for part in parts if part.asks),
    )


def _load_installed() -> None:
    from attnlab.attention.variant_files import load_installed  # which adds to this catalogue

    load_installed()


def _single(name: str) -> Variant:
    if name not in _known:
        _load_installed()
    if name not in _known:
        raise UnknownNameError("variant", name, _known)
    return _known[name]
