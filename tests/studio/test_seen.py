"""A text on its way through a model: the numbers that are drawn, what can be changed, and the model of the tour."""

from __future__ import annotations

import base64
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from attnlab.errors import AttnlabError
from attnlab.lens import attention_maps
from attnlab.studio.equation import equation_html
from attnlab.studio.work import flow as work
from attnlab.studio.work.runs import models, opened, runs


@pytest.fixture(scope="module")
def tour(trained: Path) -> tuple[str, str]:
    """The folder of the runs, and the name of a tour model that was trained for a moment."""
    root = str(trained / "runs")
    return root, work.train_tour(root, steps=2)["name"]  # type: ignore[return-value]


def maps_of(found: dict[str, Any], layer: int) -> np.ndarray[Any, Any]:
    one, count = found["layers"][layer], len(found["tokens"])
    steps = np.frombuffer(base64.b64decode(one["data"]), "<u2").reshape(one["heads"], count, count)
    low, high = (np.array(one[end])[:, None, None] for end in ("low", "high"))
    return low + (high - low) * steps / 65_535


TEXT = "the man Drodor says that he lost his keys"


def test_what_is_drawn_is_what_the_model_computes(tour: tuple[str, str]) -> None:
    found: Any = work.flow(*tour, TEXT)
    model, ids = opened(*tour).model, torch.tensor(found["ids"])[None]
    for layer, wanted in enumerate(attention_maps(model, ids)):
        assert wanted.weights is not None
        assert np.abs(maps_of(found, layer) - wanted.weights[0].numpy()).max() < 2e-5
    with torch.no_grad():
        chances = model(ids)[0, -1].softmax(-1)
    assert found["next"][0]["id"] == int(chances.argmax())
    assert found["next"][0]["after"] == found["next"][0]["before"] == pytest.approx(float(chances.max()), rel=1e-4)
    stream = found["stream"]
    assert stream["rows"] == ["embedding", *(f"{part} {n}" for n in range(3) for part in ("attention", "MLP"))]
    assert stream["says"][-1][-1] == found["next"][0]["token"], "behind the last part stands what the model says"


def test_a_change_of_the_trained_model_is_seen_and_leaves_it_as_it_was(tour: tuple[str, str]) -> None:
    first: Any = work.flow(*tour, TEXT)
    assert {"softmax", "sparsemax", "sigmoid"} <= set(first["normalisers"])
    assert first["shareable"]
    sparse: Any = work.flow(*tour, ids=first["ids"], normaliser="sparsemax")
    assert np.allclose(maps_of(sparse, 2).sum(-1), 1, atol=1e-3)
    assert np.abs(maps_of(sparse, 2) - maps_of(first, 2)).max() > 1e-3
    shared: Any = work.flow(*tour, ids=first["ids"], shared=True)
    assert np.array_equal(maps_of(shared, 0), maps_of(first, 0)), "the first map is made before any value is mixed"
    assert shared["next"] != first["next"]
    assert {one["id"]: one["before"] for one in shared["next"]}[first["next"][0]["id"]] == first["next"][0]["after"]
    assert work.flow(*tour, TEXT) == first
    with pytest.raises(AttnlabError, match="softmix cannot be put into this model"):
        work.flow(*tour, TEXT, normaliser="softmix")


def test_temperature_and_top_k_change_what_is_drawn(tour: tuple[str, str]) -> None:
    cold: Any = work.flow(*tour, TEXT, temperature=0)
    assert cold["drawn"] == cold["next"][0]["id"]
    assert cold["next"][0]["after"] == 1
    few: Any = work.flow(*tour, TEXT, top_k=3, temperature=2)
    assert sum(one["after"] > 0 for one in few["next"]) == 3
    assert sum(one["after"] for one in few["next"]) == pytest.approx(1)
    drawn = {work.flow(*tour, TEXT, temperature=3, seed=seed)["drawn"] for seed in range(6)}
    assert len(drawn) > 1
    longer: Any = work.flow(*tour, ids=[*cold["ids"] * 8, cold["drawn"]])
    assert longer["ids"][-1] == cold["drawn"]
    assert "the last 48 are shown" in longer["notes"][0]


@pytest.mark.parametrize(("given", "words"), [({"text": ""}, "the text is empty"), ({"ids": [99_999]}, "vocabulary")])
def test_what_cannot_be_looked_at_is_refused(tour: tuple[str, str], given: dict[str, Any], words: str) -> None:
    with pytest.raises(AttnlabError, match=words):
        work.flow(*tour, **given)


def test_the_equation_of_a_cell_has_its_values(tour: tuple[str, str]) -> None:
    found: Any = work.flow(*tour, TEXT)
    place = {"layer": 1, "head": 2, "query": 5, "key": 3}
    numbers: Any = work.explain(*tour, found["ids"], 1, 2, 5)
    assert numbers["weights"][3] == pytest.approx(maps_of(found, 1)[2, 5, 3], abs=2e-5)
    product = sum(one * other for one, other in zip(numbers["query"], numbers["keys"][3], strict=True))
    assert product / len(numbers["query"]) ** 0.5 == pytest.approx(numbers["scores"][3], rel=1e-3)
    mixed = np.array(numbers["weights"]) @ np.array(numbers["values"])
    assert mixed == pytest.approx(np.array(numbers["output"]), abs=1e-4)
    html = equation_html(numbers, found["tokens"], place)
    assert "How “he” weighs “says” in layer 1, head 2" in html
    assert "<msub><mi>s</mi><mrow><mi>j</mi></mrow></msub><mo>=</mo>" in html
    assert "/ √16 =" in html
    assert "The mask hides" in equation_html(numbers, found["tokens"], {**place, "key": 7})
    with pytest.raises(AttnlabError, match="there is no head 9"):
        work.explain(*tour, found["ids"], 1, 9, 5)


def test_runs_are_listed_by_comparison_and_pilots_are_not(tour: tuple[str, str], tmp_path: Path) -> None:
    shutil.copytree(tour[0], tmp_path / "runs")
    (folder,) = (tmp_path / "runs").glob("compare-*")
    made = next((folder / "runs").iterdir())
    shutil.copytree(made, folder / "pilot" / made.name)
    listed: Any = runs(str(tmp_path / "runs"))["runs"]
    assert len({one["name"] for one in listed}) == len(listed)
    of_comparison = [one for one in listed if one["comparison"]]
    assert {one["variant"] for one in of_comparison} == {"softmax nano", "tied-kv nano"}
    assert {one["seed"] for one in of_comparison} == {"seed 0", "seed 1"}
    assert len(of_comparison) == 4, "the run of the pilot is hidden"
    assert of_comparison[0]["group"].startswith("tied-kv against softmax (nano · 2 seeds · kinship")
    assert [one["group"] for one in listed if one["name"] == tour[1]] == ["the small model of the tour"]


def test_models_to_ask_are_finetuned_and_named_by_what_they_know(trained: Path, tmp_path: Path) -> None:
    records = (trained / "runs" / "knowledge").rglob("knowledge.json")
    known = next(path.parent for path in records if json.loads(path.read_text())["stage"] == "finetune")
    shutil.copytree(known, tmp_path / "runs" / known.name)  # alone: another test teaches it, which makes a second model
    (one,) = models(str(tmp_path / "runs"))["models"]  # type: ignore[misc]
    assert one["words"].startswith("“")
    assert "questions from" in one["words"]
    assert "/" not in one["words"]
