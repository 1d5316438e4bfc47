"""The catalogue: complete, explained, and open to variants of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import attnlab.attention
from attnlab.attention import (
    AttentionSpec,
    HeadOutput,
    Latent,
    Mask,
    MultiHeadAttention,
    Normaliser,
    Operator,
    Position,
    Score,
    Values,
    Variant,
    add_variant,
    equations,
    load_variants,
    variant,
    variants,
)
from attnlab.attention.names import catalogue
from attnlab.attention.parts import Part
from attnlab.errors import FileError, SpecError, UnknownNameError
from support.attention import assert_conforms, make_inputs

FAMILIES = (Score, Normaliser, Mask, Position, Operator, HeadOutput, Latent, Values)

OWN = '''
from typing import ClassVar
import torch
from attnlab.attention import Normaliser, Variant, add_variant

class Softplus(Normaliser):
    """log(1 + e^s) / n, by its definition alone."""

    kind: ClassVar[str] = "softplus"
    equation: ClassVar[str] = "log(1 + e^s_j) / n"

    def weights(self, scores, visible):
        count = visible.sum(-1, keepdim=True).clamp(min=1)
        return torch.nn.functional.softplus(scores).masked_fill(~visible, 0.0) / count

add_variant(Variant("softplus", "A smooth ReLU.", {"normaliser": "softplus"}))
'''


def builtin(family: type[Part]) -> list[type[Part]]:
    """Return the parts of attnlab itself; other tests define parts of their own."""
    return [part for part in family.members() if part.__module__.startswith("attnlab.")]


def test_there_are_enough_and_each_is_explained() -> None:
    assert len(variants()) >= 24
    assert variants()[0].name == "softmax"
    assert variants()[0].changes == {}
    for v in variants():
        assert v.meaning.endswith(".")
        assert v.source
        assert v.asks
        assert len(v.equations()) >= 4
        assert v.kernel in {"fused", "blocked", "operator"}
    assert len({v.spec().to_json() for v in variants()}) == len(variants())


def test_every_point_of_every_dimension_is_used() -> None:
    specs = [v.spec() for v in variants()]
    for family in (Score, Normaliser, Operator):
        used = {getattr(s, family.family).kind for s in specs if getattr(s, family.family) is not None}
        used |= {"biased-dot"} if family is Score else set()  # in retrofitted models
        assert used == {part.kind for part in builtin(family)}
    elsewhere = {"learned", "rope-linear", "rope-llama3"}  # in the recipe, and in models of the Llama family
    assert {s.position.kind for s in specs if s.position} | elsewhere == {part.kind for part in builtin(Position)}
    assert {s.sharing for s in specs} == {"none", "key-value", "query-key", "query-key-value", "identity"}
    assert {s.join for s in specs} == {"projection", "average"}
    assert {s.value_map for s in specs} == {"factored", "full"}


@pytest.mark.parametrize("family", [Score, Normaliser, Position, Operator, HeadOutput, Latent, Values])
def test_the_documentation_names_every_point(family: type[Part]) -> None:
    page = (Path(__file__).parents[2] / "docs" / "variants.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith(f"| `{family.family.replace(' ', '_')}` |")]
    assert [part.kind for part in builtin(family) if f"`{part.kind}`" not in row] == []
    numbers = [name for part in builtin(family) for name in part.model_fields]
    assert [name for name in numbers if f"`{name}`" not in row] == []


def test_what_a_class_declares_is_its_own() -> None:
    """An entry of the catalogue comes from one class, and not again from a subclass."""
    names = [one.name for family in FAMILIES for one in declared(family)]
    assert len(set(names)) == len(names) == len(variants()) - 14
    assert variant("window").spec(context_length=64).mask == Mask(window=16)


def declared(family: type[Part]) -> list[Variant]:
    return [*catalogue._declared(family)]


@pytest.mark.parametrize("heads", [1, 2, 3, 5, 12])
def test_every_variant_fits_every_number_of_heads(heads: int) -> None:
    for v in variants():
        spec = v.spec(model_width=heads * 8, num_heads=heads, context_length=16)
        assert MultiHeadAttention(spec)(torch.randn(1, 16, heads * 8)).shape == (1, 16, heads * 8)


def test_variants_join() -> None:
    spec = variant("tied-kv+cosine+rope").spec()
    assert (spec.sharing, spec.score.kind, spec.position.kind) == ("key-value", "cosine", "rope")
    assert variant("cosine + tied-kv").spec() == variant("tied-kv+cosine").spec()
    with pytest.raises(SpecError, match="changes score twice"):
        variant("cosine+dot")
    with pytest.raises(SpecError, match="has no key to share"):
        variant("tied-kv+synthesizer-random").spec()
    every = [variant(f"{s}+{n}").spec() for s in ("cosine", "cosine-learned") for n in NORMALISING]
    assert len(set(every)) == 2 * len(NORMALISING)


NORMALISING = [v.name for v in variants() if set(v.changes) == {"normaliser"}]


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(UnknownNameError) as caught:
        variant("sigmod")
    assert caught.value.hint == "did you mean 'sigmoid'?"
    with pytest.raises(UnknownNameError):
        variant("cosine+sigmod")
    with pytest.raises(UnknownNameError) as caught:
        variant("")
    assert "known: " in str(caught.value)


def test_a_change_keeps_what_it_does_not_change() -> None:
    base = AttentionSpec(model_width=32, num_heads=4, bias=False, weight_dropout=0.1, position="rope")
    changed = variant("sigmoid").change(base)
    assert changed == base.replace(normaliser="sigmoid")


def test_equations_say_what_is_computed() -> None:
    lines = "\n".join(equations(variant("tied-kv+sigmoid").spec()))
    assert "k = v = x W_K" in lines
    assert "σ(s_j − log n)" in lines
    assert "out = o_1 + … + o_H" in variant("full-value").equations()
    cross = equations(AttentionSpec(model_width=8, num_heads=2, source="cross", mask=Mask(causal=False)))
    assert cross[0] == "q = x W_Q,  k = y W_K,  v = y W_V"


def test_a_variant_of_ones_own_in_a_notebook() -> None:
    own = add_variant(
        Variant("halved", "Softmax of the cosine at one half.", {"score": {"kind": "cosine", "temperature": 0.5}})
    )
    assert variant("halved") is own
    assert variant("halved+tied-kv").spec().sharing == "key-value"
    again = add_variant(Variant("halved", "The cell was run again.", {"score": "cosine"}))
    assert variant("halved") is again


def test_a_normaliser_of_ones_own_from_a_file(tmp_path: Path) -> None:
    """One class with one function is enough for the kernel, its gradient, JSON and the catalogue."""
    path = tmp_path / "mine.py"
    path.write_text(OWN)
    (added,) = load_variants(path)
    assert added.name == "softplus"
    spec = variant("softplus").spec(24, 4)
    assert AttentionSpec.from_json(spec.to_json()) == spec
    for dtype in (torch.float64, torch.float32):
        assert_conforms(make_inputs(spec, 70), spec, dtype)
    assert_conforms(make_inputs(spec, 70), spec, torch.float32, padding=torch.rand(2, 70) < 0.7)


def test_a_score_of_ones_own() -> None:
    class Manhattan(Score):
        kind = "manhattan"
        equation = "−Σ|q − k|"

        def define(self, given):  # type: ignore[no-untyped-def]
            query, key = given.vectors
            return -torch.cdist(query, key, p=1)

    spec = AttentionSpec(model_width=8, num_heads=2, score="manhattan")
    inputs = make_inputs(spec, 70)
    assert_conforms(inputs, spec, torch.float64)


BROKEN = {
    "no variant": ("x = 1", "adds no variant"),
    "an error": ("1 / 0", "failed: ZeroDivisionError"),
    "an error after a variant": (
        "from attnlab.attention import *\nadd_variant(Variant('half', 'b', {'score': 'dot'}))\n1 / 0",
        "failed: ZeroDivisionError",
    ),
    "no Python": ("def (", "failed: SyntaxError"),
    "an impossible variant": (
        "from attnlab.attention import *\nadd_variant(Variant('a', 'b', {'num_key_value_heads': 5}))",
        "cannot share 5 key and value heads evenly",
    ),
    "a name that is taken": (
        "from attnlab.attention import *\nadd_variant(Variant('softmax', 'b', {}))",
        "belongs to a variant of attnlab",
    ),
    "a name with a space": ("from attnlab.attention import *\nadd_variant(Variant('a b', 'b', {}))", "cannot name"),
    "a kind that is taken": (
        "from attnlab.attention import Softmax, Normaliser\nclass S(Normaliser):\n    kind = 'softmax'",
        "the normaliser kind 'softmax' is taken",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_file_is_explained(case: str, tmp_path: Path) -> None:
    text, message = BROKEN[case]
    path = tmp_path / "mine.py"
    path.write_text(text)
    before = dict(catalogue._known)
    with pytest.raises((FileError, SpecError), match=message):
        load_variants(path)
    assert catalogue._known == before


def test_a_missing_file_is_explained(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.py", tmp_path, tmp_path / "note.txt"):
        with pytest.raises(FileError, match="is no Python file"):
            load_variants(path)


def test_public_names() -> None:
    assert sorted(attnlab.attention.__all__) == attnlab.attention.__all__
    assert all(hasattr(attnlab.attention, name) for name in attnlab.attention.__all__)
    for name in ("AttentionSpec", "MultiHeadAttention", "attend", "variants", "variant", "Cache", "Mask"):
        assert name in attnlab.attention.__all__
