"""How numbers of a comparison are written: signs that line up, as many digits as count, units that fit."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab.experiments.planning.procedure import percent
from attnlab.statistics import Interval

NOTHING = "–"
_UNITS = ("", " k", " M", " G", " T", " P", " E")
_BYTES = ("B", "KiB", "MiB", "GiB", "TiB")
_LEAST_P = 0.001


def signed(value: float, decimals: int) -> str:
    """A number with its sign, a real minus; what rounds to zero has none."""
    text = f"{abs(value):.{decimals}f}"
    if float(text) == 0:
        return f"±{text}"
    return f"{'−' if value < 0 else '+'}{text}"


def nats_text(value: float) -> str:
    return signed(value, 4)


def nats_interval(low: float | None, high: float | None) -> str:
    return NOTHING if low is None or high is None else f"{nats_text(low)} … {nats_text(high)}"


def percent_text(difference: float) -> str:
    """A difference of losses in nats, written as per cent of perplexity."""
    value = percent(difference)
    return f"{signed(value, _decimals(value))} %"


def percent_interval(found: Interval | None, confidence: str) -> str:
    """A difference in per cent of perplexity with its interval, all with the same number of digits."""
    if found is None:
        return NOTHING
    decimals = _decimals(max(abs(found.low), abs(found.mean), abs(found.high)))
    low, mean, high = (signed(value, decimals) for value in (found.low, found.mean, found.high))
    return f"{mean} % ({confidence} interval {low} … {high})"


def _decimals(value: float) -> int:
    return 2 if abs(value) < 0.995 else 1 if abs(value) < 9.95 else 0


def p_text(p: float | None) -> str:
    if p is None:
        return NOTHING
    return f"< {_LEAST_P:g}" if p < _LEAST_P else f"{p:.3f}"


def count_text(count: float) -> str:
    """Three digits that count and a unit: 946, 33.1 k, 124 M."""
    value, unit = float(count), 0
    while abs(value) >= 999.5 and unit < len(_UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{_three(value) if unit else f'{value:.0f}'}{_UNITS[unit]}"


def byte_text(count: float) -> str:
    value, unit = float(count), 0
    while abs(value) >= 1024 and unit < len(_BYTES) - 1:
        value, unit = value / 1024, unit + 1
    return f"{_three(value) if unit else f'{value:.0f}'} {_BYTES[unit]}"


def _three(value: float) -> str:
    return f"{value:.{2 if abs(value) < 9.995 else 1 if abs(value) < 99.95 else 0}f}"


def ratio_text(ours: float | None, theirs: float | None) -> str:
    return NOTHING if ours is None or not theirs else f"{_three(ours / theirs)} ×"


def and_list(words: Sequence[str]) -> str:
    """a; a and b; a, b and c."""
    return " and ".join(words) if len(words) < 3 else f"{', '.join(words[:-1])} and {words[-1]}"


def seeds_text(seeds: Sequence[int]) -> str:
    """Seeds by number, those in a row as a range."""
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


def measure_text(value: float) -> str:
    """A measure, which may be of any size."""
    decimals = 3 if abs(value) >= 0.01 or value == 0 else 4
    text = f"{value:.{decimals}f}" if value == 0 or 0.0005 <= abs(value) < 1000 else f"{value:.1e}"
    return text.replace("-", "−")
