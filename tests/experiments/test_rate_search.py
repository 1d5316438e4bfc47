"""The search for learning rates: it brackets the best, refines it, and prefers rates at which every seed learns."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from attnlab.corpora import CorpusSpec, open_corpus
from attnlab.errors import AttnlabError
from attnlab.experiments.launching.jobs import LaunchListener
from attnlab.experiments.planning.plan import Trial
from attnlab.experiments.planning.rate_search import (
    TUNING_SEED,
    Tuned,
    choose_rate,
    search_rates,
    stays_behind,
    with_rate,
)
from attnlab.training import RunSpec
from support.rates import KnownLosses, Loss, bowl, octaves, rate_of

CORPUS = open_corpus(CorpusSpec(name="mqar", vocabulary_size=16, options={"pairs": 2}))
RUN = RunSpec(corpus=CORPUS.spec)
CENTRE = 0.016


def search(
    loss: Loss, count: int = 5, seeds: int = 3, *, runs: tuple[RunSpec, ...] = (RUN,)
) -> tuple[list[Tuned], KnownLosses]:
    launcher = KnownLosses(loss)
    centres = [CENTRE] * len(runs)
    return (
        search_rates(runs, count, seeds, CORPUS, Path("rates"), launcher, LaunchListener(), centres),
        launcher,
    )


def rates_of(found: Tuned) -> list[float]:
    return [trial.learning_rate for trial in found.trials]


def is_bracketed(found: Tuned) -> bool:
    """Return whether the rate lies inside those that were tried."""
    return found.run.learning_rate not in (rates_of(found)[0], rates_of(found)[-1])


@pytest.mark.parametrize("best", [CENTRE, 0.02, 0.01, CENTRE * 2**4, CENTRE / 2**4, CENTRE * 2**5.4, CENTRE / 2**5.4])
@pytest.mark.parametrize("count", [1, 3, 5])
def test_the_best_is_bracketed_wherever_it_lies(best: float, count: int) -> None:
    (found,), launcher = search(bowl(best), count)
    assert is_bracketed(found)
    off = abs(math.log2(rate_of(found.run) / best))
    assert off <= (0.25 if count == 5 else 0.5) + 0.01  # half a step of the finest grid
    assert rates_of(found) == sorted(set(rates_of(found)))
    assert len(launcher.jobs) == 3 * len(found.trials)  # nothing is tried twice


def test_an_optimum_in_the_middle_needs_the_first_grid_and_two_rates_around_it() -> None:
    (found,), launcher = search(bowl(CENTRE))
    assert rates_of(found) == pytest.approx([CENTRE * 2**step for step in (-2, -1, -0.5, 0, 0.5, 1, 2)], rel=1e-3)
    assert [len(call) for call in launcher.calls] == [15, 6]
    assert rate_of(found.run) == CENTRE


def test_a_coarse_search_is_not_refined() -> None:
    (found,), _ = search(bowl(CENTRE), 3)
    assert rates_of(found) == [CENTRE / 2, CENTRE, CENTRE * 2]


def test_an_optimum_beyond_the_grid_extends_it_on_that_side_only() -> None:
    (high,), _ = search(bowl(CENTRE * 8))
    assert rates_of(high)[0] == CENTRE / 4
    assert rates_of(high)[-1] == pytest.approx(CENTRE * 16, rel=1e-3)
    (low,), _ = search(bowl(CENTRE / 8))
    assert rates_of(low)[0] == CENTRE / 16
    assert rates_of(low)[-1] == CENTRE * 4


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_search_without_end_ends_at_the_edge_and_says_so(sign: int, count: int) -> None:
    (found,), _ = search(lambda spec: 20 + sign * octaves(spec, CENTRE), count, 1)
    assert not is_bracketed(found)
    assert len(found.trials) <= count + 8


def test_a_flat_loss_is_bracketed_too() -> None:
    """Of rates that are equally good the largest with an equally good one above it is taken."""

    def flat(spec: RunSpec) -> float:
        above = octaves(spec, CENTRE * 2**3)
        return 2.0 + 0.0001 * abs(octaves(spec, CENTRE)) + (0.3 * above if above > 0 else 0.0)

    (found,), _ = search(flat)
    assert is_bracketed(found)
    taken = rates_of(found).index(rate_of(found.run))
    assert CENTRE <= rates_of(found)[taken] < rates_of(found)[taken + 1] <= CENTRE * 2**3


def test_a_rate_at_which_a_seed_stays_behind_is_not_taken() -> None:
    def unreliable(spec: RunSpec) -> float:
        stuck = octaves(spec, CENTRE) > 0.4 and spec.seed == TUNING_SEED + 2
        return 2 - 0.1 * octaves(spec, CENTRE) + 0.3 * stuck  # means fall on and on, but a seed is stuck

    (found,), _ = search(unreliable)
    assert rate_of(found.run) == CENTRE
    behind = [trial.learning_rate for trial in found.trials if stays_behind(trial.losses)]
    assert behind
    assert min(behind) > CENTRE
    assert is_bracketed(found)


def test_where_every_rate_is_unreliable_the_best_worst_seed_decides() -> None:
    def unreliable(spec: RunSpec) -> float:
        return 2 + 0.05 * octaves(spec, CENTRE) ** 2 + 0.5 * (spec.seed == TUNING_SEED)

    (found,), _ = search(unreliable)
    assert rate_of(found.run) == CENTRE


def test_rates_that_diverge_are_recorded_and_not_taken() -> None:
    (found,), _ = search(lambda spec: None if octaves(spec, CENTRE) > 0.6 else 2 - 0.1 * octaves(spec, CENTRE))
    assert rate_of(found.run) == pytest.approx(CENTRE * math.sqrt(2), rel=1e-3)
    lost = [trial for trial in found.trials if trial.loss is None]
    assert [trial.learning_rate for trial in lost] == [CENTRE * 2, CENTRE * 4]
    assert {trial.losses for trial in lost} == {(None, None, None)}


def test_if_the_whole_grid_diverges_lower_rates_are_tried() -> None:
    (found,), _ = search(lambda spec: None if rate_of(spec) > CENTRE / 20 else 2 - 0.1 * octaves(spec, CENTRE))
    assert rate_of(found.run) < CENTRE / 20
    assert is_bracketed(found)


def test_if_every_rate_diverges_that_is_an_error_which_names_them() -> None:
    with pytest.raises(AttnlabError, match="softmax diverged at every learning rate that was tried") as caught:
        search(lambda _: None)
    assert "0.016" in str(caught.value)
    assert caught.value.hint


def test_all_rates_of_all_arms_have_the_same_seeds_which_no_comparison_uses() -> None:
    runs = (RUN, RUN.replace(variant="tied-kv"))
    best = {"softmax": CENTRE, "tied-kv": CENTRE * 8}
    found, launcher = search(lambda spec: 2 + 0.05 * octaves(spec, best[spec.variant]) ** 2, runs=runs)
    assert [rate_of(one.run) for one in found] == pytest.approx([CENTRE, CENTRE * 8], rel=1e-3)
    tried = {(job.spec.variant, job.spec.learning_rate, job.spec.seed) for job in launcher.jobs}
    assert len(tried) == len(launcher.jobs)
    for variant, rate, _ in tried:
        assert {seed for name, other, seed in tried if (name, other) == (variant, rate)} == {
            TUNING_SEED,
            TUNING_SEED + 1,
            TUNING_SEED + 2,
        }
    assert [one.run.seed for one in found] == [0, 0]
    for call in launcher.calls:
        assert [job.number for job in call] == list(range(len(call)))
        assert not any(job.measured for job in call)


def test_a_trial_that_failed_is_an_error_and_not_a_divergence() -> None:
    with pytest.raises(AttnlabError, match="the machine broke") as caught:
        search_rates([RUN], 3, 1, CORPUS, Path("rates"), KnownLosses(bowl(1), fails=True), LaunchListener())
    assert "resume" in (caught.value.hint or "")


def test_without_a_guess_the_search_begins_at_the_recipes_rate() -> None:
    launcher = KnownLosses(bowl(0.001))
    (found,) = search_rates([RUN], 3, 1, CORPUS, Path("rates"), launcher, LaunchListener())
    assert rates_of(found) == [0.0005, 0.001, 0.002]


@pytest.mark.parametrize(
    ("losses", "behind"),
    [
        ((2.0, 2.0, 2.09), False),
        ((2.0, 2.0, 2.11), True),
        ((2.0, 2.0, None), True),
        ((1.0, 2.0, 2.0), False),
        ((2.0,), False),
        ((None,), True),
    ],
)
def test_which_seeds_stay_behind(losses: tuple[float | None, ...], behind: bool) -> None:
    assert stays_behind(losses) is behind


def test_a_larger_rate_is_taken_only_within_a_standard_error_of_the_paired_means() -> None:
    def trial(rate: float, *losses: float) -> Trial:
        return Trial(learning_rate=rate, loss=sum(losses) / 3, losses=losses)

    best, above = trial(0.01, 2.0, 2.05, 2.08), trial(0.04, 2.01, 2.06, 2.09)
    assert choose_rate("arm", [best, trial(0.02, 2.001, 2.051, 2.081), above]) == 0.02
    assert choose_rate("arm", [best, trial(0.02, 2.01, 2.06, 2.09), above]) == 0.01  # the seeds agree that it is worse
    assert choose_rate("arm", [best, trial(0.02, 2.05, 2.03, 2.09), above]) == 0.02  # and here they do not


@pytest.mark.parametrize("above", [(2.05, 2.1, 2.13), (2.0, 2.05, 2.2), (2.0, 2.05, None)])
def test_a_rate_just_below_worse_ones_is_not_taken(above: tuple[float | None, ...]) -> None:
    """A few seeds cannot tell that a rate is stable, if the next larger one is not."""
    trials = [
        Trial(learning_rate=0.01, loss=2.0433, losses=(2.0, 2.05, 2.08)),
        Trial(learning_rate=0.02, loss=2.0427, losses=(2.001, 2.049, 2.078)),
        Trial(learning_rate=0.04, loss=2.1, losses=above),
    ]
    assert choose_rate("arm", trials) == 0.01
    assert choose_rate("arm", trials[1:]) == 0.02, "there is no other"


def test_muons_rate_of_matrices_moves_along() -> None:
    muon = RUN.replace(recipe="fast")
    usual = with_rate(muon, 0.002, CORPUS)
    doubled = with_rate(muon, 0.004, CORPUS)
    assert usual.matrix_learning_rate is not None
    assert doubled.matrix_learning_rate == pytest.approx(2 * usual.matrix_learning_rate, rel=1e-3)
    assert with_rate(RUN, 0.002, CORPUS).matrix_learning_rate is None
