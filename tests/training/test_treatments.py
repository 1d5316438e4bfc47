"""Treatments: named changes of a run."""

from __future__ import annotations

import pytest

from attnlab.attention import variants
from attnlab.errors import SpecError, UnknownNameError
from attnlab.training import OPTIMIZERS, RECIPES, treatment
from support.training import resolve, smoke


@pytest.mark.parametrize("name", [variant.name for variant in variants()])
def test_every_variant(name: str) -> None:
    found = treatment(name)
    assert (found.name, found.changes) == (name, {"variant": name})
    assert found.meaning
    assert found.change(smoke()) == smoke(variant=name)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe(name: str) -> None:
    assert treatment(name).change(smoke()) == smoke(recipe=name)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_brings_its_numbers(name: str) -> None:
    for recipe in RECIPES:
        resolved, _ = resolve(treatment(name).change(smoke(recipe=recipe)))
        assert resolved.optimizer == OPTIMIZERS[name]
        assert resolved.schedule.kind == RECIPES[recipe].schedule.kind, "the rest is the recipe's"


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("learning_rate=3e-4", "learning_rate", 3e-4),
        ("steps = 7", "steps", 7),
        ("num_layers=3", "num_layers", 3),
        ("size=micro", "size", "micro"),
        ("dropout=0.1", "dropout", 0.1),
        ("variant=softmax,window", "variant", "softmax,window"),
    ],
)
def test_any_field(text: str, field: str, value: object) -> None:
    changed = treatment(text).change(smoke())
    assert getattr(changed, field) == value
    assert changed == smoke(**{field: value})


def test_several_at_once() -> None:
    found = treatment("tied-kv & muon & learning_rate=1e-4")
    assert found.name == "tied-kv & muon & learning_rate=1e-4"
    assert found.change(smoke()) == smoke(variant="tied-kv", optimizer="muon", learning_rate=1e-4)


def test_joined_variants_are_one_treatment() -> None:
    assert treatment("tied-kv+cosine").change(smoke()).variant == "tied-kv+cosine"


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("gqa:1", "Query heads share 1 key and value heads."),
        ("window:4*2,softmax", "Layers take turns: 2 × window:4, softmax."),
        ("softmax,(window),softmax", "First softmax; layers of window; last softmax."),
    ],
)
def test_numbers_and_mixtures_are_treatments(name: str, meaning: str) -> None:
    found = treatment(f"{name} & muon")
    assert found.changes == {"variant": name, "optimizer": "muon"}
    assert found.meaning.startswith(meaning)
    folder = found.change(smoke()).name("0123")
    assert not set(folder) & set(":*,()/ ")


@pytest.mark.parametrize("text", ["tied-kv & cosine", "fast & gpt2", "steps=3 & steps=4", "muon & optimizer=adamw"])
def test_a_clash_is_refused(text: str) -> None:
    with pytest.raises(SpecError, match="twice") as caught:
        treatment(text)
    assert "&" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("sparsmax", "sparsemax"),
        ("fasd", "fast"),
        ("adamv", "adamw"),
        ("muom", "muon"),
        ("window64", "window:64"),
        ("gqq:4", "gqa:4"),
        ("gqq:4,softmax", "gqa:4"),
        ("softmax,(windw),softmax", "window"),
        ("learning_rat=1", "learning_rate"),
    ],
)
def test_the_nearest_is_named(text: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError, match=f"did you mean '{nearest}'"):
        treatment(text)


@pytest.mark.parametrize("text", ["", "  ", "&", "fast &", "=", "seed=3", "corpus=world", "x=y=z"])
def test_what_is_no_treatment(text: str) -> None:
    with pytest.raises(UnknownNameError):
        treatment(text)


@pytest.mark.parametrize(
    "text",
    [
        "steps=0",
        "steps=-3",
        "steps=many",
        "learning_rate=nan",
        "dropout=1",
        "position=moon",
        "variant=moon",
        "size=moon",
    ],
)
def test_a_bad_value_is_refused(text: str) -> None:
    with pytest.raises((SpecError, UnknownNameError), match=text.partition("=")[2]):
        treatment(text)
