"""Published claims: that they are whole, and that they are judged by intervals."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from pydantic import ValidationError

from attnlab.experiments.judging.claims import Claim, arms_of, judge_claims, published_claims
from attnlab.experiments.results import Comparison
from attnlab.lens.measures import MEASURES
from attnlab.training import treatment
from support.comparisons import make_comparison
from support.ladders import make_ladder

CARDS = published_claims()


def card(**fields: Any) -> Claim:
    words = dict.fromkeys(("statement", "published", "setting", "source"), "…")
    return Claim(**{"id": "a", "arm": "tied-kv", **words, **fields})


def test_the_cards_are_whole() -> None:
    assert len(CARDS) >= 8
    assert len({card.id for card in CARDS}) == len(CARDS)
    for one in CARDS:
        assert treatment(one.arm).changes
        assert treatment(one.against).name == one.against
        assert one.measure is None or one.measure in MEASURES
        assert all((one.statement, one.published, one.setting, one.source))


def test_all_that_is_needed_is_trained_once() -> None:
    arms = arms_of(CARDS, "softmax")
    assert len(set(arms)) == len(arms)
    assert "softmax" not in arms
    assert {"tied-kv", "tied-qk", "cosine", "cosine-learned", "sigmoid", "sigmoid-no-bias", "relu", "muon"} <= {*arms}


def test_a_claim_must_say_something() -> None:
    with pytest.raises(ValidationError, match="nothing in, or nothing out"):
        card()
    with pytest.raises(ValidationError, match="nothing in, or nothing out"):
        card(low=1.0, high=0.5)


@pytest.mark.parametrize(
    ("claimed", "standing"),
    [
        ({"low": 0.0}, "reproduced"),
        ({"low": -1.0, "high": 6.0}, "reproduced"),
        ({"high": 0.0}, "not reproduced"),
        ({"low": 5.0}, "not reproduced"),
        ({"low": 2.02}, "underpowered"),  # the true difference: e^0.02 is 2.02 % more
        ({"against": "cosine", "high": 0.0}, "reproduced"),
        ({"arm": "cosine", "against": "tied-kv", "high": 0.0}, "not reproduced"),
    ],
)
def test_an_interval_decides(claimed: dict[str, Any], standing: str) -> None:
    comparison = make_comparison(("tied-kv", "cosine"), noise=0.002)
    (found,) = judge_claims(comparison, [card(**claimed)])
    assert found.standing == standing
    assert found.low is not None
    assert found.high is not None
    assert found.low < (found.mean or 0) < found.high


def test_more_claims_ask_for_wider_intervals() -> None:
    comparison = make_comparison(("tied-kv",))
    (alone,) = judge_claims(comparison, [card(low=0.0)])
    together = judge_claims(comparison, [card(low=0.0, id=str(number)) for number in range(10)])[0]
    assert (together.low or 0) < (alone.low or 0)


def test_diverging_is_worse_than_anything() -> None:
    comparison = make_comparison(("tied-kv", "cosine"), diverged={"cosine": [1]})
    worse, fine, pair = judge_claims(
        comparison, [card(arm="cosine", low=0.0), card(arm="cosine", high=1.0), card(against="cosine", high=0.0)]
    )
    assert [one.standing for one in (worse, fine, pair)] == ["reproduced", "not reproduced", "reproduced"]
    assert "diverged at seed 1" in worse.reason


def test_the_largest_size_that_has_both_arms_decides() -> None:
    effects = {"tied-kv": (0.08, 0.05, 0.02), "cosine": (0.3, 0.2, None)}
    comparison = make_ladder(effects, half={"tied-kv": (0.5, 0.5), "cosine": (0.5, 0.5)})
    cards = [card(low=-1.0, high=6.0), card(arm="cosine", low=1.0), card(arm="cosine", against="tied-kv", low=0.0)]
    tied, cosine, pair = judge_claims(comparison, cards)
    assert [one.standing for one in (tied, cosine, pair)] == ["reproduced"] * 3
    assert [size for size, _ in tied.rungs] == ["6k", "14k", "25k"], "rungs with half the tokens are left out"
    assert [size for size, _ in cosine.rungs] == [size for size, _ in pair.rungs] == ["6k", "14k"]
    assert tied.mean == tied.rungs[-1][1] == pytest.approx(2.02, abs=0.5)
    assert (tied.trend, cosine.trend, pair.trend) == ("falls", "falls", None), "a trend is tested against the baseline"
    assert tied.over_sizes.startswith("6k: +8")
    assert tied.over_sizes.endswith(" %; falls")


def test_smaller_sizes_tell_of_the_noise_unless_the_largest_is_noisier() -> None:
    effects = {"tied-kv": (0.08, 0.05, 0.02), "cosine": (0.3, 0.2, 0.1)}
    ladder, noisy = make_ladder(effects, seeds=4), make_ladder(effects, seeds=4, noise=0.05)
    both = dataclasses.replace(ladder, arms=noisy.arms)

    def width(comparison: Comparison) -> float:
        (found,) = judge_claims(comparison, [card(low=0.0)])
        assert found.low is not None
        assert found.high is not None
        return found.high - found.low

    assert width(ladder) < 0.7 * width(dataclasses.replace(ladder, lower=()))
    assert width(both) == width(dataclasses.replace(both, lower=()))


def test_claims_about_what_was_not_trained_are_left_out() -> None:
    assert judge_claims(make_comparison(("tied-kv",)), [card(arm="cosine", low=0.0)]) == ()


def test_a_measure_that_a_variant_does_not_have() -> None:
    (found,) = judge_claims(make_comparison(("tied-kv",)), [card(measure="unheard of", high=0.0)])
    assert found.standing == "underpowered"
    assert "has no unheard of" in found.reason
