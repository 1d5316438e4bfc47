"""Outcomes as one offline page: the claim, the equation, what was shown, and every check with its figure."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab.exhibits.frame.blocks import Block, Formula, Heatmap, Plot, Slip, TableBlock, Words, cell_text
from attnlab.exhibits.frame.checks import Check
from attnlab.exhibits.frame.outcome import Outcome
from attnlab.exhibits.frame.page_plots import heatmap_figure, plot_figure
from attnlab.exhibits.frame.parameters import setting_text
from attnlab.pages import Note, Page, Part, Section, Table, Tone

_TONES: dict[str, Tone] = {"holds": "good", "FAILS": "bad"}
_HEADINGS = ("claim", "", "what was checked, and the figure")


def outcome_page(outcomes: Sequence[Outcome]) -> Page:
    """One exhibit with its sections, or several, each as a section."""
    if len(outcomes) > 1:
        return _several(outcomes)
    outcome = outcomes[0]
    one = outcome.exhibit
    given = outcome.parameters.model_dump(mode="json")
    settings = "; ".join(f"{name} = {setting_text(value)}" for name, value in given.items())
    facts = {
        "Exhibit": f"{one.name}, of the chapter “{one.chapter}”",
        "Claims": ", ".join(one.claims),
        "Parameters": settings or "none",
        "Checks": checks_words(outcome),
    }
    sections = [Section("Equation", _equation(one.equation)), Section("Computed", _content(outcome.blocks))]
    return Page(one.title, one.claim, sections, facts)


def checks_words(outcome: Outcome) -> str:
    held = sum(check.ok for check in outcome.checks)
    return f"{held} of {len(outcome.checks)} hold; {outcome.seconds:.1f} s"


def _several(outcomes: Sequence[Outcome]) -> Page:
    held = sum(outcome.ok for outcome in outcomes)
    rows = [
        (
            outcome.exhibit.name,
            "holds" if outcome.ok else "FAILS",
            ", ".join(outcome.exhibit.claims),
            checks_words(outcome),
        )
        for outcome in outcomes
    ]
    table = Table(("exhibit", "", "claims", "checks"), rows, text_columns=(0, 1, 2, 3), wrap_columns=(2,), tones=_TONES)
    sections = [Section("All", [table])]
    for outcome in outcomes:
        one = outcome.exhibit
        parts: list[Part] = [one.claim, *_equation(one.equation), *_content(outcome.blocks)]
        sections.append(Section(f"{one.name} · {one.title}", parts))
    seconds = sum(outcome.seconds for outcome in outcomes)
    facts = {"Exhibits": f"{held} of {len(outcomes)} hold; {seconds:.0f} s"}
    return Page("Exhibits", "Every claim of the notes, computed and checked.", sections, facts)


def _content(blocks: Sequence[Block | Check]) -> list[Part]:
    """The parts in order; checks that follow each other share a table."""
    parts: list[Part] = []
    waiting: list[Check] = []
    for block in blocks:
        if isinstance(block, Check):
            waiting.append(block)
            continue
        if waiting:
            parts.append(_check_table(waiting))
            waiting = []
        parts.extend(_part(block))
    return [*parts, _check_table(waiting)] if waiting else parts


def _part(block: Block) -> list[Part]:
    match block:
        case Words():
            return [block.text]
        case Formula():
            return _equation(block.text)
        case TableBlock():
            rows = [[cell_text(cell) for cell in row] for row in block.rows]
            texts = [n for n in range(len(block.headings)) if all(isinstance(row[n], str) for row in block.rows)]
            return [Table(block.headings, rows, block.title, text_columns=texts)]
        case Slip():
            return [Note(f"The note ({block.claim}) says: {block.says}. Computed: {block.computed}.")]
        case Plot():
            return [plot_figure(block)]
        case Heatmap():
            return [heatmap_figure(block)]


def _equation(text: str) -> list[Part]:
    return [line.strip().replace("  ", "\u2003") for line in text.splitlines() if line.strip()]


def _check_table(checks: Sequence[Check]) -> Table:
    rows = [(check.claim, "holds" if check.ok else "FAILS", f"{check.what}: {check.figure}") for check in checks]
    return Table(_HEADINGS, rows, text_columns=(0, 1, 2), wrap_columns=(2,), tones=_TONES)
