"""The rungs of a comparison as rows, for the terminal and the page."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab.experiments.judging.judgement import Judgement, percent
from attnlab.experiments.judging.trends import ArmTrend, RungDifference
from attnlab.experiments.reporting.formats import NOTHING, count_text, p_text, percent_text, signed

TREND_HEADING = "trend per factor of 10\n(% perplexity)"


def rung_headings(trends: Sequence[ArmTrend]) -> tuple[str, ...]:
    """Return a column for each rung with all its tokens, and one for the trend."""
    return ("variant", *(_heading(rung) for rung in _all_rungs(trends)), TREND_HEADING, "p\n(Holm)")


def rung_rows(trends: Sequence[ArmTrend]) -> list[tuple[str, ...]]:
    """Return a row for each arm: its difference and verdict on every rung, and its trend."""
    sizes = [rung.size for rung in _all_rungs(trends)]
    rows = []
    for one in trends:
        here = {rung.size: rung for rung in one.whole}
        cells = [_cell(here[size].judgement) if size in here else NOTHING for size in sizes]
        rows.append((one.arm, *cells, _trend(one), p_text(one.p_holm)))
    return rows


LONG_HEADINGS = ("variant", "parameters", "tokens", "Δ perplexity", "interval", "verdict")


def long_rows(trends: Sequence[ArmTrend]) -> list[tuple[str, ...]]:
    """Return a row for each arm and rung, for a terminal."""
    rows: list[tuple[str, ...]] = []
    for one in trends:
        for rung in one.whole:
            judged = rung.judgement
            found = judged.percent
            interval = NOTHING if found is None else f"{signed(found.low, 1)} … {signed(found.high, 1)} %"
            mean = NOTHING if judged.mean is None else percent_text(judged.mean)
            sizes = count_text(rung.parameters), count_text(rung.tokens)
            rows.append((one.arm, *sizes, mean, interval, judged.verdict))
    return rows


def settling_rows(trends: Sequence[ArmTrend]) -> list[tuple[str, ...]]:
    """Return how far twice the tokens moved each difference, where half of them were trained too."""
    return [
        (
            one.arm,
            found.rung,
            percent_text(found.before.mean),
            percent_text(found.after.mean),
            f"{signed(percent(found.change.low), 1)} … {signed(percent(found.change.high), 1)} %",
            "settled" if found.settled else "still moving",
        )
        for one in trends
        for found in one.settling
    ]


SETTLING_HEADINGS = ("variant", "rung", "half the\ntokens", "all\ntokens", "change,\ninterval", "")


def _all_rungs(trends: Sequence[ArmTrend]) -> list[RungDifference]:
    found = {rung.size: rung for one in trends for rung in one.whole}
    return sorted(found.values(), key=lambda rung: rung.non_embedding)


def _heading(rung: RungDifference) -> str:
    return f"{count_text(rung.parameters)} parameters\n{count_text(rung.tokens)} tokens"


def _cell(judged: Judgement) -> str:
    return judged.verdict if judged.mean is None else f"{percent_text(judged.mean)} {judged.verdict}"


def _trend(one: ArmTrend) -> str:
    if one.trend is None:
        return NOTHING
    found = one.trend.per_decade
    low, mean, high = (signed(percent(value), 1) for value in (found.low, found.mean, found.high))
    return f"{mean} ({low} … {high})"
