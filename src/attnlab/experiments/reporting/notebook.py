"""The paired differences as a drawing that needs no script, in the colours of whatever page it stands in."""

from __future__ import annotations

import html
from collections.abc import Callable

from attnlab.experiments.judging.judgement import Judgement
from attnlab.experiments.judging.ranking import in_order
from attnlab.experiments.reporting.axis import DifferenceAxis
from attnlab.experiments.reporting.formats import percent_text
from attnlab.experiments.results import Comparison

_WIDTH, _NAMES, _ROW, _FOOT = 640, 190, 26, 34  # pixels


def forest(comparison: Comparison) -> str:
    """A row for each variant: its seeds as rings, its mean and interval, and the margin behind all."""
    ordered = in_order(comparison.judgements)
    axis = DifferenceAxis.of(ordered, comparison.plan.procedure.margin)
    low, high = axis.range()
    height = _ROW * len(ordered)

    def at(difference: float) -> float:
        return _NAMES + (axis.place(difference) - low) / (high - low) * (_WIDTH - _NAMES - 60)

    margin = comparison.plan.procedure.margin
    parts = [
        f"<rect x='{at(-margin):.1f}' y='0' width='{at(margin) - at(-margin):.1f}' height='{height}' fill='#7d8590' "
        "fill-opacity='.22'/>",
        f"<path d='M{at(0):.1f} 0V{height}' stroke='currentColor'/>",
        *(_row(one, number, at) for number, one in enumerate(ordered)),
        *(
            f"<text x='{_NAMES + (place - low) / (high - low) * (_WIDTH - _NAMES - 60):.1f}' y='{height + 14}' "
            f"text-anchor='middle'>{text}</text>"
            for place, text in axis.ticks()
        ),
        f"<text x='{_NAMES}' y='{height + 30}'>perplexity against {html.escape(comparison.baseline.name)}</text>",
    ]
    label = f"Paired differences to {comparison.baseline.name}"
    return (
        f"<svg viewBox='0 0 {_WIDTH} {height + _FOOT}' width='{_WIDTH}' role='img' aria-label='{html.escape(label)}' "
        f"style='max-width:100%;height:auto;font:12px sans-serif' fill='currentColor'>{''.join(parts)}</svg>"
    )


def _row(one: Judgement, number: int, at: Callable[[float], float]) -> str:
    middle = _ROW * number + _ROW / 2
    parts = [f"<text x='{_NAMES - 8}' y='{middle + 4}' text-anchor='end'>{html.escape(one.arm)}</text>"]
    parts += [
        f"<circle cx='{at(difference):.1f}' cy='{middle + 5}' r='2.5' fill='none' stroke='#7d8590'/>"
        for difference in one.differences
    ]
    words: str = one.verdict
    if one.mean is not None and one.low is not None and one.high is not None:
        parts.append(
            f"<path d='M{at(one.low):.1f} {middle - 3}H{at(one.high):.1f}' stroke='#3d85c6' stroke-width='2'/>"
        )
        x = at(one.mean)
        parts.append(f"<path d='M{x - 5:.1f} {middle - 3}l5 -5l5 5l-5 5z' fill='#3d85c6'/>")
        words = percent_text(one.mean)
    if one.diverged:
        words = f"{len(one.diverged)} diverged"
    parts.append(f"<text x='{_WIDTH}' y='{middle + 4}' text-anchor='end'>{html.escape(words)}</text>")
    return "".join(parts)
