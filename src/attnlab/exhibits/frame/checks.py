"""Checks: something found, something expected, and whether they agree, with the figure that says so."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from attnlab.errors import InputError
from attnlab.exhibits.frame.blocks import flat, number_text
from attnlab.statistics import Estimate, kolmogorov_distance, kolmogorov_limit

ERRORS = 4.0  # standard errors that a sampled number may be away from the derived one
ALPHA = 6e-5  # the chance that a normal number is farther away than that


@dataclass(frozen=True)
class Check:
    """What was checked for which claim of the notes, whether it holds, and the figure."""

    claim: str
    what: str
    ok: bool
    figure: str
    found: float | None = None
    expected: float | None = None
    within: float | None = None
    samples: int | None = None


def equal(what: str, claim: str, found: Any, expected: Any, within: float) -> Check:
    """Whether all numbers found are within `within` of those expected."""
    left, right = flat(found), flat(expected)
    if len(right) == 1:
        right = right * len(left)
    if len(left) != len(right) or not left:
        raise InputError(f"{what!r} compares {len(left)} numbers with {len(right)}", hint="give as many of each")
    gaps = [abs(a - b) if a != b else 0.0 for a, b in zip(left, right, strict=True)]
    gap = max(gaps, key=lambda one: math.inf if math.isnan(one) else one)
    ok = gap <= within  # False for what is not a number
    if len(left) == 1:
        figure = f"{number_text(left[0], 7)}, expected {number_text(right[0], 7)}"
        figure += f" ± {number_text(within, 2)}" if within else " exactly"
        return Check(claim, what, ok, figure, left[0], right[0], within)
    limit = f"allowed {number_text(within, 2)}" if within else "none allowed"
    figure = f"{len(left)} numbers, largest difference {number_text(gap, 3)}, {limit}"
    return Check(claim, what, ok, figure, gap, 0.0, within)


def bounded(what: str, claim: str, found: float, at_least: float | None, at_most: float | None) -> Check:
    """Whether a number lies between two limits, of which one may be open."""
    if at_least is None and at_most is None:
        raise InputError(f"{what!r} has no limit", hint="give at_least or at_most")
    value = float(found)
    low, high = -math.inf if at_least is None else at_least, math.inf if at_most is None else at_most
    limits = [f"at least {number_text(low, 7)}"] if at_least is not None else []
    limits += [f"at most {number_text(high, 7)}"] if at_most is not None else []
    return Check(claim, what, low <= value <= high, f"{number_text(value, 7)}, {' and '.join(limits)}", value)


def sampled(what: str, claim: str, estimate: Estimate, derived: float) -> Check:
    """Whether a sampled number is within 4 standard errors of the derived one."""
    away = estimate.errors_from(derived)
    figure = (
        f"sampled {number_text(estimate.value)}, derived {number_text(derived)}: {number_text(away, 2)} of "
        f"{number_text(ERRORS)} standard errors of {number_text(estimate.error, 2)}, n = {estimate.count:,}"
    )
    within = ERRORS * estimate.error
    return Check(claim, what, away <= ERRORS, figure, estimate.value, float(derived), within, estimate.count)


def distributed(what: str, claim: str, samples: Any, cumulative: Callable[[Any], Any]) -> Check:
    """Whether samples are spread as derived, judged by Kolmogorov's distance at the same chance of a false alarm."""
    count = len(flat(samples))
    distance, limit = kolmogorov_distance(samples, cumulative), kolmogorov_limit(count, ALPHA)
    figure = f"largest distance of shares {number_text(distance, 3)}, allowed {number_text(limit, 3)}, n = {count:,}"
    return Check(claim, what, distance <= limit, figure, distance, 0.0, limit, count)
