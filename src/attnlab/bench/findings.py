"""The results of a measurement, in a form shared by terminal, page and JSON, and the listener for its progress.

A bar is a limit that attnlab claims for a ratio. It is met if every ratio that it concerns stays within the limit.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import plotly.graph_objects as go

from attnlab.bench.timing import Ratio
from attnlab.formats import NOTHING, general, significant
from attnlab.pages import BLUE, ORANGE, Figure, Page, Section, Table, Tone, new_figure
from attnlab.processes.machine import Machine
from attnlab.storage.records import to_plain

Verdict = Literal["met", "missed", "reported", "not measured"]

_TONES: dict[str, Tone] = {"met": "good", "missed": "bad", "not measured": "open"}


@dataclass(frozen=True)
class Bar:
    """A claim that a ratio is at most, or at least, the limit. Without a limit it is only reported.

    `what` and `how` may contain placeholders for lengths, such as {long}, which are filled in when it is judged.
    """

    name: str
    what: str
    how: str
    limit: float | None
    at_least: bool = field(default=False, kw_only=True)

    def is_met_by(self, value: float) -> bool | None:
        if self.limit is None:
            return None
        return value >= self.limit if self.at_least else value <= self.limit

    def strain(self, value: float) -> float:
        """Return the share of the limit that is used up: above 1, the bar is missed."""
        if self.limit is None:
            return 0.0
        return self.limit / value if self.at_least else value / self.limit

    def judge(self, ratios: Mapping[str, Ratio | float], lengths: Mapping[str, int] | None = None) -> JudgedBar:
        """Return the verdict on ratios, by the name of what reached them; without any, it was not measured."""
        found = {name: one if isinstance(one, Ratio) else Ratio.exact(one) for name, one in ratios.items()}
        figures = [
            JudgedFigure(name, ratio, self.is_met_by(ratio.median), self.strain(ratio.median))
            for name, ratio in found.items()
        ]
        figures.sort(key=lambda figure: -figure.strain)
        verdict: Verdict = "met" if all(figure.met for figure in figures) else "missed"
        if not figures:
            verdict = "not measured"
        elif self.limit is None:
            verdict = "reported"
        what, how = (text.format_map(lengths or {}) for text in (self.what, self.how))
        return JudgedBar(self.name, what, how, self.limit, self.at_least, verdict, tuple(figures))


@dataclass(frozen=True)
class JudgedFigure:
    """The ratio of one variant, or of another subject of the bar."""

    variant: str
    ratio: Ratio
    met: bool | None
    strain: float


@dataclass(frozen=True)
class JudgedBar:
    """A bar with its figures, the worst first."""

    name: str
    what: str
    how: str
    limit: float | None
    at_least: bool
    verdict: Verdict
    figures: tuple[JudgedFigure, ...]


def judge_values(subject: str, values: Mapping[Bar, Ratio | float | None]) -> tuple[JudgedBar, ...]:
    """Judge one value for each bar; None was not measured."""
    return tuple(bar.judge({} if value is None else {subject: value}) for bar, value in values.items())


class BenchListener:
    """Receives the progress of a measurement; this base class ignores it, and the command line subclasses it."""

    def step(self, what: str, done: int, total: int) -> None:
        """Receive the progress: `what` is about to be measured, after `done` of `total` others."""

    def note(self, text: str) -> None:
        """Receive something that the user should know, such as what is left out and why."""


class NoteKeeper(BenchListener):
    """Forwards everything to another listener, and keeps the notes."""

    def __init__(self, listener: BenchListener | None, notes: Iterable[str] = ()) -> None:
        self._listener = listener or BenchListener()
        self.notes: list[str] = []
        for text in notes:
            self.note(text)

    def step(self, what: str, done: int, total: int) -> None:
        self._listener.step(what, done, total)

    def note(self, text: str) -> None:
        self.notes.append(text)
        self._listener.note(text)


@dataclass(frozen=True)
class Findings(ABC):
    """The results of one run, its machine, the verdicts, and notes on what was left out."""

    benchmark: ClassVar[str]
    title: ClassVar[str]
    lead: ClassVar[str]

    machine: Machine
    rounds: int
    notes: tuple[str, ...]  # on what was not measured
    bars: tuple[JudgedBar, ...]

    @abstractmethod
    def sections(self) -> list[Section]:
        """Return every table under its heading, with a text that says how to read it."""

    @property
    def conditions(self) -> str:
        """The size that all figures share, in words."""
        return ""

    @property
    def all_met(self) -> bool:
        """Return whether no bar was missed, and none was left unmeasured."""
        return all(bar.verdict in ("met", "reported") for bar in self.bars)

    def to_dict(self) -> dict[str, object]:
        """Return plain values, for JSON."""
        return {"benchmark": self.benchmark, "all_met": self.all_met, **to_plain(self)}


@dataclass(frozen=True)
class Figures(Findings):
    """A few figures by name, each from one run."""

    figures: dict[str, float]

    def words(self) -> str:
        return "Each figure from this one run."

    def sections(self) -> list[Section]:
        rows = [(name, general(value, 3)) for name, value in self.figures.items()]
        return [table_section(self.title, self.words(), ("", "figure"), rows)]


def table_section(
    heading: str,
    words: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    text_columns: Sequence[int] = (0,),
) -> Section:
    """Return a table under a heading; its text wraps where a terminal is narrow."""
    return Section(heading, [words, Table(headings, rows, text_columns=text_columns, wrap_columns=text_columns)])


def with_spread(ratio: Ratio | None) -> str:
    """Return the median of a ratio, with its 10th and 90th percentile: 1.00 0.90–1.25."""
    if ratio is None:
        return NOTHING
    if ratio.rounds == 1:  # counted, or timed once
        return general(ratio.median, 4)
    return f"{significant(ratio.median)} {significant(ratio.low)}–{significant(ratio.high)}"


def describe_bars(bars: Sequence[JudgedBar]) -> list[str]:
    """Return a sentence for each bar: what it claims."""
    return [f"{bar.name}: {bar.what}; {bar.how}." for bar in bars]


def bars_table(bars: Sequence[JudgedBar]) -> Table:
    """Return a row for each bar, with the figure that comes nearest to missing it or misses it most."""
    rows = []
    for bar in bars:
        worst = bar.figures[0] if bar.figures else None
        met = sum(figure.met is True for figure in bar.figures)
        rows.append(
            (
                bar.name,
                bar.verdict,
                _limit(bar),
                with_spread(worst.ratio) if worst else NOTHING,
                worst.variant if worst else NOTHING,
                NOTHING if bar.limit is None else f"{met}/{len(bar.figures)}",
            )
        )
    headings = ("bar", "verdict", "limit", "worst", "of", "met by")
    return Table(headings, rows, text_columns=(0, 1, 4), wrap_columns=(4,), tones=_TONES)


def figures_table(bars: Sequence[JudgedBar], *, missed_only: bool = False) -> Table:
    """Return a row for each figure of each bar."""
    verdicts = {True: "met", False: "missed", None: "reported"}
    rows = [
        (bar.name, figure.variant, with_spread(figure.ratio), _limit(bar), verdicts[figure.met])
        for bar in bars
        for figure in bar.figures
        if not missed_only or figure.met is False
    ]
    headings = ("bar", "of", "figure", "limit", "verdict")
    return Table(headings, rows, text_columns=(0, 1, 4), wrap_columns=(1,), tones=_TONES)


def _limit(bar: JudgedBar) -> str:
    return NOTHING if bar.limit is None else f"{'≥' if bar.at_least else '≤'} {general(bar.limit)}"


def findings_page(found: Findings, *, bars: bool) -> Page:
    """Return a page with every section of the findings, and with the verdicts on request.

    Parameters
    ----------
    found
        The results of a measurement.
    bars
        Whether to show the verdicts on the bars.
    """
    verdicts: list[Section] = []
    if bars:
        claims = [(bar.name, bar.what, bar.how) for bar in found.bars]
        caption = "Each mark is one figure. Right of the line, it misses the bar."
        verdicts = [
            Section("Verdicts", [bars_table(found.bars)]),
            Section("What they claim", [Table(("bar", "concerns", "measured as"), claims, text_columns=(0, 1, 2))]),
            Section("How near", [Figure(bars_chart(found.bars), caption)]),
            Section("Every figure", [figures_table(found.bars)]),
        ]
    left_out = [Section("Not measured", list(found.notes))] if found.notes else []
    machine = found.machine
    facts = {
        "Machine": str(machine),
        "System": f"{machine.system}, Python {machine.python}, attnlab {machine.attnlab}",
        "Size": found.conditions or "float32",
        "Rounds": str(found.rounds),
    }
    if machine.warning:
        facts["Warning"] = machine.warning
    return Page(found.title, found.lead, [*found.sections(), *verdicts, *left_out], facts)


def bars_chart(bars: Sequence[JudgedBar]) -> go.Figure:
    """Draw how much of its limit each figure uses up."""
    judged = [bar for bar in bars if bar.limit is not None and bar.figures]
    figure = new_figure(x="share of the limit (×)", height=150 + 34 * len(judged))
    for met, name, colour, symbol in ((True, "met", BLUE, "circle-open"), (False, "missed", ORANGE, "x")):
        found = [(bar.name, one) for bar in judged for one in bar.figures if one.met is met]
        figure.add_trace(
            go.Scatter(
                name=name,
                mode="markers",
                x=[one.strain for _, one in found],
                y=[bar for bar, _ in found],
                text=[f"{one.variant} {with_spread(one.ratio)}" for _, one in found],
                hovertemplate="%{text}<extra>%{y}</extra>",
                marker={"symbol": symbol, "color": colour, "size": 10, "line": {"color": colour, "width": 2}},
                showlegend=True,
            )
        )
    figure.add_vline(x=1, line_width=1.5)
    figure.update_xaxes(type="log", **ratio_ticks(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100))
    figure.update_yaxes(**name_rows([bar.name for bar in reversed(judged)]))
    return figure


def ratio_ticks(*places: float) -> dict[str, object]:
    """Return the ticks of a ratio's axis, as plotly takes them."""
    return {"tickvals": places, "ticktext": [f"{place:g}×" for place in places]}


def name_rows(names: Sequence[str]) -> dict[str, object]:
    """Return the axis with a row for each name, from below, without more room than they need."""
    return {"categoryorder": "array", "categoryarray": list(names), "range": [-0.6, len(names) - 0.4]}
