"""Learning rates of a study: searched below, predicted by a law, verified once, and never on what is held out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnlab.corpora import Corpus, CorpusSpec, open_corpus
from attnlab.errors import AttnlabError
from attnlab.experiments.launching.jobs import LaunchListener
from attnlab.experiments.request import ScaleRequest
from attnlab.experiments.scale import study
from attnlab.experiments.scale.rates import RatePoint, RateTable, find_rates
from attnlab.experiments.scale.study import scale, search_only
from attnlab.training import RunSpec
from support.rates import KnownLosses, octaves
from support.studies import small_study

SIZES = ("6k", "14k", "25k", "55k", "100k")
COUNTS = {"6k": 6144, "14k": 13_824, "25k": 24_576, "55k": 55_296, "100k": 98_304}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return open_corpus(CorpusSpec(name="kinship"), tmp_path_factory.mktemp("cache"))


def best_rate(spec: RunSpec, exponent: float = -0.5) -> float:
    """Return an optimum that follows a power law of the size, twice as high for the variant."""
    at = 0.02 * (COUNTS[spec.size] / 6144) ** exponent
    return at * (2 if spec.variant == "tied-kv" else 1)


def lawful(spec: RunSpec) -> float:
    return 2 + 0.1 * octaves(spec, best_rate(spec)) ** 2


def found(loss: Any, corpus: Corpus, **changes: Any) -> tuple[RateTable, KnownLosses]:
    launcher = KnownLosses(loss)
    request = small_study(**{"rungs": SIZES, "rate_count": 5, **changes})
    return find_rates(request, corpus, Path("rates"), launcher, LaunchListener()), launcher


def at(table: RateTable, arm: str) -> dict[str, RatePoint]:
    return {point.size: point for point in table.points if point.arm == arm}


def test_rates_are_searched_then_verified_then_predicted(corpus: Corpus) -> None:
    table, launcher = found(lawful, corpus)
    for arm in ("softmax", "tied-kv"):
        points = at(table, arm)
        assert [points[size].source for size in SIZES] == ["searched", "searched", "verified", "law", "law"]
        assert all(bool(point.trials) is (point.source != "law") for point in points.values())
    assert {job.spec.size for job in launcher.jobs} == {"6k", "14k", "25k"}


def test_the_law_finds_the_rates_of_every_arm(corpus: Corpus) -> None:
    table, _ = found(lawful, corpus)
    for arm in ("softmax", "tied-kv"):
        for size, point in at(table, arm).items():
            best = best_rate(RunSpec(size=size, variant=arm))
            assert abs(math.log2(point.rate / best)) < (0.3 if point.source == "searched" else 0.75)
        assert -1.0 < table.laws[arm][1] < 0


def test_rates_by_size_and_arm_are_those_of_the_points(corpus: Corpus) -> None:
    table, _ = found(lawful, corpus)
    assert table.rates() == {size: {arm: at(table, arm)[size].rate for arm in ("softmax", "tied-kv")} for size in SIZES}


def test_what_was_verified_joins_the_law_for_the_rungs_above(corpus: Corpus) -> None:
    def jump(spec: RunSpec) -> float:  # the same for both arms
        return 2 + 0.1 * octaves(spec, 0.02 if spec.size in ("6k", "14k") else 0.16) ** 2

    points = at(found(jump, corpus)[0], "softmax")
    assert points["25k"].rate == pytest.approx(0.16, rel=0.5)  # eight times what the law of two rungs says
    assert len(points["25k"].trials) > 3  # so the search was extended
    tried = [points[size] for size in ("6k", "14k", "25k")]
    b, a = np.polyfit([math.log(one.parameters) for one in tried], [math.log(one.rate) for one in tried], 1)
    for size in ("55k", "100k"):
        assert points[size].rate == pytest.approx(math.exp(a + b * math.log(points[size].parameters)), rel=1e-3)


def test_the_exponent_above_is_shared_by_all_arms(corpus: Corpus) -> None:
    """One arm's rate rises with the size and the other's falls as much: above, both stay where they are on average."""

    def apart(spec: RunSpec) -> float:
        exponent = 0.5 if spec.variant == "tied-kv" else -0.5
        return 2 + 0.1 * octaves(spec, 0.02 * (COUNTS[spec.size] / 13_824) ** exponent) ** 2

    table, _ = found(apart, corpus)
    for arm in ("softmax", "tied-kv"):
        assert abs(table.laws[arm][1]) < 0.1
        points = at(table, arm)
        assert points["100k"].rate == pytest.approx(points["55k"].rate, rel=0.1)
        assert abs(math.log2(points["100k"].rate / 0.02)) < 0.5
    rising = at(table, "tied-kv")
    assert rising["25k"].rate > rising["6k"].rate  # where it is searched, each arm has its own


def test_where_the_law_is_right_three_rates_verify_it(corpus: Corpus) -> None:
    table, _ = found(lambda spec: 2 + 0.1 * octaves(spec, 0.02) ** 2, corpus)
    assert len(at(table, "softmax")["25k"].trials) == 3


def test_more_searched_rungs_leave_fewer_to_the_law(corpus: Corpus) -> None:
    table, _ = found(lawful, corpus, rate_rungs=4)
    sources = [at(table, "softmax")[size].source for size in SIZES]
    assert sources == ["searched"] * 4 + ["verified"]


def test_a_rate_that_the_user_set_is_not_searched(corpus: Corpus) -> None:
    table, launcher = found(lawful, corpus, variants=("tied-kv", "learning_rate=0.003"))
    points = at(table, "learning_rate=0.003")
    assert {(point.rate, point.source) for point in points.values()} == {(0.003, "law")}
    assert {job.spec.variant for job in launcher.jobs} == {"softmax", "tied-kv"}
    assert not any(job.label.startswith("learning_rate") for job in launcher.jobs)


def test_an_arm_has_no_rates_above_its_largest_rung(corpus: Corpus) -> None:
    table, _ = found(lawful, corpus, variants=("cosine", "tied-kv"), up_to={"tied-kv": "14k"})
    assert list(at(table, "tied-kv")) == ["6k", "14k"]
    assert list(at(table, "cosine")) == list(SIZES)


def test_an_arm_that_diverges_everywhere_is_an_error(corpus: Corpus) -> None:
    with pytest.raises(AttnlabError, match="tied-kv diverged at every learning rate"):
        found(lambda spec: None if spec.variant == "tied-kv" else lawful(spec), corpus)


def two_corpora(tmp_path: Path, launcher: KnownLosses) -> tuple[ScaleRequest, dict[str, Any]]:
    request = small_study(corpora=("kinship", "world"), held_out="world", rate_count=5)
    return request, {"out": tmp_path, "on": launcher, "cache": tmp_path / "cache"}


def test_nothing_is_searched_on_the_corpus_that_is_held_out(tmp_path: Path) -> None:
    launcher = KnownLosses(lawful)
    request, where = two_corpora(tmp_path, launcher)
    assert list(search_only(request, **where)) == ["kinship"]
    assert {job.spec.corpus.name for job in launcher.jobs} == {"kinship"}


def test_the_held_out_corpus_is_compared_with_the_rates_of_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(study, "compare", lambda request, **_: asked.append(request))
    monkeypatch.setattr("attnlab.experiments.scale.study.time_step", lambda *_: 0.001)
    launcher = KnownLosses(lawful)
    request, where = two_corpora(tmp_path, launcher)
    carried_out = scale(request, **where)
    assert [(one.corpus, one.held_out) for one in carried_out.corpora] == [("kinship", False), ("world", True)]
    assert [one.corpus for one in asked] == ["kinship", "world"]
    assert asked[0].rates == asked[1].rates
    assert set(asked[0].rates) == {"6k", "14k", "25k"}
    assert {job.spec.corpus.name for job in launcher.jobs} == {"kinship"}
    scale(request.replace(held_out=None), **where)
    assert {job.spec.corpus.name for job in launcher.jobs} == {"kinship", "world"}
