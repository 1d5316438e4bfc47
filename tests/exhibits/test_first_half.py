"""The exhibits from attention by hand to two heads: other parameters, other seeds, and what is refused."""

from __future__ import annotations

import pytest
import torch

from attnlab.errors import SpecError
from attnlab.exhibits import exhibit_named
from attnlab.exhibits.weights import worked_example as sheet

SAMPLED = {
    "scaling": {"samples": 2000, "keys": 16},
    "magnitude": {"samples": 1000},
    "single-head": {"samples": 2000},
    "multi-head": {"samples": 2000},
}


def failed(name: str, **settings: object) -> list[str]:
    outcome = exhibit_named(name).run(**settings)
    return [f"{check.claim} {check.what}: {check.figure}" for check in outcome.checks if not check.ok]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("worked-example", {"x1": "0.5,-3", "x3": "100,-100"}),
        ("worked-example", {"x1": (0, 0), "x2": (0, 0), "x3": (0, 0)}),
        ("scaling", {"key_width": 1, "mean": 1.5, "deviation": 0.5, "samples": 2000}),
        ("scaling", {"key_width": 300, "mean": -2, "samples": 2000, "keys": 8}),
        ("magnitude", {"keys": 8, "stretch": 2, "key_width": 2, "samples": 1000}),
        ("movies", {"year": 1960, "humour": 0, "romance": 10, "temperature": 50}),
        ("movies", {"temperature": 0.02}),
        ("copying", {"keys": 2, "error": 0.5}),
        ("copying", {"keys": 1000, "error": 1e-9}),
        ("averaging", {"keys": 3, "width": 3, "strength": 0}),
        ("averaging", {"keys": 40, "width": 64, "strength": 300}),
        ("single-head", {"keys": 2, "strength": 200, "alpha": 1e-12, "samples": 2000}),
        ("single-head", {"strength": 5, "alpha": 1e-4, "samples": 2000}),
        ("multi-head", {"keys": 2, "strength": 5, "samples": 2000}),
        ("multi-head", {"keys": 8, "strength": 100, "alpha": 1e-12, "samples": 2000}),
        ("identity-attention", {"length": 2, "reach": 10, "width": 4}),
        ("identity-attention", {"length": 25}),
        ("kqv-construction", {"length": 0.5, "sharpness": 0.1}),
        ("kqv-construction", {"length": 10, "sharpness": 5, "width": 32}),
    ],
)
def test_checks_hold_for_other_parameters(name: str, settings: dict[str, object]) -> None:
    assert failed(name, **settings) == []


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_seeds_raise_no_alarm(name: str, seed: int) -> None:
    assert failed(name, seed=seed, **SAMPLED[name]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", SAMPLED)
def test_false_alarms_are_at_most_one_in_a_hundred_seeds(name: str) -> None:
    alarms = [seed for seed in range(100) if failed(name, seed=seed, **SAMPLED[name])]
    assert len(alarms) <= 1


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("averaging", {"keys": 9, "width": 8}, "cannot be orthonormal"),
        ("single-head", {"strength": 200, "alpha": 1e-4}, "is not small"),
        ("multi-head", {"strength": 100, "alpha": 1e-4}, "is not small"),
        ("copying", {"error": 0}, "error = 0 is impossible"),
        ("scaling", {"deviation": 0}, "deviation = 0 is impossible"),
    ],
)
def test_impossible_parameters_are_refused(name: str, settings: dict[str, object], words: str) -> None:
    with pytest.raises(SpecError, match=words) as caught:
        exhibit_named(name).run(**settings)
    assert caught.value.hint


def test_a_wrong_number_of_the_sheet_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = sheet.W_K.clone()
    wrong[1, 2] = 2
    monkeypatch.setattr(sheet, "W_K", wrong)
    found = failed("worked-example")
    assert any("the keys" in one for one in found)
    assert any("a₃1" in one for one in found)


def test_a_wrong_scale_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnlab.exhibits.weights.scaling.dot_variance", lambda width, *_: float(width) + 4)
    assert any("variance of q·k" in one for one in failed("scaling", samples=50_000, keys=8))


def test_swapped_values_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = torch.outer
    monkeypatch.setattr("attnlab.exhibits.heads.kqv_construction.torch.outer", lambda a, b: right(b, a))
    assert failed("kqv-construction")
