"""Three scores of confidence: what is said of them, and only what the intervals allow."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from attnlab.knowledge import ModelAnswer, Pair
from attnlab.knowledge.answers.evaluation import ScoreComparison, invent_names, measure_scores
from attnlab.statistics import Interval
from support.answering import TEMPLATE, TableModel


def answers(count: int, seed: int, *, sure: float = 0.0) -> tuple[list[ModelAnswer], list[bool]]:
    """Answers whose probability tells the truth, whose agreement tells nothing."""
    rng = np.random.default_rng(seed)
    chances = sure + (1 - sure) * rng.random(count)
    right = (rng.random(count) < chances).tolist()
    noise = rng.random(count)
    made = [
        ModelAnswer("Q?", "x", float(chance), float(chance) ** 0.5, float(other))
        for chance, other in zip(chances, noise, strict=True)
    ]
    return made, right


def test_a_score_that_knows_something_beats_one_that_does_not() -> None:
    known, right = answers(300, 0)
    nobodies = [ModelAnswer("N?", "x", 0.05 * number / 100, 0.1, number / 100) for number in range(100)]
    found, contests = measure_scores(known, right, [True] * 300, nobodies)
    by_name = {one.score: one for one in found}
    assert by_name["probability"].risk_coverage.area.high < by_name["agreement"].risk_coverage.area.low
    assert by_name["probability"].auroc is not None
    assert by_name["probability"].auroc.low > 0.9
    said = {(one.first, one.second): one for one in contests}
    same = said["probability", "length_normalised"]  # the same order of answers
    assert (same.area.mean, same.area.low, same.area.high) == (0, 0, 0)
    assert "decides nothing" in same.sentence
    assert said["probability", "agreement"].sentence == "probability ranks errors lower than agreement"
    assert "better than agreement" in str(said["probability", "agreement"].separation)
    assert by_name["probability"].to_dict()["auroc_seen_or_nobody"] == asdict(by_name["probability"].auroc)


def test_no_winner_without_an_interval_that_says_so() -> None:
    even = ScoreComparison("probability", "agreement", Interval(-0.01, -0.03, 0.01), Interval(0.1, -0.01, 0.2))
    assert "decides nothing" in even.sentence
    assert "decides nothing" in str(even.separation)
    other = ScoreComparison("probability", "agreement", Interval(0.02, 0.01, 0.03), Interval(-0.1, -0.2, -0.05))
    assert other.sentence == "agreement ranks errors lower than probability"
    assert str(other.separation).startswith(
        "agreement detects unseen entities better than probability (difference −0.100"
    )


def test_without_samples_there_are_two_scores_and_without_nobodies_no_auroc() -> None:
    known = [ModelAnswer("Q?", "x", chance, chance) for chance in (0.9, 0.5, 0.1)]
    found, contests = measure_scores(known, [True, True, False], [True] * 3, [])
    assert [one.score for one in found] == ["probability", "length_normalised"]
    assert all(one.auroc is None for one in found)
    assert len(contests) == 1
    assert contests[0].separation is None


def test_invented_names_are_nowhere(tmp_path: Path) -> None:
    people = [f"{first} {last}" for first, last in zip("ABCDEFGH", ("Poe", "Lee", "Roy") * 3, strict=False)]
    model: Any = TableModel(tmp_path, {}, read=people, train=[Pair(TEMPLATE.ask(name), "x") for name in people])
    names = invent_names(model, 12)
    assert len(set(names)) == 12
    assert not set(names) & set(people)
    assert {name.split()[0] for name in names} <= set("ABCDEFGH")
    assert names == invent_names(model, 12)
    assert names != invent_names(model, 12, seed=1)
    assert len(invent_names(model, 1000)) == 8 * 3 - 8  # all there are
    lonely: Any = TableModel(tmp_path, {}, train=[Pair(TEMPLATE.ask("Plato"), "Athens")])
    assert invent_names(lonely, 5) == []
