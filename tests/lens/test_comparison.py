"""Comparing heads: a planted change is found, and seeds of one spec are one side."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from attnlab.corpora import Batch
from attnlab.errors import FileError, InputError
from attnlab.lens.comparison import Difference, HeadComparison, compare_heads, group_runs
from attnlab.lens.heads.study import PROFILE, profile, study_heads
from attnlab.lens.pages.comparison_page import sentence, views
from attnlab.lens.runs import HEADS_FILE, RUN_HEADS, corpus_of_run, heads_of_run, measure_roles, measure_run
from attnlab.pages import render
from attnlab.statistics import Interval
from attnlab.storage.records import read_json, write_json
from attnlab.training import load_run
from support import planted
from support.training import KINSHIP, smoke, train_in

SEEDS = 3


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Seeds of two variants."""
    folder = tmp_path_factory.mktemp("heads")
    spec = smoke(corpus=KINSHIP, num_layers=2, num_heads=2, context_length=12, position="learned")
    return [
        train_in(folder, spec.model_copy(update={"variant": variant, "seed": seed})).path
        for variant in ("softmax", "sigmoid")
        for seed in range(SEEDS)
    ]


@pytest.fixture(scope="module")
def found(runs: list[Path]) -> HeadComparison:
    return compare_heads(runs, controls=19, cache=runs[0].parents[1] / "cache")


def test_sides_are_specs_and_pairs_are_seeds(runs: list[Path], found: HeadComparison) -> None:
    assert [group.name for group in found.groups] == ["softmax", "sigmoid"]
    assert [group.seeds for group in found.groups] == [(0, 1, 2)] * 2
    assert found.groups == tuple(group_runs(runs[::2] + runs[1::2])), "the order of the runs does not matter"
    two = group_runs([runs[0], runs[1]])
    assert [group.name for group in two] == [runs[0].name, runs[1].name], "two seeds alone are two groups"
    with pytest.raises(InputError, match="seeds of one spec"):
        group_runs(runs[:SEEDS])
    with pytest.raises(InputError, match="1 runs cannot"):
        group_runs(runs[:1] * 2)


def test_differences_are_paired(found: HeadComparison) -> None:
    own = found.differences["sigmoid"]["entropy"]
    texts = found.profiles
    pairs = [texts["sigmoid"][seed]["entropy"] - texts["softmax"][seed]["entropy"] for seed in range(SEEDS)]
    assert own.difference is not None
    assert own.difference.mean == pytest.approx(sum(pairs) / SEEDS)
    assert own.change == pytest.approx(own.difference.mean)
    assert set(found.differences["sigmoid"]) <= set(PROFILE)
    assert found.differences["sigmoid"]["importance, mean"].p is not None
    assert found.differing("sigmoid") == sorted(
        (name for name, one in found.differences["sigmoid"].items() if one.p < 0.05),
        key=lambda name: found.differences["sigmoid"][name].p,
    )


def test_a_seed_and_a_variant_are_told_apart(found: HeadComparison) -> None:
    alike = found.similarities["sigmoid"]
    assert {name: len(values) for name, values in alike.values.items()} == {
        "another seed": SEEDS,
        "another variant": SEEDS,
        "the same seed": SEEDS,
    }
    assert alike.gap is not None
    gaps = zip(alike.values["another variant"], alike.values["another seed"], strict=True)
    assert alike.gap.mean == pytest.approx(sum(x - y for x, y in gaps) / SEEDS)


def test_the_page_and_json(found: HeadComparison, tmp_path: Path) -> None:
    found.write(tmp_path / "heads.html")
    html = (tmp_path / "heads.html").read_text(encoding="utf-8")
    assert html == render(found.page())
    assert html.count('class="maps-small"') == 2 * 2 * 2, "both groups of every head"
    assert "What sigmoid does differently" in html
    plain = found.to_dict()
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["sides"][1]["seeds"] == [0, 1, 2]
    assert len(plain["matched"]["sigmoid"]) == 4
    assert found._repr_html_().startswith("<iframe")


def test_one_run_on_a_side_decides_nothing(runs: list[Path]) -> None:
    cache = runs[0].parents[1] / "cache"
    found = compare_heads([runs[0], runs[SEEDS]], "man", importance=False, controls=0, cache=cache)
    assert found.differing("sigmoid") == []
    assert all(one.difference is None for one in found.differences["sigmoid"].values())
    assert found.similarities["sigmoid"].gap is None
    said = " ".join(str(part) for view in views(found) for part in view.parts)
    assert "a difference may be the variant’s or the seed’s" in said
    assert found.looks["softmax"].tokens == ("m", "a", "n")


def test_a_side_without_maps(runs: list[Path], tmp_path: Path) -> None:
    spec = smoke(corpus=KINSHIP, num_layers=2, num_heads=2, context_length=12, position="learned", variant="linear")
    linear = train_in(tmp_path, spec).path
    found = compare_heads([runs[0], linear], importance=False, controls=0, cache=tmp_path / "cache")
    assert found.similarities == {}
    assert "no map: linear" in render(found.page())


def test_what_cannot_be_compared(runs: list[Path], tmp_path: Path) -> None:
    other = train_in(tmp_path, smoke(context_length=12)).path
    with pytest.raises(InputError, match="tokens and softmax"):
        compare_heads([runs[0], other])
    with pytest.raises(FileError, match="neither a run nor a comparison"):
        compare_heads([runs[0], tmp_path])
    (tmp_path / "plan.json").write_text("{}", encoding="utf-8")
    with pytest.raises(FileError, match="cannot be read"):
        compare_heads([tmp_path])


def test_a_planted_change_is_in_the_profile() -> None:
    plain, planted_model = planted.blank_model(), planted.blank_model()
    planted.previous_token(planted_model, 0, 1)
    planted.induction(planted_model, 1, 2)
    tokens = torch.randint(0, planted.SYMBOLS, (8, planted.CONTEXT + 1), generator=torch.Generator().manual_seed(0))
    batch = Batch(tokens[:, :-1], tokens[:, 1:])
    before, after = (profile(study_heads(model, batch)) for model in (plain, planted_model))
    assert set(before) == set(PROFILE)
    assert before["induction, heads"] == before["previous token, heads"] == 0
    assert after["induction, heads"] == after["previous token, heads"] == 1
    assert after["induction, strongest"] > 0.8 > 0.1 > before["induction, strongest"]
    assert after["entropy"] < before["entropy"]


def test_words_for_a_difference() -> None:
    one = Difference(0.2, 0.5, Interval(-0.3, -0.4, -0.2), 0.01)
    assert sentence("entropy", one, "cosine", "softmax") == (
        "entropy: 0.200 for cosine, 0.500 for softmax (less by 0.300, −0.400 … −0.200)"
    )


# What is kept of each run


def test_the_heads_of_a_run_are_measured_once(runs: list[Path]) -> None:
    cache = runs[0].parents[1] / "cache"
    measured = heads_of_run(runs[0], cache=cache)
    assert set(measured) == set(RUN_HEADS)
    kept = read_json(runs[0] / HEADS_FILE)
    assert kept["heads"] == measured
    write_json(runs[0] / HEADS_FILE, {**kept, "heads": {**measured, "induction, mean": 0.5}})
    assert heads_of_run(runs[0], cache=cache)["induction, mean"] == 0.5, "it is read and not measured again"
    for damage in ({"format": 0}, {"weights_sha256": "another"}, {"heads": {"nonsense": 1.0}}, {"heads": None}):
        write_json(runs[0] / HEADS_FILE, {**kept, **damage})
        assert heads_of_run(runs[0], cache=cache) == measured
    (runs[0] / HEADS_FILE).write_text("{", encoding="utf-8")
    assert heads_of_run(runs[0], cache=cache) == measured
    measure_run(runs[1], cache=cache)
    assert (runs[1] / HEADS_FILE).exists()
    assert (runs[1] / "measures.json").exists()


def test_a_planted_head_is_the_strongest_of_its_run(runs: list[Path]) -> None:
    loaded = load_run(runs[0])
    corpus = corpus_of_run(runs[0], loaded.record, runs[0].parents[1] / "cache")
    before = measure_roles(loaded.model, corpus)
    attention = loaded.model.stack.blocks[0].attention
    with torch.no_grad():  # every query asks for the first position, which alone answers
        attention.projections["query"].weight.zero_()
        attention.projections["query"].bias.fill_(5.0)
        loaded.model.stack.positions.weight[1:] = 0.0
        loaded.model.stack.positions.weight[0] = torch.linspace(-20, 20, 16)
        attention.projections["key"].weight.copy_(loaded.model.stack.positions.weight[0].expand(16, 16))
    after = measure_roles(loaded.model, corpus)
    assert after["first token, strongest"] > 0.9 > before["first token, strongest"] + 0.3


def test_an_unfinished_run_has_no_heads_to_measure(runs: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "unfinished"
    shutil.copytree(runs[2], folder)
    (folder / "result.json").unlink()
    with pytest.raises(FileError, match="no final weights"):
        heads_of_run(folder)
