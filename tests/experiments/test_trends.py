"""Differences over rungs: the word for a trend, its correction over arms, and whether differences settled."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import pytest

from attnlab.experiments.judging.trends import ArmTrend, arm_trends
from attnlab.experiments.reporting.exports import to_csv, to_dict
from attnlab.experiments.reporting.report import comparison_page
from attnlab.experiments.reporting.tables import long_rows, rung_table, settling_table
from attnlab.experiments.reporting.wording import first_lines, trend_words
from attnlab.pages import render
from attnlab.statistics import holm, trend
from support.comparisons import make_comparison
from support.ladders import make_ladder

RISING, FALLING, FLAT = (0.02, 0.05, 0.08), (0.08, 0.05, 0.02), (0.03, 0.03, 0.03)


def found(trends: tuple[ArmTrend, ...]) -> dict[str, ArmTrend]:
    return {one.arm: one for one in trends}


@pytest.mark.parametrize(
    ("effects", "word"),
    [
        (RISING, "rises"),
        (FALLING, "falls"),
        ((-0.02, -0.05, -0.08), "falls"),
        (FLAT, "no trend shown"),
    ],
)
def test_a_trend_over_three_rungs(effects: tuple[float, ...], word: str) -> None:
    (one,) = arm_trends(make_ladder({"tied-kv": effects}))
    assert one.word == word
    assert [found.rung.size for found in one.whole] == ["6k", "14k", "25k"]
    assert one.largest.rung.size == "25k"
    assert [rung.judgement.mean for rung in one.rungs] == pytest.approx(effects, abs=0.004)


def test_the_trend_is_one_slope_per_seed_over_the_logarithm_of_the_size() -> None:
    (one,) = arm_trends(make_ladder({"tied-kv": RISING}))
    differences = [rung.judgement.differences for rung in one.rungs]
    assert one.trend == trend(differences, [6144, 13824, 24576], level=0.95)
    assert one.trend is not None
    assert one.p_holm == one.trend.p


def test_a_single_size_has_no_trend() -> None:
    (one,) = arm_trends(make_comparison(("tied-kv",)))
    assert (one.word, one.trend, one.p_holm, one.settling) == ("too few rungs", None, None, ())
    assert trend_words(make_comparison(("tied-kv",))) == ""


def test_p_is_corrected_over_the_arms() -> None:
    noisy = {"tied-kv": RISING, "cosine": FLAT, "sigmoid": (0.03, 0.032, 0.034), "relu": FALLING}
    trends = arm_trends(make_ladder(noisy, noise=0.004))
    plain = [one.trend.p for one in trends if one.trend is not None]
    assert len(plain) == 4
    assert [one.p_holm for one in trends] == pytest.approx(list(holm(plain)))
    assert all((one.word == "no trend shown") is ((one.p_holm or 0) > 0.05) for one in trends)
    alone = found(arm_trends(make_ladder({"tied-kv": RISING}, noise=0.004)))["tied-kv"].p_holm
    among = found(trends)["tied-kv"].p_holm
    assert alone is not None
    assert among is not None
    assert among > alone


def test_an_arm_that_is_not_trained_on_the_largest_rung_has_its_own_largest() -> None:
    comparison = make_ladder({"tied-kv": RISING, "cosine": (0.1, 0.2, None)})
    trends = found(arm_trends(comparison))
    assert list(trends) == ["tied-kv", "cosine"]
    assert trends["cosine"].largest.rung.size == "14k"
    assert [judgement.arm for judgement in comparison.judgements] == ["tied-kv"]
    assert rung_table(tuple(trends.values())).rows[1][3] == "–"


def test_a_diverged_seed_leaves_an_arm_without_a_trend_and_the_others_alone() -> None:
    effects = {"tied-kv": RISING, "cosine": RISING}
    trends = found(arm_trends(make_ladder(effects, diverged={("cosine", "14k"): (3,)})))
    assert trends["cosine"].trend is None
    assert trends["cosine"].ladder() is None
    assert trends["cosine"].whole[1].judgement.verdict == "unstable"
    assert len(trends["cosine"].whole[1].arm) == 4
    assert trends["tied-kv"].word == "rises"
    assert trends["tied-kv"].p_holm == trends["tied-kv"].trend.p  # type: ignore[union-attr]


def test_a_diverged_arm_is_not_said_to_have_too_few_rungs() -> None:
    comparison = make_ladder({"cosine": RISING}, diverged={("cosine", "14k"): (3,)})
    assert arm_trends(comparison)[0].word == "a seed diverged"
    assert "rungs are needed" not in trend_words(comparison)


def test_the_slopes_of_a_pilot_sharpen_a_trend() -> None:
    comparison = make_ladder({"tied-kv": (0.030, 0.031, 0.034)}, noise=0.004)
    (own,) = arm_trends(comparison)
    sizes = ("6k", "14k", "25k")
    quiet = {
        size: {"tied-kv": tuple(0.01 * rung + 0.0005 * (seed % 3) for seed in range(10))}
        for rung, size in enumerate(sizes)
    }
    pilot = comparison.plan.pilot.model_copy(update={"differences": quiet})
    known = replace(comparison, plan=comparison.plan.model_copy(update={"pilot": pilot}))
    (same,) = arm_trends(known)
    assert same.trend == own.trend  # these seeds are much noisier than the pilot's, which is not believed
    loud = {
        size: {"tied-kv": tuple(0.003 * (rung - 1) * (-1) ** seed for seed in range(10))}
        for rung, size in enumerate(sizes)
    }
    pilot = comparison.plan.pilot.model_copy(update={"differences": loud})
    (pooled,) = arm_trends(replace(comparison, plan=comparison.plan.model_copy(update={"pilot": pilot})))
    differences = [rung.judgement.differences for rung in own.rungs]
    rows = [loud[size]["tied-kv"] for size in sizes]
    assert pooled.trend == trend(differences, [6144, 13824, 24576], level=0.95, pilot=rows)
    assert pooled.trend != own.trend


def test_the_losses_of_a_forecast_are_paired_by_seed_and_hold_halved_rungs() -> None:
    comparison = make_ladder({"tied-kv": RISING}, half={"tied-kv": FLAT})
    ladder = arm_trends(comparison)[0].ladder()
    assert ladder is not None
    assert ladder.sizes.tolist() == [6144, 6144, 13824, 13824, 24576]
    for point, rung in zip(ladder.points, arm_trends(comparison)[0].rungs, strict=True):
        assert point.differences.tolist() == pytest.approx(rung.judgement.differences)
        assert point.seeds == (0, 1, 2, 3, 4)


def test_a_difference_that_twice_the_tokens_do_not_move_has_settled() -> None:
    half = {"tied-kv": (0.02, 0.05), "cosine": (0.02, 0.02)}
    trends = arm_trends(make_ladder({"tied-kv": RISING, "cosine": RISING}, half=half))
    settled = {one.arm: {found.rung: found.settled for found in one.settling} for one in trends}
    assert settled == {"tied-kv": {"6k": True, "14k": True}, "cosine": {"6k": True, "14k": False}}
    moved = trends[1].settling[1].change
    assert moved.mean == pytest.approx(0.03, abs=0.004)
    assert moved.low < moved.mean < moved.high
    table = settling_table(trends)
    assert table is not None
    rows = table.rows
    assert [row[-1] for row in rows] == ["settled", "settled", "settled", "still moving"]
    assert [row[1] for row in rows] == ["6k", "14k"] * 2
    without = arm_trends(make_ladder({"tied-kv": RISING, "cosine": RISING}))
    assert [one.trend for one in trends] == [one.trend for one in without]  # the halved rungs take no part in it


def test_tables_have_a_cell_for_every_rung() -> None:
    trends = arm_trends(make_ladder({"tied-kv": RISING, "cosine": FLAT}))
    headings = rung_table(trends).headings
    assert headings[1] == "12.1 k parameters\n972 k tokens"
    rows = rung_table(trends).rows
    assert all(len(row) == len(headings) for row in rows)
    assert rows[0][3].startswith("+8.")
    assert rows[0][3].endswith("worse")
    assert [row[:2] for row in long_rows(trends)[:3]] == [("tied-kv", size) for size in ("12.1 k", "19.8 k", "30.6 k")]


def test_the_words_say_what_each_difference_does_and_over_which_sizes() -> None:
    comparison = make_ladder({"tied-kv": RISING, "cosine": FALLING, "relu": FLAT, "sigmoid": RISING})
    words = trend_words(comparison)
    assert words.startswith("From 12.1 k to 30.6 k parameters, the difference of tied-kv and sigmoid rises; ")
    assert "the difference of cosine falls" in words
    assert words.endswith("the difference of relu shows no trend.")
    assert words in first_lines(comparison)
    assert words in render(comparison_page(comparison)).replace("\u00a0", " ")


def test_data_and_table_hold_every_rung() -> None:
    comparison = make_ladder({"tied-kv": RISING}, half={"tied-kv": FLAT})
    data = json.loads(json.dumps(to_dict(comparison), allow_nan=False))
    assert [(rung["name"], rung["halved"]) for rung in data["rungs"]] == [
        ("6k, half the tokens", True),
        ("6k", False),
        ("14k, half the tokens", True),
        ("14k", False),
    ]
    assert data["rungs"][1]["verdicts"][0]["arm"] == "tied-kv"
    assert data["trends"][0]["trend"] == "rises"
    assert data["trends"][0]["p_holm"] < 0.05
    assert [one["settled"] for one in data["trends"][0]["settled"]] == [False, False]
    rows = list(csv.DictReader(io.StringIO(to_csv(comparison))))
    assert len(rows) == 5 * 2 * 5
    places = {(row["size"], row["tokens"]) for row in rows}
    assert len(places) == 5
    last = [float(row["difference"]) for row in rows if row["size"] == "25k" and row["arm"] == "tied-kv"]
    assert last == pytest.approx(comparison.judgements[0].differences)
