"""The section of a report on what the change did to the heads: how far some head of each run plays each role.

Every run was looked at on the same validation rows; a variant is set against the baseline seed by seed.
"""

from __future__ import annotations

from collections.abc import Sequence

from attnlab.experiments.judging.ranking import others
from attnlab.experiments.reporting.formats import NOTHING, measure_text, p_text, signed
from attnlab.experiments.results import ArmResult, Comparison
from attnlab.lens.heads.role_scores import ROLES
from attnlab.lens.heads.study import MEAN, STRONGEST
from attnlab.pages import Details, Part, Points, Section, Table
from attnlab.statistics import Interval, holm, mean_interval, paired_t

HEADING = "What did the change do to the heads?"
_ALPHA = 0.05
_DECIMALS = 3


def heads_section(comparison: Comparison) -> Section:
    arms = [arm for arm in others(comparison) if any(cell.heads for cell in arm.cells)]
    if not arms or not any(cell.heads for cell in comparison.baseline.cells):
        return Section(HEADING, [])
    name = comparison.baseline.name
    words = (
        "A role is a place where a head may look: the previous token, the first, its own, the same token elsewhere, "
        "the token that came after it then (induction), delimiters. Told is the head of each run that plays it the "
        "most: by how much its attention exceeds chance, 0 none and 1 all of it. The first row is "
        f"{name}, the others are against it at the same seed; shaded is what differs at 95 % over seeds, uncorrected."
    )
    found = _sentences(comparison, arms)
    points: list[Part] = (
        ["Corrected for all variants and roles (Holm), these differ:", Points(found)]
        if found
        else ["Corrected for all variants and roles (Holm), nothing differs."]
    )
    more = f"`attnlab look --compare {comparison.path}` shows the heads side by side, what each is worth, and more."
    ends = Details("With intervals", [_with_intervals(comparison, arms, which) for which in (STRONGEST, MEAN)])
    return Section(HEADING, [words, _changes(comparison, arms), *points, ends, more])


def _changes(comparison: Comparison, arms: Sequence[ArmResult]) -> Table:
    """The strongest heads: the baseline's, and the mean change of each variant."""
    rows = [[comparison.baseline.name, *(_mean(comparison.baseline, f"{role}, {STRONGEST}") for role in ROLES)]]
    shades: list[list[float | None]] = [[None] * (1 + len(ROLES))]
    for arm in arms:
        found = [_interval(_paired(arm, comparison.baseline, f"{role}, {STRONGEST}")) for role in ROLES]
        rows.append([arm.name, *(NOTHING if one is None else signed(one.mean, _DECIMALS) for one in found)])
        shades.append([None, *(min(1.0, 0.1 + 2 * abs(one.mean)) if one and _differs(one) else None for one in found)])
    return Table(("variant", *ROLES), rows, shades=shades)


def _with_intervals(comparison: Comparison, arms: Sequence[ArmResult], which: str) -> Table:
    rows = []
    for arm in arms:
        found = [_interval(_paired(arm, comparison.baseline, f"{role}, {which}")) for role in ROLES]
        rows.append([arm.name, *(NOTHING if one is None else _with_ends(one) for one in found)])
    caption = "The strongest head of each run" if which == STRONGEST else "The mean over all heads"
    return Table(("variant", *ROLES), rows, caption=f"{caption}, against {comparison.baseline.name}; 95 % over seeds.")


def _differs(one: Interval) -> bool:
    return one.low > 0 or one.high < 0


def _mean(arm: ArmResult, name: str) -> str:
    values = [cell.heads[name] for cell in arm.cells if name in cell.heads]
    return measure_text(sum(values) / len(values)) if values else NOTHING


def _paired(arm: ArmResult, baseline: ArmResult, name: str) -> list[float]:
    theirs = {cell.seed: cell.heads[name] for cell in baseline.cells if name in cell.heads}
    return [cell.heads[name] - theirs[cell.seed] for cell in arm.cells if name in cell.heads and cell.seed in theirs]


def _interval(differences: Sequence[float]) -> Interval | None:
    return None if len(differences) < 2 else mean_interval(differences)


def _with_ends(found: Interval) -> str:
    low, mean, high = (signed(value, _DECIMALS) for value in (found.low, found.mean, found.high))
    return f"{mean} ({low} … {high})"


def _sentences(comparison: Comparison, arms: Sequence[ArmResult]) -> list[str]:
    tested = {
        (arm.name, role): values
        for arm in arms
        for role in ROLES
        if len(values := _paired(arm, comparison.baseline, f"{role}, {STRONGEST}")) > 1
    }
    p_values = holm([paired_t(values) for values in tested.values()]) if tested else []
    found = [(p, name, role, values) for ((name, role), values), p in zip(tested.items(), p_values, strict=True)]
    return [
        f"{name}, {role}: {_with_ends(mean_interval(values))}, p {_is(p_text(p))}"
        for p, name, role, values in sorted(found, key=lambda one: (one[1], one[0]))
        if p < _ALPHA
    ]


def _is(p: str) -> str:
    return p if p.startswith("<") else f"= {p}"
