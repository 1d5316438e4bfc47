"""What the findings of a measurement show."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab.pages import Section, Table


def rows_of(section: Section) -> Sequence[Sequence[str]]:
    """Return the rows of a section's only table."""
    (table,) = (part for part in section.content if isinstance(part, Table))
    return table.rows


def words_of(section: Section) -> str:
    """Return the text of a section."""
    return " ".join(part for part in section.content if isinstance(part, str))
