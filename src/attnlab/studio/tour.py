"""The guided tour: five steps through the pages, with what to do and what to see on each."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class TourStep:
    """One page of the tour."""

    address: str
    title: str
    task: str


STEPS = (
    TourStep(
        "/playground",
        "Attention by hand",
        "Three tokens, three matrices. Change a number in W_K and see which weights follow. Every row of P sums to 1.",
    ),
    TourStep(
        "/seen",
        "Attention in a trained model",
        "Point at the small maps: some heads look at the token before, others far back. Click a cell to see its "
        "equation with all its values.",
    ),
    TourStep(
        "/seen",
        "Change one thing",
        "Choose another normaliser, or let the keys be the values too. The outlined bars show what the model said "
        "before: a model has to be trained with a change to get used to it.",
    ),
    TourStep(
        "/cost",
        "What it costs",
        "Move the context: beyond some length, attention costs more than all the rest. Compare the cache of tied-kv.",
    ),
    TourStep(
        "/compare",
        "Does it matter?",
        "Train a baseline and a variant on the same seeds, and get a verdict. The plan says beforehand how long it "
        "takes and which difference it can detect.",
    ),
)


def step_address(number: int) -> str:
    """Return the address of a step of the tour, counted from 1."""
    return f"{STEPS[number - 1].address}?tour={number}"


def tour_html(given: str | None) -> str:
    """Return the box of the step that an address names, with the ways to the others; nothing if it names none."""
    if given is None or not given.isdecimal() or not 1 <= int(given) <= len(STEPS):
        return ""
    number = int(given)
    step = STEPS[number - 1]
    links = [f'<a href="{step_address(number - 1)}">Back</a>'] if number > 1 else []
    links += [f'<a href="{step_address(number + 1)}">Next</a>'] if number < len(STEPS) else []
    links.append(f'<a href="/">{"Leave the tour" if number < len(STEPS) else "End of the tour"}</a>')
    return (
        f'<aside class="tour" aria-label="Guided tour"><b>{number} of {len(STEPS)}: {escape(step.title)}.</b> '
        f"{escape(step.task)} <span>{' '.join(links)}</span></aside>"
    )
