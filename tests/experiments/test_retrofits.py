"""Retrofits as arms: verdicts against the original finetuned alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnlab.experiments.judging.retrofits import judged
from attnlab.pages import render
from attnlab.retrofit import RetrofitResult, VariantResult, request_of
from attnlab.retrofit.costs import LayerCost
from attnlab.retrofit.gains import Gains
from attnlab.retrofit.healing.curves import HealedRun, Healing
from attnlab.retrofit.healing.plan import Method
from attnlab.statistics import Interval

NOISE = (0.001, -0.001, 0.0005, -0.0005)


def healing(method: Method, above: float, *, diverged: bool = False) -> Healing:
    """Return four seeds that end so far above 2 nats."""
    runs = [
        HealedRun(seed, Path(), ((0.0, 3.0), (100.0, 2.0 + above + noise)), diverged and seed == 1)
        for seed, noise in enumerate(NOISE)
    ]
    return Healing(method, tuple(runs))


def result(*variants: tuple[str, float, float], control: Healing | None) -> RetrofitResult:
    cost = Interval(0.1, 0.0, 0.2)
    found = [
        VariantResult(
            name,
            "",
            (LayerCost(0, cost, 0.1),),
            cost,
            None,
            (0,),
            3.0,
            Path(),
            Gains(10, 10, 5, 10, 32, 1.0),
            (healing("distil", distilled), healing("finetune", plain)),
        )
        for name, distilled, plain in variants
    ]
    request = request_of(variants=tuple(name for name, _, _ in variants), tokens=100)
    return RetrofitResult("m", Path("m"), request, 1, 32, 4, "text", 2.0, tuple(found), control)


def test_verdicts_are_those_of_paired_seeds() -> None:
    found = judged(result(("tied-kv", 0.2, 0.0), ("mqa", -0.2, 0.2), control=healing("finetune", 0.0)))
    told = {(one.variant, one.method): one.verdict for one in found.verdicts}
    assert told == {
        ("tied-kv", "distil"): "worse",
        ("tied-kv", "finetune"): "equivalent",
        ("mqa", "distil"): "better",
        ("mqa", "finetune"): "worse",
    }
    assert all(one.reason for one in found.verdicts)
    assert "Verdicts" in render(found.page())
    assert len(found.to_dict()["verdicts"]) == 4  # type: ignore[arg-type]


@pytest.mark.parametrize("control", [None, Healing("finetune", healing("finetune", 0.0).runs[:1])])
def test_without_pairs_nothing_is_judged(control: Healing | None) -> None:
    given = result(("mqa", 0.0, 0.0), control=control)
    assert judged(given) is given
