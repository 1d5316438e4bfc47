"""The sections of a report on more than the loss: what was learnt by heart, and what attention is like."""

from __future__ import annotations

from attnlab.experiments.judging.ranking import others
from attnlab.experiments.reporting.charts import measure_figures
from attnlab.experiments.reporting.formats import NOTHING, measure_text, nats_interval, nats_text
from attnlab.experiments.results import ArmResult, Comparison
from attnlab.lens import RUN_MEASURES
from attnlab.pages import Details, Gallery, Section, Table
from attnlab.statistics import Interval, mean_interval

GAP, TRAIN_LOSS = "gap", "train loss"  # measures that have a section of their own


def gap_section(comparison: Comparison) -> Section:
    rows = []
    for arm in (comparison.baseline, *others(comparison)):
        found = arm.measure(GAP)
        if found is not None:
            paired = None if arm is comparison.baseline else _paired(arm, comparison.baseline, GAP)
            loss = arm.measure(TRAIN_LOSS)
            train = NOTHING if loss is None else f"{loss.mean:.4f}"
            rows.append((arm.name, train, *_nats(found), *_nats(paired)))
    if not rows:
        return Section("Train–validation gap", [])
    name = comparison.baseline.name
    headings = ("variant", "train loss\n(nats)", "gap", "95 %", f"gap − {name}'s", "95 %")
    words = (
        "Is a variant a regulariser? The gap is the loss on rows that were held back less the loss on rows that were "
        "trained on, both of the finished model: the larger, the more was learnt by heart. A variant whose gap lies "
        f"below {name}'s regularises. The intervals are uncorrected: they suggest, and decide nothing."
    )
    return Section("Train–validation gap", [words, Table(headings, rows)])


def _paired(arm: ArmResult, baseline: ArmResult, name: str) -> Interval | None:
    theirs = {cell.seed: cell.measures[name] for cell in baseline.cells if name in cell.measures}
    both = [
        cell.measures[name] - theirs[cell.seed] for cell in arm.cells if name in cell.measures and cell.seed in theirs
    ]
    return mean_interval(both) if len(both) > 1 else None


def _with_interval(found: Interval | None) -> tuple[str, str]:
    if found is None:
        return NOTHING, NOTHING
    return measure_text(found.mean), f"{measure_text(found.low)} … {measure_text(found.high)}"


def _nats(found: Interval | None) -> tuple[str, str]:
    return (NOTHING, NOTHING) if found is None else (nats_text(found.mean), nats_interval(found.low, found.high))


def measures_section(comparison: Comparison) -> Section:
    names = measure_names(comparison)
    if not names:
        return Section("Measures", [])
    arms = [comparison.baseline, *others(comparison)]
    meanings = [(name, *_meaning(name)) for name in names]
    rows = [
        (arm.name, *(f"{value} ({ends})" if value != NOTHING else NOTHING for value, ends in found))
        for arm in arms
        for found in [[_with_interval(arm.measure(name)) for name in names]]
    ]
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
    """The measures that any run has, those that are known first and in their order; the gap has its own section."""
    present = {name for arm in comparison.arms for cell in arm.cells for name in cell.measures} - {GAP, TRAIN_LOSS}
    known = [name for name in RUN_MEASURES if name in present]
    return known + sorted(present - set(known))


def _meaning(name: str) -> tuple[str, str]:
    found = RUN_MEASURES.get(name)
    return (found.meaning, found.unit) if found else ("", "")
