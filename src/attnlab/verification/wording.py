"""A verification as rows and sentences, as an offline page, and as data, with the same wording."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attnlab.formats import percent, plural
from attnlab.pages import Page, Part, Points, Section, Table
from attnlab.pages.tables import Tone
from attnlab.storage.records import to_plain
from attnlab.verification.segments import MEAN_TOLERANCE, MOST_TOLERANCE, ReplayedSegments
from attnlab.verification.verifying import Verification

HEADINGS = ("check", "outcome", "held", "differs or unchecked")
MISSED_HEADINGS = ("forged segments", "chance that all were missed", "at most")
TONES: Mapping[str, Tone] = {"holds": "good", "differs": "bad", "unchecked": "open"}
_VERDICTS = {
    0: "verifies: everything that is recorded fits together, and what was computed again came out the same.",
    1: "does not verify.",
    2: "could not be checked completely; nothing that was checked differs.",
}
_MOST_SHOWN = 3
NOT_COVERED = (
    "Times and memory are recorded and cannot be computed again; receipts show only that they were not changed later.",
    "A plan carries the time at which it was made; no hash can prove that it was made first.",
    "Trials of learning rates and pilots stand in the plan as they were recorded; they are not replayed.",
)


def headline(found: Verification) -> str:
    """Return the outcome in a sentence."""
    return f"{found.subject} {_VERDICTS[found.exit_code]}"


def rows(found: Verification) -> list[tuple[str, ...]]:
    """Return a row for each kind of check."""
    return [
        (one.name, one.status, str(one.held), _listed([*one.failed, *one.unchecked]))
        for one in found.checks.tallies.values()
    ]


def _listed(words: list[str]) -> str:
    more = f"; and {len(words) - _MOST_SHOWN} more" if len(words) > _MOST_SHOWN else ""
    return "; ".join(words[:_MOST_SHOWN]) + more


def replay_words(segments: ReplayedSegments | None) -> str:
    """Say what was replayed, how exactly it could be compared, and what that is worth."""
    if segments is None or not segments.drawn:
        return "Nothing was replayed: a forgery that is consistent in itself would not have been found."
    exact = f"{plural(segments.bit_for_bit, 'replay')} came out bit for bit"
    near = (
        f"; {segments.within_tolerance} came out on another machine or build with training losses that differ by "
        f"{segments.mean_difference:.2g} nats on average and {segments.largest_difference:.2g} at most "
        f"({MEAN_TOLERANCE:g} and {MOST_TOLERANCE:g} are allowed)"
    )
    return (
        f"{len(segments.drawn)} of {plural(segments.population, 'segment')} were drawn at random and replayed, with "
        f"{plural(segments.steps, 'step')} and {segments.covered} segments on the way included; {exact}"
        f"{near if segments.within_tolerance else ''}."
    )


def missed_rows(segments: ReplayedSegments | None) -> list[tuple[str, ...]]:
    """Return how probably a forgery of some shares of all segments would have been missed."""
    shown = segments.missed() if segments is not None and segments.drawn else []
    return [(percent(share), percent(chance, 1), percent(bound, 1)) for share, chance, bound in shown]


def page_of(found: Verification) -> Page:
    """Return everything as one offline page."""
    drawn = found.segments.drawn if found.segments is not None else []
    failed = [words for one in found.checks.tallies.values() for words in (*one.failed, *one.unchecked)]
    checks = Table(HEADINGS, rows(found), text_columns=(0, 1, 3), wrap_columns=(3,), tones=TONES)
    replayed: list[Part] = [replay_words(found.segments), *([Points(drawn)] if drawn else [])]
    if missed := missed_rows(found.segments):
        replayed.append(Table(MISSED_HEADINGS, missed))
    sections = [
        Section("Checks", [checks, *([Points(failed)] if failed else [])]),
        Section("Replayed training", replayed),
        Section("What is not covered", [Points(NOT_COVERED)]),
    ]
    facts = {"kind": found.kind, "receipt": found.receipt or "none"}
    return Page(title="Verification", lead=headline(found), sections=sections, facts=facts)


def to_data(found: Verification) -> dict[str, Any]:
    """Return everything as strict JSON can hold it."""
    segments = found.segments
    data: dict[str, Any] = to_plain(
        {
            "subject": found.subject,
            "kind": found.kind,
            "outcome": {0: "verifies", 1: "differs", 2: "unchecked"}[found.exit_code],
            "receipt": found.receipt,
            "checks": [{**vars(one), "status": one.status} for one in found.checks.tallies.values()],
            "segments": None if segments is None else vars(segments),
            "chance_missed": []
            if segments is None
            else [{"share": share, "chance": chance, "bound": bound} for share, chance, bound in segments.missed()],
            "not_covered": NOT_COVERED,
        }
    )
    return data
