"""Where attention exceeds the rest: FLOPs per token as the context or the width grows.

For a layer of width D and a context of N, forward FLOPs per token:

    projections     8 D²                  of queries, keys, values and outputs
    MLP             16 D²                 for M = 4 D
    attention       2 (N + 1) D           for the visible pairs of a causal mask; 4 N D for every pair

So below N ≈ D nearly all FLOPs are in projections and MLP, and time grows with N; attention exceeds the projections at
N ≈ 4 D, the MLP at N ≈ 8 D and both together at N ≈ 12 D, and far beyond that time grows with N². These are the
formulas for softmax; the sweep counts the actual products of each variant.
"""

from __future__ import annotations

import functools
import math
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

from attnlab.attention import mixture
from attnlab.cost.attention import multiply_adds
from attnlab.cost.block import mlp_shapes
from attnlab.cost.call import AttentionCall
from attnlab.cost.questions.configs import is_config
from attnlab.cost.questions.question import Question
from attnlab.cost.serving import cache_bytes
from attnlab.cost.tensors import named_tensors
from attnlab.errors import InputError, UnknownNameError
from attnlab.models import ModelSpec
from attnlab.statistics import power_growth

Axis = Literal["context", "width"]
GROUPS = ("attention", "projections", "mlp", "head")
BOTH = "projections and MLP together"
AXIS_LABELS = {"context": "context N, tokens", "width": "width D"}

_LONGEST = 2**30  # the longest context that is searched
_MOST_HEADS = 2**12
_CONTEXTS = (*(n for power in range(4, 20) for n in (2**power, 3 * 2 ** (power - 1))), 2**20)
_TIMES_WIDTH = (1 / 8, 1 / 2, 1, 2, 4, 8, 16, 64)


@dataclass(frozen=True)
class SweepPoint:
    """The forward FLOPs of one sequence at one context and width, by group."""

    value: int  # on the axis
    tokens: int
    flops: dict[str, int]

    @property
    def total(self) -> int:
        return sum(self.flops.values())

    def per_token(self, group: str) -> float:
        return self.flops[group] / self.tokens


@dataclass(frozen=True)
class Crossover:
    """Where attention exceeds other parts: the first context, or the last width; None if it never does."""

    name: str
    value: int | None
    times_width: float | None  # the context divided by the model's width there


@dataclass(frozen=True)
class Regime:
    """A context as a multiple of the width D, and the power of N with which FLOPs grow from there to twice as long."""

    name: str
    point: SweepPoint
    growth: float


@dataclass(frozen=True)
class Sweep:
    """FLOPs along an axis, and the crossovers. `figure` draws it with plotly, `text` in a terminal."""

    axis: Axis
    question: Question
    points: tuple[SweepPoint, ...]
    crossovers: tuple[Crossover, ...]

    @classmethod
    def over(cls, axis: str, question: Question, values: Sequence[int] | None = None) -> Sweep:
        """Return the sweep along the contexts from 16 to 2²⁰, or the widths from one head on; or along given ones."""
        if axis not in get_args(Axis):
            raise UnknownNameError("sweep", axis, get_args(Axis))
        question.model()  # refuse what is impossible before anything else
        if values is not None and (not values or any(type(value) is not int or value < 1 for value in values)):
            raise InputError(f"a sweep along {list(values)}", hint="give whole numbers from 1 on")
        if axis == "context":
            at: Callable[[int], SweepPoint] = functools.partial(_at_context, question)
            points = [at(value) for value in values or _CONTEXTS]
            return cls("context", question, tuple(points), _context_crossovers(question, at))
        if is_config(question.size):
            raise InputError(
                f"a sweep along the width needs a named size, not the configuration {question.size}",
                hint='sweep along the "context"',
            )
        head = _head_width(question)
        heads = sorted({step for power in range(13) for step in (2**power, 3 * 2**power // 2) if step})
        widths = values or [step * head for step in heads if step * head <= 2**15 or step <= 8]
        at = functools.partial(_at_width, question)
        return cls("width", question, tuple(at(value) for value in widths), _width_crossovers(at, head))

    @property
    def width(self) -> int:
        return self.question.shape.model_width

    @property
    def label(self) -> str:
        return self.question.label

    def text(self, width: int = 80, *, colour: bool = False) -> str:
        """Return a plot for a terminal, on two logarithmic axes."""
        across = [point.value for point in self.points]
        lines = [
            Line(name, across, [point.per_token(name) for point in self.points], dotted=name == "projections")
            for name in reversed(GROUPS)
        ]
        marks = {name: value for name, value in self.marks().items() if value is not None}
        return plot_lines(
            lines, x=AXIS_LABELS[self.axis], y="forward FLOPs per token", marks=marks, width=width, colour=colour
        )

    def marks(self) -> dict[str, int | None]:
        """Return the points that a plot marks: N = D, and where attention does as much as projections and MLP."""
        same = self.width if self.axis == "context" else self.question.shape.context_length
        both = next(one.value for one in self.crossovers if one.name == BOTH)
        return {f"N = D = {same:,}": same, f"attention = projections + MLP: {both:,}" if both else "never": both}

    def figure(self) -> Any:
        """Return the same plot as a plotly figure."""
        from attnlab.cost.presentation.page import sweep_figure

        return sweep_figure(self)

    def as_dict(self) -> dict[str, object]:
        return {
            "axis": self.axis,
            "question": self.question.model_dump(),
            "model_width": self.width,
            "points": [{"value": p.value, "tokens": p.tokens, "forward_flops": dict(p.flops)} for p in self.points],
            "crossovers": [asdict(one) for one in self.crossovers],
        }

    def regimes(self) -> list[Regime]:
        """Return contexts below and above the model's width, and how fast the FLOPs grow there."""
        found = []
        for times in _TIMES_WIDTH:
            tokens = max(2, round(times * self.width))
            here, further = (_at_context(self.question, n) for n in (tokens, 2 * tokens))
            growth = power_growth([tokens, 2 * tokens], [here.total, further.total]).slope
            name = "D" if times == 1 else f"{times:g} D" if times > 1 else f"D/{1 / times:g}"
            found.append(Regime(name, here, growth))
        return found


def flops_by_group(model: ModelSpec, tokens: int) -> dict[str, int]:
    """Return the forward FLOPs of one sequence by group, the head reading every token."""
    found: Counter[str] = Counter(dict.fromkeys(GROUPS, 0))
    for spec, layers in Counter(model.attention).items():
        products = multiply_adds(AttentionCall(spec, 1, tokens, tokens, 4), visible_only=True)
        for name, number in products.items():
            found["projections" if name.endswith("projection") else "attention"] += 2 * layers * number
    maps = len(mlp_shapes(model))
    found["mlp"] = 2 * maps * model.num_layers * tokens * model.model_width * model.mlp_width
    found["head"] = 2 * tokens * model.model_width * model.vocabulary_size
    return {group: found[group] for group in GROUPS}


def _at_context(question: Question, tokens: int) -> SweepPoint:
    return SweepPoint(tokens, tokens, _flops(question.replace(context_length=tokens), tokens))


def _at_width(question: Question, width: int) -> SweepPoint:
    head, tokens = _head_width(question), question.shape.context_length
    if width % head:
        raise InputError(f"a width of {width} is no multiple of the heads' {head}", hint=f"give {width - width % head}")
    return SweepPoint(width, tokens, _flops(question.replace(model_width=width, num_heads=width // head), tokens))


def _flops(question: Question, tokens: int) -> dict[str, int]:
    """Count one period of the mixture and multiply, if the layers are a whole number of periods; otherwise count every
    layer."""
    pattern, layers = mixture(question.variant), question.shape.num_layers
    whole = layers % len(pattern.turns) == 0 and not (pattern.first or pattern.last)
    few = len(pattern.turns) if whole else layers
    flops = flops_by_group(question.replace(num_layers=few).model(), tokens)
    return {name: number * (1 if name == "head" else layers // few) for name, number in flops.items()}


def _head_width(question: Question) -> int:
    return question.head_width or question.shape.model_width // question.shape.num_heads


_OVERTAKEN = {
    "the projections": ("projections",),
    "the MLP": ("mlp",),
    BOTH: ("projections", "mlp"),
    "everything else, the head too": ("projections", "mlp", "head"),
}


def _leads(point: SweepPoint, others: tuple[str, ...]) -> bool:
    return point.flops["attention"] >= sum(point.flops[name] for name in others)


def _context_crossovers(question: Question, at: Callable[[int], SweepPoint]) -> tuple[Crossover, ...]:
    """Return the first contexts at which attention does as much as the others, and the crossover of the cache."""
    width, found = question.shape.model_width, []
    for name, others in _OVERTAKEN.items():
        first = _first(lambda value, others=others: _leads(at(value), others), 1, _LONGEST)  # type: ignore[misc]
        found.append(Crossover(name, first, None if first is None else first / width))
    return (*found, _cache_crossover(question))


def _cache_crossover(question: Question) -> Crossover:
    """Return the first context whose cache is at least as large as the weights, at the question's batch size."""

    def larger(tokens: int) -> bool:
        asked = question.replace(context_length=tokens)
        model = asked.model()
        weights = sum(tensor.parameters for tensor in named_tensors(model)) * asked.bytes_per_number
        return cache_bytes(model, asked.batch_size, tokens, asked.bytes_per_number) >= weights

    first = _first(larger, 1, _LONGEST) if question.family == "decoder" else None
    name = f"the cache of {question.batch_size} × N tokens outgrows the weights"
    return Crossover(name, first, None if first is None else first / question.shape.model_width)


def _width_crossovers(at: Callable[[int], SweepPoint], head: int) -> tuple[Crossover, ...]:
    """Return the last widths, in whole heads, at which attention still does as much as the others."""
    found = []
    for name, others in _OVERTAKEN.items():
        past = _first(lambda heads, others=others: not _leads(at(heads * head), others), 1, _MOST_HEADS)  # type: ignore[misc]
        last = _MOST_HEADS if past is None else past - 1
        width = last * head or None
        found.append(Crossover(name, width, None if width is None else at(width).tokens / width))
    return tuple(found)


def _first(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """Return the first whole number from which on it holds, by bisection; None if it does not at the end."""
    if not holds(high):
        return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


# Plots in a terminal


_SIGNS = ("·", "×", "+", "●")
_MARKS = ("│", "┊")
_HEIGHT = 22
_NARROWEST = 40
_ONE_TURN = threading.Lock()  # plotext has one global figure


@dataclass(frozen=True)
class Line:
    """A name, and positive numbers for x and y; zeros cannot be shown on a logarithmic axis and are left out.

    A dotted line leaves the lines below it visible.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    dotted: bool = False


def plot_lines(
    lines: Sequence[Line], *, x: str, y: str, marks: Mapping[str, float], width: int = 80, colour: bool = False
) -> str:
    """Return the plot as text, with its legend above and the label of its x-axis below; later lines lie on top.

    `marks` are named points on the x-axis, each shown by a vertical line if it lies on the plot.
    """
    import plotext  # takes long to load

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
    """Set an axis to the range of the numbers, with ticks at powers of ten."""
    low, high = math.floor(math.log10(min(numbers))), math.ceil(math.log10(max(numbers)))
    places = list(range(low, high + 1, max(1, (high - low) // 6)))
    names = [str(10**place) if 0 <= place <= 3 else f"1e{place}" for place in places]
    ruler.ticks(places, names)  # type: ignore[attr-defined]
    ruler.lim(math.log10(min(numbers)), math.log10(max(numbers)))  # type: ignore[attr-defined]
