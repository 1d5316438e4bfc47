"""The report of a study: verdicts with their scope, forecasts called by their name, and one file that holds it all."""

from __future__ import annotations

import json
import re

import pytest

from attnlab.experiments.scale.findings import (
    WIDENING,
    CorpusFindings,
    effect_rows,
    findings,
    forecast_words,
    headline,
    plan_rows,
)
from attnlab.experiments.scale.report import study_page, to_data, to_table
from attnlab.experiments.scale.study import ScaleStudy
from attnlab.pages import render
from attnlab.statistics import fit_ladder
from support.studies import planted_study

EFFECTS = {"tied-kv": (0.02, 0.04, 0.06, 0.08), "cosine": (0.20, 0.15, 0.10, None)}
HALF = {"tied-kv": (0.02, 0.04, 0.06), "cosine": (0.30, 0.15, 0.10)}


def words_of(study: ScaleStudy, found: tuple[CorpusFindings, ...]) -> str:
    """Return the text of the page without scripts and tags."""
    html = render(study_page(study, found))
    plain = re.sub(r"<script>.*?</script>|<style>.*?</style>|<[^>]+>|\u00a0", " ", html, flags=re.DOTALL)
    return " ".join(plain.split())


@pytest.fixture(scope="module")
def four() -> ScaleStudy:
    return planted_study(EFFECTS, half=HALF, held_out=True)


@pytest.fixture(scope="module")
def found(four: ScaleStudy) -> tuple[CorpusFindings, ...]:
    return findings(four)


@pytest.fixture(scope="module")
def words(four: ScaleStudy, found: tuple[CorpusFindings, ...]) -> str:
    return words_of(four, found)


def test_the_headline_has_the_scope_of_every_verdict(four: ScaleStudy, found: tuple[CorpusFindings, ...]) -> None:
    first, second = (headline(four, one) for one in found)
    assert first.startswith("On python (context 64, 5 paired seeds), against softmax: ")
    assert "tied-kv is worse at 61.3 k parameters and 4.90 M tokens" in first
    assert "cosine is worse at 30.6 k parameters and 2.45 M tokens" in first  # the largest that it was trained at
    assert second.startswith("On docstrings, held out from every decision (")


def test_the_page_begins_with_the_verdicts_and_has_every_section(words: str) -> None:
    places = [
        words.index(part)
        for part in (
            "2 variants over 4 sizes",
            "On python (context 64",
            "python: difference against size",
            "5 seeds can detect a difference of 1.2 %",
            "python: forecast",
            "python: learning rates",
            "docstrings: difference against size",
            "What may be concluded",
            "The plan",
        )
    ]
    assert places == sorted(places)
    assert "docstrings: learning rates" not in words  # none were searched there


def test_published_claims_are_judged_if_asked(four: ScaleStudy, words: str) -> None:
    study = planted_study(EFFECTS, claims=True)
    found = findings(study)
    page = words_of(study, found)
    assert page.index("python: forecast") < page.index("python: published claims") < page.index("The plan")
    assert re.search(r"6k: \+[12]\.\d+ %, 14k: \+[34]\.\d+ %, .*; rises", page)
    (tied, literal) = to_data(study, found)["corpora"][0]["claims"]
    assert (tied["claim"]["id"], literal["claim"]["id"]) == ("tied-kv-mild", "cosine-literal-bad")
    assert [size for size, _ in literal["rungs"]] == ["6k", "14k", "25k"], "the largest that it was trained at"
    assert "published claims" not in words
    assert not to_data(four, findings(four))["corpora"][0]["claims"]


def test_an_extrapolation_is_called_so_and_not_a_finding(words: str) -> None:
    assert "is an extrapolation, not a finding" in words
    assert "at the target (extrapolation)" in words
    assert "GPT-2 itself was trained with another context and tokenizer" in words


def test_forecasts_are_back_tested_with_four_rungs_and_not_with_three(found: tuple[CorpusFindings, ...]) -> None:
    tested = found[0].backtest
    assert tested is not None
    assert [arm.name for arm in tested.arms] == ["tied-kv"]  # cosine has three rungs
    assert "were back-tested over a factor of 2.2 in size" in forecast_words(found[0], 84_934_656)
    (three,) = findings(planted_study({"tied-kv": (0.02, 0.04, 0.06)}, sizes=("6k", "14k", "25k")))
    assert three.backtest is None
    assert "With fewer than four rungs no forecast was back-tested" in forecast_words(three, 84_934_656)


def test_only_what_lies_within_the_tested_distance_is_no_extrapolation(found: tuple[CorpusFindings, ...]) -> None:
    one = found[0]
    tied = one.arms[0]
    assert tied.forecast is not None
    assert tied.next_rung is not None
    assert one.is_extrapolation(tied.forecast)
    assert tied.next_rung.distance < tied.forecast.distance
    assert tied.next_rung.distance == pytest.approx(one.tested_distance)
    assert not one.is_extrapolation(tied.next_rung)


def test_intervals_of_forecasts_are_widened_by_the_recorded_back_test(found: tuple[CorpusFindings, ...]) -> None:
    one, tied = found[0], found[0].arms[0]
    ladder = tied.trend.ladder()
    assert ladder is not None
    assert tied.next_rung is not None
    plain = fit_ladder(ladder).forecast(tied.next_rung.target_size)
    assert one.widening >= WIDENING > 1
    assert tied.next_rung.mean == pytest.approx(plain.mean)
    assert tied.next_rung.high - tied.next_rung.low == pytest.approx(one.widening * (plain.high - plain.low), rel=0.05)


def test_the_forecast_goes_on_in_the_direction_of_the_trend(found: tuple[CorpusFindings, ...]) -> None:
    tied, cosine = found[0].arms
    assert (tied.trend.word, cosine.trend.word) == ("rises", "falls")
    assert tied.next_rung is not None
    assert cosine.next_rung is not None
    assert tied.next_rung.low < tied.next_rung.mean < tied.next_rung.high
    assert tied.next_rung.mean > 0.08
    assert cosine.next_rung.mean < 0.10
    assert tied.forecast is not None
    assert tied.forecast.effective_size.mean < 1  # worse is worth fewer parameters


def test_the_rows_hold_effects_forecasts_and_the_dependence_on_the_rate(found: tuple[CorpusFindings, ...]) -> None:
    tied, cosine = effect_rows(found[0])
    assert tied[0] == "tied-kv"
    assert "×" in tied[1]
    assert "…" in tied[3]
    assert "(back-tested)" not in tied[4]
    assert tied[5] == "6.2 % at 14k"  # 0.06 nats between its rate and twice that
    assert cosine[0] == "cosine"


def test_settling_is_shown_for_the_rungs_that_were_halved(words: str) -> None:
    assert "still moving" in words  # cosine at 6k
    assert "settled" in words


def test_a_diverged_arm_has_no_forecast_and_leaves_the_page_whole(found: tuple[CorpusFindings, ...]) -> None:
    broken = planted_study(EFFECTS, half=HALF, diverged={("cosine", "14k"): (1,)})
    (one,) = findings(broken)
    assert one.arms[1].forecast is None
    assert one.arms[0].forecast == found[0].arms[0].forecast
    assert effect_rows(one)[1][1:5] == ("–",) * 4
    assert "cosine" in words_of(broken, (one,))


def test_data_are_strict_json_and_say_what_is_extrapolated(four: ScaleStudy, found: tuple[CorpusFindings, ...]) -> None:
    data = json.loads(json.dumps(to_data(four, found), allow_nan=False))
    assert [one["corpus"] for one in data["corpora"]] == ["python", "docstrings"]
    first = data["corpora"][0]
    assert [arm["is_extrapolation"] for arm in first["arms"]] == [True, True]
    assert first["arms"][0]["rungs"][-1]["verdict"] == "worse"
    assert first["backtest"]["level"] == 0.9
    assert data["target"] == 84_934_656
    assert data["plan"]["request"]["held_out"] == "docstrings"


def test_the_table_names_the_corpus_of_every_run(four: ScaleStudy) -> None:
    header, *rows = to_table(four).splitlines()
    assert header.startswith("corpus,arm,size,parameters,tokens,seed,difference")
    counts = {name: sum(row.startswith(f"{name},") for row in rows) for name in ("python", "docstrings")}
    assert counts == {"python": 5 * (6 * 3 + 2), "docstrings": 5 * (6 * 3 + 2)}


def test_the_plan_is_told_with_its_rungs_and_hours(four: ScaleStudy) -> None:
    rows = plan_rows(four.plan)
    assert [value.split(":")[0] for name, value in rows if name == "rung"] == ["6k", "14k", "25k", "55k"]
    assert ("time", "1.50 hours in all") in rows
    assert not any(name == "reduced" for name, _ in rows)
