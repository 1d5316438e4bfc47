"""Kolmogorov's distance, and the distribution of a softmax over two scores."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, special, stats

from attnlab.errors import SpecError
from attnlab.statistics import LogitNormal, kolmogorov_distance, kolmogorov_limit


def test_the_distance_is_scipys() -> None:
    samples = np.random.default_rng(0).normal(size=500)
    assert kolmogorov_distance(samples, special.ndtr) == pytest.approx(stats.kstest(samples, "norm").statistic)


def test_the_limit_is_seldom_exceeded_by_the_right_and_always_by_the_wrong() -> None:
    rng = np.random.default_rng(0)
    limit = kolmogorov_limit(400, 0.05)
    right = np.mean([kolmogorov_distance(rng.normal(size=400), special.ndtr) > limit for _ in range(1000)])
    assert 0.02 < right < 0.08
    assert kolmogorov_distance(0.5 + rng.normal(size=400), special.ndtr) > limit


@pytest.mark.parametrize(("location", "scale"), [(0.0, 0.04), (0.0, 14.0), (-3.0, 1.0), (20.0, 14.0), (0.0, 140.0)])
def test_moments_of_the_logit_normal_are_those_of_quadrature(location: float, scale: float) -> None:
    found = LogitNormal(location, scale)

    def moment(power: int) -> float:
        def f(z: float) -> float:
            return float(special.expit(location + scale * z) ** power * stats.norm.pdf(z))

        return integrate.quad(f, -12, 12, points=[-location / scale], limit=500)[0]

    assert found.mean == pytest.approx(moment(1), rel=1e-7)
    assert found.variance == pytest.approx(moment(2) - moment(1) ** 2, rel=1e-5)


def test_tiny_variances_keep_their_digits() -> None:
    # Far out σ(z) is e^z, whose variance is known.
    found = LogitNormal(-40.0, 0.1)
    assert found.variance == pytest.approx(np.exp(-80 + 0.01) * (np.exp(0.01) - 1), rel=1e-6)


def test_density_and_cumulative_agree_with_draws() -> None:
    found = LogitNormal(0.5, 1.5)
    draws = special.expit(np.random.default_rng(1).normal(0.5, 1.5, size=100_000))
    edges = np.linspace(0, 1, 11)
    counts = np.histogram(draws, bins=edges, density=True)[0]
    assert np.abs(found.density(edges) - counts).max() < 0.03
    assert found.density(edges).mean() == pytest.approx(1.0)
    assert kolmogorov_distance(draws, found.cumulative) < kolmogorov_limit(100_000, 1e-4)


@pytest.mark.parametrize(("location", "scale"), [(0.0, 0.0), (0.0, -1.0), (float("nan"), 1.0), (0.0, float("inf"))])
def test_no_distribution_is_refused(location: float, scale: float) -> None:
    with pytest.raises(SpecError, match="make no distribution"):
        LogitNormal(location, scale)
