"""The chapters of the course, in the order in which somebody new should read them."""

from __future__ import annotations

CHAPTERS = (
    "attention by hand",
    "why scale",
    "magnitude",
    "copying and averaging",
    "one head against many",
    "masks and shapes",
    "values and their rank",
    "cross-attention",
    "synthesizer",
    "cost",
    "geometry",
    "learning",
)
