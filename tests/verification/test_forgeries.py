"""Forged results are found: by hashes, by computing again, and those that are consistent in themselves by replay.

pytest tests/verification/test_forgeries.py             one forgery of each kind
make forgeries                                           200 and more, and 100 honest results
"""

from __future__ import annotations

import random
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from attnlab.processes.machine import describe_environment
from attnlab.runs.receipts import Link
from attnlab.verification import Verification, run_checks, verify
from attnlab.verification.checks import CheckList
from attnlab.verification.run_checks import OpenedCorpora, check_run
from attnlab.verification.segments import chance_missed
from attnlab.verification.wording import replay_words
from support.forgeries import RECORDED, STEPS, Forgery, invent_losses, make_comparison, runs_of

ROUNDS, HONEST, DRAWS = 7, 100, 60
POPULATION = 4 * STEPS  # segments of one step


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_comparison(tmp_path_factory.mktemp("honest"))


@pytest.fixture
def copy(honest: Path, tmp_path: Path) -> Path:
    """A copy of the comparison, with its cache."""
    shutil.copytree(honest.parents[1], tmp_path / "copy")
    return tmp_path / "copy" / "runs" / honest.name


def check(folder: Path, segments: int = 0, seed: int = 0) -> Verification:
    return verify(folder, segments=segments, cache=folder.parents[1] / "cache", chosen=random.Random(seed))


def failures(found: Verification) -> list[str]:
    return [words for one in found.checks.tallies.values() for words in one.failed]


def test_an_honest_result_verifies(honest: Path) -> None:
    found = check(honest, segments=6)
    assert (found.exit_code, failures(found)) == (0, [])
    assert found.segments is not None
    assert (found.segments.population, len(found.segments.drawn)) == (POPULATION, 6)
    assert found.segments.bit_for_bit > 0
    assert found.segments.within_tolerance == 0


@pytest.mark.parametrize("forge", RECORDED.values(), ids=RECORDED.keys())
def test_what_touches_recorded_data_is_found(copy: Path, forge: Forgery) -> None:
    forge(copy, random.Random(0))
    found = check(copy)
    assert found.exit_code == 1, found.checks


def test_invented_losses_are_found_by_replay_alone(copy: Path) -> None:
    invent_losses(copy, POPULATION // 2, random.Random(0))
    assert check(copy).exit_code == 0
    found = check(copy, segments=8)  # of which all miss a half with a probability of 1 in 400
    assert found.exit_code == 1
    assert [one.name for one in found.checks.tallies.values() if one.failed] == ["replayed segments"]


@pytest.mark.slow
@pytest.mark.parametrize("forge", RECORDED.values(), ids=RECORDED.keys())
def test_many_forgeries_are_found(honest: Path, tmp_path: Path, forge: Forgery) -> None:
    for number in range(ROUNDS):
        shutil.copytree(honest.parents[1], tmp_path / str(number))
        folder = tmp_path / str(number) / "runs" / honest.name
        forge(folder, random.Random(number))
        assert check(folder).exit_code == 1, f"forgery {number}"
        shutil.rmtree(tmp_path / str(number))


@pytest.mark.slow
def test_honest_results_are_never_refused(honest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused = [number for number in range(HONEST) if check(honest, segments=5, seed=number).exit_code]
    with capsys.disabled():
        print(f"\n{HONEST} honest results, 5 segments each: {len(refused)} refused")
    assert refused == []


@pytest.mark.slow
@pytest.mark.parametrize("forged", [3, 6, 16])
def test_replay_finds_what_it_says(copy: Path, forged: int, capsys: pytest.CaptureFixture[str]) -> None:
    """Replay goes over segments on the way too, so it misses no more than drawing says."""
    invent_losses(copy, forged, random.Random(forged))
    missed = sum(check(copy, segments=5, seed=number).exit_code == 0 for number in range(DRAWS))
    chance = chance_missed(POPULATION, forged, 5)
    with capsys.disabled():
        print(f"\n{forged} of {POPULATION} segments forged, 5 drawn: {missed} of {DRAWS} missed, {chance:.0%} allowed")
    assert missed <= DRAWS * chance + 3 * (DRAWS * chance * (1 - chance)) ** 0.5


def test_elsewhere_the_differences_are_told(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    invent_losses(copy, POPULATION // 2, random.Random(0))
    monkeypatch.setattr(run_checks, "describe_environment", lambda: {"processor": "another"})
    found = check(copy, segments=POPULATION)
    assert failures(found) == []
    assert found.segments is not None
    assert found.segments.within_tolerance > 0
    assert found.segments.largest_difference == pytest.approx(0.01)
    assert 0 < found.segments.mean_difference < 0.01
    assert "and 0.01 at most (0.01 and 0.1 are allowed)" in replay_words(found.segments)


def test_steps_on_two_machines_are_of_neither(honest: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = check_run(runs_of(honest)[0], OpenedCorpora(honest.parents[1] / "cache"), CheckList())
    assert run is not None
    here = run_checks.describe_environment()
    chain = [
        *(link for link in run.chain if link.step <= 6),
        Link({"step": 6, "environment": {**here, "processor": "another"}}, ""),
        *(link for link in run.chain if link.step > 6),
    ]
    resumed = replace(run, chain=chain)
    assert resumed.same_environment(0, 6)
    assert not resumed.same_environment(0, 7)
    assert not resumed.same_environment(6, 7), "some of them were taken before"
    monkeypatch.setattr(run_checks, "describe_environment", lambda: {**here, "processor": "another"})
    assert not resumed.same_environment(6, 7)
    assert resumed.same_environment(7, 16)


def test_what_chooses_the_arithmetic_is_part_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = describe_environment()
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")
    assert describe_environment() == {**usual, "ONEDNN_MAX_CPU_ISA": "SSE41"}
