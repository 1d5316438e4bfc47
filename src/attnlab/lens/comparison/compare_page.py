"""The page of a comparison of heads: what differs, how alike matched heads are, and their maps side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attnlab.lens.comparison.profiles import COUNT, MEAN, PROFILE, STRONGEST
from attnlab.lens.heads.role_scores import ROLES
from attnlab.lens.pages.views import NOTHING, View, counted, ends, joined, number, signed
from attnlab.pages import HeadMap, MapGrid, MapRow, Note, Page, Part, Points, Section, Table, Tone

if TYPE_CHECKING:
    from attnlab.lens.comparison.compared import Difference, HeadComparison, Likenesses

_TONES: Mapping[str, Tone] = {"differs": "even"}
_P_LEAST = 0.001


def compare_page(found: HeadComparison) -> Page:
    first, *others = found.sides
    runs = counted(sum(len(side.runs) for side in found.sides), "run")
    lead = f"What the heads of {joined([side.name for side in others])} do differently from {first.name}’s, in {runs}."
    facts = {side.name: _seeds(side.seeds) or counted(len(side.runs), "run") for side in found.sides}
    sections = [Section(view.heading, [*_notes(found, place), *view.parts]) for place, view in enumerate(views(found))]
    sections.append(_side_by_side(found))
    sections.append(Section("What the numbers are", [Points(_meanings())]))
    return Page(f"Heads of {joined([side.name for side in found.sides])}", lead, sections, facts)


def _meanings() -> list[str]:
    """Of each role what it is, and of the three numbers that every role has what they are, once."""
    role = next(iter(ROLES))
    of_roles = [f"{name}: {one.meaning}" for name, one in ROLES.items()]
    of_one = [
        f"a role, {kind}: {PROFILE[f'{role}, {kind}'].meaning.partition(':')[0]}" for kind in (COUNT, STRONGEST, MEAN)
    ]
    rest = [f"{name}: {one.meaning}" for name, one in PROFILE.items() if name.partition(", ")[0] not in ROLES]
    return [*of_roles, *of_one, *rest]


def _notes(found: HeadComparison, place: int) -> list[Part]:
    return [Note(note) for note in found.notes] if place == 0 else []


def _seeds(seeds: Sequence[int | None]) -> str:
    known = [str(seed) for seed in seeds if seed is not None]
    return f"seed{'' if len(known) == 1 else 's'} {', '.join(known)}" if known else ""


def views(found: HeadComparison) -> list[View]:
    """What differs, of each side; and how alike matched heads are."""
    return [*(_differences(found, side) for side in found.differences), _matching(found)]


# What differs


def _differences(found: HeadComparison, side: str) -> View:
    first = found.sides[0].name
    pairs = found.differences[side]
    sure = found.differing(side)
    several = any(one.difference is not None for one in pairs.values())
    words = (
        f"On {found.texts}. The change is that of {side} against {first}, run by run, with its 95 % interval over "
        f"runs; p is corrected for all {len(pairs)} numbers (Holm)."
        if several
        else f"On {found.texts}. With one run on a side, nobody knows what is the variant’s and what the seed’s."
    )
    said = [sentence(name, pairs[name], side, first) for name in sure]
    rows = [_row(name, one) for name, one in pairs.items()]
    headings = ("number", first, side, "change", "95 %", "p (Holm)", "")
    table = Table(headings, rows, text_columns=(0, 6), tones=_TONES)
    points: list[str | Points | Table] = [Points(said)] if said else []
    if several and not said:
        points = ["Nothing differs beyond chance."]
    return View(f"differences of {side}", f"What {side} does differently", [words, *points, table], None)


def sentence(name: str, one: Difference, side: str, first: str) -> str:
    """What differs, in words."""
    decimals = _decimals(name)
    more = "more" if one.change > 0 else "less"
    return (
        f"{name}: {number(one.ours, decimals)} for {side}, {number(one.theirs, decimals)} for {first} "
        f"({more} by {number(abs(one.change), decimals)}, {ends(one.difference, decimals)})"
    )


def _row(name: str, one: Difference) -> list[str]:
    decimals = _decimals(name)
    p = NOTHING if one.p is None else f"< {_P_LEAST:g}" if one.p < _P_LEAST else f"{one.p:.3f}"
    return [
        name,
        number(one.theirs, decimals),
        number(one.ours, decimals),
        signed(one.change, decimals),
        ends(one.difference, decimals),
        p,
        "differs" if one.p is not None and one.p < 0.05 else "",
    ]


def _decimals(name: str) -> int:
    return {"nats": 4, "heads": 1, "directions": 1}.get(PROFILE[name].unit, 3)


# Matched heads


def _matching(found: HeadComparison) -> View:
    first = found.sides[0].name
    if not found.likenesses:
        return View(
            "matching", "Are they other heads?", [f"A side without maps has no heads to match with {first}’s."], None
        )
    rows, said = [], []
    for side, one in found.likenesses.items():
        rows.append(
            [
                side,
                *(_cell(one.values[name]) for name in ("another seed", "another variant", "the same seed")),
                number(one.control),
                NOTHING if one.gap is None else f"{signed(one.gap.mean, 2)} ({ends(one.gap, 2)})",
            ]
        )
        said.append(_verdict(side, first, one))
    words = (
        "Heads of two runs are matched within their layers so that their maps are as alike as they can be; told is the "
        f"mean cosine. A run of {first} with another seed of {first}; with that other seed of the variant; and with "
        "the same seed of the variant, which began with the same weights as far as they have the same shapes. Shuffled "
        "is what a match with shuffled weights reaches."
    )
    headings = ("variant", "another seed", "another variant", "the same seed", "shuffled", "variant − seed (95 %)")
    return View("matching", "Are they other heads?", [words, Points(said), Table(headings, rows)], None)


def _cell(values: Sequence[float]) -> str:
    return number(sum(values) / len(values)) if values else NOTHING


def _verdict(side: str, first: str, one: Likenesses) -> str:
    if one.gap is None:
        return f"{side}: one run on a side cannot tell a variant from a seed."
    if one.gap.high < 0:
        return f"{side}: its heads are less like {first}’s than those of another seed of {first} are."
    if one.gap.low > 0:
        return f"{side}: its heads are more like {first}’s than those of another seed are."
    return f"{side}: its heads differ from {first}’s no more than another seed’s do, as far as these runs can tell."


# Side by side


def _side_by_side(found: HeadComparison) -> Section:
    """One run of each side: below each head of the first those that match it."""
    first = found.sides[0].name
    look = found.looks[first]
    rows: list[MapRow] = []
    for layer in look.of("self"):
        for side in (first, *(side for side in found.looks if side != first)):
            row = _map_row(found, side, layer.layer)
            if row is not None:
                rows.append(row)
    grid = MapGrid("matched heads", look.tokens, look.tokens, rows, names_above=True)
    seeds = [_seeds(side.seeds[:1]) or side.runs[0].name for side in found.sides]
    words = (
        f"One run of each side ({joined(list(dict.fromkeys(seeds)))}) on the same text. Below each head of {first} "
        "stand those that match it, with their own layer and number, what they do, and how alike the maps are."
    )
    return Section("Side by side", [words, grid])


def _map_row(found: HeadComparison, side: str, layer: int) -> MapRow | None:
    look = next((one for one in found.looks[side].of("self") if one.layer == layer), None)
    if look is None:
        return None
    name = f"{side} {layer}"
    if look.weights is None:
        return MapRow(name, [], look.visible.numpy(), look.absence)
    roles = found.studies[side]["self"].roles
    heads = []
    for head, likeness in _order(found, side, layer, look.heads):
        does = roles[layer, head].roles
        numbers = {"does": ", ".join(does) or NOTHING}
        if likeness is not None:
            numbers["cosine with the head above"] = number(likeness)
        tag = " ".join([f"{layer}.{head}", *does[:1]])
        heads.append(HeadMap(f"{side}, head {head}", look.weights[look.heads.index(head)].numpy(), numbers, tag))
    return MapRow(name, heads, look.visible.numpy())


def _order(found: HeadComparison, side: str, layer: int, heads: Sequence[int]) -> list[tuple[int, float | None]]:
    """The heads of a side as those of the first stand, then those without a match."""
    if side not in found.matched:
        return [(head, None) for head in heads]
    pairs = {pair.a: pair for pair in found.matched[side].pairs if pair.a[0] == layer}
    placed = [(pairs[place].b[1], pairs[place].similarity) for place in sorted(pairs)]
    used = {head for head, _ in placed}
    return [*placed, *((head, None) for head in heads if head not in used)]
