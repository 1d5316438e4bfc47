"""A retrofit from request to result: costs, budgets, healing, resuming, the page, and what is refused."""

from __future__ import annotations

import copy
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.errors import AttnlabError
from attnlab.lens.subjects import open_subject
from attnlab.models import Sampling, generate
from attnlab.pages import render
from attnlab.retrofit import RetrofitResult, request_of, retrofit
from attnlab.retrofit.costs import cheapest_layers, layer_costs, layer_losses
from attnlab.retrofit.folder import command_of, state_of, stop
from attnlab.retrofit.forecast import forecast
from attnlab.retrofit.healing import running
from attnlab.retrofit.healing.curves import HealedRun, Healing, tokens_until
from attnlab.retrofit.page import losses_table, recovery_table, sentences
from attnlab.retrofit.reading import read_result
from attnlab.retrofit.texts import judging_rows, open_text, text_losses
from attnlab.training import load_run
from support.pretrained import write_llama
from support.training import ALONE, KINSHIP, smoke, train_in

SIZES: dict[str, Any] = {"texts": 6, "fitting_texts": 8}
HEALING: dict[str, Any] = {"tokens": 256, "seeds": 2, "batch_size": 2}
LOCAL: dict[str, Any] = {"threads": 1, "workers": 1, "precision": "float32"}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a small run of GPT-2's architecture."""
    folder = tmp_path_factory.mktemp("trained")
    spec = smoke(corpus=KINSHIP, num_layers=3, context_length=16, steps=40, evaluate_every=40)
    return train_in(folder, spec, **ALONE).path


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder of Hugging Face with a Llama of random weights, its tokenizer, and a text beside it."""
    return write_llama(tmp_path_factory.mktemp("llama") / "tiny")


def carried_out(model: Path, out: Path, trained: Path, **fields: Any) -> RetrofitResult:
    request = request_of(**{**SIZES, **fields})
    return retrofit(model, request, out=out, cache=trained.parents[1] / "cache", **LOCAL)


@pytest.fixture(scope="module")
def healed(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> RetrofitResult:
    out = tmp_path_factory.mktemp("healed")
    return carried_out(trained, out, trained, variants=("tied-kv", "window:4"), **HEALING)


def test_costs_are_those_of_models_with_one_layer_changed(healed: RetrofitResult, trained: Path) -> None:
    subject = open_subject(trained)
    texts = judging_rows(open_text(subject, None, trained.parents[1] / "cache"), 6, 16)
    base = text_losses(subject.model, texts)
    tied = open_subject(healed.variants[0].converted).model
    whole = sum(text_losses(tied, texts)) / 6 - sum(base) / 6
    assert healed.variants[0].all_layers.mean == pytest.approx(whole, abs=1e-5)
    assert [cost.layer for cost in healed.variants[0].costs] == [0, 1, 2]
    layers = {1: tied.stack.blocks[1].attention}
    theirs, found = layer_losses(subject.model, {"one": layers}, texts)
    assert theirs == pytest.approx(base, abs=1e-5)
    expected = sum(found["one"]["1"]) / 6 - sum(base) / 6
    assert healed.variants[0].costs[1].cost.mean == pytest.approx(expected, abs=1e-5)
    assert all(cost.cost.low <= cost.cost.mean <= cost.cost.high for one in healed.variants for cost in one.costs)


def test_each_thread_reads_texts_of_its_own(trained: Path) -> None:
    subject, told, before = open_subject(trained), list[int](), torch.get_num_threads()
    texts = judging_rows(open_text(subject, None, trained.parents[1] / "cache"), 5, 16)
    variants = {"one": {0: subject.model.stack.blocks[1].attention}}
    try:
        torch.set_num_threads(1)
        alone = layer_losses(subject.model, variants, texts)
        torch.set_num_threads(2)
        together = layer_losses(subject.model, variants, texts, told.append)
        assert torch.get_num_threads() == 2, "as before"
    finally:
        torch.set_num_threads(before)
    assert together[0] == pytest.approx(alone[0], abs=1e-5)
    assert together[1]["one"] == {key: pytest.approx(losses, abs=1e-5) for key, losses in alone[1]["one"].items()}
    assert len({round(loss, 3) for loss in alone[0]}) > 1, "texts in the wrong order would be seen"
    assert told == [1, 2]


def test_healing_has_curves_of_both_methods_from_the_same_start(healed: RetrofitResult) -> None:
    one = healed.variants[0]
    assert [healing.method for healing in one.healing] == ["distil", "finetune"]
    for healing in one.healing:
        assert [run.seed for run in healing.runs] == [1, 2]
        for run in healing.runs:
            assert run.curve[0] == (0.0, one.converted_loss)
            assert run.curve[-1][0] == 256
            assert [tokens for tokens, _ in run.curve] == sorted({tokens for tokens, _ in run.curve})
    assert healed.control is not None
    assert {run.curve[0][1] for run in healed.control.runs} == {healed.original_loss}
    starts = {healing.runs[0].curve[1][1] for healing in one.healing}
    assert len(starts) == 2  # the methods differ from the first measurement on


def test_the_retrofitted_model_is_a_run_like_any_other(healed: RetrofitResult) -> None:
    for one in healed.variants:
        for path in (one.converted, one.healed):
            loaded = load_run(path)
            assert loaded.record["spec"]["variant"] == one.name
            assert len(generate(loaded.model, [[1, 2]], 3, Sampling(temperature=0))[0]) == 3
    tied = load_run(healed.variants[0].healed).model
    assert all(spec.sharing == "key-value" for spec in tied.spec.attention)
    assert load_run(healed.variants[1].healed).model.spec.attention[0].mask.window == 4


def test_the_same_request_trains_nothing_again(
    healed: RetrofitResult, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr("attnlab.training.loop.Engine.step", fail)
    monkeypatch.setattr("attnlab.retrofit.healing.distilling.Student.loss", fail)
    monkeypatch.setattr("attnlab.retrofit.study.convert_layers", fail)
    monkeypatch.setattr("attnlab.retrofit.study.layer_losses", fail)
    again = carried_out(trained, healed.folder.parent, trained, variants=("tied-kv", "window:4"), **HEALING)
    assert again.to_dict() == healed.to_dict()


def test_an_interrupted_retrofit_ends_with_the_same_numbers(
    healed: RetrofitResult, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []

    def interrupt(*args: Any, **options: Any) -> Any:
        begun.append(1)
        if len(begun) == 3:
            raise KeyboardInterrupt
        return running_train(*args, **options)

    running_train = running.train_on
    monkeypatch.setattr(running, "train_on", interrupt)
    with pytest.raises(KeyboardInterrupt):
        carried_out(trained, tmp_path, trained, variants=("tied-kv", "window:4"), **HEALING)
    again = carried_out(trained, tmp_path, trained, variants=("tied-kv", "window:4"), **HEALING)
    for mine, theirs in zip(again.variants, healed.variants, strict=True):
        assert mine.costs == theirs.costs
        for healing, other in zip(mine.healing, theirs.healing, strict=True):
            assert [run.curve for run in healing.runs] == [run.curve for run in other.runs]


def test_finetuning_that_harms_the_original_is_said(healed: RetrofitResult) -> None:
    assert healed.control is not None
    final = healed.control.final
    assert final is not None
    harmed = replace(healed, original_loss=final.low - 0.01)
    assert sentences(harmed)[-1].startswith("Finetuning makes the original itself worse")
    unharmed = replace(healed, original_loss=final.low + 0.01)
    assert not any("worse" in line for line in sentences(unharmed))


def test_page_json_and_csv_say_the_same(healed: RetrofitResult) -> None:
    page = render(healed.page())
    assert "tied-kv" in page
    assert "Cost of each layer" in page
    plain = json.loads(json.dumps(healed.to_dict(), allow_nan=False))
    assert [one["name"] for one in plain["variants"]] == ["tied-kv", "window:4"]
    rows = healed.to_csv().splitlines()
    assert sum(row.startswith("tied-kv,cost,") for row in rows) == 3
    assert any("distillation" in line for line in sentences(healed))
    rows = losses_table(healed).rows
    assert [row[:2] for row in rows] == [
        ["original", "–"],
        ["original", "finetune"],
        *([name, method] for name in ("tied-kv", "window:4") for method in ("distil", "finetune")),
    ]
    recovered = recovery_table(healed).rows
    assert [row[:2] for row in recovered] == [row[:2] for row in rows[2:]]
    for row, healing in zip(recovered, [one for each in healed.variants for one in each.healing], strict=True):
        reached, until = healing.until(healed.limit)
        assert (until is None) == row[-1].startswith("not within the budget")
        assert until is not None or f"{len(reached)} of 2 seeds" in row[-1]


def test_changing_nothing_costs_nothing(trained: Path, tmp_path: Path) -> None:
    found = carried_out(trained, tmp_path, trained, variants=("softmax",))
    one = found.variants[0]
    assert {cost.cost.mean for cost in one.costs} == {0.0}
    assert one.converted_loss == found.original_loss
    original, same = load_run(trained).model.state_dict(), load_run(one.converted).model.state_dict()
    assert all(torch.equal(original[name], same[name]) for name in original)
    assert one.gains.cache_ratio == 1


def test_a_budget_takes_the_cheapest_layers(trained: Path, tmp_path: Path) -> None:
    found = carried_out(trained, tmp_path, trained, variants=("window:2",), budget=50.0).variants[0]
    assert found.subset is not None
    assert found.layers == found.subset.layers == (0, 1, 2)
    assert found.subset.cost == found.all_layers


def test_a_layer_that_is_too_expensive_is_left_out(trained: Path) -> None:
    subject = open_subject(trained)
    texts = judging_rows(open_text(subject, None, trained.parents[1] / "cache"), 6, 16)
    layers = {number: copy.deepcopy(block.attention) for number, block in enumerate(subject.model.stack.blocks)}
    with torch.no_grad():
        layers[1].output.weight.normal_(0.0, 3.0)
    base, losses = layer_losses(subject.model, {"broken": layers}, texts)
    costs = layer_costs(base, losses["broken"], dict.fromkeys(layers, 0.0))
    subset = cheapest_layers(subject.model, layers, costs, 0.01, base, texts)
    assert subset.layers == (0, 2)
    assert subset.cost is not None
    assert subset.cost.mean == pytest.approx(0.0, abs=1e-6)
    assert cheapest_layers(subject.model, {1: layers[1]}, costs[1:2], 0.01, base, texts).layers == ()


def test_chosen_layers_alone_are_changed(trained: Path, tmp_path: Path) -> None:
    one = carried_out(trained, tmp_path, trained, variants=("gqa:1",), layers="2,0").variants[0]
    assert one.layers == (0, 2)
    heads = [spec.num_key_value_heads for spec in load_run(one.converted).model.spec.attention]
    assert heads == [1, 2, 1]
    assert one.gains.cache_ratio == pytest.approx(2 / 3)


def test_a_llama_is_retrofitted_and_healed_on_a_named_text(llama: Path, trained: Path, tmp_path: Path) -> None:
    text = llama.parent / "text.txt"
    healing = {**HEALING, "seeds": 1, "tokens": 128}
    found = carried_out(
        llama, tmp_path, trained, variants=("mqa", "sigmoid"), text=str(text), length=16, texts=4, **healing
    )
    assert found.length == 16
    for one in found.variants:
        assert len(one.costs) == 2
        model = load_run(one.healed).model
        assert model.spec.context_length == 16
        assert one.healing[0].final is not None
        assert math.isnan(one.healing[0].final.low)  # one seed has no interval
    assert found.variants[0].gains.cache_ratio == 0.5


def healing_of(*curves: tuple[tuple[float, float], ...]) -> Healing:
    return Healing("distil", tuple(HealedRun(seed, Path(), curve) for seed, curve in enumerate(curves)))


def test_tokens_until_are_counted_between_measurements() -> None:
    curve = ((0.0, 3.0), (100.0, 2.0), (200.0, 1.0))
    assert tokens_until(curve, 1.5) == 150
    assert tokens_until(curve, 3.5) == 0
    assert tokens_until(curve, 0.5) is None
    both = healing_of(curve, ((0.0, 3.0), (100.0, 1.0)))
    reached, found = both.until(1.5)
    assert reached == [150, 75]
    assert found is not None
    assert found.mean == 112.5
    assert healing_of(curve, ((0.0, 3.0), (200.0, 2.0))).until(1.5) == ([150], None)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"variants": ()}, "needs a variant"),
        ({"variants": ("mqa", "mqa")}, "named twice"),
        ({"variants": ("window:99",)}, "hides nothing in a context of 16"),
        ({"variants": ("mqa",), "layers": "7"}, "'7' is no layer"),
        ({"variants": ("mqa",), "layers": "0", "budget": 0.1}, "a budget chooses the layers"),
        ({"variants": ("mqa",), "length": 99}, "texts of 99 tokens"),
        ({"variants": ("mqa",), "length": 8, "tokens": 512}, "learned positions"),
        ({"variants": ("mqa",), "tokens": 40}, "do not suffice for two steps"),
        ({"variants": ("mqa",), "text": "missing.txt"}, "no file or folder missing.txt"),
        ({"variants": ("mqa",), "budget": -1.0}, "budget"),
    ],
)
def test_bad_requests_are_refused_before_anything_is_written(
    fields: dict[str, Any], words: str, trained: Path, tmp_path: Path
) -> None:
    with pytest.raises(AttnlabError, match=words) as refused:
        carried_out(trained, tmp_path, trained, **fields)
    assert refused.value.hint
    assert not list(tmp_path.iterdir())


def test_a_changed_plan_is_not_believed(trained: Path, tmp_path: Path) -> None:
    found = carried_out(trained, tmp_path, trained, variants=("softmax",))
    plan = found.folder / "retrofit.json"
    plan.write_text(plan.read_text().replace("softmax", "mqa"), encoding="utf-8")
    with pytest.raises(AttnlabError, match="was changed"):
        carried_out(trained, tmp_path, trained, variants=("softmax",))
    shutil.rmtree(found.folder)


def test_a_result_is_read_again_as_it_was_found(healed: RetrofitResult) -> None:
    again = read_result(healed.folder)
    assert losses_table(again).rows == losses_table(healed).rows
    assert [one.gains for one in again.variants] == [
        replace(one.gains, speed=pytest.approx(one.gains.speed, rel=1e-5)) for one in healed.variants
    ]
    assert [one.healed for one in again.variants] == [one.healed for one in healed.variants]
    (healed.folder / "report.html").write_text("")
    state = state_of(healed.folder)
    assert (state.status, state.converted, state.healed, state.request.healing_runs, state.share) == (
        "finished",
        2,
        10,
        10,
        1.0,
    )
    assert command_of(state.request, "m", Path("runs"))[:4] == ["retrofit", "m", "--to", "tied-kv,window:4"]


def test_how_far_a_retrofit_is(healed: RetrofitResult, tmp_path: Path) -> None:
    folder = tmp_path / healed.folder.name
    shutil.copytree(healed.folder, folder)
    for path in (folder / "answer.json", folder / "report.html", *folder.glob("runs/*seed2/result.json")):
        path.unlink(missing_ok=True)
    assert (state_of(folder).status, state_of(folder).healed) == ("stopped", 5)
    (folder / "answer.json").write_text('{"title": "half"}')
    assert state_of(folder).status == "finishing"
    with pytest.raises(AttnlabError, match="damaged"):
        read_result(folder)
    with pytest.raises(AttnlabError, match="no process"):
        stop(folder)


def test_a_forecast_grows_with_what_is_asked(trained: Path) -> None:
    model = open_subject(trained).model
    plain = forecast(model, request_of(variants=("tied-kv",), **SIZES))
    more = forecast(model, request_of(variants=("tied-kv", "mqa"), **SIZES, **HEALING))
    assert plain.healing == 0 < more.healing
    assert plain.converting > 0
    assert plain.memory < more.memory
