"""The ladder: tokens, batches, warm-up and initial weights follow from the size; what the user set stays."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from attnlab.corpora import CorpusSpec, open_corpus
from attnlab.cost import model_cost
from attnlab.errors import SpecError, UnknownNameError
from attnlab.experiments.planning.budgets import (
    MOST_EPOCHS,
    Budget,
    budget,
    check_rungs,
    check_text,
    on_rung,
    usual_rate,
)
from attnlab.models import ModelSpec
from attnlab.training import RunSpec

NUMBERED = ("6k", "14k", "25k", "55k", "100k", "1M", "10M")


def model(size: str, **changes: int) -> ModelSpec:
    return ModelSpec.build(size, vocabulary_size=100, **changes)


@pytest.mark.parametrize("size", NUMBERED)
def test_every_parameter_has_its_tokens_and_no_batch_more(size: str) -> None:
    found = budget(model(size), 80)
    count = model_cost(model(size)).parameters
    assert found.parameters == count
    assert found.parameters > found.non_embedding
    assert 0 <= found.tokens - 80 * count < found.batch_size * found.context_length


@pytest.mark.parametrize("size", NUMBERED)
def test_batches_grow_with_the_square_root_of_the_size(size: str) -> None:
    found = budget(model(size), 80)
    tokens = found.batch_size * found.context_length
    assert tokens >= 512
    assert tokens % 256 == 0
    wanted = 1024 * math.sqrt(found.parameters / 64_000)
    assert tokens == 512 or abs(tokens - wanted) <= 128


def test_a_longer_context_keeps_the_tokens_of_a_batch() -> None:
    short, long = budget(model("100k"), 10), budget(model("100k", context_length=256), 10)
    assert long.context_length == 256
    assert long.batch_size * 256 == pytest.approx(short.batch_size * 64, abs=256)
    assert budget(model("6k", context_length=4096), 10).batch_size == 1


@pytest.mark.parametrize("size", NUMBERED)
def test_a_tenth_of_the_steps_is_warm_up(size: str) -> None:
    found = budget(model(size), 20)
    assert 0.1 * found.steps <= found.warmup_steps < 0.1 * found.steps + 1


def test_small_rungs_have_the_least_tokens_and_large_ones_more() -> None:
    few, many = budget(model("6k"), 10), budget(model("6k"), 10, least_tokens=2_000_000)
    assert few.tokens < 200_000
    assert 2_000_000 <= many.tokens < 2_001_000
    assert many.batch_size == few.batch_size
    assert budget(model("1M"), 10, least_tokens=2_000_000) == budget(model("1M"), 10)


@pytest.mark.parametrize("least", [0, 5_000_000])
def test_half_the_tokens_are_half_the_steps_in_the_same_batches(least: int) -> None:
    whole, half = (budget(model("25k"), 80, least, share) for share in (1.0, 0.5))
    assert half.batch_size == whole.batch_size
    assert abs(2 * half.steps - whole.steps) <= 1


def test_there_is_at_least_one_step() -> None:
    assert budget(model("6k"), 1e-6).steps == 1


def test_initial_weights_are_gpt2s_at_its_width_and_wider_below() -> None:
    def std(size: str) -> float | None:
        shape = model(size)
        return on_rung(RunSpec(size=size), shape, budget(shape, 1)).initial_std

    assert std("gpt2") == std("85M") == 0.02
    assert std("25k") == pytest.approx(0.02 * math.sqrt(768 / 32), rel=1e-3)


def test_a_run_gets_the_schedule_of_its_rung() -> None:
    shape = model("25k")
    found = budget(shape, 80)
    run = on_rung(RunSpec(size="25k"), shape, found)
    assert (run.steps, run.batch_size, run.warmup_steps) == (found.steps, found.batch_size, found.warmup_steps)
    assert run.min_learning_rate_ratio == 0


def test_what_the_user_set_stays() -> None:
    own = {"initial_std": 0.05, "batch_size": 3, "warmup_steps": 0, "min_learning_rate_ratio": 0.1}
    run = on_rung(RunSpec(size="25k", **own), model("25k"), budget(model("25k"), 80))
    assert {name: getattr(run, name) for name in own} == own


@pytest.mark.parametrize(
    ("rungs", "largest"), [((), "25k"), (("6k",), "25k"), (("6k", "14k"), "25k"), (("25k", "pico"), "nano")]
)
def test_rungs_that_ascend_are_accepted(rungs: tuple[str, ...], largest: str) -> None:
    check_rungs(rungs, largest)


@pytest.mark.parametrize(
    ("rungs", "largest", "words"),
    [
        (("14k", "6k"), "25k", "14k has 13,824 non-embedding parameters and 6k 6,144"),
        (("6k", "25k"), "14k", "25k has 24,576"),
        (("6k", "6k"), "14k", "6k has 6,144"),
        (("6k", "6.2k"), "14k", "6.2k 6,144"),
        (("25k",), "25k", "25k has 24,576"),
    ],
)
def test_rungs_that_do_not_ascend_are_refused(rungs: tuple[str, ...], largest: str, words: str) -> None:
    with pytest.raises(SpecError, match="rungs must ascend") as caught:
        check_rungs(rungs, largest)
    assert words in str(caught.value)
    assert caught.value.hint


def test_an_unknown_rung_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no size called 'big'"):
        check_rungs(("6k", "big"), "25k")


def test_a_budget_that_repeats_its_text_too_often_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("abcd" * 2500)
    corpus = open_corpus(CorpusSpec(name=str(tmp_path / "text.txt")), tmp_path / "cache")
    assert corpus.training_tokens == 9000
    most = round(MOST_EPOCHS * 9000)
    check_text(Budget(1, 1, 1, most, 1, 1), corpus)
    with pytest.raises(SpecError, match=r"72,001 tokens are 8\.0 times the 9,000 training tokens") as caught:
        check_text(Budget(1, 1, 1, most + 1, 1, 1), corpus)
    assert "`python`" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("parameters", "rate"),
    [(18_336, 0.0095), (30_592, 0.01344), (64_320, 0.0118), (168_640, 0.0045), (125_000_000, 6e-4), (13e9, 1e-4)],
)
def test_usual_rates_are_near_those_searched_and_those_of_gpt3(parameters: int, rate: float) -> None:
    assert rate / 2 < usual_rate(parameters) < 2 * rate
