"""The plan of a study: what it costs, what is left out to fit the hours, and targets that make no sense."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from attnlab.corpora import Corpus, CorpusSpec, open_corpus
from attnlab.cost import model_cost
from attnlab.errors import SpecError, UnknownNameError
from attnlab.experiments.scale import study
from attnlab.experiments.scale.findings import plan_rows
from attnlab.experiments.scale.study import StudyPlan, plan_scale, plan_study, target_parameters
from attnlab.training import ResolvedRun
from support.rates import KnownLosses
from support.studies import small_study

FOUR: dict[str, Any] = {"variants": ("tied-kv", "cosine", "relu"), "rungs": ("6k", "14k", "25k", "55k"), "seeds": 6}
IN_ORDER = (
    (),
    ("5 seeds",),
    ("4 seeds",),
    ("4 seeds", "relu up to 25k only"),
    ("4 seeds", "relu up to 25k only", "cosine up to 25k only"),
    ("4 seeds", "no rung at 55k"),
    ("4 seeds", "no rung at 55k", "relu up to 14k only"),
    ("4 seeds", "no rung at 55k", "relu up to 14k only", "cosine up to 14k only"),
)


@pytest.fixture(scope="module", autouse=True)
def _known_times() -> Iterator[None]:
    """Let a step take time in proportion to its parameters."""

    def seconds(run: ResolvedRun, *_: object) -> float:
        return model_cost(run.model).parameters / 100

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study, "time_step", seconds)
        yield


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return open_corpus(CorpusSpec(name="kinship"), tmp_path_factory.mktemp("cache"))


def planned(corpus: Corpus, launcher: KnownLosses | None = None, **changes: Any) -> StudyPlan:
    return plan_study(small_study(**{**FOUR, **changes}), [corpus], launcher or KnownLosses(lambda _: 2.0))


@pytest.fixture(scope="module")
def reduced(corpus: Corpus) -> list[StudyPlan]:
    """Return the plans for fewer and fewer hours, each a little less than the plan before takes."""
    plans = [planned(corpus)]
    for _ in IN_ORDER[1:]:
        plans.append(planned(corpus, hours=plans[-1].hours * 0.9999))
    return plans


def test_a_study_is_reduced_in_a_fixed_order(reduced: list[StudyPlan]) -> None:
    assert tuple(plan.reductions for plan in reduced) == IN_ORDER
    assert all(after.hours < before.hours for before, after in pairwise(reduced))
    last = reduced[-1].request
    assert (last.seeds, last.rungs) == (4, ("6k", "14k", "25k"))
    assert last.up_to == {"relu": "14k", "cosine": "14k"}
    assert reduced[-1].asked.seeds == 6


def test_the_first_variant_is_trained_on_every_rung_that_is_left(reduced: list[StudyPlan]) -> None:
    for plan in reduced:
        assert all("tied-kv" in rung.arms for rung in plan.rungs)
        assert len(plan.request.rungs) >= 3
        assert plan.request.seeds >= 4


def test_hours_that_not_even_the_smallest_study_fits_are_refused(corpus: Corpus, reduced: list[StudyPlan]) -> None:
    least = reduced[-1].hours
    assert planned(corpus, hours=least).hours == least
    with pytest.raises(
        SpecError, match=r"the smallest such study takes [\d.]+ hours here, and 0\.001 are given"
    ) as caught:
        planned(corpus, hours=0.001)
    assert "fewer variants" in (caught.value.hint or "")


def test_fewer_seeds_than_the_least_are_not_raised(corpus: Corpus) -> None:
    whole = planned(corpus, seeds=2)
    assert planned(corpus, seeds=2, hours=whole.hours * 0.9999).reductions == ("relu up to 25k only",)


def test_hours_add_up_over_arms_seeds_and_rungs(corpus: Corpus) -> None:
    plan = planned(corpus, half_tokens=True)
    assert [(rung.size, rung.halved) for rung in plan.rungs] == [
        *((size, halved) for size in ("6k", "14k", "25k") for halved in (True, False)),
        ("55k", False),
    ]
    assert plan.run_hours == pytest.approx(6 * sum(sum(rung.seconds) for rung in plan.rungs) / 3600)
    assert planned(corpus, seeds=12).run_hours == pytest.approx(2 * plan.run_hours)
    assert planned(corpus, seeds=12).rate_hours == pytest.approx(plan.rate_hours)
    assert planned(corpus, rate_seeds=3).rate_hours == pytest.approx(3 * plan.rate_hours)
    assert plan.hours == plan.run_hours + plan.rate_hours
    longer = planned(corpus, half_tokens=True, tokens_per_parameter=5)
    for half, whole in ((longer.rungs[number], longer.rungs[number + 1]) for number in (0, 2, 4)):
        assert half.seconds[0] == pytest.approx(whole.seconds[0] / 2, rel=0.2)
        assert half.parameters == whole.parameters


def test_two_processes_take_a_little_more_than_half_the_time(corpus: Corpus) -> None:
    two = KnownLosses(lambda _: 2.0)
    two.processes = 2  # type: ignore[misc]
    assert 0.5 < planned(corpus, two).hours / planned(corpus).hours < 0.7


def test_a_corpus_that_is_held_out_costs_runs_and_no_search(tmp_path: Path) -> None:
    where: dict[str, Any] = {"on": KnownLosses(lambda _: 2.0), "cache": tmp_path}
    one = plan_scale(small_study(), **where)
    both = plan_scale(small_study(corpora=("kinship", "world")), **where)
    held_out = plan_scale(small_study(corpora=("kinship", "world"), held_out="world"), **where)
    assert both.run_hours == held_out.run_hours == pytest.approx(2 * one.run_hours)
    assert both.rate_hours == pytest.approx(2 * one.rate_hours)
    assert held_out.rate_hours == one.rate_hours
    assert dict(plan_rows(held_out))["corpora"] == "kinship, world (held out)"


def test_planning_trains_nothing(corpus: Corpus) -> None:
    launcher = KnownLosses(lambda _: 2.0)
    planned(corpus, launcher)
    assert launcher.calls == []


def test_too_little_text_is_refused_on_every_corpus_before_anything_is_trained(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("a short text " * 60)
    short = str(tmp_path / "short.txt")
    for corpora in ((short,), ("kinship", short)):
        with pytest.raises(SpecError, match="at most 8 are allowed"):
            plan_scale(small_study(corpora=corpora), on=KnownLosses(lambda _: 2.0), cache=tmp_path / "cache")


def test_rungs_that_do_not_ascend_are_refused_before_anything_is_trained(tmp_path: Path) -> None:
    launcher = KnownLosses(lambda _: 2.0)
    with pytest.raises(SpecError, match="rungs must ascend"):
        plan_scale(small_study(rungs=("14k", "6k", "25k")), on=launcher, cache=tmp_path)
    assert launcher.calls == []


@pytest.mark.parametrize(
    ("name", "count"), [("gpt2", 84_934_656), ("10M", 10_000_000), ("nano", 786_432), ("25.1k", 25_100)]
)
def test_targets_by_name_and_by_number(name: str, count: int) -> None:
    assert target_parameters(small_study(target=name)) == count


@pytest.mark.parametrize("name", ["6k", "20k", "24k"])
def test_a_target_that_is_not_above_the_largest_rung_is_refused(name: str) -> None:
    with pytest.raises(SpecError, match="not more than the largest rung 25k with 24,576") as caught:
        target_parameters(small_study(target=name))
    assert "gpt2 or 10M" in (caught.value.hint or "")


def test_an_unknown_target_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="no size called 'gpt22'") as caught:
        target_parameters(small_study(target="gpt22"))
    assert "gpt2" in (caught.value.hint or "")
