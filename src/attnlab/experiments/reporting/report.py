"""The report of a comparison: one page that works offline, the verdict first, then all that it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from attnlab.experiments.judging.claim_judging import Standpoint
from attnlab.experiments.judging.ranking import in_order, others
from attnlab.experiments.judging.trends import arm_trends
from attnlab.experiments.reporting.axis import DifferenceAxis
from attnlab.experiments.reporting.charts import cost_chart, differences_chart
from attnlab.experiments.reporting.curves import curve_figures, gap_figures, rate_figures
from attnlab.experiments.reporting.formats import NOTHING, byte_text, count_text, nats_text, p_text, ratio_text
from attnlab.experiments.reporting.plan_words import arms_table, made_words, plan_table
from attnlab.experiments.reporting.report_heads import heads_section
from attnlab.experiments.reporting.report_measures import gap_section, measures_section
from attnlab.experiments.reporting.rung_charts import size_chart
from attnlab.experiments.reporting.rung_tables import SETTLING_HEADINGS, rung_headings, rung_rows, settling_rows
from attnlab.experiments.reporting.wording import (
    HEADINGS,
    TEXT_COLUMNS,
    confidence,
    headline,
    notes,
    row_words,
    rows,
    scale_words,
    trend_words,
    verdict_sentences,
)
from attnlab.experiments.results import Comparison
from attnlab.pages import Details, Figure, Gallery, Note, Page, Part, Points, Section, Table, Tone, write_page

TONES: Mapping[str, Tone] = {
    "better": "good",
    "worse": "bad",
    "unstable": "bad",
    "equivalent": "even",
    "undecided": "open",
    "unsettled": "open",
    "reproduced": "good",
    "not reproduced": "bad",
    "underpowered": "open",
}


def comparison_page(comparison: Comparison, standpoints: Sequence[Standpoint] = ()) -> Page:
    """The whole report; `standpoints` where published claims were judged."""
    sections = [
        _sizes(comparison),
        _verdict(comparison),
        _differences(comparison),
        _claims(standpoints),
        _curves(comparison),
        _cost(comparison),
        gap_section(comparison),
        heads_section(comparison),
        measures_section(comparison),
        _rates(comparison),
        _plan(comparison),
        _runs(comparison),
    ]
    return Page(
        title=_title(comparison),
        lead=headline(comparison),
        sections=[section for section in sections if section.content],
    )


def write_report(comparison: Comparison, path: Path, standpoints: Sequence[Standpoint] = ()) -> None:
    """Write the report as a whole or not at all."""
    write_page(comparison_page(comparison, standpoints), path)


def _title(comparison: Comparison) -> str:
    others = comparison.plan.others
    return f"{others[0].name if len(others) == 1 else f'{len(others)} variants'} against {comparison.baseline.name}"


def _sizes(comparison: Comparison) -> Section:
    """Return the difference against size; empty for a comparison at one size."""
    if not comparison.lower:
        return Section("Difference against size", [])
    trends, margin = arm_trends(comparison), comparison.plan.request.margin
    name = comparison.baseline.name
    caption = (
        f"Below 0 is better than {name}. Bars are intervals of the mean over {len(comparison.seeds)} paired seeds; the "
        f"grey band is the margin of ±{100 * margin:g} %."
    )
    words = (
        "The largest size decides. Half of the chance of a false verdict is spent there and the rest on the smaller "
        "sizes; the trend is tested apart from them."
    )
    content: list[Part] = [
        trend_words(comparison),
        Figure(size_chart(trends, name, comparison.plan.procedure.margin), caption),
        Table(rung_headings(trends), rung_rows(trends)),
        words,
    ]
    if settled := settling_rows(trends):
        content.append(
            Details("Have the differences settled?", [Table(SETTLING_HEADINGS, settled, text_columns=(0, 1, 5))])
        )
    return Section("Difference against size", content)


def _verdict(comparison: Comparison) -> Section:
    table = Table(HEADINGS, rows(comparison), text_columns=TEXT_COLUMNS, tones=TONES)
    return Section(
        "Verdict",
        [
            Note(scale_words(comparison.plan)),
            table,
            row_words(comparison),
            Points(verdict_sentences(comparison)),
            "To know before it is believed:",
            Points(notes(comparison)),
        ],
    )


def _differences(comparison: Comparison) -> Section:
    name, margin = comparison.baseline.name, comparison.plan.request.margin
    bent = DifferenceAxis.of(comparison.judgements, comparison.plan.procedure.margin).bent
    axis = "The axis is straight near zero and logarithmic far from it." if bent else ""
    caption = (
        f"Left is better than {name}. A ring is one seed, paired with {name} at the same seed; a diamond is their mean "
        f"with its interval at {confidence(comparison.plan)}. The grey band is the margin of ±{100 * margin:g} %: what "
        f"lies inside it hardly matters. {axis}"
    )
    return Section("Paired differences", [Figure(differences_chart(comparison), caption), *_witnesses(comparison)])


def _witnesses(comparison: Comparison) -> list[Part]:
    rows = [
        (
            one.arm,
            one.verdict,
            p_text(one.p),
            p_text(one.p_holm),
            p_text(one.p_equivalence),
            p_text(one.p_equivalence_holm),
            p_text(one.p_sign_flip),
            NOTHING if one.bca is None else f"{nats_text(one.bca[0])} … {nats_text(one.bca[1])}",
        )
        for one in in_order(comparison.judgements)
    ]
    headings = (
        "variant",
        "verdict",
        "p of a\ndifference",
        "Holm",
        "p of\nequivalence",
        "Holm",
        "p by sign\nflips",
        "bootstrap (BCa)\ninterval, nats",
    )
    reasons = [f"{one.arm}: {one.reason}" for one in in_order(comparison.judgements)]
    words = "Only the two columns named Holm decide. Sign flips and the bootstrap stand beside them as witnesses."
    table = Table(headings, rows, text_columns=(0, 1), tones=TONES)
    return [Details("Every test", [words, table, Points(reasons)])]


def _claims(standpoints: Sequence[Standpoint]) -> Section:
    rows = [
        (
            one.claim.statement,
            one.standing,
            one.claim.range.replace("-", "−"),
            one.found,
            f"{one.claim.published} ({one.claim.setting})",
            one.claim.source,
        )
        for one in standpoints
    ]
    headings = ("claim", "at this scale", "claimed", "found", "published", "source")
    words = (
        "A claim is reproduced if the interval of what was found lies inside what is claimed, not reproduced if it "
        "lies outside, and underpowered if neither. The intervals are wide enough for all claims to hold together. "
        "What is not reproduced at this scale may well hold at that of its source."
    )
    table = Table(headings, rows, text_columns=(0, 1, 4, 5), wrap_columns=(0, 4, 5), tones=TONES)
    return Section("Published claims", [words, table] if rows else [])


def _curves(comparison: Comparison) -> Section:
    name = comparison.baseline.name
    content: list[Part] = []
    if curves := curve_figures(comparison):
        caption = (
            f"The variant is the line, {name} the dashes; the bands hold all seeds. A dotted line that ends in × is a "
            "run that diverged."
        )
        content.append(Gallery(curves, f"Validation loss. {caption}"))
    if gaps := gap_figures(comparison):
        caption = (
            f"The paired difference to {name} along the run, with the 95 % interval of its mean. Below 0 is better."
        )
        content.append(Gallery(gaps, caption))
    return Section("Along the run", content)


def _cost(comparison: Comparison) -> Section:
    chart = cost_chart(comparison)
    if chart is None:
        return Section("Cost against loss", [])
    caption = "Left is faster, below is better. Runs shared the machine: compare their seconds with each other only."
    theirs = comparison.baseline
    headings = (
        "variant",
        "loss\n(nats)",
        "seconds",
        "tokens/s",
        "",
        "parameters",
        "",
        "FLOPs\na step",
        "",
        "cache",
        "",
        "peak\nmemory",
    )
    rows = []
    for arm in (theirs, *others(comparison)):
        speed, memory, seconds = (arm.mean_of(name) for name in ("tokens_per_second", "peak_bytes", "seconds"))
        rows.append(
            (
                arm.name,
                NOTHING if arm.loss is None else f"{arm.loss:.4f}",
                NOTHING if seconds is None else f"{seconds:.1f}",
                NOTHING if speed is None else f"{speed:,.0f}",
                ratio_text(speed, theirs.mean_of("tokens_per_second")),
                f"{arm.arm.parameters:,}",
                ratio_text(arm.arm.parameters, theirs.arm.parameters),
                count_text(arm.arm.training_flops),
                ratio_text(arm.arm.training_flops, theirs.arm.training_flops),
                byte_text(arm.arm.cache_bytes),
                ratio_text(arm.arm.cache_bytes, theirs.arm.cache_bytes),
                NOTHING if memory is None else byte_text(memory),
            )
        )
    return Section("Cost against loss", [Figure(chart, caption), Table(headings, rows)])


def _rates(comparison: Comparison) -> Section:
    figures = rate_figures(comparison)
    if not figures:
        return Section("Learning rates", [])
    caption = (
        f"The loss at each rate that was tried; the large dot is the rate that was taken, the dashes are "
        f"{comparison.baseline.name}, × diverged."
    )
    return Section("Learning rates", [Gallery(figures, caption)])


def _plan(comparison: Comparison) -> Section:
    words = "This was written down before the first run, and has not been changed since."
    return Section("The plan", [words, plan_table(comparison), arms_table(comparison.plan)])


def _runs(comparison: Comparison) -> Section:
    headings = ("variant", "size", "seed", "outcome", "loss\n(nats)", "seconds", "spec", "weights", "command")
    rows = [
        (
            arm.name,
            arm.arm.run.size,
            str(cell.seed),
            cell.outcome,
            NOTHING if cell.loss is None else f"{cell.loss:.6f}",
            f"{cell.seconds:.1f}",
            arm.arm.hash,
            NOTHING if cell.weights_sha256 is None else cell.weights_sha256[:12],
            cell.command,
        )
        for arm in comparison.all_arms
        for cell in arm.cells
    ]
    count = len(rows)
    messages = [
        f"{cell.arm}, seed {cell.seed}: {cell.message}"
        for arm in comparison.all_arms
        for cell in arm.cells
        if cell.outcome == "diverged" and cell.message
    ]
    table = Table(headings, rows, text_columns=(0, 1, 3, 6, 7, 8), code_columns=(6, 7, 8), tones={"diverged": "bad"})
    content: Sequence[str | Table | Points] = [*([Points(messages)] if messages else []), table]
    words = (
        "Every number above is made of these runs alone. A command trains its run again, on the same machine and "
        "versions to the same weights; “spec” is the hash of what was trained, whatever the seed, and “weights” that "
        "of the result."
    )
    return Section(
        "Where the numbers come from", [words, Details(f"All {count} runs", content), made_words(comparison)]
    )
