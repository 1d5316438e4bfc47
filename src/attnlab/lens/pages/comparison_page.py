"""The page of a comparison of heads: what differs, how similar matched heads are, and their maps side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from attnlab.formats import NOTHING, and_list, fixed, p_value, plural, signed
from attnlab.lens.heads.role_scores import ROLES
from attnlab.lens.heads.study import COUNT, MEAN, PROFILE, STRONGEST, mean
from attnlab.lens.pages.look_page import LookView, ends
from attnlab.pages import HeadMap, MapGrid, MapRow, Note, Page, Points, Section, Table, Tone

if TYPE_CHECKING:
    from attnlab.lens.comparison import Difference, HeadComparison, MatchedSimilarity

_TONES: Mapping[str, Tone] = {"differs": "even"}


def comparison_page(found: HeadComparison) -> Page:
    first, *others = found.groups
    runs = plural(sum(len(group.runs) for group in found.groups), "run")
    lead = (
        f"What the heads of {and_list([group.name for group in others])} do differently from {first.name}’s, in {runs}."
    )
    facts = {group.name: _seeds(group.seeds) or plural(len(group.runs), "run") for group in found.groups}
    shown = views(found)
    sections = [Section(shown[0].heading, [*map(Note, found.notes), *shown[0].parts])]
    sections += [view.section() for view in shown[1:]]
    sections += [_side_by_side(found), Section("What the numbers are", [Points(_meanings())])]
    return Page(f"Heads of {and_list([group.name for group in found.groups])}", lead, sections, facts)


def _meanings() -> list[str]:
    """Return the meaning of each role, and once that of the three numbers that every role has."""
    role = next(iter(ROLES))
    of_roles = [f"{name}: {one.meaning}" for name, one in ROLES.items()]
    of_one = [
        f"a role, {kind}: {PROFILE[f'{role}, {kind}'].meaning.partition(':')[0]}" for kind in (COUNT, STRONGEST, MEAN)
    ]
    rest = [f"{name}: {one.meaning}" for name, one in PROFILE.items() if name.partition(", ")[0] not in ROLES]
    return [*of_roles, *of_one, *rest]


def _seeds(seeds: Sequence[int | None]) -> str:
    known = [str(seed) for seed in seeds if seed is not None]
    return f"seed{'' if len(known) == 1 else 's'} {', '.join(known)}" if known else ""


def views(found: HeadComparison) -> list[LookView]:
    """Show what differs in each group, and how similar matched heads are."""
    return [*(_differences(found, group) for group in found.differences), _matching(found)]


# What differs


def _differences(found: HeadComparison, group: str) -> LookView:
    first = found.groups[0].name
    pairs = found.differences[group]
    sure = found.differing(group)
    several = any(one.difference is not None for one in pairs.values())
    words = (
        f"On {found.texts}. The change is that of {group} against {first}, run by run, with its 95 % interval over "
        f"runs; p is corrected for all {len(pairs)} numbers (Holm)."
        if several
        else f"On {found.texts}. With one run in a group, a difference may be the variant’s or the seed’s."
    )
    said = [sentence(name, pairs[name], group, first) for name in sure]
    rows = [_row(name, one) for name, one in pairs.items()]
    headings = ("number", first, group, "change", "95 %", "p (Holm)", "")
    table = Table(headings, rows, text_columns=(0, 6), tones=_TONES)
    points: list[str | Points | Table] = [Points(said)] if said else []
    if several and not said:
        points = ["Nothing differs beyond chance."]
    return LookView(f"differences of {group}", f"What {group} does differently", [words, *points, table], None)


def sentence(name: str, one: Difference, group: str, first: str) -> str:
    """Return a sentence about a difference."""
    decimals = _decimals(name)
    more = "more" if one.change > 0 else "less"
    return (
        f"{name}: {fixed(one.ours, decimals)} for {group}, {fixed(one.theirs, decimals)} for {first} "
        f"({more} by {fixed(abs(one.change), decimals)}, {ends(one.difference, decimals)})"
    )


def _row(name: str, one: Difference) -> list[str]:
    decimals = _decimals(name)
    return [
        name,
        fixed(one.theirs, decimals),
        fixed(one.ours, decimals),
        signed(one.change, decimals),
        ends(one.difference, decimals),
        p_value(one.p),
        "differs" if one.p is not None and one.p < 0.05 else "",
    ]


def _decimals(name: str) -> int:
    return {"nats": 4, "heads": 1, "directions": 1}.get(PROFILE[name].unit, 3)


# Matched heads


def _matching(found: HeadComparison) -> LookView:
    first = found.groups[0].name
    if not found.similarities:
        return LookView(
            "matching", "Are they other heads?", [f"A group without maps has no heads to match with {first}’s."], None
        )
    rows, said = [], []
    for group, one in found.similarities.items():
        rows.append(
            [
                group,
                *(fixed(mean(one.values[name])) for name in ("another seed", "another variant", "the same seed")),
                fixed(one.control),
                NOTHING if one.gap is None else f"{signed(one.gap.mean, 2)} ({ends(one.gap, 2)})",
            ]
        )
        said.append(_verdict(group, first, one))
    words = (
        "Heads of two runs are matched within their layers so that their maps are as similar as possible; shown is the "
        f"mean cosine. A run of {first} with another seed of {first}; with that other seed of the variant; and with "
        "the same seed of the variant, which began with the same weights as far as they have the same shapes. Shuffled "
        "is what a match with shuffled weights reaches."
    )
    headings = ("variant", "another seed", "another variant", "the same seed", "shuffled", "variant − seed (95 %)")
    return LookView("matching", "Are they other heads?", [words, Points(said), Table(headings, rows)], None)


def _verdict(group: str, first: str, one: MatchedSimilarity) -> str:
    if one.gap is None:
        return f"{group}: one run in a group cannot tell a variant from a seed."
    if one.gap.high < 0:
        return f"{group}: its heads are less similar to {first}’s than those of another seed of {first} are."
    if one.gap.low > 0:
        return f"{group}: its heads are more similar to {first}’s than those of another seed are."
    return f"{group}: its heads differ from {first}’s no more than another seed’s do, as far as these runs can tell."


# Side by side


def _side_by_side(found: HeadComparison) -> Section:
    """Show one run of each group: below each head of the first those that match it."""
    first = found.groups[0].name
    look = found.looks[first]
    rows: list[MapRow] = []
    groups = (first, *(group for group in found.looks if group != first))
    for layer in look.of("self"):
        rows += [row for group in groups if (row := _map_row(found, group, layer.layer)) is not None]
    grid = MapGrid("matched heads", look.tokens, look.tokens, rows, names_above=True)
    seeds = [_seeds(group.seeds[:1]) or group.runs[0].name for group in found.groups]
    words = (
        f"One run of each group ({and_list(list(dict.fromkeys(seeds)))}) on the same text. Below each head of {first} "
        "stand those that match it, with their own layer and number, what they do, and the similarity of the maps."
    )
    return Section("Side by side", [words, grid])


def _map_row(found: HeadComparison, group: str, layer: int) -> MapRow | None:
    look = next((one for one in found.looks[group].of("self") if one.layer == layer), None)
    if look is None:
        return None
    name = f"{group} {layer}"
    if look.weights is None:
        return MapRow(name, [], look.visible.numpy(), look.absence)
    roles = found.studies[group]["self"].roles
    heads = []
    for head, similarity in _order(found, group, layer, look.heads):
        does = roles[layer, head].roles
        numbers = {"does": ", ".join(does) or NOTHING}
        if similarity is not None:
            numbers["cosine with the head above"] = fixed(similarity)
        tag = " ".join([f"{layer}.{head}", *does[:1]])
        heads.append(HeadMap(f"{group}, head {head}", look.weights[look.heads.index(head)].numpy(), numbers, tag))
    return MapRow(name, heads, look.visible.numpy())


def _order(found: HeadComparison, group: str, layer: int, heads: Sequence[int]) -> list[tuple[int, float | None]]:
    """Return the heads of a group in the order of the first group's, then those without a match."""
    if group not in found.matched:
        return [(head, None) for head in heads]
    pairs = {pair.a: pair for pair in found.matched[group].pairs if pair.a[0] == layer}
    placed = [(pairs[place].b[1], pairs[place].similarity) for place in sorted(pairs)]
    used = {head for head, _ in placed}
    return [*placed, *((head, None) for head in heads if head not in used)]
