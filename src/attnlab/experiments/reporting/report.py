"""The report of a comparison: one page that works offline, the verdict first, then all that it rests on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from attnlab.attention import equations
from attnlab.experiments.judging.claims import Standpoint
from attnlab.experiments.judging.trends import ArmTrend, arm_trends
from attnlab.experiments.numbers import share_text
from attnlab.experiments.planning.plan import Arm
from attnlab.experiments.reporting.answer import TONES
from attnlab.experiments.reporting.attention import gap_section, heads_section, measures_section
from attnlab.experiments.reporting.charts import DifferenceAxis, cost_chart, differences_chart, size_chart
from attnlab.experiments.reporting.curves import curve_figures, gap_figures, rate_figures
from attnlab.experiments.reporting.tables import (
    arms_table,
    plan_table,
    rung_table,
    settling_table,
    verdict_table,
)
from attnlab.experiments.reporting.wording import (
    confidence,
    headline,
    notes,
    row_words,
    scale_words,
    trend_words,
    verdict_sentences,
)
from attnlab.experiments.results import Comparison
from attnlab.formats import NOTHING, byte_count, count, fixed, interval, p_value, plural, ratio
from attnlab.pages import Details, Equations, Figure, Gallery, Note, Page, Part, Points, Section, Table, write_page

RATES_CAPTION = (
    "Mean loss at each learning rate that was tried; rings are single seeds, × diverged, the dotted line is the rate "
    "taken, the dashes are {}. Seeds of the search are used nowhere else."
)
RELY = "Before you rely on these verdicts:"


def comparison_page(comparison: Comparison, standpoints: Sequence[Standpoint] = ()) -> Page:
    """Return the whole report; `standpoints` where published claims were judged."""
    sections = [
        _sizes(comparison),
        _verdict(comparison),
        _differences(comparison),
        claims_section(standpoints),
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


def size_parts(comparison: Comparison, trends: Sequence[ArmTrend]) -> list[Part]:
    """Return the difference against size: as a figure, as a table, and whether it has settled."""
    name, plan = comparison.baseline.name, comparison.plan
    caption = (
        f"Below 0 is better than {name}. Bars are intervals of the mean over {len(comparison.seeds)} paired seeds; the "
        f"grey band is the margin of ±{share_text(plan.request.margin)}."
    )
    parts: list[Part] = [Figure(size_chart(trends, name, plan.procedure.margin), caption), rung_table(trends)]
    if (settled := settling_table(trends)) is not None:
        words = "A difference has settled if twice the tokens move it by no more than the interval of its mean."
        parts.append(Details("Have the differences settled?", [words, settled]))
    return parts


def _sizes(comparison: Comparison) -> Section:
    """Return the section on sizes; empty for a comparison at one size."""
    if not comparison.lower:
        return Section("Difference against size", [])
    words = (
        "The largest size decides. It has half of the level α, and the smaller sizes share the other half; the "
        "trend is tested separately."
    )
    parts = size_parts(comparison, arm_trends(comparison))
    return Section("Difference against size", [trend_words(comparison), *parts, words])


def _verdict(comparison: Comparison) -> Section:
    return Section(
        "Verdict",
        [
            Note(scale_words(comparison.plan)),
            verdict_table(comparison),
            row_words(comparison),
            Points(verdict_sentences(comparison)),
            RELY,
            Points(notes(comparison)),
        ],
    )


def _differences(comparison: Comparison) -> Section:
    name, margin = comparison.baseline.name, comparison.plan.request.margin
    bent = DifferenceAxis.of(comparison.judgements, comparison.plan.procedure.margin).bent
    axis = "The axis is linear near zero and logarithmic far from it." if bent else ""
    caption = (
        f"Left is better than {name}. A ring is one seed, paired with {name} at the same seed; a diamond is their mean "
        f"with its interval at {confidence(comparison.plan)}. The grey band is the margin of ±{share_text(margin)}: "
        f"differences inside it do not matter. {axis}"
    )
    return Section("Paired differences", [Figure(differences_chart(comparison), caption), *_witnesses(comparison)])


def _witnesses(comparison: Comparison) -> list[Part]:
    rows = [
        (
            one.arm,
            one.verdict,
            *(p_value(p) for p in (one.p, one.p_holm, one.p_equivalence, one.p_equivalence_holm, one.p_sign_flip)),
            NOTHING if one.bca is None else interval(*one.bca, 4),
        )
        for one in comparison.ranking
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
    reasons = [f"{one.arm}: {one.reason}" for one in comparison.ranking]
    words = "Only the two columns named Holm decide. Sign flips and the bootstrap are shown as a check."
    table = Table(headings, rows, text_columns=(0, 1), tones=TONES)
    return [Details("Every test", [words, table, Points(reasons)])]


def claims_section(standpoints: Sequence[Standpoint]) -> Section:
    """Return the section on published claims; empty if none was judged."""
    sizes = any(len(one.rungs) > 1 for one in standpoints)
    rows = [
        (
            one.claim.statement,
            one.standing,
            one.claim.range,
            one.found,
            *([one.over_sizes] if sizes else []),
            f"{one.claim.published} ({one.claim.setting})",
            one.claim.source,
        )
        for one in standpoints
    ]
    over = ("over sizes",) if sizes else ()
    headings = ("claim", "at this scale", "claimed", "found", *over, "published", "source")
    words = (
        "A claim is reproduced if the interval of what was found lies inside what is claimed, not reproduced if it "
        "lies outside, and underpowered if neither. The intervals are wide enough for all claims to hold together; "
        "their noise is pooled with that of the smaller sizes, unless those are significantly quieter. "
        "A claim that is not reproduced at this scale may hold at the scale of its source."
    )
    wide = tuple(range(4, len(headings)))
    table = Table(headings, rows, text_columns=(0, 1, *wide), wrap_columns=(0, *wide), tones=TONES)
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
    for arm in (theirs, *comparison.variants):
        speed, memory, seconds = (arm.mean_of(name) for name in ("tokens_per_second", "peak_bytes", "seconds"))
        rows.append(
            (
                arm.name,
                fixed(arm.loss, 4),
                fixed(seconds, 1),
                NOTHING if speed is None else f"{speed:,.0f}",
                ratio(speed, theirs.mean_of("tokens_per_second")),
                f"{arm.arm.parameters:,}",
                ratio(arm.arm.parameters, theirs.arm.parameters),
                count(arm.arm.training_flops),
                ratio(arm.arm.training_flops, theirs.arm.training_flops),
                byte_count(arm.arm.cache_bytes),
                ratio(arm.arm.cache_bytes, theirs.arm.cache_bytes),
                byte_count(memory),
            )
        )
    return Section("Cost against loss", [Figure(chart, caption), Table(headings, rows)])


def _rates(comparison: Comparison) -> Section:
    figures = rate_figures(comparison)
    caption = RATES_CAPTION.format(comparison.baseline.name)
    return Section("Learning rates", [Gallery(figures, caption)] if figures else [])


def _plan(comparison: Comparison) -> Section:
    words = "The plan was written before the first run and has not been changed since."
    parts: list[Part] = [words, plan_table(comparison), arms_table(comparison.plan)]
    return Section("The plan", [*parts, Details("The equations", equation_parts(comparison.plan.arms))])


def equation_parts(arms: Sequence[Arm]) -> list[str | Equations]:
    """Return what the first arm computes, and what each other arm computes differently."""
    parts: list[str | Equations] = []
    baseline: list[str] = []
    for arm in arms:
        lines = [line for spec in dict.fromkeys(arm.run.attention()) for line in equations(spec)]
        changed = [line for line in dict.fromkeys(lines) if line not in baseline]
        parts.append(f"`{arm.name}`" if changed else f"`{arm.name}`: the attention of `{arms[0].name}`")
        parts += [Equations("\n".join(changed))] if changed else []
        baseline = baseline or changed
    return parts


def _runs(comparison: Comparison) -> Section:
    headings = ("variant", "size", "seed", "outcome", "loss\n(nats)", "seconds", "spec", "weights", "command")
    runs = [(arm.arm, run) for result in reversed(comparison.rungs) for arm in result.arms for run in arm.runs]
    rows = [
        (
            arm.name,
            arm.run.size,
            str(run.seed),
            run.outcome,
            fixed(run.loss, 6),
            f"{run.seconds:.1f}",
            arm.hash,
            NOTHING if run.weights_sha256 is None else run.weights_sha256[:12],
            run.command,
        )
        for arm, run in runs
    ]
    messages = [
        f"{run.arm}, seed {run.seed}: {run.message}" for _, run in runs if run.outcome == "diverged" and run.message
    ]
    table = Table(headings, rows, text_columns=(0, 1, 3, 6, 7, 8), code_columns=(6, 7, 8), tones={"diverged": "bad"})
    content: Sequence[str | Table | Points] = [*([Points(messages)] if messages else []), table]
    words = (
        "Every number above comes from these runs. A command trains its run again, with the same weights on the same "
        "machine and versions; “spec” is the hash of the specification without the seed, and “weights” the hash of the "
        "result."
    )
    return Section("Provenance", [words, Details(f"All {len(rows)} runs", content), machine_words(comparison)])


def machine_words(comparison: Comparison) -> Points:
    """Return the machines and versions that the runs themselves have on record, each with its runs."""
    found = Counter(_machine(run.path / "run.json") for arm in comparison.arms for run in arm.runs)
    total = found.total()
    lines = [words if number == total else f"{number} of {total} runs: {words}" for words, number in found.items()]
    return Points([*lines, f"Folder: {comparison.path.name}. Request: {comparison.plan.request.hash[:12]}."])


def _machine(path: Path) -> str:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        machine, versions = record["machine"], record["versions"]
        cores = plural(machine["cores"], "core")
        made_with = f"Python {versions['python']}, PyTorch {versions['torch']}, attnlab {versions['attnlab']}"
        return f"{machine['processor']}, {cores}, {machine['system']}; {made_with}."
    except (OSError, ValueError, LookupError, TypeError):
        return "The records of the runs are missing, so the machine is unknown."
