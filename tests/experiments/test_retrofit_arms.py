"""Retrofits as arms of a comparison: converted once, finetuned from there, judged and verified as any other arm."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.cli import main
from attnlab.errors import AttnlabError, FileError, SpecError
from attnlab.experiments import Comparison, Request, compare
from attnlab.experiments.planning.retrofits import retrofit_request
from attnlab.experiments.reporting.exports import conclude
from attnlab.runs import RunDirectory
from attnlab.runs.receipts import read_state
from attnlab.training import RunSpec, load_run, train
from attnlab.training.spec import treatment
from attnlab.verification import verify
from support.pretrained import write_llama
from support.requests import InProcess
from support.training import ALONE, KINSHIP, smoke, train_in

ASKED: dict[str, Any] = {"seeds": 2, "steps": 6, "pilot": 0, "threads": 1}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("retrofits")


@pytest.fixture(scope="module")
def trained(place: Path) -> Path:
    spec = smoke(corpus=KINSHIP, num_layers=2, context_length=16, steps=40, evaluate_every=40)
    return train_in(place, spec, **ALONE).path


def asked(model: Path, place: Path, **fields: Any) -> Request:
    variants = fields.pop("variants", ("tied-kv", "window:4 & learning_rate=1e-4"))
    return retrofit_request(model, variants=variants, out=place / "out", cache=place / "cache", **{**ASKED, **fields})


@pytest.fixture(scope="module")
def request_(trained: Path, place: Path) -> Request:
    return asked(trained, place, changes=("batch_size=2",))


def carried_out(request: Request, place: Path) -> Comparison:
    return compare(request, out=place / "out", on=InProcess(place / "cache"), cache=place / "cache")


@pytest.fixture(scope="module")
def found(request_: Request, place: Path) -> Comparison:
    comparison = carried_out(request_, place)
    conclude(comparison)
    return comparison


def test_arms_begin_with_the_converted_model(found: Comparison, trained: Path) -> None:
    assert [arm.name for arm in found.arms] == ["softmax", "tied-kv", "window:4 & learning_rate=1e-4"]
    original = load_run(trained).model.state_dict()
    states = {arm.name: read_state(arm.runs[0].path, 0)["weights"] for arm in found.arms}
    assert all(torch.equal(tensor, original[name]) for name, tensor in states["softmax"].items())
    assert sum(one.numel() for one in states["tied-kv"].values()) < sum(one.numel() for one in original.values())
    masks = [load_run(arm.runs[0].path).model.spec.attention[0].mask.window for arm in found.arms]
    assert masks == [None, None, 4]
    assert [arm.arm.run.learning_rate for arm in found.arms] == [3e-4, 3e-4, 1e-4]
    assert {arm.arm.run.batch_size for arm in found.arms} == {2}


def test_every_arm_is_judged_by_paired_seeds(found: Comparison) -> None:
    assert [one.arm for one in found.judgements] == ["tied-kv", "window:4 & learning_rate=1e-4"]
    assert all(len(one.differences) == 2 for one in found.judgements)
    assert "attention without training" in (found.path / "report.html").read_text()
    assert f"--change start={found.arms[1].arm.run.start.run}" in found.arms[1].runs[0].command  # type: ignore[union-attr]
    again = treatment(f"start={found.arms[1].arm.run.start.run}")  # type: ignore[union-attr]
    assert again.changes["start"] == found.arms[1].arm.run.start


def test_another_baseline_is_another_comparison_of_the_same_models(
    request_: Request, trained: Path, place: Path
) -> None:
    other = asked(trained, place, baseline="tied-kv", variants=("window:4",), changes=("batch_size=2",))
    assert other.starts["tied-kv"] == request_.starts["tied-kv"]
    assert other.folder != request_.folder


def test_the_comparison_is_verified_without_the_models_it_began_with(
    found: Comparison, place: Path, tmp_path: Path
) -> None:
    copied = tmp_path / found.path.name
    shutil.copytree(found.path, copied)
    hidden = [*(place / "out").glob("retrofit-*")]
    moved = [one.rename(tmp_path / one.name) for one in hidden]
    try:
        told = verify(copied, segments=4, cache=place / "cache")
    finally:
        for one, where in zip(moved, hidden, strict=True):
            one.rename(where)
    assert told.exit_code == 0, told.checks


def test_a_run_that_was_begun_resumes_from_its_start(trained: Path, place: Path, tmp_path: Path) -> None:
    spec = RunSpec(corpus=KINSHIP, steps=4, batch_size=2, evaluate_every=4, validation_rows=4, start=str(trained))
    once = train(spec, tmp_path / "a", cache=place / "cache", **ALONE)
    begun = tmp_path / "b" / once.path.name
    begun.mkdir(parents=True)
    shutil.copy(once.path / "run.json", begun)  # killed after its record was written
    again = train(spec, tmp_path / "b", cache=place / "cache", **ALONE)
    assert again.weights_sha256 == once.weights_sha256
    assert once.weights_sha256 != RunDirectory.open(trained).result["weights_sha256"]  # type: ignore[index]


def test_pretrained_models_are_healed_in_their_own_tokens(place: Path, tmp_path: Path) -> None:
    folder = write_llama(tmp_path / "tiny")
    text = tmp_path / "notes.txt"
    text.write_text("The cat sat on the mat, and the dog ran after it. " * 400)
    request = asked(folder, place, variants=("tied-kv",), text=str(text), changes=("batch_size=2",))
    assert request.tokenizer.startswith("run:")
    found = carried_out(request, place)
    assert found.arms[0].loss is not None
    assert [one.arm for one in found.judgements] == ["tied-kv"]


def test_what_cannot_start_is_refused(trained: Path, place: Path, tmp_path: Path, request_: Request) -> None:
    with pytest.raises(SpecError, match="has its model, so num_layers cannot be given"):
        RunSpec(start=str(trained), num_layers=3)
    with pytest.raises(SpecError, match="has learned positions"):
        RunSpec(start=str(trained), context_length=8).attention()
    with pytest.raises(SpecError, match="match changes the size of models"):
        request_.replace(match="parameters")
    with pytest.raises(SpecError, match="mqa starts from no run"):
        request_.replace(variants=("mqa",))
    with pytest.raises(SpecError, match="has other tokens than"):
        train(
            RunSpec(
                corpus={"name": "kinship", "tokenizer": "byte", "options": {"sentences": 100}},
                steps=2,
                start=str(trained),
            ),
            tmp_path,
            cache=place / "cache",
            **ALONE,
        )
    unfinished = tmp_path / "unfinished"
    shutil.copytree(trained, unfinished)
    (unfinished / "result.json").unlink()
    with pytest.raises(FileError, match="has not finished"):
        RunSpec(start=str(unfinished))
    spec = RunSpec(corpus=KINSHIP, steps=2, batch_size=2, start=str(trained))
    changed = spec.replace(start=spec.start.model_copy(update={"weights_sha256": "0" * 64}))  # type: ignore[union-attr]
    with pytest.raises(AttnlabError, match="was trained anew"):
        train(changed, tmp_path, cache=place / "cache", **ALONE)


def test_the_command_converts_and_plans(trained: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["compare", "tied-kv", "--retrofit", str(trained), "--out", str(tmp_path), "--quiet"]
    small = ["--seeds", "2", "--steps", "4", "--pilot", "0", "--change", "batch_size=2"]
    assert main([*asked, *small, "--plan", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert [arm["run"]["start"]["run"] for arm in plan["arms"]] == [
        str(next(tmp_path.glob(f"retrofit-*/models/{name}"))) for name in ("softmax", "tied-kv")
    ]
    assert plan["request"]["changes"] == ["batch_size=2", "learning_rate=0.0003", "warmup_steps=0"]
    assert main([*asked, "--size", "25k"]) != 0
    assert "--retrofit sets its own size" in " ".join(capsys.readouterr().err.replace("`", "").split())
