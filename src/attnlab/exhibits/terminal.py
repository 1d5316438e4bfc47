"""An exhibit in a terminal: printed block by block while it runs, with its progress on stderr.

Series of a plot differ in the characters that they are drawn with, so that colour is not needed.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_right
from collections.abc import Sequence
from itertools import cycle
from typing import Any

from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from attnlab.exhibits import blocks
from attnlab.exhibits.gallery import Exhibit, Outcome, limits_text, setting_text
from attnlab.exhibits.stage import Check
from attnlab.formats import clock_time, general

_WIDEST = 100
_BAR = 24  # characters
_PLAIN_SECONDS = 10.0  # between two progress lines if the output is not a terminal


class Watcher:
    """Reports the progress of long work on stderr: one updated line in a terminal, else plain lines."""

    def __init__(self, talk: Console | None = None) -> None:
        self.talk = talk or Console(stderr=True, highlight=False)
        self._told = time.monotonic()
        self._drawn = False
        self._begun: tuple[str, float] = ("", 0.0)  # the current step, and its start time

    def shown(self, block: blocks.Block | Check) -> None:
        del block
        self._wipe()

    def progress(self, what: str, done: int, total: int | None) -> None:
        finished = done == total
        now = time.monotonic()
        if self._begun[0] != what:
            self._begun = (what, now)
        words = f"{what}: {done}"
        if total is not None:
            left = (now - self._begun[1]) / done * (total - done) if done else None
            words += f" of {total}" + ("" if left is None else f"   {clock_time(left)} left")
        if self.talk.is_terminal:
            if total:
                length = max(0, min(_BAR, self.talk.width - len(words) - 2))
                filled = length * min(done, total) // total
                words = f"{'━' * filled}{'╌' * (length - filled)} {words}"
            if finished:
                self._wipe()
            elif now - self._told > 0.1 or done == 0:
                self._told = now
                self.talk.file.write(f"\r\x1b[2K{words[: self.talk.width - 1]}")
                self.talk.file.flush()
                self._drawn = True
        elif now - self._told > _PLAIN_SECONDS:
            self._told = now
            self.talk.print(words, markup=False)

    def _wipe(self) -> None:
        if self._drawn:
            self.talk.file.write("\r\x1b[2K")
            self.talk.file.flush()
            self._drawn = False


class Printer(Watcher):
    """Prints what an exhibit shows on stdout."""

    def __init__(self, console: Console | None = None, talk: Console | None = None) -> None:
        super().__init__(talk)
        self.console = console or Console(highlight=False)

    @property
    def width(self) -> int:
        return min(_WIDEST, self.console.width)

    def run(self, one: Exhibit[Any], **settings: object) -> Outcome:
        """Run an exhibit and print it: its claim, all that it shows, and at the end how to change it."""
        self._print(Text(f"{one.name} · {one.title}", style="bold"), Text(one.claim))
        self.shown(blocks.Formula(one.equation))
        outcome = one.run(listener=self, **settings)
        failed = [check for check in outcome.checks if not check.ok]
        held = len(outcome.checks) - len(failed)
        words = f"{held} of {len(outcome.checks)} checks hold; {outcome.seconds:.1f} s"
        self._print("", Text(words, style="bold red" if failed else "bold green"))
        given = outcome.parameters.model_dump(mode="json")
        if given:
            rows = tuple(
                (f"--set {name}={setting_text(given[name])}", field.description or "", limits_text(field.metadata))
                for name, field in one.parameters.model_fields.items()
            )
            self._print("", Text("To change it", style="bold"), self._table(blocks.TableBlock("", ("", "", ""), rows)))
        return outcome

    def shown(self, block: blocks.Block | Check) -> None:
        super().shown(block)
        match block:
            case blocks.Words():
                self._print("", Text(block.text))
            case blocks.Formula():
                self._print("", _side_by_side(Text("  "), Text(block.text, style="italic")))
            case blocks.TableBlock():
                self._print("", Text(block.title, style="bold"), self._table(block))
            case blocks.Slip():
                note = Text(f"the source of claim {block.claim} says", style="bold")
                computed = Text("computed".ljust(len(note)), style="bold")
                self._print("", _side_by_side(note, Text(block.says)))
                self._print(_side_by_side(computed, Text(block.computed)), "")
            case blocks.Plot():
                coloured = self.console.is_terminal and not self.console.no_color
                drawn = plot_text(block, self.width, colour=coloured)
                self._drawing(block, Text.from_ansi(drawn) if coloured else Text(drawn))
            case blocks.Heatmap():
                self._drawing(block, Text(heatmap_text(block, self.width)))
            case Check():
                mark = Text("✓ holds", style="green") if block.ok else Text("✗ FAILS", style="bold red")
                words = Text.assemble(f"{block.what}: ", (block.figure, "" if block.ok else "bold"))
                self._print(_side_by_side(mark, Text(block.claim), words))

    def _table(self, block: blocks.TableBlock) -> RichTable:
        everything = range(len(block.headings))  # any column may wrap if the terminal is narrow
        return block.table(wrap_columns=everything).to_terminal(padding=2)

    def _drawing(self, block: blocks.Plot | blocks.Heatmap, drawn: Text) -> None:
        self._print("", Text(block.title, style="bold"))
        self.console.print(drawn, no_wrap=True, overflow="crop", crop=True)
        if block.caption:
            self._print(Text(block.caption))

    def _print(self, *things: object) -> None:
        for thing in things:
            self.console.print(thing, width=self.width)


def _side_by_side(*texts: Text) -> RichTable:
    """Return texts in columns of their own, so that a long last one is indented as a whole."""
    table = RichTable.grid(padding=(0, 2, 0, 0))
    for number, _ in enumerate(texts, start=1):
        table.add_column(no_wrap=number < len(texts))
    table.add_row(*texts)
    return table


# The names of markers in plotext, and their characters.
_LETTERS = {
    "line": (("braille", "⠒"), ("·", "·"), ("-", "-"), ("~", "~")),
    "points": tuple((letter, letter) for letter in "●x◇▲+*"),
    "histogram": tuple((letter, letter) for letter in "░▒"),
}
_BARS = ("█", "▒", "░", "/")
_SHADES = " ░▒▓█"
_COLOURS = (33, 208, 36, 244)  # of 256: blue, orange, green, grey, as on a page
_HEIGHT = 18
_ONE_TURN = threading.Lock()  # plotext has one global figure


def plot_text(plot: blocks.Plot, width: int, *, colour: bool) -> str:
    """Return the plot as lines of text; with `colour`, with the codes for it."""
    if plot.labels:
        return bars_text(plot, width)
    import plotext  # slow to import

    letters = _letters(plot.series)
    if plot.equal:
        width = min(width, 2 * _HEIGHT + 4)  # a character is about twice as high as it is wide
    with _ONE_TURN:
        plotext.terminal.limit(False, False)  # we set the width ourselves, and a low window can be scrolled
        figure = plotext.figure
        figure.clear.all()
        figure.theme("colorless")  # the frame has the colours of the terminal
        figure.plot_size(width, _HEIGHT)
        for number, (one, (letter, _)) in enumerate(zip(plot.series, letters, strict=True)):
            pixel = _COLOURS[number % len(_COLOURS)] if colour else None
            _draw(figure, one, plotext.marker(letter, pixel), plot, width)
        for axis in blocks.AXES:
            log = plot.log_x if axis == "x" else plot.log_y
            values = [*blocks.extent(plot, "x"), *blocks.extent(plot, "y")] if plot.equal else blocks.extent(plot, axis)
            places = blocks.powers(values) if log else blocks.round_places(min(values), max(values))
            figure.ruler(axis).ticks([_scaled(place, log) for place in places], [f"{place:g}" for place in places])
            figure.ruler(axis).lim(_scaled(min(*values, *places), log), _scaled(max(*values, *places), log))
        drawn = str(figure.build().string(not colour))
    legend = "   ".join(f"{letter} {one.name}" for one, (_, letter) in zip(plot.series, letters, strict=True))
    lines = [line.rstrip() for line in drawn.splitlines()]
    return "\n".join([f"{plot.y}      {legend}", *lines, plot.x.center(width).rstrip()])


def bars_text(plot: blocks.Plot, width: int) -> str:
    """Return horizontal bars, one below the other, each with its number; negative ones start from the same line."""
    room = max(10, width - max(map(len, plot.labels)) - 14)
    largest = max((abs(value) for one in plot.series for value in one.y if math.isfinite(value)), default=0.0) or 1.0
    indent = max(map(len, plot.labels))
    legend = "   ".join(f"{letter} {one.name}" for one, letter in zip(plot.series, _BARS, strict=False))
    lines = [f"{plot.y}      {legend}" if len(plot.series) > 1 else plot.y]
    for place, label in enumerate(plot.labels):
        for number, one in enumerate(plot.series):
            value = one.y[place]
            length = round(room * abs(value) / largest) if math.isfinite(value) else 0
            name = label if number == 0 else ""
            lines.append(f"{name:>{indent}} │{_BARS[number % len(_BARS)] * length} {general(value, 4)}")
    return "\n".join([*lines, plot.x] if plot.x else lines)


def heatmap_text(drawn: blocks.Heatmap, width: int) -> str:
    """Return a shade for each cell, with its number where there is space."""
    values = [value for row in drawn.cells for value in row if math.isfinite(value)]
    low, high = min(values, default=0.0), max(values, default=1.0)
    indent = max(map(len, drawn.rows))
    texts = [[general(value, 3) for value in row] for row in drawn.cells]
    cell = max([len(text) for row in texts for text in row] + [len(name) for name in drawn.columns]) + 2
    roomy = indent + 1 + (cell + 1) * len(drawn.columns) <= width
    lines = [f"{drawn.unit}: {_SHADES[1]} {general(low, 3)} … {_SHADES[-1]} {general(high, 3)}"]
    if roomy:
        lines.append(" " * (indent + 1) + " ".join(name.rjust(cell) for name in drawn.columns))
    for name, row, words in zip(drawn.rows, drawn.cells, texts, strict=True):
        shades = [_shade(value, low, high) for value in row]
        if roomy:
            cells = (f"{shade} {text}".rjust(cell) for shade, text in zip(shades, words, strict=True))
            lines.append(f"{name:>{indent}} " + " ".join(cells))
        else:
            lines.append(f"{name:>{indent}} " + "".join(shade * 2 for shade in shades))
    return "\n".join([*lines, f"down: {drawn.y}, across: {drawn.x}"])


def _letters(series: Sequence[blocks.Series]) -> list[tuple[str, str]]:
    """Return for each series the marker that plotext draws it with, and how that looks."""
    left = {kind: cycle(letters) for kind, letters in _LETTERS.items()}
    return [next(left[one.kind]) for one in series]


def _draw(figure: Any, one: blocks.Series, marker: Any, plot: blocks.Plot, width: int) -> None:
    if one.kind == "histogram":
        across = [one.x[0] + (one.x[-1] - one.x[0]) * (step + 0.5) / width for step in range(width)]
        heights = [one.y[min(len(one.y), bisect_right(one.x, x)) - 1] for x in across]
        figure.draw(figure.signal(across, heights, marker=marker).fillx())
        return
    for place, x in enumerate(one.x):
        y, error = one.y[place], one.error[place] if one.error else 0.0
        if error and _shown(x, y - error, plot):
            ends = [_scaled(y - error, plot.log_y), _scaled(y + error, plot.log_y)]
            figure.draw(figure.signal([_scaled(x, plot.log_x)] * 2, ends, marker="│").lines())
    places = [
        (_scaled(x, plot.log_x), _scaled(y, plot.log_y))
        for x, y in zip(one.x, one.y, strict=True)
        if _shown(x, y, plot)
    ]
    if not places:
        return
    signal = figure.signal([x for x, _ in places], [y for _, y in places], marker=marker)
    figure.draw(signal.lines() if one.kind == "line" else signal)


def _shown(x: float, y: float, plot: blocks.Plot) -> bool:
    finite = math.isfinite(x) and math.isfinite(y)
    return finite and (x > 0 or not plot.log_x) and (y > 0 or not plot.log_y)


def _scaled(value: float, log: bool) -> float:
    return math.log10(value) if log else value


def _shade(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return "?"
    share = (value - low) / (high - low) if high > low else 0.0
    return _SHADES[min(len(_SHADES) - 1, int(share * len(_SHADES)))]
