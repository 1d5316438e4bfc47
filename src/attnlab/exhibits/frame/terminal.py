"""An exhibit in a terminal: printed block by block while it runs, with its progress on stderr."""

from __future__ import annotations

import time
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnlab.exhibits.frame.blocks import Block, Formula, Heatmap, Plot, Slip, TableBlock, Words, cell_text
from attnlab.exhibits.frame.checks import Check
from attnlab.exhibits.frame.exhibit import Exhibit
from attnlab.exhibits.frame.outcome import Outcome
from attnlab.exhibits.frame.parameters import setting_text
from attnlab.exhibits.frame.terminal_plots import heatmap_text, plot_text

_WIDEST = 100
_PLAIN_SECONDS = 10.0  # between two lines of progress where there is no terminal


class Watcher:
    """Tells on stderr how far long work has come: a line drawn anew in a terminal, else plain ones."""

    def __init__(self, talk: Console | None = None) -> None:
        self.talk = talk or Console(stderr=True, highlight=False)
        self._told = time.monotonic()
        self._drawn = False

    def shown(self, block: Block | Check) -> None:
        del block
        self._wipe()

    def progress(self, what: str, done: int, total: int | None) -> None:
        words = f"{what}: {done}" + (f" of {total}" if total is not None else "")
        finished = done == total
        now = time.monotonic()
        if self.talk.is_terminal:
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

    def begin(self, one: Exhibit[Any]) -> None:
        self.console.print(Text(f"{one.name} · {one.title}", style="bold"), width=self.width)
        self.console.print(Text(one.claim), width=self.width)
        self.shown(Formula(one.equation))

    def shown(self, block: Block | Check) -> None:
        super().shown(block)
        match block:
            case Words():
                self._print("", Text(block.text))
            case Formula():
                self._print("", _side_by_side(Text("  "), Text(block.text, style="italic")))
            case TableBlock():
                self._print("", Text(block.title, style="bold"), _table(block))
            case Slip():
                self._slip(block)
            case Plot():
                coloured = self.console.is_terminal and not self.console.no_color
                drawn = plot_text(block, self.width, colour=coloured)
                self._drawing(block, Text.from_ansi(drawn) if coloured else Text(drawn))
            case Heatmap():
                self._drawing(block, Text(heatmap_text(block, self.width)))
            case Check():
                self._check(block)

    def end(self, outcome: Outcome) -> None:
        failed = [check for check in outcome.checks if not check.ok]
        held = len(outcome.checks) - len(failed)
        words = f"{held} of {len(outcome.checks)} checks hold; {outcome.seconds:.1f} s"
        self._print("", Text(words, style="bold red" if failed else "bold green"))
        settings = outcome.parameters.model_dump(mode="json")
        if settings:
            rows = tuple(
                (f"--set {one['name']}={setting_text(settings[one['name']])}", one["meaning"], one["limits"])
                for one in outcome.parameters.describe()
            )
            self._print("", Text("To change it", style="bold"), _table(TableBlock("", ("", "", ""), rows)))

    def _slip(self, slip: Slip) -> None:
        self._print("", _side_by_side(Text(f"the note ({slip.claim}) says", style="bold"), Text(slip.says)))
        self._print(_side_by_side(Text("computed".ljust(len(slip.claim) + 16), style="bold"), Text(slip.computed)), "")

    def _check(self, check: Check) -> None:
        mark = Text("✓ holds", style="green") if check.ok else Text("✗ FAILS", style="bold red")
        words = Text.assemble(f"{check.what}: ", (check.figure, "" if check.ok else "bold"))
        self._print(_side_by_side(mark, Text(check.claim), words))

    def _drawing(self, block: Plot | Heatmap, drawn: Text) -> None:
        self._print("", Text(block.title, style="bold"))
        self.console.print(drawn, no_wrap=True, overflow="crop", crop=True)
        if block.caption:
            self._print(Text(block.caption))

    def _print(self, *things: object) -> None:
        for thing in things:
            self.console.print(thing, width=self.width)


def _table(block: TableBlock) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    table.show_header = any(block.headings)
    for number, heading in enumerate(block.headings):
        words = all(isinstance(row[number], str) for row in block.rows)
        table.add_column(Text(heading), justify="left" if words else "right", overflow="fold")
    for row in block.rows:
        table.add_row(*(Text(cell_text(cell)) for cell in row))
    return table


def _side_by_side(*texts: Text) -> Table:
    """Texts in columns of their own, so that a long last one is indented as a whole."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for number, _ in enumerate(texts, start=1):
        table.add_column(no_wrap=number < len(texts))
    table.add_row(*texts)
    return table
