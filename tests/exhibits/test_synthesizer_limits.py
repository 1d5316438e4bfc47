"""The gap between Q–K–V and the synthesizers: what is exact holds at any size, and the checks can fail."""

from __future__ import annotations

import pytest

from attnlab.errors import SpecError
from attnlab.exhibits import exhibit_named
from attnlab.exhibits.learning import synthesizer_limits

SMALL = {"places": 3, "head_width": 8, "steps": 10, "seeds": 2}


class Watching:
    def __init__(self) -> None:
        self.told: list[tuple[str, int, int | None]] = []

    def shown(self, block: object) -> None:
        del block

    def progress(self, what: str, done: int, total: int | None) -> None:
        self.told.append((what, done, total))


def test_the_weights_of_a_synthesizer_do_not_see_the_others() -> None:
    outcome = exhibit_named("synthesizer-limits").run(**SMALL, heads=2)
    assert outcome.ok
    moved, dense, random = outcome.checks
    assert moved.found > 0
    assert dense.found == random.found == 0


def test_a_synthesizer_that_compares_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(synthesizer_limits.VARIANTS, "dense synthesizer", "softmax")
    outcome = exhibit_named("synthesizer-limits").run(**SMALL)
    assert [check.ok for check in outcome.checks] == [True, False, True]


def test_without_a_gap_the_claim_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthesizer_limits.SynthesizerLimits, "learns", True)
    outcome = exhibit_named("synthesizer-limits").run(**SMALL)
    assert [check.ok for check in outcome.checks] == [True, True, True, False, False]


def test_progress_is_told() -> None:
    listener = Watching()
    exhibit_named("synthesizer-limits").run(listener=listener, **SMALL)
    assert listener.told[0] == ("Q–K–V, seed 0", 0, 10)
    assert {what for what, done, _ in listener.told if done == 10} == {
        f"{kind}, seed {seed}" for kind in synthesizer_limits.VARIANTS for seed in (0, 1)
    }


@pytest.mark.parametrize("settings", [{"places": 1}, {"seeds": 1}, {"steps": 0}, {"heads": "two"}])
def test_impossible_parameters(settings: dict[str, object]) -> None:
    with pytest.raises(SpecError, match="is impossible"):
        exhibit_named("synthesizer-limits").run(**settings)
