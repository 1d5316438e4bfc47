"""Nearly perpendicular directions: what is certain, and what is found, against known arrangements."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from attnlab.errors import InputError
from attnlab.lens import (
    chance_of_closeness,
    covering_bound,
    expected_sampled,
    johnson_lindenstrauss_bound,
    largest_cosine,
    sampled_directions,
    spread_directions,
    spread_ladder,
    welch_bound,
)


def cosine(degrees: float) -> float:
    return math.cos(math.radians(degrees))


@pytest.mark.parametrize(("width", "degrees"), [(2, 60), (3, 80), (10, 75), (100, 85)])
def test_the_chance_is_how_often_random_directions_are_close(width: int, degrees: float) -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(2, 40_000, width, generator=generator, dtype=torch.float64)
    near = torch.cosine_similarity(vectors[0], vectors[1], dim=-1).abs() > cosine(degrees)
    chance = math.exp(chance_of_closeness(width, cosine(degrees)))
    assert abs(float(near.double().mean()) - chance) < 4 * math.sqrt(chance * (1 - chance) / 40_000)


def test_the_chance_by_known_areas() -> None:
    assert math.exp(chance_of_closeness(2, cosine(60))) == pytest.approx(2 / 3)  # two arcs of 120° of 360°
    assert math.exp(chance_of_closeness(3, 0.25)) == pytest.approx(0.75)  # Archimedes: heights are uniform
    assert chance_of_closeness(1, 0.5) == 0


def test_the_logarithm_goes_on_where_the_chance_underflows() -> None:
    # By 40-digit arithmetic: GPT-3's width at 60°.
    assert chance_of_closeness(12_288, 0.5) == pytest.approx(-1771.61587, abs=1e-3)
    widths = (4700, 4800, 4900, 5000)  # the chance leaves the floating numbers between these
    steps = [chance_of_closeness(a, 0.5) - chance_of_closeness(b, 0.5) for a, b in itertools.pairwise(widths)]
    assert max(steps) - min(steps) < 0.01


@pytest.mark.parametrize(("count", "width", "known"), [(3, 2, 0.5), (4, 3, 1 / 3), (6, 3, 1 / math.sqrt(5))])
def test_descent_finds_the_arrangements_that_are_known_to_be_best(count: int, width: int, known: float) -> None:
    found = spread_directions(count, width)
    assert found.shape == (count, width)
    assert largest_cosine(found) == pytest.approx(known, abs=2e-4)
    assert largest_cosine(found) >= known - 1e-12


def test_descent_finds_28_lines_in_7_dimensions() -> None:
    assert min(largest_cosine(spread_directions(28, 7, seed=seed)) for seed in (0, 1)) == pytest.approx(1 / 3, abs=1e-3)


def test_as_many_as_there_are_dimensions_become_perpendicular() -> None:
    assert largest_cosine(spread_directions(6, 6)) < 1e-3
    assert largest_cosine(spread_directions(1, 3)) == 0


@pytest.mark.parametrize(("width", "degrees"), [(2, 50), (6, 75), (40, 80)])
def test_what_is_sampled_keeps_the_limit_and_both_bounds(width: int, degrees: float) -> None:
    limit = cosine(degrees)
    kept = sampled_directions(width, limit, tries=1500)
    assert largest_cosine(kept) <= limit
    assert kept.norm(dim=-1).tolist() == pytest.approx([1.0] * len(kept))
    assert math.log(len(kept)) <= welch_bound(width, limit) + 1e-9
    assert math.log(len(kept)) >= covering_bound(width, limit)  # many tries leave no room
    assert torch.equal(kept, sampled_directions(width, limit, tries=1500))


@pytest.mark.parametrize(("width", "degrees", "tries"), [(3, 80, 50), (30, 75, 400), (200, 80, 300)])
def test_sampling_keeps_at_least_as_many_as_caps_leave_room_for(width: int, degrees: float, tries: int) -> None:
    kept = [len(sampled_directions(width, cosine(degrees), tries=tries, seed=seed)) for seed in range(20)]
    least = expected_sampled(width, cosine(degrees), tries)
    assert 1 <= least <= sum(kept) / 20 <= tries


def test_what_is_expected_of_few_and_of_many_tries() -> None:
    assert expected_sampled(1000, cosine(60), 7) == 7  # nothing is ever close
    assert expected_sampled(4, cosine(60), 10**7) == pytest.approx(math.exp(covering_bound(4, cosine(60))))
    assert expected_sampled(1, cosine(60), 5) == 1


def test_a_direction_that_could_stay_does_stay() -> None:
    kept = sampled_directions(5, cosine(70), tries=600, seed=1)
    generator = torch.Generator().manual_seed(1)
    drawn = torch.cat([torch.randn(n, 5, dtype=torch.float64, generator=generator) for n in (256, 256, 88)])
    drawn = drawn / drawn.norm(dim=-1, keepdim=True)
    mine: list[torch.Tensor] = []
    for one in drawn:
        if all(abs(float(one @ other)) <= cosine(70) for other in mine):
            mine.append(one)
    torch.testing.assert_close(kept, torch.stack(mine))


def test_a_ladder_falls_and_ends_beyond_its_limit() -> None:
    ladder = spread_ladder(3, cosine(60), steps=150)
    assert list(ladder) == sorted(ladder)
    assert ladder[3] < 0.01
    assert max(ladder) > 6  # the icosahedron's 6 lines are 63° apart, and 7 are no longer 60°
    assert all(reached > cosine(60) for reached in list(ladder.values())[-2:])
    assert max(spread_ladder(4, 0.9, most=6, steps=20)) == 6


def test_the_lemma_promises_less_than_covering_and_both_grow_with_the_width() -> None:
    limit = cosine(80)
    for width in (2000, 12_288, 50_000):
        assert johnson_lindenstrauss_bound(width, limit) < covering_bound(width, limit)
    assert johnson_lindenstrauss_bound(100, limit) == -math.inf
    one, two = (johnson_lindenstrauss_bound(width, limit) for width in (20_000, 40_000))
    assert two == pytest.approx(2 * one, rel=1e-3)  # exponential
    assert welch_bound(7, 1 / 3) == pytest.approx(math.log(28))


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="not between 0 and 1"):
        covering_bound(3, 1.0)
    with pytest.raises(InputError, match="dimensions"):
        welch_bound(0, 0.5)
    with pytest.raises(InputError, match="cannot be drawn"):
        sampled_directions(3, 0.5, tries=0)
    with pytest.raises(InputError, match="cannot be moved"):
        spread_directions(0, 3)
    with pytest.raises(InputError, match="shape"):
        largest_cosine(torch.ones(3))
