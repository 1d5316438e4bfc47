"""Views of a model's heads: the results of a study, and their development over the checkpoints of a run."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

from attnlab.corpora import Batch
from attnlab.formats import NOTHING, and_list, fixed, percent, plural, signed
from attnlab.lens.heads.role_scores import ROLES
from attnlab.lens.heads.roles import NUMBERS, HeadRole, head_roles
from attnlab.lens.heads.similarity import COPIES, HeadSimilarity, over_checkpoints
from attnlab.lens.heads.study import STRONGEST, PlaceStudy, Study, role_profile
from attnlab.lens.length_direction import Explained
from attnlab.lens.pages.look_page import LookView, ends, shade
from attnlab.lens.taps import Place
from attnlab.pages import Details, Points, Table
from attnlab.training import load_run

FEW = 24  # rows up to which a table is shown unfolded
_PAIRS = 10  # that are shown
LABELS: Mapping[Place, str] = {"self": "", "encoder": "encoder ", "cross": "cross-attention "}
SHORT = {role: role.removesuffix(" token") for role in ROLES}


def head_name(place: Place, layer: int, head: int) -> str:
    return f"{LABELS[place]}{layer}.{head}"


def head_tags(study: Study) -> dict[tuple[Place, int, int], str]:
    """Return the strongest role of each head that has one."""
    return {(place.place, one.layer, one.head): one.roles[0] for place, one in _heads(study) if one.roles}


def study_views(study: Study) -> list[LookView]:
    """Show what each head does, its importance, which are similar, and what draws their attention."""
    found = [_roles(study), _importance(study), _similar(study), _drawn(study)]
    return [view for view in found if view.parts]


def study_rows(study: Study) -> tuple[list[str], list[list[str]]]:
    """Return headings and a row for each head, short enough for a terminal."""
    headings = ["head", "does", "importance", "95 %", "entropy", "length", "direction", "position"]
    rows = []
    for place, one in _heads(study):
        importance = study.importance_of(place.place, one.layer, one.head)
        drawn = place.explained[one.layer][one.head]
        shares = [NOTHING] * 3 if drawn is None else [fixed(share) for share in _shares(drawn)]
        rows.append(
            [
                head_name(place.place, one.layer, one.head),
                does(one) or NOTHING,
                NOTHING if importance is None else signed(importance.mean),
                ends(importance),
                fixed(one.numbers["entropy"]),
                *shares,
            ]
        )
    if study.ablation is None:
        rows = [[*row[:2], *row[4:]] for row in rows]
        headings = [*headings[:2], *headings[4:]]
    return headings, rows


def does(one: HeadRole) -> str:
    """Return a head's roles, each with its excess over chance."""
    return ", ".join(f"{role} {_excess(one, role)}" for role in one.roles)


def _excess(one: HeadRole, role: str) -> str:
    found = one.scores[role]
    return NOTHING if found is None else fixed(found.excess.mean)


def _heads(study: Study) -> Iterator[tuple[PlaceStudy, HeadRole]]:
    for place in study.places:
        for one in place.roles.heads:
            yield place, one


# What each does


def _roles(study: Study) -> LookView:
    points, without = [], []
    for role in ROLES:
        found = [
            f"{head_name(place.place, one.layer, one.head)} ({_excess(one, role)})"
            for place in study.places
            for one in place.roles.named(role)
        ]
        if found:
            points.append(f"{role}: {and_list(found)}")
        else:
            without.append(role)
    if without:
        points.append(f"no head: {and_list(without)}")
    rule = study.places[0].roles.rule
    table = _role_table(study)
    words = (
        f"On {study.texts}. A head is named by its layer and its number, both from 0. {rule} In brackets stands the "
        "excess: 0 is chance, 1 is all of the attention."
    )
    legend = Points([f"{name}: {one.meaning}" for name, one in NUMBERS.items()])
    every: list[Table | Points] = [table, legend]
    shown = every if len(table.rows) <= FEW else [Details(f"All {len(table.rows)} heads", every)]
    parts = [words, Points(points), *shown]
    return LookView("heads", "What each head does", parts, [_head_data(study, *pair) for pair in _heads(study)])


def _role_table(study: Study) -> Table:
    short = {"position explains": "position", "distance explains": "distance", "rank of QK": "QK", "rank of OV": "OV"}
    headings = ["head", "does", *(SHORT[role] for role in ROLES), *(short.get(n, n) for n in NUMBERS)]
    rows, shades = [], []
    for place, one in _heads(study):
        scores = [found.excess.mean if (found := one.scores[role]) is not None else None for role in ROLES]
        numbers = [fixed(value, 1 if name.startswith("rank") else 2) for name, value in one.numbers.items()]
        rows.append(
            [
                head_name(place.place, one.layer, one.head),
                ", ".join(one.roles) or NOTHING,
                *(fixed(score) for score in scores),
                *numbers,
            ]
        )
        shades.append([None, None, *map(shade, scores), *([None] * len(numbers))])
    return Table(headings, rows, text_columns=(0, 1), shades=shades)


def _head_data(study: Study, place: PlaceStudy, one: HeadRole) -> dict[str, object]:
    importance = study.importance_of(place.place, one.layer, one.head)
    drawn = place.explained[one.layer][one.head]
    return {"place": place.place, **vars(one), "importance": importance, "drawn_by": drawn}


# Importance


def _importance(study: Study) -> LookView:
    heading, ablation = "Importance of each head", study.ablation
    if ablation is None:
        return LookView("importance", heading, [], None)
    removed = sorted(ablation.removed.values(), key=lambda one: -one.importance.mean)
    largest = max(removed[0].importance.mean, 1e-9)
    rows, shades = [], []
    for one in removed:
        what = one.part.replace("_", "-") if one.part != "mlp" else "perceptron"
        name = f"{what} {one.layer}" if one.head is None else f"head {one.layer}.{one.head}"
        name = name if one.part != "cross_attention" or one.head is None else f"cross-attention {name}"
        rows.append([name, signed(one.importance.mean), ends(one.importance)])
        shades.append([None, shade(one.importance.mean / largest), None])
    heads = [one for one in removed if one.head is not None]
    none = sum(one.importance.low <= 0 for one in heads)
    words = (
        f"The loss is {ablation.loss:.3f} nats on {len(ablation.losses)} rows. Replacing what a part writes by its "
        "mean raises it by so much, with the 95 % interval over rows (ablation effect). Removed one at a time, "
        f"{none} of {plural(len(heads), 'head')} have no measurable effect: two that do the same each seem unimportant "
        "while the other is there."
    )
    headings = ("without", "loss rises by (nats)", "95 %")
    parts: list[str | Table | Details] = [words, Table(headings, rows[:FEW], shades=shades[:FEW])]
    if len(rows) > FEW:
        parts.append(Details(f"All {len(rows)} parts", [Table(headings, rows, shades=shades)]))
    data = {
        "loss": ablation.loss,
        "texts": len(ablation.losses),
        "parts": {one.name: one.importance for one in removed},
    }
    return LookView("importance", heading, parts, data)


# Which are similar


def _similar(study: Study) -> LookView:
    parts: list[str | Points | Table | Details] = [
        "The similarity of two heads, as a cosine: in what their attention adds to a uniform one (maps), and in what "
        "they write into the residual path beside what they always write (effects). Copies agree by "
        f"{COPIES:g} in both."
    ]
    data = {}
    for place in study.places:
        copies = [[head_name(place.place, *head) for head in group] for group in place.similarity.copies()]
        if not place.similarity.heads:
            parts.append("No layer has heads to compare.")
            continue
        redundancy = {of: place.similarity.redundancy(of) for of in ("maps", "effects")}
        label = f"{LABELS[place.place].strip() or 'heads'}: "
        means = and_list([f"{fixed(value)} in {of}" for of, value in redundancy.items()])
        said = "; ".join(and_list(group) for group in copies) if copies else "none"
        parts.append(
            f"{label}the most similar other head has, on average, a cosine of {means}. Copies of each other: {said}."
        )
        rows = _pairs(place.place, place.similarity)
        if rows:
            parts.append(Table(("two heads", "", "maps", "effects"), rows, text_columns=(0, 1)))
        data[place.place] = {"redundancy": redundancy, "copies": copies, "pairs": [list(row) for row in rows]}
    return LookView("redundancy", "Which heads are similar", parts, data)


def _pairs(place: Place, found: HeadSimilarity) -> list[list[str]]:
    """Return the pairs that are the most similar in what they write."""
    names = [head_name(place, *head) for head in found.heads]
    pairs = [(found.effects[a, b].item(), found.maps[a, b].item(), a, b) for a in range(len(names)) for b in range(a)]
    best = sorted((pair for pair in pairs if math.isfinite(pair[0])), reverse=True)[:_PAIRS]
    return [[names[b], names[a], fixed(maps), fixed(effects)] for effects, maps, a, b in best]


# What draws attention


def _shares(drawn: Explained) -> list[float]:
    """Return the shares of length, direction and position."""
    return [one.share for one in (drawn.norm, drawn.direction, drawn.position)]


def _drawn(study: Study) -> LookView:
    rows, shades, kept = [], [], []
    for place, one in _heads(study):
        drawn = place.explained[one.layer][one.head]
        if drawn is None:
            continue
        values = [*_shares(drawn), drawn.whole]
        kept.append(values)
        rows.append([head_name(place.place, one.layer, one.head), *(fixed(value) for value in values)])
        shades.append([None, *map(shade, values)])
    if not rows:
        return LookView("drawn_by", "Length or direction", [], None)
    means = [sum(column) / len(kept) for column in zip(*kept, strict=True)]
    words = (
        "Of the differences in how much attention keys receive (its logarithm), the mean over heads says that "
        f"{percent(means[0])} follow a key’s length, {percent(means[1])} its direction and {percent(means[2])} its "
        f"position, together {percent(means[3])} (adjusted R², divided by Shapley’s rule)."
    )
    names = ("length", "direction", "position", "together")
    table = Table(("head", *names), rows, shades=shades)
    shown = table if len(rows) <= FEW else Details(f"All {len(rows)} heads", [table])
    return LookView("drawn_by", "Length or direction", [words, shown], dict(zip(names, means, strict=True)))


# Over training


def training_view(path: Path, batch: Batch, delimiters: Collection[int]) -> LookView:
    """Show the strongest head of each role, and how similar heads are to each other and to the final ones, by step."""
    similar = over_checkpoints(path, batch)
    last = max(similar)
    rows, data = [], []
    for step, (similarity, matching) in similar.items():
        model = load_run(path, None if step == last else step).model
        roles = role_profile(head_roles(model, batch, delimiters=delimiters, controls=0))
        strongest = {role: roles[f"{role}, {STRONGEST}"] for role in ROLES}
        numbers = {
            "redundancy in maps": similarity.redundancy("maps"),
            "redundancy in effects": similarity.redundancy("effects"),
            "like the final heads": matching.mean,
            "like shuffled ones": matching.control,
        }
        rows.append([str(step), *(fixed(value) for value in (*strongest.values(), *numbers.values()))])
        data.append({"step": step, "strongest": strongest, **numbers})
    words = (
        "After each step that was saved: the excess over chance of the head that plays a role the most; the similarity "
        "of each head to the most similar one, in maps and in effects; and that to the final heads, matched within "
        "their layers, beside what shuffled weights would show. A run keeps its last checkpoints only."
    )
    headings = ("step", *SHORT.values(), "maps", "effects", "final", "shuffled")
    return LookView("over_training", "Over training", [words, Table(headings, rows)], data)
