"""Numbers of a comparison as text: differences of loss in nats and per cent of perplexity, shares, measures, seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence

from attnlab.formats import NOTHING, and_list, fixed, general, signed
from attnlab.statistics import Interval


def percent(nats: float) -> float:
    """Return a difference of losses in nats as per cent of perplexity."""
    return 100 * math.expm1(nats) if nats < 700 else math.inf


def percent_text(nats: float | None, *, sign: bool = True) -> str:
    """Return a difference of losses in nats, written as per cent of perplexity."""
    if nats is None:
        return NOTHING
    value = percent(nats)
    return f"{(signed if sign else fixed)(value, _decimals(value))} %"


def percent_range(low: float, high: float) -> str:
    """Return the ends of an interval in nats, written as per cent of perplexity."""
    return f"{signed(percent(low), 1)} … {signed(percent(high), 1)} %"


def percent_interval(found: Interval | None, confidence: str) -> str:
    """Return a difference in per cent of perplexity with its interval, all with the same number of digits."""
    if found is None:
        return NOTHING
    decimals = _decimals(max(abs(found.low), abs(found.mean), abs(found.high)))
    low, mean, high = (signed(value, decimals) for value in (found.low, found.mean, found.high))
    return f"{mean} % ({confidence} interval {low} … {high})"


def nats_text(nats: float | None) -> str:
    """Return a difference of losses in nats."""
    return signed(nats, 4)


def share_text(share: float) -> str:
    """Return a share of one as per cent, with as many digits as it has: 5 %, 97.5 %."""
    return f"{general(100 * share, 4)} %"


def measure_text(value: float) -> str:
    """Return a measure, which may be of any size."""
    if value == 0 or 0.0005 <= abs(value) < 1000:
        return fixed(value, 3 if abs(value) >= 0.01 or value == 0 else 4)
    return f"{value:.1e}".replace("-", "−")


def measure_interval(found: Interval | None) -> str:
    """Return a measure with its interval."""
    if found is None:
        return NOTHING
    return f"{measure_text(found.mean)} ({measure_text(found.low)} … {measure_text(found.high)})"


def with_ends(found: Interval, decimals: int) -> str:
    """Return a mean with its interval: +0.020 (+0.010 … +0.030)."""
    low, mean, high = (signed(value, decimals) for value in (found.low, found.mean, found.high))
    return f"{mean} ({low} … {high})"


def seeds_text(seeds: Sequence[int]) -> str:
    """Return seeds by number, those in a row as a range: seed 3; seeds 0–3 and 7."""
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    ranges: list[list[int]] = []
    for seed in sorted(seeds):
        if ranges and seed == ranges[-1][-1] + 1:
            ranges[-1].append(seed)
        else:
            ranges.append([seed])
    words = [
        text
        for found in ranges
        for text in ([f"{found[0]}–{found[-1]}"] if len(found) > 2 else [str(seed) for seed in found])
    ]
    return f"seeds {and_list(words)}" if words else "no seeds"


def _decimals(value: float) -> int:
    return 2 if abs(value) < 0.995 else 1 if abs(value) < 9.95 else 0
