"""The options that the verbs of `attnlab bench` share, and what is done with what was found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from attnlab.bench.results.charts import findings_page
from attnlab.bench.results.findings import Findings
from attnlab.bench.results.progress import Listener
from attnlab.bench.results.report import BAR_HEADINGS, bar_rows, bars_words, figure_rows
from attnlab.bench.results.timing import check_rounds
from attnlab.cli.listening import listening
from attnlab.cli.printing import make_table, say, show, show_json
from attnlab.errors import AttnlabError
from attnlab.pages import write_page
from attnlab.storage.files import check_writable

_SMOKE_ROUNDS = 2
_FIGURE_HEADINGS = ("bar", "of", "figure", "limit", "verdict")
_STYLES = {"met": "green", "missed": "bold red", "not measured": "yellow"}

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Json = Annotated[bool, Parameter(name="--json", negative="", show_default=False)]


@Parameter(name="*")
@dataclass(frozen=True)
class Showing:
    """How what was found is shown.

    Parameters
    ----------
    bars
        Judge what attnlab claims of itself.
    strict
        With --bars: end with exit code 1 unless every bar is met.
    out
        Also write a page to this HTML file.
    as_json
        Print the figures as JSON.
    smoke
        Tiny sizes, to try the tool; the figures mean nothing.
    """

    bars: Flag = False
    strict: Flag = False
    out: Path | None = None
    as_json: Json = False
    smoke: Flag = False

    def check(self) -> None:
        """Refuse what cannot be done before anything is measured."""
        if self.strict and not self.bars:
            raise AttnlabError("--strict judges the bars, and they are not measured", hint="add --bars")
        if self.out is not None:
            check_writable(self.out)

    def rounds(self, given: int | None, usual: int) -> int:
        """How often to measure: as somebody said, or as usual."""
        rounds = given if given is not None else _SMOKE_ROUNDS if self.smoke else usual
        check_rounds(rounds)
        return rounds

    @contextmanager
    def listening(self) -> Iterator[Listener]:
        """Somebody to tell how it gets on."""
        with listening() as listener:
            if self.smoke:
                listener.note("a smoke run: the figures mean nothing")
            yield listener

    def finish(self, found: Findings) -> int:
        """Print what was found, write the page, and give the exit code."""
        if self.as_json:
            show_json(found.to_dict())
        else:
            self._print(found)
        if self.out is not None:
            write_page(findings_page(found, bars=self.bars), self.out)
            say(f"wrote {self.out}")
        return int(self.strict and not found.all_met)

    def _print(self, found: Findings) -> None:
        show("\n".join(line for line in (str(found.machine), found.machine.warning) if line))
        for table in found.tables():
            shown = make_table(table.headings, table.rows, left=table.text_columns)
            show("", table.title, "", shown, "", table.words)
        if not self.bars:
            return
        show("", *bars_words(found), "", make_table(BAR_HEADINGS, bar_rows(found), left=(0, 1, 4), styles=_STYLES))
        missed = figure_rows(found, missed_only=True)
        if missed:
            show("\nMissed:\n", make_table(_FIGURE_HEADINGS, missed, left=(0, 1, 4), styles=_STYLES))


AS_USUAL = Showing()
