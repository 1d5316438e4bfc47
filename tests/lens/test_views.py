"""The parts of a look that are asked for by name: embeddings, analogies, another sentence, neurons, facts."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from attnlab.corpora import Batch, SymbolTokenizer
from attnlab.errors import InputError
from attnlab.lens.pages.look_page import LookView, ends, shade
from attnlab.lens.pages.model_views import analogies_view, beside_view, embeddings_view, facts_view, neurons_view
from attnlab.lens.subjects import open_subject
from attnlab.models import ModelSpec, build_model
from attnlab.pages import Page, Table, render
from attnlab.statistics import Interval
from support import planted_facts
from support.training import smoke, train_in

WORDS = SymbolTokenizer(["man", "woman", "king", "queen", "boy", "girl", "and", "the"])
WORLD = {
    "name": "world",
    "tokenizer": "word",
    "options": {"people": 6, "unseen": 0, "places": 3, "exposures": "8", "phrasings": 1, "details": 0},
}


def model_of_words() -> object:
    """The second of each pair is the first plus one direction."""
    spec = ModelSpec.build(
        "nano", vocabulary_size=8, num_layers=2, model_width=16, num_heads=2, context_length=8, position="none"
    )
    model = build_model(spec, seed=1).eval()
    with torch.no_grad():
        model.embedding.weight.copy_(torch.eye(8, 16))
        for first in (0, 2, 4):
            model.embedding.weight[first + 1] = model.embedding.weight[first] + torch.eye(16)[15]
    return model


def test_embeddings_and_analogies() -> None:
    model = model_of_words()
    view = embeddings_view(model, WORDS, [2, 6])
    assert view.data["nearest"]["2"][0] == {"token": 3, "similarity": pytest.approx(1 / math.sqrt(2), abs=1e-5)}
    assert view.data["dimensions"]["width"] == 16
    html = render(Page("", "", [view.section()]))
    assert "queen 0.71" in html
    asked = [("man", "woman", "king", "queen"), ("king", "queen", "boy", "girl"), ("boy", "girl", "man", "woman")]
    view = analogies_view(model, WORDS, asked)
    assert [one["rank"] for one in view.data["found"]] == [1, 1, 1]
    assert view.data["nearest"][0][0] == "queen"
    (table,) = (part for part in view.parts if isinstance(part, Table))
    assert table.rows[0][0] == "man : woman = king : queen"


def test_the_same_token_beside_another_sentence() -> None:
    model = model_of_words()
    with torch.no_grad():
        for parameter in model.stack.parameters():
            parameter.add_(0.5 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
    view = beside_view(model, WORDS, WORDS.encode("the man and the king"), "the queen and the king")
    assert view.data["token"] == 2
    first, *_, last = view.data["layers"]
    assert first["similarity"] == pytest.approx(1)
    assert last["similarity"] < 0.999
    assert "“king” is token 4 of the text" in str(view.parts[0])


def test_a_planted_neuron_is_shown() -> None:
    model = planted_facts.planted_model()
    tokenizer = SymbolTokenizer([f"s{number}" for number in range(planted_facts.SYMBOLS)])
    rows = torch.tensor([fact.prompt for fact in planted_facts.all_facts()])
    family, place = planted_facts.family(2), planted_facts.place(2)
    view = neurons_view(model, tokenizer, Batch(rows, rows), [family, place])
    of = view.data["of_tokens"]
    assert {key: of[f"s{family}"]["fire"][0][key] for key in ("layer", "neuron")} == {
        "layer": planted_facts.FACT_LAYER,
        "neuron": 2,
    }
    assert (of[f"s{place}"]["write"][0]["layer"], of[f"s{place}"]["write"][0]["neuron"]) == (1, 2)
    shown = next(one for one in view.data["neurons"] if (one["layer"], one["neuron"]) == (1, 2))
    assert {one["token"] for one in shown["top"][: planted_facts.FIRSTS]} == {family}
    assert shown["promoted"][0]["token"] == place
    assert f"“s{family}”: 1 neuron fires for it more than for all else (1.2)" in " ".join(map(str, view.parts))


def test_facts_of_a_run_on_the_world(tmp_path: Path) -> None:
    spec = smoke(corpus=WORLD, steps=160, num_layers=2, model_width=32, context_length=16, batch_size=16)
    result = train_in(tmp_path, spec.model_copy(update={"learning_rate": 1e-2}))
    view = facts_view(open_subject(result.path))
    assert view.data["asked"] == 6
    assert view.data["known"] >= 2
    assert view.data["clean"] > view.data["corrupted"] + 0.2
    assert {"restored", "ablated", "told_apart"} <= set(view.data)
    assert "perceptron 1" in render(Page("", "", [view.section()]))


def test_facts_that_are_not_known_are_not_traced(tmp_path: Path) -> None:
    unknown = facts_view(open_subject(train_in(tmp_path, smoke(corpus=WORLD, steps=2, context_length=16)).path))
    if unknown.data["known"] < 2:
        assert "nothing to trace" in str(unknown.parts[0])
    with pytest.raises(InputError, match="generated world"):
        facts_view(open_subject(train_in(tmp_path, smoke()).path))


def test_the_data_of_a_view_is_plain() -> None:
    found = Interval(0.1, -0.2, 0.4)
    assert ends(found, 1) == "−0.2 … +0.4"
    assert ends(None) == "–"
    assert (shade(2.0), shade(math.nan), shade(None)) == (1.0, None, None)
    view = LookView("x", "X", [], {"x": [math.inf, 1 / 3, Interval(1.0, 0.5, math.nan)]})
    assert view.data == {"x": [None, 0.333333, {"mean": 1.0, "low": 0.5, "high": None}]}
    with pytest.raises(InputError):
        LookView("x", "X", [], torch.zeros(1))
