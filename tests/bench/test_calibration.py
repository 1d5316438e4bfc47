"""The calibration at a size that takes no time: what it counts, what it would not let pass, and what it refuses."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from attnlab.bench import calibration, simulated
from attnlab.bench.calibration import Calibration, allowed_rate, calibrate, trained_null
from attnlab.bench.findings import BenchListener, bars_table, findings_page
from attnlab.bench.simulated import Design, all_trials, draw_losses, take_looks
from attnlab.errors import InputError, SpecError
from attnlab.experiments.judging.judgement import judge
from attnlab.experiments.planning.procedure import Procedure
from attnlab.statistics import exceeds
from support.bench import rows_of, words_of

BOUNDED = ["false-difference", "false-equivalence", "overlooked", "false-on-a-ladder", "false-trend"]


@pytest.fixture(scope="module")
def found() -> Calibration:
    return calibrate(200, arms=4, seeds=8, extension=8)


def test_the_procedure_keeps_what_it_promises(found: Calibration) -> None:
    verdicts = {outcome.name: outcome.verdict for outcome in found.bars}
    assert {name: verdicts[name] for name in BOUNDED} == dict.fromkeys(BOUNDED, "met")
    assert {verdict for name, verdict in verdicts.items() if name not in BOUNDED} == {"reported"}
    assert found.all_met
    assert all(one.trials == 200 for one in found.counts)


def test_the_promise_is_not_kept_by_never_deciding(found: Calibration) -> None:
    rates = {(one.question, one.setting): one.rate for one in found.counts}
    assert rates["false difference", "normal"] > 0.005
    assert rates["false on a ladder", "normal"] > 0.005
    assert rates["false trend", "normal"] > 0.005
    assert max(rate for (question, _), rate in rates.items() if question == "false equivalence") > 0.005


def test_what_is_counted_can_be_shown(found: Calibration) -> None:
    (shown,) = found.sections()
    assert len(rows_of(shown)) == len(found.counts) == len(all_trials(found.design))
    assert "8 and then 16 seeds" in words_of(shown)
    assert len(bars_table(found.bars).rows) == len(found.bars) == 10
    assert json.loads(json.dumps(found.to_dict()))["design"]["procedure"]["looks"] == 2
    assert found.title == findings_page(found, bars=True).title


def test_the_same_seed_counts_the_same() -> None:
    first, again, other = (calibrate(20, arms=2, seeds=5, extension=5, seed=seed) for seed in (0, 0, 1))
    assert first.counts == again.counts != other.counts


def test_looking_often_without_paying_for_it_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A procedure that tests at α at each of six looks, and at each arm, gives far too many false verdicts."""
    monkeypatch.setattr(Procedure, "level", property(lambda self: self.alpha))
    monkeypatch.setattr("attnlab.experiments.judging.judgement.holm", list)
    loose = calibrate(60, arms=4, seeds=4, extension=3, procedure=Procedure(looks=6))
    assert next(outcome.verdict for outcome in loose.bars if outcome.name == "false-difference") == "missed"
    assert not loose.all_met


def test_unpaired_losses_would_overlook_what_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed's effect is large: only because it cancels is anything found."""
    original = simulated.draw_losses
    rng = np.random.default_rng(0)

    def unpaired(*arguments: object) -> simulated.Losses:
        losses = original(*arguments)  # type: ignore[arg-type]
        return np.array([rng.permutation(row) for row in losses])

    monkeypatch.setattr(simulated, "draw_losses", unpaired)
    monkeypatch.setattr(simulated, "pooled_sd", lambda groups: (3 * Procedure().margin, 2 * len(groups)))
    blind = calibrate(40, arms=4, seeds=8, extension=8)
    assert next(outcome.verdict for outcome in blind.bars if outcome.name == "overlooked") == "missed"


def test_noise_is_what_it_says() -> None:
    rng = np.random.default_rng(0)
    for noise in ("normal", "heavy tails"):
        losses = draw_losses(rng, noise, 3, 20_000, 0.02)  # type: ignore[arg-type]
        differences = losses[1:] - losses[0]
        assert differences.std(axis=1) == pytest.approx([0.02] * 3, rel=0.05)
        assert np.corrcoef(differences)[0, 1] == pytest.approx(0.5, abs=0.05)  # through the baseline
        assert losses.std() > 2 * 0.02  # through the seeds
    quiet, middle, loud = (draw_losses(rng, "unequal", 3, 20_000, 0.02)[1:] - losses[0]).std(axis=1)
    assert quiet < middle < loud


def test_seeds_are_added_while_an_arm_is_undecided() -> None:
    procedure, rng = Procedure(looks=3), np.random.default_rng(0)
    looks = Design(arms=2, seeds=4, extension=5, procedure=procedure).looks
    assert looks == (4, 9, 14)
    losses = draw_losses(rng, "normal", 2, 14, 5.0)
    assert [len(look[0].seeds) for look in take_looks(losses, looks, procedure)] == [4, 9, 14]
    clear = draw_losses(rng, "normal", 2, 14, 1e-6)
    assert [len(look[0].seeds) for look in take_looks(clear, looks, procedure)] == [4]
    table = {"baseline": dict(enumerate(losses[0, :4])), "arm 1": dict(enumerate(losses[1, :4]))}
    assert next(take_looks(losses[:2], looks, procedure)) == judge(table, "baseline", procedure, witnesses=False)


def test_a_spec_against_itself() -> None:
    losses = dict(enumerate(np.random.default_rng(0).normal(1.5, 0.02, 330).tolist()))
    counted = trained_null(losses)
    assert (counted.trials, counted.bounded, counted.setting) == (20, True, "trained, 4 and then 8 seeds")
    assert counted.wrong <= 3
    assert counted.p_above == exceeds(counted.wrong, 20, 0.05)
    assert trained_null(losses, extension=0).setting == "trained, 8 seeds"
    assert trained_null(losses, procedure=Procedure(looks=1)).setting == "trained, 4 seeds"


def test_a_spec_that_differs_from_itself_is_found_out() -> None:
    """Losses that drift with the seed, as they would if runs were not independent of their order."""
    drifting = {seed: 0.01 * (seed // 8) + 1e-4 * (seed % 3) for seed in range(320)}
    assert trained_null(drifting).wrong == 20
    found = calibrate(1, arms=1, seeds=3, extension=1, trained=drifting)
    (trained,) = (outcome for outcome in found.bars if outcome.name == "trained-false-difference")
    assert (trained.verdict, trained.limit) == ("missed", 3 / 20)
    assert found.counts[-1].wrong == 20


def test_trained_losses_that_diverged_are_no_false_difference() -> None:
    assert trained_null(dict.fromkeys(range(160), math.nan)).wrong == 0


@pytest.mark.parametrize(
    ("count", "comparisons", "extension"), [(0, 20, None), (79, 20, None), (160, 20, 3), (160, 20, -1)]
)
def test_too_few_trained_losses(count: int, comparisons: int, extension: int | None) -> None:
    with pytest.raises(InputError, match=f"{count} losses are too few for {comparisons} comparisons") as caught:
        trained_null(dict.fromkeys(range(count), 1.0), comparisons, extension)
    assert caught.value.hint


def test_the_limit_is_the_highest_rate_that_is_not_significant() -> None:
    assert allowed_rate(20, 0.05) == 3 / 20
    highest = round(allowed_rate(2000, 0.05) * 2000)
    assert exceeds(highest, 2000, 0.05) > 0.05 >= exceeds(highest + 1, 2000, 0.05)
    assert allowed_rate(1, 0.001) == 0.5  # not even once


@pytest.mark.parametrize("fields", [{"simulations": 0}, {"arms": 0}, {"seeds": 1}, {"extension": 0}])
def test_designs_that_show_nothing(fields: dict[str, int]) -> None:
    with pytest.raises(SpecError, match=f"{next(iter(fields.values()))} {next(iter(fields))}") as caught:
        calibrate(**fields)  # type: ignore[arg-type]
    assert caught.value.hint
    with pytest.raises(SpecError, match="0 comparisons show nothing"):
        trained_null({}, 0)


def test_the_bench_tells_what_it_is_at(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[tuple[str, int, int]] = []

    class Ears(BenchListener):
        def step(self, what: str, done: int, total: int) -> None:
            steps.append((what, done, total))

    design = replace(Design(), arms=2, seeds=3, extension=1)
    monkeypatch.setattr(calibration, "Design", lambda *_: design)
    found = calibrate(2, listener=Ears())
    assert [done for _, done, _ in steps] == list(range(len(found.counts)))
    assert steps[0] == ("false difference: normal", 0, len(found.counts))
