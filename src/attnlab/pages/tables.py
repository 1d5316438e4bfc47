"""Tables for the terminal, a page, a notebook, Markdown, CSV and LaTeX."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from markupsafe import Markup, escape

from attnlab.formats import csv_text

if TYPE_CHECKING:  # rich is needed only in a terminal
    from rich.table import Table as RichTable

Tone = Literal["good", "bad", "even", "open"]
_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{
        "<": "$<$",
        ">": "$>$",
        "|": "$|$",
        "−": "$-$",
        "×": r"$\times$",
        "±": r"$\pm$",
        "·": r"$\cdot$",
        "√": r"$\surd$",
    },
    **{"≤": r"$\leq$", "≥": r"$\geq$", "≈": r"$\approx$", "→": r"$\to$", "∞": r"$\infty$", "Σ": r"$\Sigma$"},
    **{"α": r"$\alpha$", "β": r"$\beta$", "γ": r"$\gamma$", "δ": r"$\delta$", "ε": r"$\epsilon$", "λ": r"$\lambda$"},
    **{
        "μ": r"$\mu$",
        "σ": r"$\sigma$",
        "τ": r"$\tau$",
        "φ": r"$\phi$",
        "θ": r"$\theta$",
        "Δ": r"$\Delta$",
        "ρ": r"$\rho$",
    },
    **{
        "²": "$^2$",
        "³": "$^3$",
        "₁": "$_1$",
        "₂": "$_2$",
        "–": "--",
        "…": r"\ldots{}",
        "“": "``",
        "”": "''",
        "½": r"$\frac12$",
    },
}
_UNIT = re.compile(r"(?<=\d) (?=[%×])")
_COLOURS: dict[Tone, str] = {"good": "#2a9d76", "bad": "#d9730d", "even": "#3d85c6", "open": "inherit"}
_TERMINAL_STYLES: dict[Tone, str] = {"good": "green", "bad": "red", "even": "blue", "open": "yellow"}


@dataclass(frozen=True)
class Table:
    """Rows of text under headings; the first column names the row, the others are right-aligned.

    If all headings are empty, there is no heading row.
    """

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""
    text_columns: Sequence[int] = (0,)  # left-aligned
    wrap_columns: Sequence[int] = ()  # columns whose text may wrap
    code_columns: Sequence[int] = ()  # text to copy, such as commands
    tones: Mapping[str, Tone] = field(default_factory=dict)  # texts of highlighted cells
    shades: Sequence[Sequence[float | None]] = ()  # background intensity of each cell, from 0 (none) to 1 (full)

    def to_terminal(self, *, padding: int = 1) -> RichTable:
        """Return the table for rich's console; columns that may wrap give way where the terminal is narrow."""
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        table = RichTable(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, padding, 0, 0), header_style="bold"
        )
        table.show_header = any(self.headings)
        for number, heading in enumerate(self.headings):
            justify: Literal["left", "right"] = "left" if number in self.text_columns else "right"
            table.add_column(Text(heading), justify=justify, no_wrap=number not in self.wrap_columns, overflow="fold")
        for row in self.rows:
            table.add_row(*(Text(cell, style=self._style(cell)) for cell in row))
        return table

    def to_html(self, *, inline: bool = False) -> Markup:
        """Return a table of HTML with the classes of attnlab's pages; `inline` styles stand alone, as in a notebook."""
        look = _inline_style if inline else _page_class
        head = "".join(
            f'<th scope="col"{look(self, column, "")}>{_line(text)}</th>' for column, text in enumerate(self.headings)
        )
        body = "".join(f"<tr>{self._cells(number, look)}</tr>\n" for number in range(len(self.rows)))
        caption = f"<caption>{escape(self.caption)}</caption>\n" if self.caption else ""
        above = f"<thead><tr>{head}</tr></thead>\n" if any(self.headings) else ""
        table = f"<table>\n{caption}{above}<tbody>\n{body}</tbody>\n</table>"
        style = 'style="overflow-x:auto"' if inline else 'class="wide" tabindex="0"'
        return Markup(f"<div {style}>\n{table}\n</div>")

    def to_markdown(self) -> str:
        """Return a table of Markdown, with the texts that stand out in bold."""
        marks = [":--" if column in self.text_columns else "--:" for column in range(len(self.headings))]
        rows = [[f"**{_marked(cell)}**" if cell in self.tones else _marked(cell) for cell in row] for row in self.rows]
        lines = ([_marked(heading) for heading in self.headings], marks, *rows)
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def to_csv(self) -> str:
        """Return the headings and rows as CSV, without the lines of headings that take several."""
        rows = [[_one_line(cell) for cell in row] for row in (self.headings, *self.rows)]
        return csv_text(rows if any(self.headings) else rows[1:])

    def to_latex(self) -> str:
        """Return a table of LaTeX with the rules of the package booktabs; the caption is a comment."""
        columns = "".join("l" if column in self.text_columns else "r" for column in range(len(self.headings)))
        head, *body = (" & ".join(map(_latex, row)) + r" \\" for row in (self.headings, *self.rows))
        lines = [f"% {_one_line(self.caption)}"] if self.caption else []
        lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
        lines += [head, r"\midrule"] if any(self.headings) else []
        return "\n".join([*lines, *body, r"\bottomrule", r"\end{tabular}", ""])

    def _style(self, cell: str) -> str:
        tone = self.tones.get(cell)
        return _TERMINAL_STYLES[tone] if tone else ""

    def _cells(self, number: int, look: Callable[[Table, int, str], str]) -> str:
        row, shades = self.rows[number], self.shades[number] if self.shades else ()
        cells = [f'<th scope="row"{look(self, 0, "")}>{_line(row[0])}</th>']
        for column, cell in enumerate(row[1:], start=1):
            shade = f' style="--shade: {shades[column]:.2f}"' if shades and shades[column] else ""
            text = prose(cell) if column in self.wrap_columns else _line(cell)
            cells.append(f"<td{look(self, column, cell)}{shade}>{text}</td>")
        return "".join(cells)


def prose(text: str) -> Markup:
    """Return text as HTML: text between backticks is code, and a number stays with its unit."""
    pieces = [str(escape(piece)) for piece in _UNIT.sub("\u00a0", text).split("`")]
    if len(pieces) % 2 == 0:  # an unmatched backtick
        return Markup("`".join(pieces))
    return Markup("".join(f"<code>{piece}</code>" if place % 2 else piece for place, piece in enumerate(pieces)))


def _page_class(table: Table, column: int, cell: str) -> str:
    kinds = (("text", table.text_columns), ("wrap", table.wrap_columns), ("code", table.code_columns))
    names = [name for name, columns in kinds if column in columns]
    names += [table.tones[cell]] if cell in table.tones else []
    return f' class="{" ".join(names)}"' if names else ""


def _inline_style(table: Table, column: int, cell: str) -> str:
    side = "left" if column in table.text_columns else "right"
    tone = f";color:{_COLOURS[table.tones[cell]]};font-weight:600" if cell in table.tones else ""
    return f' style="text-align:{side};padding:.15em .6em;white-space:nowrap{tone}"'


def _line(text: str) -> str:
    return str(escape(text)).replace("\n", "<br>")


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _latex(text: str) -> str:
    """Return text with the signs that LaTeX or its usual fonts need commands for."""
    return "".join(_LATEX.get(letter, letter) for letter in _one_line(text.replace("`", "")))


def _marked(text: str) -> str:
    return text.replace("\n", " ").replace("\\", "\\\\").replace("|", "\\|")
