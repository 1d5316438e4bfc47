"""Runs side by side: in order, each once, and none stopped by the failure of another."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnlab.errors import SpecError
from attnlab.processes.child import Child, ChildError
from attnlab.training import grid as grid_module
from attnlab.training.grid import GridResult, run_side_by_side
from support.training import smoke

ECHO = """
from attnlab.errors import SpecError
from attnlab.processes.child import serve

def answer(question):
    print("talk")  # must not get between the answers
    if question["do"] == "die":
        import os
        print("last words", flush=True)
        os._exit(3)
    if question["do"] == "refuse":
        raise SpecError("no", hint="ask nicely")
    if question["do"] == "fail":
        raise RuntimeError("broken")
    return {"echo": question["do"]}

serve(answer)
"""


FRAGILE = """
import itertools, os, sys

def lines(stdin):
    for line in stdin:
        if '"seed": 7' in line:
            os._exit(9)
        yield line

sys.stdin = lines(sys.stdin)
first = next(sys.stdin)  # before PyTorch is imported, which takes its time
sys.stdin = itertools.chain([first], sys.stdin)

from attnlab.processes.child import serve
from attnlab.training.grid_process import answer

serve(answer)
"""


def test_a_child_answers_and_what_goes_wrong_there_is_raised_here(tmp_path: Path) -> None:
    (tmp_path / "echo_child.py").write_text(ECHO)
    with Child("echo_child", name="the echo", environment={"PYTHONPATH": str(tmp_path)}) as child:
        assert child.ask(do="something") == {"echo": "something"}
        with pytest.raises(ChildError, match=r"^the echo: no\n\nhint: ask nicely$"):
            child.ask(do="refuse")
        with pytest.raises(ChildError, match=r"^the echo: RuntimeError: broken$"):
            child.ask(do="fail")
        assert child.ask(do="more") == {"echo": "more"}
        assert not child.has_ended
        for _ in range(2):  # it stays dead
            with pytest.raises(ChildError, match=r"the echo ended with code 3\n(.*\n)*  last words") as caught:
                child.ask(do="die")
            assert caught.value.died
    child.close()  # twice is no mistake
    assert child.has_ended


def test_a_child_that_never_starts_is_told(tmp_path: Path) -> None:
    with (
        Child("no_such_module_at_all", name="nobody", environment={"PYTHONPATH": str(tmp_path)}) as child,
        pytest.raises(ChildError, match="No module named no_such_module_at_all"),
    ):
        child.ask(do="something")


def test_runs_come_back_in_order(tmp_path: Path) -> None:
    specs = [smoke(seed=0, steps=20), smoke(seed=1), smoke(variant="relu", seed=2)]
    told: dict[int, GridResult] = {}
    found = run_side_by_side(specs, tmp_path / "runs", 2, 1, cache=tmp_path / "cache", ended=told.__setitem__)
    assert [one.spec for one in found] == specs
    assert [one.problem for one in found] == [None] * 3
    assert [(one.result.outcome, one.result.steps) for one in found if one.result] == [
        ("finished", 20),
        ("finished", 6),
        ("finished", 6),
    ]
    assert {number: told[number] for number in range(3)} == dict(enumerate(found))


def test_one_failure_or_death_does_not_stop_the_others_and_nothing_is_trained_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fragile_grid.py").write_text(FRAGILE)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(grid_module, "_MODULE", "fragile_grid")
    specs = [smoke(), smoke(corpus={"name": str(tmp_path / "missing.txt")}), smoke(seed=7), smoke()]
    first, missing, dead, again = run_side_by_side(specs, tmp_path / "runs", 1, 1, cache=tmp_path / "cache")
    assert first.result is not None
    assert not first.result.already
    assert missing.result is None
    assert "missing.txt" in (missing.problem or "")
    assert dead.result is None
    assert "ended with code 9" in (dead.problem or "")
    assert again.result is not None
    assert again.result.already
    assert again.result.weights_sha256 == first.result.weights_sha256


def test_what_cannot_be() -> None:
    with pytest.raises(SpecError, match="0 processes"):
        run_side_by_side([smoke()], processes=0)
    with pytest.raises(SpecError, match="0 threads"):
        run_side_by_side([smoke()], processes=1, threads=0)
    assert run_side_by_side([]) == []
