"""A comparison from its request to its verdict, and everything that can come in between."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path

import pytest

from attnlab.cli import main
from attnlab.errors import AttnlabError, FileError, SpecError
from attnlab.experiments import Comparison, Request, compare
from attnlab.runs import RunDirectory, RunHeldError
from attnlab.storage.locks import holding
from support.requests import InProcess, small


def compared(
    folder: Path, request: Request | None = None, launcher: InProcess | None = None, more: int = 0
) -> Comparison:
    launcher = launcher or InProcess(folder / "cache")
    return compare(request or small(), out=folder / "runs", on=launcher, cache=folder / "cache", add_seeds=more)


def test_every_arm_is_trained_at_every_seed_and_judged(tmp_path: Path) -> None:
    launcher = InProcess(tmp_path / "cache")
    found = compared(tmp_path, launcher=launcher)
    assert launcher.trained == 6
    assert [arm.name for arm in found.arms] == ["softmax", "tied-kv"]
    assert [judgement.arm for judgement in found.judgements] == ["tied-kv"]
    for arm in found.arms:
        assert [cell.seed for cell in arm.runs] == [0, 1, 2]
        for cell in arm.runs:
            result = RunDirectory.open(cell.path).result
            assert result is not None
            assert cell.loss == result["validation_loss"] == cell.curve[-1][1]
            assert cell.curve[-1][0] == 6
            assert f"--seed {cell.seed}" in cell.command
    losses = [[cell.loss or 0 for cell in arm.runs] for arm in found.arms]
    assert found.judgements[0].differences == pytest.approx([b - a for a, b in zip(*losses, strict=True)])
    assert (found.path / "plan.json").exists()


def test_the_same_again_trains_nothing_and_says_the_same(tmp_path: Path) -> None:
    first = compared(tmp_path)
    launcher = InProcess(tmp_path / "cache")
    again = compared(tmp_path, launcher=launcher)
    assert launcher.trained == 0
    assert again.judgements == first.judgements
    assert again.plan == first.plan
    assert again.seconds == first.seconds


def test_what_breaks_is_told_and_goes_on(tmp_path: Path) -> None:
    with pytest.raises(AttnlabError, match="4 of 6 runs have not ended; the first: the machine broke"):
        compared(tmp_path, launcher=InProcess(tmp_path / "cache", fails=2))
    launcher = InProcess(tmp_path / "cache")
    found = compared(tmp_path, launcher=launcher)
    assert launcher.trained == 4
    whole = compared(tmp_path / "other")
    assert found.judgements == whole.judgements


def test_adding_seeds_takes_the_next_look_and_then_there_is_none(tmp_path: Path) -> None:
    request = small(looks=2)
    compared(tmp_path, request)
    launcher = InProcess(tmp_path / "cache")
    more = compared(tmp_path, request, launcher=launcher, more=2)
    assert launcher.trained == 4
    assert more.seeds == (0, 1, 2, 3, 4)
    assert [look.seeds for look in more.looks] == [(0, 1, 2), (0, 1, 2, 3, 4)]
    assert len(more.judgements[0].differences) == 5
    assert compared(tmp_path, request).seeds == more.seeds
    with pytest.raises(SpecError, match="all planned interim analyses \\(2\\) are done"):
        compared(tmp_path, request, more=2)
    with pytest.raises(SpecError, match="cannot be added"):
        compared(tmp_path, request, more=-1)


def test_by_default_one_look_is_planned_and_no_seeds_can_be_added(tmp_path: Path) -> None:
    assert compared(tmp_path).plan.procedure.looks == 1
    with pytest.raises(SpecError, match="all planned interim analyses \\(1\\) are done"):
        compared(tmp_path, more=2)


def test_an_interrupted_look_is_gone_on_with_and_not_taken_twice(tmp_path: Path) -> None:
    request = small(looks=2)
    compared(tmp_path, request)
    with pytest.raises(AttnlabError, match="have not ended"):
        compared(tmp_path, request, InProcess(tmp_path / "cache", fails=1), more=2)
    found = compared(tmp_path, request, more=2)
    assert found.seeds == (0, 1, 2, 3, 4)
    assert len(found.looks) == 2


def test_diverged_runs_are_shown_and_make_an_arm_unstable(tmp_path: Path) -> None:
    found = compared(tmp_path, small(variants=("tied-kv", "learning_rate=1e30")))
    wild = found.arm("learning_rate=1e30")
    assert {cell.outcome for cell in wild.runs} == {"diverged"}
    assert all(cell.message for cell in wild.runs)
    assert wild.loss is None
    verdicts = {judgement.arm: judgement.verdict for judgement in found.judgements}
    assert verdicts["learning_rate=1e30"] == "unstable"
    assert verdicts["tied-kv"] != "unstable"


def test_a_text_that_changed_since_the_plan_is_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be that is the question " * 40)
    fields = {"corpus": str(text), "corpus_options": {}, "vocabulary_size": None}
    compared(tmp_path, small(**fields))
    text.write_text("whether tis nobler in the mind to suffer " * 40)
    with pytest.raises(FileError, match="has changed since the plan"):
        compared(tmp_path, small(**fields))


def test_a_run_of_another_plan_is_refused(tmp_path: Path) -> None:
    found = compared(tmp_path)
    ours, theirs = (arm.runs[0].path for arm in found.arms)
    shutil.rmtree(ours)
    shutil.copytree(theirs, ours)
    with pytest.raises(FileError, match="is a run of another plan"):
        compared(tmp_path)


def test_a_plan_of_another_request_is_refused(tmp_path: Path) -> None:
    found = compared(tmp_path)
    other = small(seeds=4)
    shutil.copytree(found.path, tmp_path / "runs" / other.folder)
    with pytest.raises(FileError, match="another request"):
        compared(tmp_path, other)


def test_two_at_once_the_second_is_told_who_is_there(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / small().folder
    folder.mkdir(parents=True)
    with holding(folder), pytest.raises(RunHeldError, match="is held by"):
        compared(tmp_path)


def test_worth_in_steps(tmp_path: Path) -> None:
    found = compared(tmp_path, small(variants=("learning_rate=1e-9", "tied-kv")))
    lazy = found.worth("learning_rate=1e-9")
    assert lazy is None or lazy < 1
    for judgement in found.judgements:
        share = found.worth(judgement.arm)
        if share is not None and judgement.mean is not None:
            assert (share >= 1) == (judgement.mean < 0)


def test_matched_arms_stand_beside_the_plain_ones(tmp_path: Path) -> None:
    found = compared(tmp_path, small(match="parameters"))
    assert [arm.name for arm in found.arms] == ["softmax", "tied-kv", "tied-kv [parameters]"]
    matched = found.plan.arm("tied-kv [parameters]")
    assert matched.matching is not None
    assert abs(matched.parameters / found.plan.baseline.parameters - 1) == pytest.approx(abs(matched.matching.error))


def test_looks_are_kept_as_json(tmp_path: Path) -> None:
    found = compared(tmp_path)
    kept = json.loads((found.path / "looks.json").read_text())
    assert kept["looks"][0]["verdicts"] == {"tied-kv": found.judgements[0].verdict}


def test_the_command_of_a_run_makes_it_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = compared(tmp_path, small(changes=(*small().changes, "position=rope")))
    cell = found.arms[1].runs[2]
    program, *words = shlex.split(cell.command)
    assert program == "attnlab"
    assert main([*words, "--out", str(tmp_path / "again"), "--precision", "float32", "--quiet", "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert Path(result["path"]).name == cell.path.name
    assert result["weights_sha256"] == cell.weights_sha256
