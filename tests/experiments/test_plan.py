"""Plans: what they fix, and that they cannot be changed afterwards."""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from attnlab.corpora import open_corpus
from attnlab.errors import FileError, SpecError, UnknownNameError
from attnlab.experiments.launching.jobs import LaunchListener
from attnlab.experiments.planning.budgets import usual_rate
from attnlab.experiments.planning.pilot import DEFAULT, recorded_rates
from attnlab.experiments.planning.plan import Plan, Trial
from attnlab.experiments.planning.planner import arms_at, corpus_spec, make_plan
from attnlab.experiments.planning.procedure import planned_effect
from attnlab.experiments.request import Request
from attnlab.statistics import upper_sd
from support.requests import InProcess, small


@pytest.fixture(scope="module")
def pydoc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache for the default corpus, which takes seconds to make."""
    return tmp_path_factory.mktemp("cache")


def planned(folder: Path, request: Request, launcher: InProcess | None = None, cache: Path | None = None) -> Plan:
    cache = cache or folder / "cache"
    corpus = open_corpus(corpus_spec(request), cache)
    return make_plan(request, corpus, folder, launcher or InProcess(cache), LaunchListener())


def test_a_plan_says_everything_beforehand(tmp_path: Path) -> None:
    plan = planned(tmp_path, small(variants=("tied-kv", "cosine & learning_rate=0.01")))
    assert [arm.name for arm in plan.arms] == ["softmax", "tied-kv", "cosine & learning_rate=0.01"]
    assert plan.seeds == (0, 1, 2)
    assert plan.steps == 6
    assert plan.detectable > 0
    assert plan.smallest_p == 0.25
    assert any("sign-flip" in warning for warning in plan.warnings)
    assert plan.predicted_minutes > 0
    tied, softmax = plan.arm("tied-kv"), plan.baseline
    assert tied.cache_bytes * 2 == softmax.cache_bytes
    assert tied.parameters < softmax.parameters
    assert plan.others[1].rate_from == "as requested"
    assert plan.bigram_loss is None


def test_paired_runs_see_the_same_data_and_begin_alike(tmp_path: Path) -> None:
    plan = planned(tmp_path, small())
    softmax, tied = (arm.at(1) for arm in plan.arms)
    assert softmax.replace(variant="tied-kv") == tied
    with pytest.raises(SpecError, match="would not see the same data"):
        planned(tmp_path, small(variants=("batch_size=8",), changes=("num_layers=1",)))
    with pytest.raises(SpecError, match="minutes"):
        planned(tmp_path, small(steps=None, changes=("minutes=1",)))


def test_a_plan_is_read_as_it_was_written_and_not_otherwise(tmp_path: Path) -> None:
    plan = planned(tmp_path, small())
    plan.save(tmp_path)
    assert Plan.load(tmp_path) == plan
    path = tmp_path / "plan.json"
    record = json.loads(path.read_text())
    record["plan"]["procedure"]["margin"] = 0.5
    path.write_text(json.dumps(record))
    with pytest.raises(FileError, match="was changed after it was made"):
        Plan.load(tmp_path)
    path.write_text("rubbish")
    with pytest.raises(FileError, match="damaged"):
        Plan.load(tmp_path)
    path.write_text(json.dumps({**record, "format": 99}))
    with pytest.raises(FileError, match="another version"):
        Plan.load(tmp_path)
    with pytest.raises(FileError, match="no comparison"):
        Plan.load(tmp_path / "elsewhere")


def test_an_unknown_variant_gets_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError) as caught:
        planned(tmp_path, small(variants=("tied-kvv",)))
    assert "tied-kv" in (caught.value.hint or "")


def test_the_rate_of_every_arm_is_searched_until_it_is_bracketed(tmp_path: Path) -> None:
    launcher = InProcess(tmp_path / "cache")
    plan = planned(tmp_path, small(tune=3), launcher)
    assert launcher.trained == sum(len(arm.trials) for arm in plan.arms)
    for arm in plan.arms:
        rates = [trial.learning_rate for trial in arm.trials]
        assert set(rates) >= {0.0005, 0.001, 0.002}
        assert [high / low for low, high in pairwise(rates)] == pytest.approx([2] * (len(rates) - 1), rel=1e-3)
        best = min(trial.loss or math.inf for trial in arm.trials)
        chosen = next(trial for trial in arm.trials if trial.learning_rate == arm.run.learning_rate)
        assert chosen.loss == pytest.approx(best, abs=0.002)
        at_the_edge = chosen.learning_rate in (rates[0], rates[-1])
        assert not at_the_edge or rates[-1] == 0.128  # six steps want any rate; the search ends at a factor of 2⁷
        said = any("may lie beyond" in warning and arm.name in warning for warning in plan.warnings)
        assert said == at_the_edge
        assert arm.rate_from == f"the best of {len(rates)} that were tried"


def test_a_pilot_shows_the_noise(tmp_path: Path) -> None:
    launcher = InProcess(tmp_path / "cache")
    plan = planned(tmp_path, small(pilot=2), launcher)
    assert launcher.trained == 4
    assert plan.pilot.degrees == 1
    assert 0 < plan.pilot.sd < 1
    foreign = planned(tmp_path, small())
    assert "no pilot was run" in foreign.pilot.source
    with pytest.raises(SpecError, match="one seed"):
        planned(tmp_path, small(pilot=1))


@pytest.mark.parametrize(
    ("changes", "believed"),
    [
        ({}, True),
        ({"first_seed": 104}, False),  # the pilot's own seeds
        ({"first_seed": 97}, False),
        ({"first_seed": 116}, True),
        ({"baseline": "sigmoid", "variants": ("tied-kv",)}, False),  # recorded against softmax
        ({"seeds": 9}, True),
    ],
)
def test_the_recorded_pilot_is_used_for_what_it_was_recorded_of(
    tmp_path: Path, pydoc: Path, changes: dict[str, Any], believed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("attnlab.experiments.planning.planner.time_step", lambda *_: 0.001)
    request = Request(**changes, pilot=0)
    plan = planned(tmp_path, request, cache=pydoc)
    assert bool(plan.pilot.apart_from(plan.seeds).noise("25k")) is believed
    alone = planned_effect(
        upper_sd(plan.pilot.sd, plan.pilot.degrees), len(plan.seeds), len(plan.others), plan.procedure
    )
    assert (plan.detectable < alone.detectable) is believed


def test_the_recorded_pilot_has_every_arm_at_every_seed() -> None:
    for size, differences in DEFAULT.differences.items():
        assert set(differences) == {*Request().variants}, size
        assert {len(values) for values in differences.values()} == {len(DEFAULT.pilot_seeds)}, size


def test_recorded_rates_serve_the_same_ladder_with_other_tokens() -> None:
    ladder = {"size": "25k", "rungs": ("14k",)}
    usual = {size: recorded_rates(Request(), size) for size in ("14k", "25k")}
    assert set(usual["14k"]) == set(usual["25k"]) == {"softmax", *Request().variants}
    twice = Request(**ladder, tokens_per_parameter=160)
    assert {size: recorded_rates(twice, size) for size in usual} == usual
    assert recorded_rates(twice, "55k") == {}
    assert recorded_rates(Request(size="25k"), "25k") == recorded_rates(Request(size="1M"), "25k") == usual["25k"]
    for changes in ({"recipe": "fast"}, {"corpus": "world"}, {"changes": ("context_length=32",)}):
        assert recorded_rates(Request(**ladder, **changes, tokens_per_parameter=160), "25k") == {}, changes
    assert recorded_rates(Request(size="25k", steps=100), "25k") == {}


def test_a_ladder_without_recorded_rates_has_those_usual_at_its_sizes(tmp_path: Path) -> None:
    request = Request(
        variants=("tied-kv", "muon", "learning_rate=0.5"),
        size="25k",
        rungs=("14k",),
        tokens_per_parameter=0.3,
        corpus="kinship",
    )
    corpus = open_corpus(corpus_spec(request), tmp_path)
    for size in ("14k", "25k"):
        softmax, tied, muon, high = arms_at(request, size, 1.0, corpus)
        rate = usual_rate(softmax.parameters)
        assert softmax.run.learning_rate == tied.run.learning_rate == rate
        assert "usual at this size" in softmax.rate_from
        assert muon.run.learning_rate is None  # the optimizer's own
        assert high.run.learning_rate == 0.5
        assert all(arm.run.learning_rate in {None, 0.5} for arm in arms_at(request, size, 1.0, corpus, recorded=False))
    steps = request.replace(rungs=(), tokens_per_parameter=None, steps=5)
    assert arms_at(steps, "25k", 1.0, corpus)[0].run.learning_rate is None  # the recipe's own


def test_trials_at_the_rates_that_are_taken_show_the_noise(tmp_path: Path) -> None:
    launcher = InProcess(tmp_path / "cache")
    plan = planned(tmp_path, small(tune=3, tune_seeds=3, pilot=None), launcher)
    assert launcher.trained == sum(len(arm.trials) for arm in plan.arms) * 3  # and no pilot
    softmax, tied = (
        next(one.losses for one in arm.trials if one.learning_rate == arm.run.learning_rate) for arm in plan.arms
    )
    differences = [ours - theirs for ours, theirs in zip(tied, softmax, strict=True) if ours and theirs]
    size = plan.request.size
    assert plan.pilot.differences == {size: {"tied-kv": tuple(differences)}}
    assert plan.pilot.source == f"the search for rates at {size}"
    assert plan.pilot.noise(size)["tied-kv"].degrees == plan.pilot.degrees == 2
    assert plan.pilot.noise("another") == {}


def test_trials_that_were_made_before_belong_to_the_arms_of_their_size(tmp_path: Path) -> None:
    trials = {
        "6k": {
            name: (
                Trial(learning_rate=0.001, loss=3.0, losses=(3.0, 3.0)),
                Trial(learning_rate=0.002, loss=2.0, losses=(2.0, end)),
            )
            for name, end in (("softmax", 2.0), ("tied-kv", 2.1))
        }
    }
    rates = {"6k": {"softmax": 0.002, "tied-kv": 0.002}}
    request = Request(
        variants=("tied-kv",),
        size="14k",
        rungs=("6k",),
        tokens_per_parameter=0.3,
        half_tokens=True,
        corpus="kinship",
        rates=rates,
        changes=("context_length=8", "validation_rows=8"),
    )
    corpus = open_corpus(corpus_spec(request), tmp_path / "cache")
    launcher = InProcess(tmp_path / "cache")
    plan = make_plan(request, corpus, tmp_path, launcher, LaunchListener(), trials=trials)
    assert launcher.trained == 0
    half, whole = plan.lower
    assert [len(arm.trials) for rung in (half, whole) for arm in rung.arms] == [0, 0, 2, 2]
    assert [arm.trials for arm in plan.arms] == [(), ()]
    assert plan.pilot.differences == {"6k": {"tied-kv": (0.0, pytest.approx(0.1))}}


def test_a_variant_that_would_be_trained_nowhere_is_refused(tmp_path: Path, pydoc: Path) -> None:
    request = Request(
        variants=("tied-kv", "cosine"), size="25k", rungs=("14k",), tokens_per_parameter=1, up_to={"cosine": "6k"}
    )
    with pytest.raises(SpecError, match="cosine is trained up to 6k, and the smallest rung is 14k"):
        planned(tmp_path, request, cache=pydoc)


def test_a_window_that_hides_nothing_is_refused(tmp_path: Path, pydoc: Path) -> None:
    request = Request(variants=("window:64",), size="6k", steps=2, changes=("context_length=64",))
    with pytest.raises(SpecError, match="window:64 has a window of 64 tokens, which hides nothing in a context of 64"):
        planned(tmp_path, request, cache=pydoc)
