"""The tables of a comparison: verdicts, sizes, the plan and its arms."""

from __future__ import annotations

from collections.abc import Sequence

from attnlab.experiments.judging.judgement import Judgement
from attnlab.experiments.judging.trends import ArmTrend
from attnlab.experiments.numbers import (
    nats_text,
    percent,
    percent_range,
    percent_text,
    seeds_text,
    share_text,
    with_ends,
)
from attnlab.experiments.planning.plan import Plan
from attnlab.experiments.reporting.answer import TONES
from attnlab.experiments.results import Comparison
from attnlab.formats import NOTHING, byte_count, count, fixed, interval, p_value, plural, ratio, signed
from attnlab.pages import Table
from attnlab.statistics import Interval

HEADINGS = (
    "variant",
    "verdict",
    "Δ loss\n(nats)",
    "interval",
    "Δ perplexity",
    "worth\nin steps",
    "p\n(Holm)",
    "parameters",
    "cache",
    "tokens/s",
)
LONG_HEADINGS = ("variant", "parameters", "tokens", "Δ perplexity", "interval", "verdict")


def verdict_table(comparison: Comparison) -> Table:
    """Return a row for the baseline in its own units, then one for each variant against it, the best first."""
    return Table(HEADINGS, rows(comparison), text_columns=(0, 1), tones=TONES)


def rows(comparison: Comparison) -> list[tuple[str, ...]]:
    """Return the rows of the table of verdicts."""
    theirs = comparison.baseline
    speed = theirs.mean_of("tokens_per_second")
    first = (
        theirs.name,
        "baseline",
        fixed(theirs.loss, 4),
        *[NOTHING] * 4,
        count(theirs.arm.parameters),
        byte_count(theirs.arm.cache_bytes),
        NOTHING if speed is None else f"{speed:,.0f}",
    )
    return [first, *(_row(comparison, one) for one in comparison.ranking)]


def _row(comparison: Comparison, one: Judgement) -> tuple[str, ...]:
    ours, theirs = comparison.arm(one.arm), comparison.baseline
    share = None if one.mean is None else comparison.worth(one.arm)
    return (
        one.arm,
        one.verdict,
        nats_text(one.mean),
        interval(one.low, one.high, 4),
        percent_text(one.mean),
        NOTHING if share is None else f"{signed(100 * (share - 1), 0)} %",
        p_value(one.p_holm),
        ratio(ours.arm.parameters, theirs.arm.parameters),
        ratio(ours.arm.cache_bytes, theirs.arm.cache_bytes),
        ratio(ours.mean_of("tokens_per_second"), theirs.mean_of("tokens_per_second")),
    )


def rung_table(trends: Sequence[ArmTrend]) -> Table:
    """Return a row for each arm: its difference and verdict on every rung with all its tokens, and its trend."""
    found = {one.rung.size: one.rung for arm in trends for one in arm.whole}
    rungs = sorted(found.values(), key=lambda rung: rung.non_embedding)
    headings = [f"{count(rung.parameters)} parameters\n{count(rung.tokens)} tokens" for rung in rungs]
    rows = []
    for arm in trends:
        here = {one.rung.size: one.judgement for one in arm.whole}
        cells = [_cell(here[rung.size]) if rung.size in here else NOTHING for rung in rungs]
        rows.append((arm.arm, *cells, _trend(arm), p_value(arm.p_holm)))
    return Table(("variant", *headings, "trend per factor of 10\n(% perplexity)", "p\n(Holm)"), rows)


def _cell(judged: Judgement) -> str:
    return judged.verdict if judged.mean is None else f"{percent_text(judged.mean)} {judged.verdict}"


def _trend(arm: ArmTrend) -> str:
    if arm.trend is None:
        return NOTHING
    found = arm.trend.per_decade
    return with_ends(Interval(*(percent(value) for value in (found.mean, found.low, found.high))), 1)


def long_rows(trends: Sequence[ArmTrend]) -> list[tuple[str, ...]]:
    """Return a row for each arm and rung, for a terminal."""
    rows: list[tuple[str, ...]] = []
    for arm in trends:
        for one in arm.whole:
            judged = one.judgement
            ends = NOTHING if judged.low is None or judged.high is None else percent_range(judged.low, judged.high)
            sizes = count(one.rung.parameters), count(one.rung.tokens)
            rows.append((arm.arm, *sizes, percent_text(judged.mean), ends, judged.verdict))
    return rows


def settling_table(trends: Sequence[ArmTrend]) -> Table | None:
    """Return how far twice the tokens moved each difference; None where no rung was trained with half of them."""
    rows = [
        (
            arm.arm,
            found.rung,
            percent_text(found.before.mean),
            percent_text(found.after.mean),
            percent_range(found.change.low, found.change.high),
            "settled" if found.settled else "still moving",
        )
        for arm in trends
        for found in arm.settling
    ]
    headings = ("variant", "rung", "half the\ntokens", "all\ntokens", "change,\ninterval", "")
    return Table(headings, rows, text_columns=(0, 1, 5)) if rows else None


def plan_rows(plan: Plan) -> list[tuple[str, str]]:
    """Return what is compared, by which metric and tests, with which power, and how long it takes, without warnings."""
    request, power = plan.request, share_text(plan.procedure.power)
    processes = f"{plan.processes} process{'es' if plan.processes > 1 else ''}"
    return [
        ("made", plan.made),
        ("variants", f"{', '.join(plan.variants)}; against {plan.baseline.name}"),
        (
            "runs",
            f"{seeds_text(plan.seeds)} of each, by the recipe {request.recipe}; runs of one seed see the same data in "
            f"the same order, and {_beginning(plan)}",
        ),
        *_rung_rows(plan),
        *_rate_rows(plan),
        ("text", f"{request.corpus}, tokens by {request.tokenizer} (hash {plan.corpus_hash[:12]})"),
        ("metric", f"{plan.metric}, never the best of a curve"),
        ("tests", plan.procedure.in_words(len(plan.others))),
        (
            "noise",
            f"a paired difference is expected to have a standard deviation of {plan.pilot.sd:.4f} nats: "
            f"{plan.pilot.source} ({plan.pilot.degrees} degrees of freedom){_pooled(plan)}",
        ),
        (
            "power",
            f"can detect a difference of {percent_text(plan.detectable, sign=False)} of perplexity "
            f"({fixed(plan.detectable, 4)} nats) at {power} power; an identical arm is shown to be equivalent "
            f"with {100 * plan.equivalence_power:.0f} % power; {_for_margin(plan)}",
        ),
        ("smallest p", f"{p_value(plan.smallest_p)} by flipping the signs of {len(plan.seeds)} differences"),
        ("time", f"{plan.predicted_minutes:.1f} minutes on {processes} of {plural(plan.threads, 'thread')}"),
    ]


def _beginning(plan: Plan) -> str:
    if not plan.request.starts:
        return "start from the same weights wherever shapes allow"
    return "start from a trained model that was converted to the arm's attention without training"


def _rung_rows(plan: Plan) -> list[tuple[str, str]]:
    """Return a row for each size, ascending."""
    return [
        (
            "size",
            f"{rung.name}: {rung.parameters:,} parameters ({rung.non_embedding:,} without embeddings), "
            f"{count(rung.tokens)} tokens in {rung.baseline.run.steps:,} steps, "
            f"{rung.tokens / rung.parameters:.0f} tokens per parameter",
        )
        for rung in plan.rungs
    ]


def _pooled(plan: Plan) -> str:
    if not plan.pilot.differences:
        return ""
    return "; the tests pool what it shows of each arm with these seeds, unless these are significantly noisier"


def _for_margin(plan: Plan) -> str:
    margin = f"{share_text(plan.request.margin)}, the margin"
    if plan.seeds_for_margin is None:
        return f"for {margin}, no number of seeds would do"
    return f"for {margin}, {plan.seeds_for_margin} seeds are needed"


def _rate_rows(plan: Plan) -> list[tuple[str, str]]:
    """Return a row of learning rates for each size, ascending, with where they come from."""
    rows = []
    for rung in plan.rungs:
        if rung.halved:  # at the rates of the whole
            continue
        sources: dict[str, list[str]] = {}
        for arm in rung.arms:
            rate = "" if arm.run.learning_rate is None else f" {arm.run.learning_rate:g}"
            sources.setdefault(arm.rate_from, []).append(f"{arm.name}{rate}")
        words = "; ".join(f"{', '.join(rates)} – {source}" for source, rates in sources.items())
        rows.append(("rates", f"{rung.name}: {words}"))
    return rows


def plan_table(comparison: Comparison) -> Table:
    """Return the plan as it was, and how long it took in the end."""
    looks = " for all interim analyses together" if len(comparison.looks) > 1 else ""
    rows = [
        (name, f"{words}; {comparison.seconds / 60:.1f} were taken{looks}" if name == "time" else words)
        for name, words in plan_rows(comparison.plan)
    ]
    rows += [("warning", warning) for warning in comparison.plan.warnings]
    return Table(("", ""), rows, text_columns=(0, 1), wrap_columns=(1,))


def arms_table(plan: Plan) -> Table:
    """Return the arms: what they are, and where their learning rates come from."""
    rows = [
        (
            arm.name,
            arm.meaning,
            "the recipe's" if arm.run.learning_rate is None else f"{arm.run.learning_rate:g}",
            arm.rate_from,
            arm.hash,
        )
        for arm in plan.arms
    ]
    headings = ("variant", "what it is", "learning\nrate", "which is", "spec")
    return Table(headings, rows, text_columns=(0, 1, 3, 4), wrap_columns=(1, 3), code_columns=(4,))
