"""What a look shows besides the maps: heads that were set by hand are named, on the page and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from attnlab.corpora import Batch, ByteTokenizer, SymbolTokenizer
from attnlab.errors import AttnlabError, InputError
from attnlab.lens.heads.study import Study, ablated_batch, ablation_work, study_heads
from attnlab.lens.pages.look import Look, More, look_at
from attnlab.lens.subjects import Subject, find_texts, rows_for
from attnlab.models import LanguageModel, ModelSpec, build_model
from attnlab.pages import render
from support import planted
from support.training import KINSHIP, TRANSLATION, smoke, train_in

SYMBOLS = SymbolTokenizer([f"s{number}" for number in range(planted.SYMBOLS)])


def planted_model() -> LanguageModel:
    """A previous-token head and its copy, and an induction head that needs one of them."""
    model = planted.blank_model()
    planted.previous_token(model, 0, 1)
    planted.copy_head(model, 0, 1, 2)
    planted.induction(model, 1, 3)
    return model


def random_batch(rows: int = 8) -> Batch:
    tokens = torch.randint(0, planted.SYMBOLS, (rows, planted.CONTEXT + 1), generator=torch.Generator().manual_seed(0))
    return Batch(tokens[:, :-1], tokens[:, 1:])


@pytest.fixture(scope="module")
def study() -> Study:
    return study_heads(planted_model(), random_batch(), texts="random symbols")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Look:
    path = tmp_path_factory.mktemp("texts") / "symbols.txt"
    batch = random_batch(64)
    path.write_text(" ".join(SYMBOLS.decode(row.tolist()) for row in batch.inputs), encoding="utf-8")
    return look_at(planted_model(), "s1 s2 s3 s1 s2", tokenizer=SYMBOLS, more=More(on=path))


def test_a_study_names_the_planted_heads(study: Study) -> None:
    own = study["self"]
    assert own.roles[0, 1].roles == own.roles[0, 2].roles == ("previous token",)
    assert own.roles[1, 3].roles == ("induction",)
    assert own.similarity.copies() == [((0, 1), (0, 2))]
    assert own.explained[0][1] is not None
    assert own.explained[0][1].position.alone == pytest.approx(1), "its keys are places"
    assert study.ablation is not None
    assert study.importance_of("self", 0, 1) == study.ablation["blocks.0.attention.heads.1"].importance
    assert study.importance_of("encoder", 0, 1) is None
    with pytest.raises(AttnlabError, match="no place called 'cross'"):
        study["cross"]


def test_the_page_says_what_heads_do(found: Look) -> None:
    assert found.tags == {
        ("self", 0, 1): "previous token",
        ("self", 0, 2): "previous token",
        ("self", 1, 3): "induction",
    }
    html = render(found.page())
    assert html.count('class="maps-tag"') == 8, "a line for each head of a layer in which one has a name"
    assert "previous token: 0.1 (1.00) and 0.2 (1.00)" in html
    assert "induction: 1.3" in html
    assert "Copies of each other: 0.1 and 0.2" in html
    assert "layer 1, head 3; does induction" in html
    for heading in ("What each head does", "Importance of each head", "Which heads are similar", "Length or direction"):
        assert f"<h2>{heading}</h2>" in html


def test_the_same_as_json(found: Look) -> None:
    plain = found.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    head = next(one for one in plain["heads"] if (one["layer"], one["head"]) == (1, 3))
    assert head["roles"] == ["induction"]
    assert head["scores"]["induction"]["excess"]["mean"] > 0.8
    assert head["importance"]["low"] <= head["importance"]["mean"] <= head["importance"]["high"]
    parts = head["drawn_by"]
    assert sum(parts[name]["share"] for name in ("norm", "direction", "position")) == pytest.approx(
        parts["whole"], abs=1e-4
    )
    assert plain["redundancy"]["self"]["copies"] == [["0.1", "0.2"]]
    assert "blocks.1.mlp" in plain["importance"]["parts"]


def test_what_takes_minutes_is_not_measured_unasked(found: Look) -> None:
    small, large = (
        build_model(ModelSpec.build("nano", vocabulary_size=size, num_layers=1, model_width=width, num_heads=2), seed=1)
        for size, width in ((16, 16), (40_000, 512))
    )
    batch = Batch(torch.zeros(8, 128, dtype=torch.long), torch.zeros(8, 128, dtype=torch.long))
    assert ablation_work(large, batch) > 100 * ablation_work(small, batch)
    assert found.study is not None
    assert found.study.ablation is not None
    study = study_heads(planted_model(), random_batch(2), importance=False, controls=0)
    assert study.ablation is None
    assert study["self"].roles[0, 1].roles == (), "without controls there are no names"


def test_rows_to_remove_heads_on() -> None:
    targets = torch.full((40, 300), 1)
    few = ablated_batch(Batch(targets, targets))
    assert few.inputs.shape == (8, 128)
    asked_late = targets.clone()
    asked_late[:, :200] = -100
    assert ablated_batch(Batch(targets, asked_late)).inputs.shape == (8, 300), "what is asked is not cut off"


# The texts


def test_a_run_is_asked_on_its_validation_rows(tmp_path: Path) -> None:
    result = train_in(tmp_path, smoke(corpus=KINSHIP))
    found = look_at(result.path, more=More(over_training=True), cache=tmp_path / "cache")
    assert found.study is not None
    assert found.study.texts.endswith("validation rows of kinship, 8 tokens each")
    (view,) = (view for view in found.views if view.name == "over_training")
    assert [row["step"] for row in view.data][-2:] == [4, 6]
    assert view.data[-1]["like the final heads"] == pytest.approx(1)
    assert view.data[0]["like the final heads"] < 1
    assert found.to_dict()["over_training"] == view.data


def test_an_encoder_decoder_is_studied_in_all_places(tmp_path: Path) -> None:
    result = train_in(tmp_path, smoke(corpus=TRANSLATION, context_length=12))
    found = look_at(result.path, more=More(), cache=tmp_path / "cache")
    assert found.study is not None
    assert [place.place for place in found.study.places] == ["encoder", "self", "cross"]
    assert found.study.importance_of("cross", 0, 0) is not None
    assert "cross-attention 0.0" in render(found.page())


def test_a_model_without_a_run_is_asked_on_python(tmp_path: Path) -> None:
    model = build_model(
        ModelSpec.build("nano", vocabulary_size=256, num_layers=1, model_width=16, num_heads=2, context_length=32),
        seed=1,
    )
    texts = find_texts(Subject(model, ByteTokenizer()), cache=tmp_path)
    assert texts.batch.inputs.shape == (32, 32)
    assert torch.equal(texts.batch.inputs[:, 1:], texts.batch.targets[:, :-1])
    assert texts.words == "32 rows of Python's documentation, 32 tokens each"
    said = ByteTokenizer().decode(texts.batch.inputs.flatten().tolist())
    assert said.count(" ") > 50, "it is prose"
    symbols = look_at(planted_model(), "s1 s2", tokenizer=SYMBOLS, more=More(), cache=tmp_path)
    assert symbols.study is None
    assert "What heads do is not measured" in symbols.notes[0]


def test_fewer_rows_for_larger_models() -> None:
    large = ModelSpec.build("nano", vocabulary_size=9, num_layers=12, model_width=24, num_heads=12, context_length=512)
    model = build_model(large, seed=1)
    assert rows_for(model, 512) == 2
    assert rows_for(model, 64) == 32


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (More(facts=True), "generated world"),
        (More(over_training=True), "only a run has checkpoints"),
        (More(analogies=(("s1 s2", "s2", "s3", "s4"),)), "is 2 tokens, not one"),
        (More(beside="s9"), "no token in both sentences"),
        (More(embeddings=True, tokens=("what",)), "does not know 'what'"),
    ],
)
def test_what_cannot_be_found_is_explained(more: More, said: str, tmp_path: Path) -> None:
    path = tmp_path / "symbols.txt"
    path.write_text("s1 s2 s3 s4 s5 s6 " * 40, encoding="utf-8")
    with pytest.raises(InputError, match=said) as caught:
        look_at(planted_model(), "s1 s2 s3", tokenizer=SYMBOLS, more=replace(more, on=path, heads=False))
    assert caught.value.hint is not None


@pytest.mark.parametrize("content", ["", "s1 s2 s3"])
def test_a_text_that_is_too_short(content: str, tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match="too few to say what heads do"):
        look_at(planted_model(), "s1", tokenizer=SYMBOLS, more=More(on=path))
    with pytest.raises(AttnlabError, match="no file or folder"):
        look_at(planted_model(), "s1", tokenizer=SYMBOLS, more=More(on=tmp_path / "absent"))
