"""What the study of a model's heads found, for a page and as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from attnlab.lens.heads.redundancy import COPIES, Likeness
from attnlab.lens.heads.role_scores import ROLES
from attnlab.lens.heads.roles import NUMBERS, HeadRole
from attnlab.lens.heads.studying import PlaceStudy, Study
from attnlab.lens.maps.attention_maps import Place
from attnlab.lens.maps.length_direction import Explained
from attnlab.lens.pages.views import NOTHING, View, counted, ends, joined, number, percent, plain, signed
from attnlab.pages import Details, Points, Table

FEW = 24  # rows of a table that need not be opened first
_ALIKE = 10  # pairs that are shown
LABELS: Mapping[Place, str] = {"self": "", "encoder": "encoder ", "cross": "cross-attention "}
SHORT = {role: role.removesuffix(" token") for role in ROLES}


def head_name(place: Place, layer: int, head: int) -> str:
    return f"{LABELS[place]}{layer}.{head}"


def head_tags(study: Study) -> dict[tuple[Place, int, int], str]:
    """The strongest role of each head that has one."""
    return {(place.place, one.layer, one.head): one.roles[0] for place, one in _heads(study) if one.roles}


def study_views(study: Study) -> list[View]:
    """What each head does, what it is worth, which are alike, and what draws their attention."""
    found = [_roles(study), _worth(study), _alike(study), _drawn(study)]
    return [view for view in found if view.parts]


def study_rows(study: Study) -> tuple[list[str], list[list[str]]]:
    """A row for each head, short enough for a terminal."""
    headings = ["head", "does", "worth", "95 %", "entropy", "length", "direction", "position"]
    rows = []
    for place, one in _heads(study):
        worth = study.worth_of(place.place, one.layer, one.head)
        drawn = place.explained[one.layer][one.head]
        shares = [NOTHING] * 3 if drawn is None else [number(_part(drawn, name)) for name in _DRAWN]
        rows.append(
            [
                head_name(place.place, one.layer, one.head),
                does(one) or NOTHING,
                NOTHING if worth is None else signed(worth.mean),
                ends(worth),
                number(one.numbers["entropy"]),
                *shares,
            ]
        )
    if study.worth is None:
        rows = [[*row[:2], *row[4:]] for row in rows]
        headings = [*headings[:2], *headings[4:]]
    return headings, rows


def does(one: HeadRole) -> str:
    """A head's roles, each with its excess over chance."""
    return ", ".join(f"{role} {_excess(one, role)}" for role in one.roles)


def _excess(one: HeadRole, role: str) -> str:
    found = one.scores[role]
    return NOTHING if found is None else number(found.excess.mean)


def _heads(study: Study) -> Iterator[tuple[PlaceStudy, HeadRole]]:
    for place in study.places:
        for one in place.roles.heads:
            yield place, one


# What each does


def _roles(study: Study) -> View:
    points, nobody = [], []
    for role in ROLES:
        found = [
            f"{head_name(place.place, one.layer, one.head)} ({_excess(one, role)})"
            for place in study.places
            for one in place.roles.named(role)
        ]
        if found:
            points.append(f"{role}: {joined(found)}")
        else:
            nobody.append(role)
    if nobody:
        points.append(f"no head: {joined(nobody)}")
    rule = study.places[0].roles.rule
    table = _role_table(study)
    words = (
        f"On {study.texts}. A head is named by its layer and its number, both from 0. {rule} In brackets stands the "
        "excess: 0 is chance, 1 is all of the attention."
    )
    shown = table if len(table.rows) <= FEW else Details(f"All {len(table.rows)} heads", [table, _legend()])
    parts = [words, Points(points), shown, *([] if isinstance(shown, Details) else [_legend()])]
    return View("heads", "What each head does", parts, [_head_data(study, *pair) for pair in _heads(study)])


def _legend() -> Points:
    numbers = {name: one.meaning for name, one in NUMBERS.items()}
    return Points([f"{name}: {meaning}" for name, meaning in numbers.items()])


def _role_table(study: Study) -> Table:
    short = {"position explains": "position", "distance explains": "distance", "rank of QK": "QK", "rank of OV": "OV"}
    headings = ["head", "does", *(SHORT[role] for role in ROLES), *(short.get(n, n) for n in NUMBERS)]
    rows, shades = [], []
    for place, one in _heads(study):
        scores = [found.excess.mean if (found := one.scores[role]) is not None else None for role in ROLES]
        numbers = [number(value, 1 if name.startswith("rank") else 2) for name, value in one.numbers.items()]
        rows.append(
            [
                head_name(place.place, one.layer, one.head),
                ", ".join(one.roles) or NOTHING,
                *(number(score) for score in scores),
                *numbers,
            ]
        )
        shades.append([None, None, *(None if score is None else min(1.0, max(0.0, score)) for score in scores)])
        shades[-1] += [None] * len(numbers)
    return Table(headings, rows, text_columns=(0, 1), shades=shades)


def _head_data(study: Study, place: PlaceStudy, one: HeadRole) -> dict[str, Any]:
    drawn = place.explained[one.layer][one.head]
    found: dict[str, Any] = plain(
        {
            "place": place.place,
            "layer": one.layer,
            "head": one.head,
            "roles": one.roles,
            "scores": {role: None if score is None else asdict(score) for role, score in one.scores.items()},
            "numbers": dict(one.numbers),
            "worth": study.worth_of(place.place, one.layer, one.head),
            "drawn_by": None if drawn is None else asdict(drawn),
        }
    )
    return found


# What each is worth


def _worth(study: Study) -> View:
    if study.worth is None:
        return View("worth", "What each head is worth", [], None)
    removed = sorted(study.worth.removed.values(), key=lambda one: -one.worth.mean)
    largest = max(removed[0].worth.mean, 1e-9)
    rows, shades = [], []
    for one in removed:
        what = one.part.replace("_", "-") if one.part != "mlp" else "perceptron"
        name = f"{what} {one.layer}" if one.head is None else f"head {one.layer}.{one.head}"
        name = name if one.part != "cross_attention" or one.head is None else f"cross-attention {name}"
        rows.append([name, signed(one.worth.mean), ends(one.worth)])
        shades.append([None, min(1.0, max(0.0, one.worth.mean / largest)), None])
    heads = [one for one in removed if one.head is not None]
    none = sum(one.worth.low <= 0 for one in heads)
    words = (
        f"The loss is {study.worth.loss:.3f} nats on {len(study.worth.losses)} rows. Replacing what a part writes by "
        "its mean raises it by so much, with the 95 % interval over rows. Of "
        f"{counted(len(heads), 'head')}, {none} cannot be told from worthless, one at a time: two that do the same "
        "each seem so while the other is there."
    )
    headings = ("without", "loss rises by (nats)", "95 %")
    table = Table(headings, rows, shades=shades)
    first = Table(headings, rows[:FEW], shades=shades[:FEW])
    parts: list[str | Table | Details] = [words, first]
    if len(rows) > FEW:
        parts.append(Details(f"All {len(rows)} parts", [table]))
    data = {"loss": study.worth.loss, "texts": len(study.worth.losses), "parts": {n.name: n.worth for n in removed}}
    return View("worth", "What each head is worth", parts, plain(data))


# Which are alike


def _alike(study: Study) -> View:
    parts: list[str | Points | Table | Details] = [
        "How alike two heads are, as a cosine: in what their attention adds to an even one (maps), and in what they "
        f"write into the residual path beside what they always write (effects). Copies agree by {COPIES:g} in both."
    ]
    data = {}
    for place in study.places:
        likeness = place.likeness
        copies = [[head_name(place.place, *head) for head in group] for group in likeness.copies()]
        redundancy = {of: likeness.redundancy(of) for of in ("maps", "effects")}
        label = f"{LABELS[place.place].strip() or 'heads'}: "
        means = joined([f"{number(value)} in {of}" for of, value in redundancy.items()])
        said = "; ".join(joined(group) for group in copies) if copies else "none"
        parts.append(
            f"{label}the most similar other head has, on average, a cosine of {means}. Copies of each other: {said}."
        )
        rows = _pairs(place, likeness)
        if rows:
            parts.append(Table(("two heads", "", "maps", "effects"), rows, text_columns=(0, 1)))
        data[place.place] = {"redundancy": redundancy, "copies": copies, "pairs": [list(row) for row in rows]}
    return View("redundancy", "Which heads are alike", parts, plain(data))


def _pairs(place: PlaceStudy, likeness: Likeness) -> list[list[str]]:
    """The pairs that are the most alike in what they write."""
    count = len(likeness.heads)
    found = [(likeness.effects[a, b].item(), likeness.maps[a, b].item(), a, b) for a in range(count) for b in range(a)]
    best = sorted((one for one in found if math.isfinite(one[0])), reverse=True)[:_ALIKE]
    return [
        [
            head_name(place.place, *likeness.heads[b]),
            head_name(place.place, *likeness.heads[a]),
            number(maps),
            number(effects),
        ]
        for effects, maps, a, b in best
    ]


# What draws attention

_DRAWN = ("norm", "direction", "position")


def _part(drawn: Explained, name: str) -> float:
    share: float = getattr(drawn, name).share
    return share


def _drawn(study: Study) -> View:
    rows, shades, kept = [], [], []
    for place, one in _heads(study):
        drawn = place.explained[one.layer][one.head]
        if drawn is None:
            continue
        values = [*(_part(drawn, name) for name in _DRAWN), drawn.whole]
        kept.append(values)
        rows.append([head_name(place.place, one.layer, one.head), *(number(value) for value in values)])
        shades.append([None, *(min(1.0, max(0.0, value)) for value in values)])
    if not rows:
        return View("drawn_by", "Length or direction", [], None)
    means = [sum(column) / len(kept) for column in zip(*kept, strict=True)]
    words = (
        "Of the differences in how much attention keys receive (its logarithm), the mean over heads says that "
        f"{percent(means[0])} follow a key’s length, {percent(means[1])} its direction and {percent(means[2])} its "
        f"position, together {percent(means[3])} (adjusted R², divided by Shapley’s rule)."
    )
    table = Table(("head", "length", "direction", "position", "together"), rows, shades=shades)
    shown = table if len(rows) <= FEW else Details(f"All {len(rows)} heads", [table])
    names = ("length", "direction", "position", "together")
    return View("drawn_by", "Length or direction", [words, shown], plain(dict(zip(names, means, strict=True))))
