"""The two characters that mean something to a knowledge model, as in the course assignment.

MASK   ⁇ (U+2047)   stands for what is left out, and parts what is asked from what is answered
PAD    □ (U+25A1)   fills rows up; no loss counts it

A text that holds one of them gets ordinary characters instead, so that nobody's text is taken for a command.
"""

from __future__ import annotations

MASK, PAD = "\u2047", "\u25a1"
MARKS = (MASK, PAD)
_INSTEAD = str.maketrans({MASK: "??", PAD: "■"})


def without_marks(text: str) -> str:
    return text.translate(_INSTEAD)
