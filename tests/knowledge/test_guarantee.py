"""The threshold of a run: set on its calibration pairs, kept beside its weights, void for any others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from attnlab.errors import InputError, SpecError, UnknownNameError
from attnlab.knowledge import Pair
from attnlab.knowledge.answers.guarantee import FILE, SCORES, compute_guarantee, find_guarantee, set_guarantee
from support.answering import TEMPLATE, TableModel, calibrated


def test_a_model_that_knows_when_it_knows(tmp_path: Path) -> None:
    model: Any = calibrated(tmp_path, sure=150, unsure=100)
    found = set_guarantee(model, risk=0.05, delta=0.1)
    assert found.threshold is not None
    assert 0.2 < found.threshold <= 0.95
    assert found.errors <= 0.05 * found.answered
    assert (found.count, found.risk, found.delta) == (250, 0.05, 0.1)
    sure, unsure = model.answer([TEMPLATE.ask("Sure 3"), TEMPLATE.ask("Unsure 3")])
    assert found.allows(sure)
    assert not found.allows(unsure)
    assert f"on {found.count} calibration pairs" in found.words
    assert "never read about" in found.limits
    assert find_guarantee(model) == found


@pytest.mark.parametrize("score", SCORES)
def test_every_score_can_be_used(tmp_path: Path, score: Any) -> None:
    model: Any = calibrated(tmp_path, sure=150, unsure=10)
    assert set_guarantee(model, score=score).answered > 100


def test_it_is_void_for_other_weights_and_other_pairs(tmp_path: Path) -> None:
    model: Any = calibrated(tmp_path, sure=100, unsure=0)
    set_guarantee(model)
    learned: Any = calibrated(tmp_path, sure=100, unsure=0, weights="after learn")
    assert find_guarantee(learned) is None
    other: Any = calibrated(tmp_path, sure=99, unsure=0)
    assert find_guarantee(other) is None
    assert find_guarantee(model) is not None
    (tmp_path / FILE).write_text('{"format": 2}')
    assert find_guarantee(model) is None
    (tmp_path / FILE).write_text("not even JSON")
    assert find_guarantee(model) is None


def test_a_boaster_is_never_let_answer(tmp_path: Path) -> None:
    memory = {f"P {number}": ("London", 0.99) for number in range(400)}
    pairs = [Pair(TEMPLATE.ask(name), "Paris") for name in memory]
    model: Any = TableModel(tmp_path, memory, calibration=pairs[::2], heldout=pairs[1::2])
    found = set_guarantee(model)
    assert found.threshold is None
    assert not found.allows(model.answer([TEMPLATE.ask("P 1")])[0])
    assert "never answers from memory" in found.words


def test_too_few_pairs_prove_nothing(tmp_path: Path) -> None:
    model: Any = calibrated(tmp_path, sure=20, unsure=0)
    assert set_guarantee(model).threshold is None  # all 20 right, where 45 are needed
    assert set_guarantee(model, risk=0.2).threshold is not None
    bare: Any = TableModel(tmp_path, {})
    with pytest.raises(InputError, match="0 calibration pairs and 0 held-out ones") as caught:
        set_guarantee(bare)
    assert "at least 45" in str(caught.value)


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    model: Any = calibrated(tmp_path, sure=5, unsure=0)
    with pytest.raises(SpecError, match="a risk of 0 is not between"):
        set_guarantee(model, risk=0)
    with pytest.raises(SpecError, match="a delta of 2 is not between"):
        set_guarantee(model, delta=2)
    with pytest.raises(UnknownNameError, match="no score called 'certainty'"):
        set_guarantee(model, score="certainty")  # type: ignore[arg-type]


def test_over_500_splits_of_a_known_population_the_risk_is_kept(tmp_path: Path) -> None:
    """People whose answers are right with a chance that is known: the true risk of any threshold can be computed."""
    risk, delta, splits, size = 0.2, 0.1, 500, 100
    rng = np.random.default_rng(0)
    exceeded = accepted = 0
    for _ in range(splits):
        chances = rng.random(2 * size)
        memory = {f"P {number}": ("Rome", float(chance)) for number, chance in enumerate(chances)}
        right = rng.random(2 * size) < 0.5 + 0.5 * chances
        pairs = [
            Pair(TEMPLATE.ask(name), "Rome" if is_right else "Oslo")
            for name, is_right in zip(memory, right, strict=True)
        ]
        model: Any = TableModel(tmp_path, memory, read=(), calibration=pairs[:size], heldout=pairs[size:])
        threshold = compute_guarantee(model, risk, delta).threshold
        if threshold is not None:
            accepted += 1
            exceeded += (1 - threshold) / 4 > risk  # the mean of ½ (1 − c) over c from the threshold to 1
    assert accepted > 50
    assert stats.binomtest(exceeded, splits, delta, alternative="greater").pvalue > 0.01
