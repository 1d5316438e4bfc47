"""Exhibits with other parameters and other seeds: what holds, what is refused, and that a spoilt one is found out."""

from __future__ import annotations

import pytest
import torch

from attnlab.errors import SpecError
from attnlab.exhibits import exhibit_named
from attnlab.exhibits.attention import masking as masks
from attnlab.exhibits.attention import shapes as axes
from attnlab.exhibits.attention import worked_example as sheet
from attnlab.exhibits.heads import heads_as_one_matrix as heads
from attnlab.exhibits.learning import superposition as toys

SAMPLED = {
    "scaling": {"samples": 2000, "keys": 16},
    "magnitude": {"samples": 1000},
    "single-head": {"samples": 2000},
    "multi-head": {"samples": 2000},
}
DRAWN = {
    **SAMPLED,
    "almost-orthogonal": {"tries": 300, "widths": "4,32", "small_widths": "3"},
    "heads-as-one-matrix": {},
    "masking": {},
    "shapes": {},
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
        ("masking", {"tokens": 2, "key_width": 1}),
        ("masking", {"tokens": 12, "seed": 3}),
        ("batches", {"width": 4, "seed": 2}),
        ("shapes", {"batch": 3, "length": 3, "width": 2}),
        ("shapes", {"batch": 4, "length": 4, "width": 4}),  # all sizes equal: nothing is refused
        ("residual-update", {"sharpness": 0}),
        ("residual-update", {"sharpness": 50}),
        ("low-rank-value", {"model_width": 2, "value_width": 1, "tokens": 1}),
        ("heads-as-one-matrix", {"num_heads": 1}),
        ("heads-as-one-matrix", {"model_width": 4, "num_heads": 2, "tokens": 2}),
        ("almost-orthogonal", {"angles": "50", "widths": "2", "small_widths": "2", "tries": 100, "model_width": 64}),
        ("almost-orthogonal", {"angles": "89", "widths": "2,400", "small_widths": "4", "tries": 300, "seed": 5}),
        ("complexity", {"measure": False, "model_width": 64, "context": 1000}),
        ("complexity", {"measure": False, "model_width": 12_288, "context": 131_072}),
        ("bias-variance", {"noise": 0.1, "training_sets": 100, "seeds": 2, "steps": 8}),
        ("bias-variance", {"noise": 1, "training_sets": 100, "seeds": 2, "steps": 9, "seed": 7}),
    ],
)
def test_checks_hold_for_other_parameters(name: str, settings: dict[str, object]) -> None:
    assert failed(name, **settings) == []


@pytest.mark.parametrize("name", SAMPLED)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_other_seeds_raise_no_alarm(name: str, seed: int) -> None:
    assert failed(name, seed=seed, **SAMPLED[name]) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWN)
def test_false_alarms_are_at_most_one_in_a_hundred_seeds(name: str) -> None:
    assert sum(bool(failed(name, seed=seed, **DRAWN[name])) for seed in range(100)) <= 1


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("averaging", {"keys": 9, "width": 8}, "cannot be orthonormal"),
        ("single-head", {"strength": 200, "alpha": 1e-4}, "is not small"),
        ("multi-head", {"strength": 100, "alpha": 1e-4}, "is not small"),
        ("copying", {"error": 0}, "error = 0 is impossible"),
        ("scaling", {"deviation": 0}, "deviation = 0 is impossible"),
        ("batches", {"width": 6}, "does not divide into 4 heads"),
        ("low-rank-value", {"model_width": 8, "value_width": 8}, "not below the model's 8"),
        ("heads-as-one-matrix", {"num_heads": 5}, "does not divide into 5 heads"),
        ("heads-as-one-matrix", {"num_heads": 32}, "heads of width 1"),
        ("almost-orthogonal", {"angles": "80,70"}, "do not rise"),
        ("almost-orthogonal", {"angles": "90"}, "89 or less"),
        ("almost-orthogonal", {"widths": "1,2"}, "from 2 or more"),
        ("superposition", {"densities": "1,0.5"}, "do not fall from 1"),
        ("superposition", {"dimensions": "9"}, "two thirds of 12 features"),
        ("complexity", {"model_width": 100}, "no multiple of a head's 64"),
        ("masking", {"tokens": 1}, "tokens = 1 is impossible"),
        ("bias-variance", {"noise": 0}, "noise = 0 is impossible"),
    ],
)
def test_impossible_parameters_are_refused_with_the_reason(name: str, settings: dict[str, object], words: str) -> None:
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
    monkeypatch.setattr("attnlab.exhibits.attention.scaling.dot_variance", lambda width, *_: float(width) + 4)
    assert any("variance of q·k" in one for one in failed("scaling", samples=50_000, keys=8))


def test_swapped_values_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = torch.outer
    monkeypatch.setattr("attnlab.exhibits.heads.kqv_construction.torch.outer", lambda a, b: right(b, a))
    assert failed("kqv-construction")


def test_a_mask_that_leaks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = masks.moved_outputs
    monkeypatch.setattr(masks, "moved_outputs", lambda _, tokens, seed: honest("encoder", tokens, seed))
    assert [line for line in failed("masking") if "outputs before the exchanged token" in line]


def test_a_shape_that_fits_by_chance_is_not_called_refused() -> None:
    cube = torch.ones(2, 2, 2)
    assert axes.product_shape(cube, cube) == "(2, 2, 2)"
    assert axes.product_shape(torch.ones(2, 3, 4), torch.ones(4, 3, 2)).startswith("refused")


def test_heads_in_the_wrong_order_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = heads.same_in_pytorch

    def turned(layer: heads.MultiHeadAttention) -> torch.nn.MultiheadAttention:
        theirs = honest(layer)
        with torch.no_grad():
            theirs.out_proj.weight.copy_(theirs.out_proj.weight.flip(1))
        return theirs

    monkeypatch.setattr(heads, "same_in_pytorch", turned)
    assert any("torch.nn.MultiheadAttention" in line for line in failed("heads-as-one-matrix"))


def test_the_gradient_of_a_softmax_by_hand() -> None:
    # a = (½, ½): diag(a) − a aᵀ = ¼ ((1, −1), (−1, 1)), of length ½.
    assert heads.softmax_gradient(torch.zeros(3, 2)) == pytest.approx(0.5)
    assert heads.softmax_gradient(torch.tensor([[100.0, 0.0]])) == pytest.approx(0)


def test_turns_of_a_square_and_of_a_pair() -> None:
    square = torch.tensor([[1.0, 0.0, -1.0, 0.0], [0.0, 1.0, 0.0, -1.0]])
    assert toys.turns(square).tolist() == pytest.approx([90] * 4)
    assert sorted(toys.turns(square[:, :2]).tolist()) == pytest.approx([90, 270])
