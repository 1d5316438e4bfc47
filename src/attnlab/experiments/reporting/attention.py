"""The sections of a report on more than the loss: memorised text, what the heads do, and what attention is like.

Every run was looked at on the same validation rows; a variant is set against the baseline seed by seed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from attnlab.attention import mixture
from attnlab.errors import AttnlabError
from attnlab.experiments.numbers import measure_interval, measure_text, nats_text, with_ends
from attnlab.experiments.reporting.curves import measure_figures
from attnlab.experiments.results import ArmResult, Comparison
from attnlab.formats import NOTHING, and_list, fixed, interval, p_relation, signed
from attnlab.lens import RUN_MEASURES
from attnlab.lens.heads.role_scores import ROLES
from attnlab.lens.heads.study import MEAN, STRONGEST
from attnlab.pages import Details, Gallery, Part, Points, Section, Table
from attnlab.runs.ledger import DEFAULT_ROOT
from attnlab.statistics import Interval, holm, mean_interval, paired_t

HEADING = "What did the change do to the heads?"
_GAP, _TRAIN_LOSS = "gap", "train loss"  # measures that have a section of their own
_ALPHA = 0.05
_DECIMALS = 3


def gap_section(comparison: Comparison) -> Section:
    """Return the difference between training and validation loss of every arm."""
    baseline, rows = comparison.baseline, []
    for arm in (baseline, *comparison.variants):
        found, loss = arm.measure(_GAP), arm.measure(_TRAIN_LOSS)
        if found is not None:
            paired = None if arm is baseline else _interval(arm.differences(baseline, "measures", _GAP))
            rows.append((arm.name, fixed(loss.mean if loss else None, 4), *_nats(found), *_nats(paired)))
    if not rows:
        return Section("Train–validation gap", [])
    name = baseline.name
    headings = ("variant", "train loss\n(nats)", "gap", "95 %", f"gap − {name}'s", "95 %")
    words = (
        "Is a variant a regulariser? The gap is the loss on rows that were held back less the loss on rows that were "
        "trained on, both of the finished model: the larger, the more was learnt by heart. A variant whose gap lies "
        f"below {name}'s regularises. The intervals are uncorrected: they suggest, and decide nothing."
    )
    return Section("Train–validation gap", [words, Table(headings, rows)])


def _interval(differences: Sequence[float]) -> Interval | None:
    return None if len(differences) < 2 else mean_interval(differences)


def _nats(found: Interval | None) -> tuple[str, str]:
    return (NOTHING, NOTHING) if found is None else (nats_text(found.mean), interval(found.low, found.high, 4))


def heads_section(comparison: Comparison) -> Section:
    """Return how far some head of each run plays each role."""
    arms = [arm for arm in comparison.variants if any(run.heads for run in arm.runs)]
    blind = _without_maps(comparison)
    if not arms or not any(run.heads for run in comparison.baseline.runs):
        return Section(HEADING, [blind] if blind else [])
    name = comparison.baseline.name
    words = (
        "A role is a place that a head may attend to: the previous token, the first, its own, the same token "
        "elsewhere, the token that came after it then (induction), delimiters. Shown is the head of each run that "
        "plays it the most: by how much its attention exceeds chance, 0 none and 1 all of it. The first row is "
        f"{name}, the others are against it at the same seed; shaded is what differs at 95 % over seeds, uncorrected."
    )
    found = _sentences(comparison, arms)
    points: list[Part] = (
        ["Corrected for all variants and roles (Holm), these differ:", Points(found)]
        if found
        else ["Corrected for all variants and roles (Holm), nothing differs."]
    )
    place = DEFAULT_ROOT / comparison.path.name  # and not where it lies now: a report is read elsewhere, too
    more = f"`attnlab look --compare {place}` shows the heads side by side, the importance of each, and more."
    ends = Details("With intervals", [_with_intervals(comparison, arms, which) for which in (STRONGEST, MEAN)])
    notes = [blind] if blind else []
    return Section(HEADING, [words, *notes, _changes_table(comparison, arms), *points, ends, more])


def _without_maps(comparison: Comparison) -> str:
    """Say which variants have whole layers of one's own, whose attention cannot be looked at."""
    found = []
    for arm in (comparison.baseline, *comparison.variants):
        with contextlib.suppress(AttnlabError):  # as where the file that adds it was not read
            if any(one.spec().layer is not None for one in mixture(arm.arm.run.variant).variants):
                found.append(arm.name)
    if not found:
        return ""
    return f"These variants contain whole layers of your own, which have no attention maps: {and_list(found)}."


def _changes_table(comparison: Comparison, arms: Sequence[ArmResult]) -> Table:
    """Return the strongest heads: the baseline's, and the mean change of each variant."""
    rows = [[comparison.baseline.name, *(_mean(comparison.baseline, f"{role}, {STRONGEST}") for role in ROLES)]]
    shades: list[list[float | None]] = [[None] * (1 + len(ROLES))]
    for arm in arms:
        found = [_interval(_changes(comparison, arm, role, STRONGEST)) for role in ROLES]
        rows.append([arm.name, *(signed(one.mean if one else None, _DECIMALS) for one in found)])
        shades.append([None, *(min(1.0, 0.1 + 2 * abs(one.mean)) if one and _differs(one) else None for one in found)])
    return Table(("variant", *ROLES), rows, shades=shades)


def _with_intervals(comparison: Comparison, arms: Sequence[ArmResult], which: str) -> Table:
    rows = []
    for arm in arms:
        found = [_interval(_changes(comparison, arm, role, which)) for role in ROLES]
        rows.append([arm.name, *(NOTHING if one is None else with_ends(one, _DECIMALS) for one in found)])
    caption = "The strongest head of each run" if which == STRONGEST else "The mean over all heads"
    return Table(("variant", *ROLES), rows, caption=f"{caption}, against {comparison.baseline.name}; 95 % over seeds.")


def _differs(one: Interval) -> bool:
    return one.low > 0 or one.high < 0


def _mean(arm: ArmResult, name: str) -> str:
    values = [run.heads[name] for run in arm.runs if name in run.heads]
    return measure_text(sum(values) / len(values)) if values else NOTHING


def _changes(comparison: Comparison, arm: ArmResult, role: str, which: str) -> list[float]:
    return arm.differences(comparison.baseline, "heads", f"{role}, {which}")


def _sentences(comparison: Comparison, arms: Sequence[ArmResult]) -> list[str]:
    tested = {
        (arm.name, role): values
        for arm in arms
        for role in ROLES
        if len(values := _changes(comparison, arm, role, STRONGEST)) > 1
    }
    p_values = holm([paired_t(values) for values in tested.values()]) if tested else []
    found = [(p, name, role, values) for ((name, role), values), p in zip(tested.items(), p_values, strict=True)]
    return [
        f"{name}, {role}: {with_ends(mean_interval(values), _DECIMALS)}, p {p_relation(p)}"
        for p, name, role, values in sorted(found, key=lambda one: (one[1], one[0]))
        if p < _ALPHA
    ]


def measures_section(comparison: Comparison) -> Section:
    """Return the measures of attention, as figures and as numbers."""
    names = measure_names(comparison)
    if not names:
        return Section("Measures", [])
    arms = [comparison.baseline, *comparison.variants]
    known = {name: RUN_MEASURES.get(name) for name in names}
    meanings = [(name, one.meaning if one else "", one.unit if one else "") for name, one in known.items()]
    rows = [(arm.name, *(measure_interval(arm.measure(name)) for name in names)) for arm in arms]
    caption = (
        f"Means over the seeds with their 95 % intervals, uncorrected; the dashes are {comparison.baseline.name}. A "
        "variant without a mark has nothing to measure, as one without keys has no length of keys."
    )
    return Section(
        "Measures",
        [
            Table(("measure", "what it is", "unit"), meanings, text_columns=(0, 1, 2), wrap_columns=(1,)),
            Gallery(measure_figures(comparison, names), caption),
            Details("All measures as numbers", [Table(("variant", *names), rows)]),
        ],
    )


def measure_names(comparison: Comparison) -> list[str]:
    """Return the measures that any run has, known ones first and in their order; the gap has its own section."""
    present = {name for arm in comparison.arms for run in arm.runs for name in run.measures} - {_GAP, _TRAIN_LOSS}
    known = [name for name in RUN_MEASURES if name in present]
    return known + sorted(present - set(known))
