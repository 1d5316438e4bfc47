"""Receipts: the chain of a run is the same however often it was interrupted, and shows every later change."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from attnlab.errors import FileError
from attnlab.processes import machine
from attnlab.runs import RunDirectory, receipts
from attnlab.runs.receipts import BrokenChainError, Link, check_contents, kept_steps, link_steps, read_chain, read_state
from attnlab.storage.records import content_hash
from support.disk import kill_at, record_effects
from support.runs import change_record
from support.training import At, fork, kill_self, smoke, train_in, wait

SPEC = smoke(steps=8)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_in(tmp_path_factory.mktemp("whole"), SPEC).path


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return shutil.copytree(whole, tmp_path / whole.name)


def check(path: Path) -> list[Link]:
    chain = read_chain(path)
    check_contents(path, RunDirectory.open(path).record, chain)
    return chain


def states(chain: list[Link]) -> list[dict[str, object]]:
    """What two runs of the same specification have in common, whenever they began."""
    same = ("step", "weights", "optimizer", "metrics")
    return [{name: link.content.get(name) for name in same} for link in chain]


def test_steps_of_links() -> None:
    assert link_steps(2865)[:2] == [180, 359]
    assert link_steps(2865)[-1] == 2865
    assert len(link_steps(2865)) == 16
    assert link_steps(3) == [1, 2, 3]
    assert kept_steps(2865) == [896, 1791]
    assert kept_steps(1) == []
    assert set(kept_steps(7)) < set(link_steps(7))


def test_a_chain_binds_all_that_a_run_came_from(whole: Path) -> None:
    chain = check(whole)
    directory = RunDirectory.open(whole)
    assert directory.result is not None
    assert [link.step for link in chain] == [0, *range(1, 9), 8]
    assert chain[0].content["record"] == content_hash(directory.record)
    assert chain[0].content["environment"]["code"] == machine._code_hash()
    assert chain[-2].content["weights"] == directory.result["weights_sha256"]
    assert chain[-1].content["result"] == content_hash(directory.result)
    for step in kept_steps(8):
        (link,) = [link for link in chain if link.step == step]
        assert receipts.state_hashes(read_state(whole, step)) == link.state_hashes


@pytest.mark.parametrize("step", [1, 3, 4, 8])
def test_a_killed_run_has_the_same_chain(whole: Path, tmp_path: Path, step: int) -> None:
    assert wait(fork(lambda: train_in(tmp_path, SPEC, reporter=At(step, kill_self)))) == -signal.SIGKILL
    assert states(check(train_in(tmp_path, SPEC).path)) == states(check(whole))


def test_killed_at_any_effect_the_chain_is_whole(whole: Path, tmp_path: Path) -> None:
    effects = len(record_effects(lambda: train_in(tmp_path / "counted", SPEC)))
    for effect in range(5, effects, 29):
        folder = tmp_path / str(effect)
        kill_at(effect, lambda folder=folder: train_in(folder, SPEC))  # type: ignore[misc]
        assert states(check(train_in(folder, SPEC).path)) == states(check(whole)), f"killed at effect {effect}"


def change_json(name: str, change: Callable[[dict[str, object]], None]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        content = json.loads((path / name).read_text())
        change(content)
        (path / name).write_text(json.dumps(content))

    return apply


def change_lines(name: str, change: Callable[[list[str]], list[str]]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        lines = (path / name).read_text().splitlines(keepends=True)
        (path / name).write_text("".join(change(lines)))

    return apply


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda path: change_record(path, started="2020"), "run.json in .* was changed"),
        (change_json("tokenizer.json", lambda record: record.update(more=1)), "is not the tokenizer"),
        (change_lines("metrics.jsonl", lambda lines: lines[:-1]), "metrics.jsonl was changed at or before step 8"),
        (change_lines("metrics.jsonl", lambda lines: [*lines, lines[-1]]), "was changed at or before step 8"),
        (change_lines("metrics.jsonl", lambda lines: [*lines, '{"step": 9}\n']), "lines that no receipt covers"),
        (change_lines("metrics.jsonl", lambda lines: [*lines, "{]\n"]), "a line that cannot be read"),
        (change_lines("metrics.jsonl", lambda lines: [lines[1], lines[0], *lines[2:]]), "at or before step 1"),
        (change_lines("receipts.jsonl", lambda lines: [*lines[:3], *lines[4:]]), "link 4 .* does not follow"),
        (change_lines("receipts.jsonl", lambda lines: lines[1:]), "link 1 .* does not follow"),
        (
            change_lines("receipts.jsonl", lambda lines: [lines[0].replace('"step": 0', '"step": 1'), *lines[1:]]),
            "link 1 .* was changed",
        ),
        (change_lines("receipts.jsonl", lambda lines: [*lines, "x\n"]), "link 11 .* cannot be read"),
    ],
)
def test_every_change_is_seen(run: Path, change: Callable[[Path], None], said: str) -> None:
    check(run)
    change(run)
    with pytest.raises(BrokenChainError, match=said):
        check(run)


def test_a_run_is_not_resumed_on_what_was_changed(tmp_path: Path) -> None:
    assert wait(fork(lambda: train_in(tmp_path, SPEC, reporter=At(5, kill_self)))) == -signal.SIGKILL
    (path,) = (tmp_path / "runs").iterdir()
    change_lines("metrics.jsonl", lambda lines: [lines[0].replace('"loss": ', '"loss": 1'), *lines[1:]])(path)
    with pytest.raises(FileError, match="was changed at or before step 1"):
        train_in(tmp_path, SPEC)


def test_another_machine_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert wait(fork(lambda: train_in(tmp_path, SPEC, reporter=At(5, kill_self)))) == -signal.SIGKILL
    environment = {**machine.describe_environment(), "processor": "another"}
    monkeypatch.setattr(receipts, "describe_environment", lambda: environment)
    chain = check(train_in(tmp_path, SPEC).path)
    noted = [link for link in chain if "environment" in link.content]
    assert [link.step for link in noted] == [0, 4]
    assert noted[1].content["environment"] == environment != noted[0].content["environment"]


def test_a_run_that_was_begun_without_receipts_ends_without(tmp_path: Path) -> None:
    assert wait(fork(lambda: train_in(tmp_path, SPEC, reporter=At(5, kill_self)))) == -signal.SIGKILL
    (path,) = (tmp_path / "runs").iterdir()
    (path / "receipts.jsonl").unlink()
    assert train_in(tmp_path, SPEC).outcome == "finished"
    assert read_chain(path) == []
