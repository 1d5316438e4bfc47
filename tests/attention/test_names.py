"""Names with numbers: `window:256` sets the number that the variant declares."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.attention import Entmax, Mask, MultiHeadAttention, Number, Rope, Variant, add_variant, variant, variants
from attnlab.errors import SpecError, UnknownNameError

NUMBERED = [one for one in variants() if one.number]


def set_by(one: Variant, name: str) -> Any:
    """Return what a name sets at the field that the variant's number is for."""
    assert one.number is not None
    found: Any = variant(name).spec()
    for field in one.number.field.split("."):
        found = getattr(found, field)
    return found


def test_these_take_a_number() -> None:
    assert [one.name for one in NUMBERED] == [
        *("cosine", "entmax", "softpick"),
        *("gqa", "mla", "low-rank-value", "low-rank-key"),
        *("window", "sink-window", "prefix", "rope"),
    ]


@pytest.mark.parametrize("one", NUMBERED, ids=lambda one: one.name)
def test_the_number_is_set_and_said(one: Variant) -> None:
    assert one.number is not None
    name = f"{one.name}:{one.number.example}"
    found = variant(name)
    assert (found.name, found.source, found.asks, found.builtin) == (name, one.source, one.asks, True)
    assert one.number.example in found.meaning
    assert found.meaning.endswith(".")
    assert set(found.changes) == set(one.changes)
    assert set_by(one, name) == float(one.number.example)
    assert variant(f" {one.name} : {one.number.example} ") == found == variant(name)
    assert MultiHeadAttention(found.spec(48, 12, 16))(torch.randn(1, 16, 48)).shape == (1, 16, 48)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("cosine:0.5", "T = 0.5"),
        ("entmax:1.7", "α = 1.7"),
        ("softpick:1e-3", "ε = 0.001"),
        ("gqa:4", "each key and value head serves 3 query heads"),
        ("low-rank-value:16", "D_k = 64, D_v = 16"),
        ("low-rank-key:16", "D_k = 16, D_v = 64"),
        ("window:7", "causal × window 7"),
        ("prefix:7", "causal × prefix 7"),
        ("rope:500000", "q and k rotated by their position, base 500000"),
    ],
)
def test_equations_show_the_number(name: str, said: str) -> None:
    assert said in "\n".join(variant(name).equations())


def test_a_number_does_not_follow_the_context() -> None:
    assert [variant("window:5").spec(context_length=context).mask for context in (8, 64)] == [Mask(window=5)] * 2
    assert variant("window").spec(context_length=64).mask == Mask(window=16)


def test_numbered_variants_join() -> None:
    found = variant("gqa:4+entmax:1.3+rope:5e5")
    spec = found.spec()
    assert (spec.num_key_value_heads, spec.normaliser, spec.position) == (4, Entmax(alpha=1.3), Rope(base=5e5))
    assert found.name == "gqa:4+entmax:1.3+rope:5e5"
    assert found.builtin
    with pytest.raises(SpecError, match="changes mask twice"):
        variant("window:5+prefix:3")


@pytest.mark.parametrize("name", ["sigmoid:3", "mqa:2", "softmax:1", "tied-kv+dot:2"])
def test_a_variant_without_a_number(name: str) -> None:
    with pytest.raises(SpecError, match=f"takes no number, got '{name.rpartition('+')[2]}'") as caught:
        variant(name)
    assert caught.value.hint is not None
    assert all(f"{one.name}:" in caught.value.hint for one in NUMBERED)


@pytest.mark.parametrize("text", ["", "x", "4x", "nan", "inf", "-inf", "1e999", "4:5", "1,5", "0x4", "1" * 400])
def test_what_is_no_number(text: str) -> None:
    with pytest.raises(SpecError, match=re.escape(f"{text!r} in 'gqa:{text}' is not a number")) as caught:
        variant(f"gqa:{text}")
    assert caught.value.hint == "write gqa:4, for instance"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("entmax:3", "alpha of normaliser 'entmax' is 3: input should be less than or equal to 2"),
        ("entmax:0.5", "alpha of normaliser 'entmax' is 0.5: input should be greater than or equal to 1"),
        ("softpick:0", "epsilon of normaliser 'softpick' is 0: input should be greater than 0"),
        ("window:0", "window of mask 'interval' is 0: input should be greater than or equal to 1"),
        ("prefix:2.5", "prefix of mask 'interval' is 2.5: input should be a valid integer"),
        ("rope:1", "base of position 'rope' is 1: input should be greater than 1"),
        ("cosine:-1", "score 'cosine' is -1: input should be greater than 0"),
    ],
)
def test_a_number_out_of_range_is_refused_at_once(name: str, message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)):
        variant(name)


def test_a_number_that_the_size_does_not_allow() -> None:
    found = variant("gqa:5")
    assert found.spec(80, 10).group_size == 2
    with pytest.raises(SpecError, match="12 query heads cannot share 5 key and value heads evenly") as caught:
        found.spec()
    assert caught.value.hint == "the nearest that is possible has num_key_value_heads=4"
    for name in ("gqa:0", "gqa:2.5", "low-rank-value:0"):
        with pytest.raises(SpecError, match="of an attention spec is"):
            variant(name).spec()


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("gqa4", "gqa:4"),
        ("gqa-4", "gqa:4"),
        ("gqq:4", "gqa:4"),
        ("GQA:4", "gqa:4"),
        ("window256", "window:256"),
        ("windw:256", "window:256"),
        ("entmax_1.3", "entmax:1.3"),
        ("softpick1e-6", "softpick:1e-6"),
        ("low-rank-values:16", "low-rank-value:16"),
        ("cosine+windw:5", "window:5"),
        ("sigmod", "sigmoid"),
        ("sigmod:3", "sigmoid"),
        ("entmax16", "entmax15"),
    ],
)
def test_the_form_with_a_number_is_suggested_where_it_is_near(name: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        variant(name)
    assert caught.value.hint == f"did you mean {nearest!r}?"


def test_a_name_like_no_other_lists_those_that_exist() -> None:
    with pytest.raises(UnknownNameError) as caught:
        variant("zzzzzzzz99")
    assert caught.value.hint == f"known: {', '.join(sorted(one.name for one in variants()))}"


def test_an_unknown_name_with_a_number() -> None:
    for name in ("gqq:4", "moon:4", ":4"):
        with pytest.raises(UnknownNameError, match=f"no variant called '{name}'"):
            variant(name)


def test_ones_own_may_take_a_number() -> None:
    number = Number("score.temperature", "0.1", "The cosine at a temperature of {}, and no bias.")
    for change in ("cosine", {"kind": "cosine", "temperature": 2.0}, variant("cosine").spec().score):
        add_variant(Variant("sharp", "The cosine, and no bias.", {"score": change, "bias": False}, number=number))
        found = variant("sharp:0.25+tied-kv")
        assert found.meaning.startswith("The cosine at a temperature of 0.25, and no bias.")
        assert not found.builtin
        assert found.spec().score.model_dump() == {"kind": "cosine", "temperature": 0.25}
    add_variant(Variant("few", "Few heads.", {"num_heads": 2}, number=Number("num_heads", "3", "{} heads.")))
    assert variant("few:4").spec().num_heads == 4


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (Number("normaliser.alpha", "1.5", "{}"), "'normaliser.alpha', which the variant does not change"),
        (Number("score.alpha", "1.5", "{}"), "has no field 'alpha'"),
        (Number("bias.alpha", "1.5", "{}"), "'bias.alpha', which the variant does not change"),
        (Number("mask.window", "5", "{}"), "'mask.window', which the variant does not change"),
        (Number("score.temperature", "-1", "{}"), "input should be greater than 0"),
        (Number("score.temperature", "cold", "{}"), "is not a number"),
    ],
)
def test_a_number_for_nothing_is_refused(number: Number, message: str) -> None:
    changes = {"score": "cosine", "bias": False, "mask": lambda base: base.mask}
    with pytest.raises(SpecError, match=message):
        add_variant(Variant("sharp", "The cosine.", changes, number=number))


@pytest.mark.parametrize("name", ["a+b", "a:1", "a,b", "a*2", "(a)", "a&b", "a=b", "a b", ""])
def test_a_name_holds_no_notation(name: str) -> None:
    with pytest.raises(SpecError, match="cannot name a variant"):
        add_variant(Variant(name, "A name.", {}))


def test_the_documentation_names_every_number() -> None:
    page = (Path(__file__).parents[2] / "docs" / "variants.md").read_text()
    for one in NUMBERED:
        assert one.number is not None
        assert f"| `{one.name}:{one.number.example}` |" in page
