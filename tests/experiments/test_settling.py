"""A verdict is withheld where the runs are too short for it, each time with the reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from attnlab.experiments.judging.collecting import losses_of, withhold
from attnlab.experiments.judging.judgement import Judgement, judge
from attnlab.experiments.planning.plan import Arm, Plan, Trial
from attnlab.experiments.results import ArmResult
from support.comparisons import make_comparison
from support.ladders import make_cell

SHARED = (0.0, 0.02, -0.01, 0.01, -0.02)  # what a seed adds to all arms
NOISE = (0.0005, -0.0004, 0.0002, -0.0006, 0.0003)


def withheld(
    baseline: float = 1.7,
    difference: float = 0.05,
    late: float | None = None,
    *,
    bigram: float | None = 2.0,
    trials: Sequence[float] = (),
    rates: tuple[float, float] = (0.003, 0.003),
    diverged: Sequence[int] = (),
    noise: float = 1.0,
) -> Judgement:
    """Judge an arm that ends `difference` above the baseline and was `late` above it after three quarters."""
    made = make_comparison(("tied-kv",), seeds=5, bigram_loss=bigram)
    arms = [_with_rate(arm, rate, trials) for arm, rate in zip(made.plan.arms, rates, strict=True)]
    plan = made.plan.model_copy(update={"arms": tuple(arms)})
    theirs = tuple(
        make_cell(arms[0], seed, baseline + SHARED[seed], baseline + 0.2 + SHARED[seed]) for seed in range(5)
    )
    ours = []
    for seed in range(5):
        end = baseline + difference + SHARED[seed] + noise * NOISE[seed]
        before = baseline + 0.2 + (difference if late is None else late) + SHARED[seed] + noise * NOISE[-seed]
        ours.append(make_cell(arms[1], seed, None if seed in diverged else end, before))
    return _judged(plan, (ArmResult(arms[0], theirs), ArmResult(arms[1], tuple(ours))))


def _judged(plan: Plan, results: tuple[ArmResult, ...]) -> Judgement:
    judgements = judge(losses_of(results), "softmax", plan.procedure, witnesses=False)
    (found,) = withhold(judgements, results, plan.bigram_loss)
    return found


def _with_rate(arm: Arm, rate: float, trials: Sequence[float]) -> Arm:
    tried = tuple(Trial(learning_rate=one, loss=2.0, losses=(2.0,)) for one in trials)
    return arm.model_copy(update={"run": arm.run.replace(learning_rate=rate), "trials": tried})


@pytest.mark.parametrize(("difference", "verdict"), [(0.05, "worse"), (-0.05, "better"), (0.0, "equivalent")])
def test_runs_that_are_long_enough_keep_their_verdict(difference: float, verdict: str) -> None:
    found = withheld(difference=difference)
    assert found.verdict == verdict
    assert found.reason.startswith("Over 5 seeds")


def test_a_baseline_on_the_plateau_withholds_the_verdict() -> None:
    found = withheld(baseline=1.81)
    assert found.verdict == "unsettled"
    assert found.reason.startswith("softmax ends at 1.810 nats, less than 0.2 below the best bigram table (2.000)")
    assert "Over 5 seeds" in found.reason  # what was measured is still said
    assert withheld(baseline=1.79).verdict == "worse"


def test_an_arm_on_the_plateau_withholds_its_verdict() -> None:
    found = withheld(difference=0.26)
    assert found.verdict == "unsettled"
    assert found.reason.startswith("tied-kv ends at 1.960 nats, less than 0.05 below")
    assert withheld(difference=0.24).verdict == "worse"


def test_where_there_is_no_bigram_table_there_is_no_plateau() -> None:
    assert withheld(baseline=1.95, bigram=None).verdict == "worse"


@pytest.mark.parametrize(("difference", "late"), [(0.05, 0.03), (-0.05, -0.03)])
def test_a_difference_that_still_grows_withholds_the_verdict(difference: float, late: float) -> None:
    found = withheld(difference=difference, late=late)
    assert found.verdict == "unsettled"
    sign = "+" if difference > 0 else "−"
    assert f"to softmax still grows: {sign}0.03" in found.reason
    assert "at 75 % of the run" in found.reason


def test_growth_is_told_from_where_it_was_evaluated() -> None:
    made = make_comparison(("tied-kv",), seeds=5)
    results = tuple(
        ArmResult(
            arm,
            tuple(
                replace(
                    make_cell(arm, seed, end + NOISE[seed] * place, 1.8),
                    curve=((50, 1.8), (100, end + NOISE[seed] * place)),
                )
                for seed in range(5)
            ),
        )
        for place, (arm, end) in enumerate(zip(made.plan.arms, (1.7, 1.75), strict=True))
    )
    assert "0.0000 nats at 50 % of the run, +0.0500 at the end" in _judged(made.plan, results).reason


@pytest.mark.parametrize(
    ("late", "noise"),
    [
        (0.08, 1.0),  # it shrinks
        (0.045, 1.0),  # it grows by less than a quarter
        (0.03, 60.0),  # the growth is not significant
    ],
)
def test_a_difference_that_does_not_clearly_grow_is_judged(late: float, noise: float) -> None:
    assert withheld(difference=0.05, late=late, noise=noise).verdict != "unsettled"


@pytest.mark.parametrize("edge", [(0.001, 0.003), (0.003, 0.004), (0.003, 0.001), (0.004, 0.003)])
def test_a_rate_at_the_edge_of_those_tried_withholds_the_verdict(edge: tuple[float, float]) -> None:
    found = withheld(rates=edge, trials=(0.001, 0.002, 0.003, 0.004))
    assert found.verdict == "unsettled"
    (at,) = {0.001, 0.004} & set(edge)
    name = "softmax" if edge[0] == at else "tied-kv"
    assert found.reason.startswith(f"The best learning rate of {name}, {at:g}, is at the edge of those tried.")


def test_a_rate_inside_those_tried_is_judged() -> None:
    assert withheld(trials=(0.001, 0.003, 0.004)).verdict == "worse"
    assert withheld(trials=(0.003,)).verdict == "worse"  # one rate has no edges


def test_an_arm_that_diverged_stays_unstable() -> None:
    found = withheld(baseline=1.9, late=0.0, trials=(0.003, 0.004), diverged=(2,))
    assert found.verdict == "unstable"
    assert found.reason.startswith("It diverged at seed 2")


def test_the_numbers_of_a_withheld_judgement_are_kept() -> None:
    found, judged = withheld(baseline=1.95), withheld()
    assert found.mean == pytest.approx(judged.mean)
    assert found.p_holm == pytest.approx(judged.p_holm)


def test_names_keep_their_hyphens_in_the_reason() -> None:
    made = make_comparison(("tied-kv",), seeds=5)
    arms = [arm.model_copy(update={"name": name}) for arm, name in zip(made.plan.arms, ("a-b", "c-d"), strict=True)]
    plan = made.plan.model_copy(update={"arms": tuple(arms)})
    results = tuple(
        ArmResult(arm, tuple(make_cell(arm, seed, 1.7 + end + NOISE[seed] * place, 1.8) for seed in range(5)))
        for place, (arm, end) in enumerate(zip(arms, (0.0, 0.05), strict=True))
    )
    judgements = judge(losses_of(results), "a-b", plan.procedure, witnesses=False)
    (found,) = withhold(judgements, results, plan.bigram_loss)
    assert "Its difference to a-b still grows" in found.reason
