"""Lines in a terminal on logarithmic axes. Each has a sign of its own, so that colour is not needed."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import plotext

_SIGNS = ("·", "×", "+", "●")
_MARKS = ("│", "┊")
_HEIGHT = 22
_NARROWEST = 40
_ONE_TURN = threading.Lock()  # plotext has one figure for all


@dataclass(frozen=True)
class Line:
    """A name, and positive numbers for x and y; what is 0 has no place on a logarithmic axis and is left out.

    A dotted one lets those below it show through.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    dotted: bool = False


def plot_lines(
    lines: Sequence[Line], *, x: str, y: str, marks: Mapping[str, float], width: int = 80, colour: bool = False
) -> str:
    """The plot as text, with its legend above and the name of its axis below; later lines lie on top.

    `marks` are named places on the x-axis, each shown by a vertical line if it lies on the plot.
    """
    width = max(_NARROWEST, width)
    shown = [line for line in lines if any(number > 0 for number in line.y)]
    with _ONE_TURN:
        figure = plotext.figure
        figure.clear.all()
        figure.theme("default" if colour else "colorless")
        figure.canvas("default")
        figure.plot_size(width, _HEIGHT)
        across = [number for line in shown for number in line.x]
        up = [number for line in shown for number in line.y if number > 0]
        marks = {name: place for name, place in marks.items() if min(across) < place < max(across)}
        for place, sign in zip(marks.values(), _MARKS, strict=False):
            ends = [math.log10(min(up)), math.log10(max(up))]
            figure.draw(figure.signal([math.log10(place)] * 2, ends, marker=sign).lines())
        for line, sign in zip(shown, _SIGNS, strict=False):
            pairs = [(math.log10(a), math.log10(b)) for a, b in zip(line.x, line.y, strict=True) if b > 0]
            signal = figure.signal([a for a, _ in pairs], [b for _, b in pairs], marker=sign)
            figure.draw(signal if line.dotted else signal.lines())
        for axis, numbers in (("x", across), ("y", up)):
            _rule(figure.ruler(axis), numbers)
        drawn = str(figure.build().string(not colour))
    legend = [f"{sign} {line.name}" for line, sign in zip(shown, _SIGNS, strict=False)]
    places = [f"{sign} {name}" for name, sign in zip(marks, _MARKS, strict=False)]
    head = [y, "   ".join(legend), *(["   ".join(places)] if places else [])]
    return "\n".join([*head, *(row.rstrip() for row in drawn.splitlines()), x.center(width).rstrip()])


def _rule(ruler: object, numbers: Sequence[float]) -> None:
    """Powers of ten along an axis, all of which are shown."""
    low, high = math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)))
    places = list(range(low, high + 1, max(1, (high - low) // 6)))
    ruler.ticks(places, [_power(place) for place in places])  # type: ignore[attr-defined]
    ruler.lim(math.log10(min(numbers)), math.log10(max(numbers)))  # type: ignore[attr-defined]


def _power(place: int) -> str:
    return str(10**place) if 0 <= place <= 3 else f"1e{place}"
