"""The procedure that decides: each verdict, its family, who diverged, what is refused, and what a plan may promise."""

from __future__ import annotations

import math
from dataclasses import asdict, replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given

from attnlab.errors import InputError, SpecError, UnknownNameError
from attnlab.experiments.judging.judgement import Judgement, judge
from attnlab.experiments.numbers import percent
from attnlab.experiments.planning.procedure import Procedure, planned_effect
from attnlab.statistics import (
    Noise,
    count_needed,
    detectable_difference,
    equivalence,
    equivalence_count_needed,
    equivalence_power,
    mean_interval,
    paired_t,
    upper_sd,
)

PLAN = Procedure()
NOISE = [0.003, -0.002, 0.001, 0.002, -0.003, -0.001]  # of mean 0
BASE = [1.50, 1.53, 1.48, 1.55, 1.51, 1.46]


def table(*shifts: float, noise: float = 1.0) -> dict[str, dict[int, float | None]]:
    """A baseline, and arms that differ from it by a shift; every arm's noise has another order."""
    rows: dict[str, dict[int, float | None]] = {"softmax": dict(enumerate(BASE))}
    for number, shift in enumerate(shifts):
        own = NOISE[number % 6 :] + NOISE[: number % 6]
        rows[f"arm {number}"] = {seed: BASE[seed] + shift + noise * own[seed] for seed in range(6)}
    return rows


def judge_one(
    losses: dict[str, dict[int, float | None]], procedure: Procedure = PLAN, arms: int | None = None
) -> Judgement:
    return judge(losses, "softmax", procedure, arms, witnesses=False)[0]


@pytest.mark.parametrize(
    ("shift", "noise", "verdict"),
    [
        (-0.05, 1.0, "better"),
        (0.05, 1.0, "worse"),
        (0.0, 1.0, "equivalent"),
        (0.001, 1.0, "equivalent"),
        (0.0, 30.0, "undecided"),
        (0.05, 30.0, "undecided"),
        (0.0, 0.0, "equivalent"),
    ],
)
def test_verdicts(shift: float, noise: float, verdict: str) -> None:
    found = judge_one(table(shift, noise=noise))
    assert found.verdict == verdict
    assert found.arm == "arm 0"
    assert found.seeds == tuple(range(6))
    assert found.diverged == ()
    assert found.mean == pytest.approx(shift, abs=1e-9)


def test_what_a_pilot_shows_of_an_arm_is_pooled_with_its_seeds() -> None:
    losses = table(0.0045, 0.0045, noise=1.0)
    three = {name: {seed: row[seed] for seed in range(3)} for name, row in losses.items()}
    plan = replace(PLAN, looks=1)
    noise = {"arm 0": Noise(0.0024, 20)}
    alone, pooled = judge(three, "softmax", plan), judge(three, "softmax", plan, noise=noise)
    assert [one.degrees for one in alone] == [2, 2]
    assert [one.degrees for one in pooled] == [22, 2]
    assert pooled[0].p == paired_t(pooled[0].differences, noise["arm 0"])
    assert pooled[0].p_equivalence == equivalence(pooled[0].differences, plan.margin, noise["arm 0"])
    interval = mean_interval(pooled[0].differences, 1 - plan.level, noise["arm 0"])
    assert (pooled[0].low, pooled[0].high) == (interval.low, interval.high)
    assert pooled[1].p == alone[1].p
    assert (alone[0].verdict, pooled[0].verdict) == ("undecided", "worse")


def test_a_pilot_is_not_believed_where_all_arms_are_noisier() -> None:
    quiet = dict.fromkeys(("arm 0", "arm 1", "arm 2"), Noise(0.0015, 8))
    found = judge(table(0.0, 0.0, 0.0), "softmax", PLAN, noise=quiet)
    assert [one.degrees for one in found] == [5, 5, 5]
    assert judge(table(0.0), "softmax", PLAN, noise=quiet)[0].degrees == 13  # one arm alone might be


def test_an_arm_that_diverged_says_nothing_of_the_noise() -> None:
    losses = table(0.0, 0.0)
    losses["arm 1"][2] = None
    noise = dict.fromkeys(("arm 0", "arm 1"), Noise(0.0024, 8))
    found = judge(losses, "softmax", PLAN, noise=noise)
    assert [one.degrees for one in found] == [13, None]


def test_a_judgement_holds_all_that_it_rests_on() -> None:
    found = judge(table(-0.05), "softmax", PLAN)[0]
    assert found.differences == pytest.approx([-0.05 + value for value in NOISE])
    assert found.p == found.p_holm == paired_t(found.differences)
    assert found.p_equivalence == found.p_equivalence_holm == equivalence(found.differences, PLAN.margin)
    interval = mean_interval(found.differences, 0.975)
    assert (found.mean, found.low, found.high) == (interval.mean, interval.low, interval.high)
    assert found.p_sign_flip == 2**-5
    assert found.bca is not None
    assert found.bca[0] < -0.05 < found.bca[1]
    assert found.percent is not None
    assert found.percent.mean == pytest.approx(100 * (math.exp(-0.05) - 1))
    assert found.percent.low < found.percent.mean < found.percent.high


def test_witnesses_can_be_left_out_and_change_nothing() -> None:
    with_them = judge(table(-0.05, 0.0), "softmax", PLAN)
    without = judge(table(-0.05, 0.0), "softmax", PLAN, witnesses=False)
    assert [replace(one, p_sign_flip=None, bca=None) for one in with_them] == list(without)


def test_reasons_hold_the_figures() -> None:
    losses = table(-0.05, 0.05, 0.0) | {"wild": {seed: 1.5 + 0.3 * (-1) ** seed for seed in range(6)}}
    better, worse, same, wild = (one.reason for one in judge(losses, "softmax", PLAN, witnesses=False))
    assert better.startswith(
        "Over 6 seeds its perplexity is 4.88 % lower on average (97.5 % interval −5.17 to −4.59 %)"
    )
    assert better.endswith("corrected p < 0.001, against 0.025.")
    assert "5.13 % higher on average" in worse
    assert "so it differs by less than 1 %: corrected p < 0.001" in same
    assert "which shows neither that it differs (corrected p = " in wild
    assert "nor that it differs by less than 1 % (corrected p = " in wild


def test_a_small_difference_is_marked() -> None:
    small, large = judge(table(-0.005, -0.05, noise=0.1), "softmax", PLAN, witnesses=False)
    assert (small.verdict, small.within_margin) == ("better", True)
    assert (large.verdict, large.within_margin) == ("better", False)
    assert judge_one(table(0.0)).within_margin is False  # equivalent is not a small difference


def test_p_is_corrected_for_all_arms_that_were_planned() -> None:
    alone, planned = judge_one(table(0.004)), judge_one(table(0.004), arms=8)
    assert alone.p is not None
    assert alone.p_equivalence is not None
    assert planned.p_holm == pytest.approx(min(1.0, 8 * alone.p))
    assert planned.p_equivalence_holm == pytest.approx(min(1.0, 8 * alone.p_equivalence))
    assert (alone.verdict, planned.verdict) == ("worse", "equivalent")
    among = judge(table(0.004, *[0.0] * 7), "softmax", PLAN, witnesses=False)[0]
    assert among.p_holm == pytest.approx(planned.p_holm)


def test_more_looks_ask_for_more() -> None:
    p = judge_one(table(0.0025)).p
    assert p is not None
    assert 0.025 < p < 0.1
    assert judge_one(table(0.0025), Procedure(alpha=0.1, looks=1)).verdict == "worse"
    assert judge_one(table(0.0025), Procedure(alpha=0.1, looks=4)).verdict == "equivalent"


def test_an_arm_that_diverged_is_unstable_and_stays_in_the_family() -> None:
    losses = table(0.004, -0.05, 0.0)
    for bad in (None, math.nan, math.inf):
        losses["arm 1"] |= {2: bad, 4: None}
        small, wild, _ = judge(losses, "softmax", PLAN, witnesses=False)
        assert wild.verdict == "unstable"
        assert wild.diverged == (2, 4)
        assert wild.seeds == (0, 1, 3, 5)
        assert len(wild.differences) == 4  # shown, though they decide nothing
        assert wild.reason == "It diverged at seeds 2 and 4 (2 of 6 seeds); the baseline did not."
        assert wild.percent is None
        empty = {
            name: value for name, value in asdict(wild).items() if name.startswith(("mean", "low", "high", "p", "bca"))
        }
        assert set(empty.values()) == {None}
        assert small.p is not None
        assert small.p_holm == pytest.approx(3 * small.p)


def test_where_the_baseline_diverged_nothing_is_decided() -> None:
    losses = table(-0.05, 0.0)
    losses["softmax"][3] = None
    losses["arm 1"][5] = None
    first, second = judge(losses, "softmax", PLAN)
    assert (first.verdict, second.verdict) == ("undecided", "undecided")
    assert first.reason == "The baseline diverged at seed 3, so nothing can be paired there."
    assert second.reason.endswith("; so did this arm at seed 5.")
    assert first.seeds == (0, 1, 2, 4, 5)
    assert (first.diverged, second.diverged) == ((), (5,))
    assert first.p is first.mean is None


def test_everybody_diverged() -> None:
    losses: dict[str, dict[int, float | None]] = {"softmax": {0: 1.0, 1: 1.0}, "arm": {0: None, 1: None}}
    found = judge_one(losses)
    assert (found.verdict, found.differences, found.diverged) == ("unstable", (), (0, 1))


def test_the_order_of_arms_and_seeds_does_not_matter() -> None:
    losses = table(-0.05, 0.004, 0.0)
    turned = {name: dict(reversed(row.items())) for name, row in reversed(losses.items())}
    found = judge(turned, "softmax", PLAN)
    assert [one.arm for one in found] == ["arm 2", "arm 1", "arm 0"]
    assert found == tuple(reversed(judge(losses, "softmax", PLAN)))


def test_runs_that_are_missing_are_refused() -> None:
    losses = table(0.0, 0.0)
    del losses["arm 1"][2], losses["arm 1"][5]
    with pytest.raises(InputError, match="arm 1 has no result yet at seeds 2 and 5") as caught:
        judge(losses, "softmax", PLAN)
    assert caught.value.hint
    losses = table(0.0)
    del losses["softmax"][2]
    with pytest.raises(InputError, match="softmax has no result yet at seed 2"):
        judge(losses, "softmax", PLAN)


@pytest.mark.parametrize("row", [{}, {7: 1.0}])
def test_too_few_seeds_are_refused(row: dict[int, float | None]) -> None:
    with pytest.raises(InputError, match=f"too few seeds: {len(row)}; one seed says nothing") as caught:
        judge({"softmax": row, "arm": row}, "softmax", PLAN)
    assert caught.value.hint


def test_arms_that_do_not_fit_are_refused() -> None:
    with pytest.raises(UnknownNameError, match="there is no arm called 'softmx'"):
        judge(table(0.0), "softmx", PLAN)
    with pytest.raises(InputError, match="nothing to compare the baseline with"):
        judge(table(), "softmax", PLAN)
    with pytest.raises(SpecError, match="2 arms are given, and only 1 were planned"):
        judge(table(0.0, 0.0), "softmax", PLAN, arms=1)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"alpha": 0.0}, "alpha = 0 is not between"),
        ({"alpha": 1.0}, "alpha = 1 is not between"),
        ({"alpha": math.nan}, "alpha = nan"),
        ({"looks": 0}, "with 0 interim analyses nothing"),
        ({"margin": 0.0}, "margin must be .* got 0 nats"),
        ({"margin": -0.1}, r"margin must be .* got -0\.1 nats"),
        ({"margin": math.nan}, "margin must be .* got nan"),
        ({"power": 1.0}, "power = 1 is not between"),
        ({"power": 0.02}, r"power = 0\.02 is not between"),
    ],
)
def test_procedures_that_make_no_sense(fields: dict[str, float], words: str) -> None:
    with pytest.raises(SpecError, match=words) as caught:
        Procedure(**fields)  # type: ignore[arg-type]
    assert caught.value.hint


def test_the_procedure_in_words() -> None:
    words = PLAN.in_words(8)
    for part in (
        "paired t, corrected for 8 arms by Holm's method, at a level of 0.025",
        "2 planned interim analyses",
        "5 %",
        "1 %",
    ):
        assert part in words
    alone = replace(PLAN, looks=1, margin=math.log(1.02)).in_words(1)
    assert "Holm" not in alone
    assert "likewise" not in alone
    assert "a level of 0.05 at its only analysis" in alone
    assert "2 % of perplexity" in alone


def test_percent_of_perplexity() -> None:
    assert percent(math.log(1.01)) == pytest.approx(1.0)
    assert percent(0.0) == 0.0
    assert percent(1e6) == math.inf


def test_a_plan_says_what_it_can_find() -> None:
    found = planned_effect(0.004, 12, 8, PLAN)
    assert found.detectable == detectable_difference(0.004, 12, 0.025 / 8, 0.9)
    assert found.smallest_p == 2**-11 <= PLAN.level / 8
    needed = count_needed(0.004, PLAN.margin, 0.025 / 8), equivalence_count_needed(0.004, PLAN.margin, 0.025 / 8)
    assert found.seeds_for_margin == max(needed)
    assert found.warnings == ()


def test_a_plan_warns_of_what_it_cannot_show() -> None:
    found = planned_effect(0.02, 5, 8, PLAN)
    signs, both = found.warnings
    assert found.smallest_p > PLAN.level / 8
    assert "cannot go below p = 0.0625, and the tests are at 0.00313" in signs
    assert signs.endswith("10 seeds would do.")
    assert planned_effect(0.02, 10, 8, PLAN).smallest_p <= PLAN.level / 8 < planned_effect(0.02, 9, 8, PLAN).smallest_p
    find, show = count_needed(0.02, PLAN.margin, 0.025 / 8), equivalence_count_needed(0.02, PLAN.margin, 0.025 / 8)
    assert find != show  # one number covers both
    assert both.startswith(f"5 seeds can detect a difference of {percent(found.detectable):.2g} % of perplexity")
    assert "(at 90 % power)" in both
    chance = equivalence_power(0.02, 5, PLAN.margin, 0.025 / 8)
    assert found.equivalence_power == chance
    assert f"an identical arm is equivalent with {100 * chance:.0f} % power" in both
    assert both.endswith(f"to decide either way at the margin of 1 %, {max(find, show)} seeds would do.")
    assert found.seeds_for_margin == max(find, show)
    assert planned_effect(0.02, max(find, show), 8, PLAN).warnings == ()


def test_a_plan_reckons_with_a_pilot_that_came_out_quiet() -> None:
    known, guessed = planned_effect(0.004, 12, 8, PLAN), planned_effect(0.004, 12, 8, PLAN, degrees=4)
    assert guessed == planned_effect(upper_sd(0.004, 4), 12, 8, PLAN)
    assert guessed.detectable > known.detectable


def test_plans_at_the_edges() -> None:
    assert planned_effect(0.0, 9, 1, PLAN).detectable == 0.0
    endless = planned_effect(1e7, 9, 8, PLAN)
    assert endless.seeds_for_margin is None
    assert "no number of seeds that could be trained would do" in endless.warnings[-1]
    with pytest.raises(SpecError, match="0 arms are nothing to compare"):
        planned_effect(0.01, 9, 0, PLAN)
    with pytest.raises(SpecError, match="too few values"):
        planned_effect(0.01, 1, 8, PLAN)


@given(
    shifts=st.lists(st.floats(-0.05, 0.05), min_size=1, max_size=5), seed=st.integers(0, 2**32), common=st.floats(-1, 1)
)
def test_what_all_arms_share_does_not_matter(shifts: list[float], seed: int, common: float) -> None:
    noise = np.random.default_rng(seed).normal(0, 0.01, (1 + len(shifts), 6))
    rows = (noise + np.array([0.0, *shifts])[:, None] + 2).tolist()
    losses = {str(number): dict(enumerate(row)) for number, row in enumerate(rows)}
    moved = {name: {at: loss + common * (1 + at) for at, loss in row.items()} for name, row in losses.items()}
    found, same = judge(losses, "0", PLAN, witnesses=False), judge(moved, "0", PLAN, witnesses=False)
    near = [abs(p - PLAN.level) < 1e-6 for one in found for p in (one.p_holm, one.p_equivalence_holm) if p is not None]
    assume(not any(near))
    assert [one.verdict for one in same] == [one.verdict for one in found]


@given(shift=st.floats(-0.05, 0.05), noise=st.floats(0.1, 20))
def test_better_is_the_mirror_of_worse(shift: float, noise: float) -> None:
    mirror = {"better": "worse", "worse": "better"}
    losses = table(shift, noise=noise)
    there = judge_one(losses)
    back = judge(losses, "arm 0", PLAN, witnesses=False)[0]
    assert back.verdict == mirror.get(there.verdict, there.verdict)
    assert back.p == there.p
