"""Learning rates are pure functions of the step."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.errors import SpecError
from attnlab.training import RECIPES, Schedule

KINDS = ["cosine", "trapezoid", "constant"]
schedules = st.builds(
    Schedule,
    kind=st.sampled_from(KINDS),
    warmup_steps=st.integers(0, 50),
    decay=st.floats(0, 1),
    end=st.floats(0, 1),
)


@given(schedules, st.integers(1, 200), st.data())
def test_a_factor_is_between_the_ends(schedule: Schedule, steps: int, data: st.DataObject) -> None:
    step = data.draw(st.integers(0, steps - 1))
    factor = schedule.factor(step, steps)
    assert 0 <= factor <= 1
    assert factor == schedule.factor(step, steps)
    if step >= schedule.warmup_steps:
        assert factor >= (1 if schedule.kind == "constant" else schedule.end) - 1e-12


@given(schedules, st.integers(1, 200))
def test_it_rises_linearly_and_never_afterwards(schedule: Schedule, steps: int) -> None:
    factors = [schedule.factor(step, steps) for step in range(steps)]
    rise = factors[: schedule.warmup_steps]
    assert rise == [(step + 1) / (schedule.warmup_steps + 1) for step in range(len(rise))]
    fall = factors[schedule.warmup_steps :]
    assert all(later <= earlier for earlier, later in itertools.pairwise(fall))


def test_cosine_by_hand() -> None:
    schedule = Schedule(kind="cosine", warmup_steps=2, end=0.1)
    assert schedule.factor(0, 12) == pytest.approx(1 / 3)
    assert schedule.factor(2, 12) == 1
    assert schedule.factor(7, 12) == pytest.approx(0.55)
    assert schedule.factor(12, 12) == pytest.approx(0.1)
    assert schedule.factor(99, 12) == pytest.approx(0.1), "it keeps its end"
    assert schedule.factor(4, 12) == pytest.approx(0.1 + 0.9 * (1 + math.cos(0.2 * math.pi)) / 2)


def test_trapezoid_by_hand() -> None:
    schedule = Schedule(kind="trapezoid", warmup_steps=1, decay=0.4, end=0.0)
    assert [schedule.factor(step, 10) for step in range(10)] == [0.5, 1, 1, 1, 1, 1, 1, 0.75, 0.5, 0.25]


def test_every_recipe_moves_at_every_step() -> None:
    for recipe in RECIPES.values():
        assert all(recipe.schedule.factor(step, 20) > 0 for step in range(20))


@pytest.mark.parametrize("bad", [{"kind": "cubic"}, {"warmup_steps": -1}, {"decay": 2}, {"end": math.nan}, {"star": 1}])
def test_what_is_no_schedule(bad: dict[str, object]) -> None:
    with pytest.raises(SpecError, match="schedule"):
        Schedule(**bad)
