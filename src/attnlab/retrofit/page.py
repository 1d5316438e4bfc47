"""The report page of a retrofit, and its tables, which the terminal also prints."""

from __future__ import annotations

import math
from collections.abc import Sequence

import plotly.graph_objects as go

from attnlab.formats import NOTHING, byte_count, count, fixed, interval, percent, plural, ratio, signed
from attnlab.pages import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    Details,
    Figure,
    Gallery,
    Note,
    Page,
    Part,
    Points,
    Section,
    Table,
    Tone,
    new_figure,
)
from attnlab.retrofit.healing.curves import Healing
from attnlab.retrofit.healing.plan import METHODS, Method
from attnlab.retrofit.result import RetrofitResult, VariantResult
from attnlab.statistics import Interval

_HEIGHT = 260  # pixels
_LINES: dict[Method, tuple[str, str, str]] = {
    "distil": (BLUE, "solid", "circle"),
    "finetune": (ORANGE, "dash", "square"),
}


def retrofit_page(result: RetrofitResult) -> Page:
    """Return the page."""
    sections = [
        Section("Result", [*result_tables(result), Points(sentences(result))]),
        Section("Cost of each layer", _cost_parts(result)),
    ]
    if result.control is not None:
        sections.append(Section("Healing", _healing_parts(result)))
    if result.verdicts:
        sections.append(Section("Verdicts", [_VERDICT_WORDS, verdicts_table(result)]))
    sections.append(Section("How it was measured", [Points(_method_words(result))]))
    names = ", ".join(one.name for one in result.variants)
    lead = f"What it costs to give {result.title} another attention without training it anew: {names}."
    facts = {
        "model": f"{result.title}, {plural(result.num_layers, 'layer')}, "
        f"{count(result.variants[0].gains.original_parameters)} parameters",
        "text": f"{result.text}: {plural(result.texts, 'held-out text')} of {result.length} tokens",
        "folder": result.folder.name,
    }
    return Page(f"Retrofit of {result.title}", lead, sections, facts)


def result_tables(result: RetrofitResult) -> list[Table]:
    """Return the losses, what healing recovered, and what is gained."""
    recovered = [] if result.control is None else [recovery_table(result)]
    return [losses_table(result), *recovered, gains_table(result)]


def sentences(result: RetrofitResult) -> list[str]:
    """Return the result in words, a sentence or two for each variant, and what to know about healing."""
    found = []
    for one in result.variants:
        cost = one.all_layers
        words = (
            f"{one.name}: converting {_layers_words(one, result)} without training costs "
            f"{signed(cost.mean)} nats per token (95 % interval over texts {interval(cost.low, cost.high)})."
        )
        if one.subset is not None:
            words = f"{one.name}: {_subset_words(one)}"
        elif len(one.costs) > 1:
            low, high = (f(one.costs, key=lambda cost: cost.cost.mean) for f in (min, max))
            words += (
                f" The cheapest layer alone is {low.layer} ({signed(low.cost.mean)} nats), the most expensive "
                f"{high.layer} ({signed(high.cost.mean)} nats)."
            )
        found.append(words)
        if len(one.healing) == len(METHODS):
            found.append(f"{one.name}: {_methods_words(*one.healing)}")
    final = None if result.control is None else result.control.final
    if final is not None and final.low > result.original_loss:
        losses = f"from {fixed(result.original_loss, 3)} to {fixed(final.mean, 3)} nats"
        found.append(
            f"Finetuning makes the original itself worse, {losses}: a lower learning rate (`--learning-rate`), or text "
            "that it has not read, may heal better."
        )
    return found


def _layers_words(one: VariantResult, result: RetrofitResult) -> str:
    every = len(one.costs) == result.num_layers
    if result.num_layers == 1:
        return "its layer"
    return f"all {result.num_layers} layers" if every else f"layers {', '.join(str(cost.layer) for cost in one.costs)}"


def _subset_words(one: VariantResult) -> str:
    assert one.subset is not None
    chosen, cost = one.subset, one.subset.cost
    if cost is None:
        return f"no layer fits into a budget of {chosen.budget:g} nats per token."
    return (
        f"{len(chosen.layers)} of {len(one.costs)} layers fit into a budget of {chosen.budget:g} nats per token, "
        f"the cheapest first: {', '.join(map(str, chosen.layers))}. Together they cost {signed(cost.mean)} "
        f"({interval(cost.low, cost.high)}); the sum of their single costs is {signed(chosen.sum_of_costs)}."
    )


def until_words(healing: Healing, result: RetrofitResult) -> str:
    """Return the tokens until perplexity is near the original's, or that they do not suffice."""
    reached, found = healing.until(result.limit)
    if found is not None:
        ends = "" if not found.high > found.low else f" ({count(max(0.0, found.low))} … {count(found.high)})"
        return f"{count(found.mean)}{ends}"
    return f"not within the budget ({len(reached)} of {plural(len(healing.runs), 'seed')})"


def _methods_words(distilled: Healing, plain: Healing) -> str:
    found = distilled.difference(plain)
    if found is None:
        return "the two methods cannot be compared, because a seed diverged."
    if math.isnan(found.low):
        return f"distillation ends {signed(found.mean)} nats from finetuning alone, on one seed."
    ends = f"{signed(found.mean)} nats ({interval(found.low, found.high)} over paired seeds)"
    if found.high < 0:
        return f"distillation beats finetuning alone by the end of the budget: {ends}."
    if found.low > 0:
        return f"finetuning alone beats distillation by the end of the budget: {ends}."
    return f"distillation does not beat finetuning alone by the end of the budget: {ends}."


def losses_table(result: RetrofitResult) -> Table:
    """Return the loss before, after conversion and after healing, for each variant and method."""
    rows = [["original", NOTHING, fixed(result.original_loss, 3), NOTHING, NOTHING]]
    if result.control is not None:
        rows.append(_healed_row("original", result.original_loss, result.control))
    for one in result.variants:
        if not one.healing:
            rows.append([one.name, NOTHING, fixed(one.converted_loss, 3), NOTHING, NOTHING])
        rows += [_healed_row(one.name, one.converted_loss, healing) for healing in one.healing]
    headings = ("variant", "healing", "loss before", "after", "95 % interval")
    caption = "Validation loss in nats per token, before and after healing"
    return Table(headings, rows, caption, text_columns=(0, 1))


def _healed_row(name: str, before: float, healing: Healing) -> list[str]:
    final = healing.final
    ends = NOTHING if final is None else interval(final.low, final.high, sign=False)
    return [name, healing.method, fixed(before, 3), NOTHING if final is None else fixed(final.mean, 3), ends]


def recovery_table(result: RetrofitResult) -> Table:
    """Return how far each variant and method came beside the original finetuned alike, which there must be."""
    assert result.control is not None
    rows = [
        [one.name, healing.method, _with_ends(healing.difference(result.control)), until_words(healing, result)]
        for one in result.variants
        for healing in one.healing
    ]
    near = f"tokens until within {percent(result.request.healing.within)}"
    caption = "The difference in loss to the original finetuned on the same tokens, in nats per token"
    return Table(("variant", "healing", "beside the original", near), rows, caption, text_columns=(0, 1))


_VERDICT_WORDS = (
    "Each variant and method against the original finetuned on the same tokens, by paired seeds, with the procedure of "
    "every comparison: “equivalent” means within one per cent of perplexity."
)
_TONES: dict[str, Tone] = {"better": "good", "worse": "bad", "equivalent": "even", "undecided": "open"}


def verdicts_table(result: RetrofitResult) -> Table:
    """Return the verdicts with their reasons."""
    rows = [[one.variant, one.method, one.verdict, one.reason] for one in result.verdicts]
    headings = ("variant", "healing", "verdict", "reason")
    return Table(headings, rows, text_columns=(0, 1, 2, 3), wrap_columns=(3,), tones=_TONES)


def _with_ends(found: Interval | None) -> str:
    """Return a difference with its interval, if it has one."""
    if found is None:
        return NOTHING
    ends = "" if math.isnan(found.low) else f" ({interval(found.low, found.high)})"
    return f"{signed(found.mean)}{ends}"


def gains_table(result: RetrofitResult) -> Table:
    """Return what each variant gains."""
    rows = []
    for one in result.variants:
        gains = one.gains
        rows.append(
            [
                one.name,
                f"{len(one.layers)} of {result.num_layers}",
                signed(100 * (gains.parameters / gains.original_parameters - 1), 1) + " %",
                f"{byte_count(gains.cache_bytes)} ({ratio(gains.cache_bytes, gains.original_cache_bytes)})",
                ratio(gains.speed, 1.0),
            ]
        )
    tokens = result.variants[0].gains.tokens
    caption = f"Gained: the cache is that of one text of {tokens:,} tokens; speed is that of generation, measured once"
    return Table(("variant", "layers changed", "parameters", "cache", "speed"), rows, caption)


def layers_table(one: VariantResult) -> Table:
    """Return the cost of every layer of a variant."""
    rows = [
        [str(cost.layer), signed(cost.cost.mean, 4), interval(cost.cost.low, cost.cost.high, 4), fixed(cost.error, 4)]
        for cost in one.costs
    ]
    return Table(("layer", "cost (nats)", "95 % interval", "relative error"), rows, one.name)


def _cost_parts(result: RetrofitResult) -> list[Part]:
    figures = [Figure(_cost_chart(one), one.name) for one in result.variants]
    words = (
        "The loss with one layer converted, less that of the original, in nats per token, with its 95 % interval over "
        "texts. The conversion is the best that was found without training."
    )
    tables = [layers_table(one) for one in result.variants]
    return [words, _side_by_side(figures, "Cost by layer"), Details("All layers in numbers", tables)]


def _side_by_side(figures: Sequence[Figure], caption: str) -> Part:
    """Return small figures beside each other, or one of full width."""
    return Gallery(figures, caption) if len(figures) > 1 else figures[0]


def _cost_chart(one: VariantResult) -> go.Figure:
    figure = new_figure(x="layer", y="Δ loss (nats)", height=_HEIGHT)
    means = [cost.cost.mean for cost in one.costs]
    errors = {
        "array": [cost.cost.high - cost.cost.mean for cost in one.costs],
        "arrayminus": [cost.cost.mean - cost.cost.low for cost in one.costs],
        "symmetric": False,
        "thickness": 1.5,
        "width": 3,
        "color": GREY,
    }
    figure.add_hline(y=0, line_width=1, line_color=GREY, layer="below")
    figure.add_trace(
        go.Scatter(
            x=[cost.layer for cost in one.costs],
            y=means,
            mode="markers",
            error_y=errors,
            marker={"color": [BLUE if cost.layer in one.layers else GREY for cost in one.costs], "size": 7},
            hovertemplate="layer %{x}: %{y:+.4f} nats<extra></extra>",
        )
    )
    figure.update_layout(showlegend=False)
    figure.update_xaxes(dtick=max(1, len(one.costs) // 6))
    return figure


def _healing_parts(result: RetrofitResult) -> list[Part]:
    figures = [Figure(_curve_chart(one, result), one.name) for one in result.variants if one.healing]
    words = (
        "Validation loss along healing, a thin line for each seed and a thick one for their mean: distillation, then "
        "finetuning (solid, circles), finetuning alone (dashed, squares), the original finetuned on the same tokens "
        "(dotted). The horizontal line is the limit that counts as healed."
    )
    parts: list[Part] = [words, _side_by_side(figures, "Loss in nats over tokens")]
    if result.request.healing.seeds < 2:
        parts.insert(0, Note("One seed has no interval: heal with two or more to say how sure these numbers are."))
    return parts


def _curve_chart(one: VariantResult, result: RetrofitResult) -> go.Figure:
    figure = new_figure(x="tokens", y="loss (nats)", height=_HEIGHT + 40)
    figure.add_hline(y=result.limit, line_width=1, line_dash="dot", line_color=GREY, layer="below")
    groups: list[tuple[Healing, tuple[str, str, str], str]] = [
        (healing, _LINES[healing.method], healing.method) for healing in one.healing
    ]
    if result.control is not None:
        groups.append((result.control, (GREEN, "dot", "diamond"), "original, finetuned"))
    for healing, (colour, dash, symbol), name in groups:
        for run in healing.runs:
            figure.add_trace(_line(run.curve, colour, dash, 0.6))
        mean = _mean_curve(healing)
        figure.add_trace(_line(mean, colour, dash, 2.5, symbol=symbol, name=name))
    return figure


def _mean_curve(healing: Healing) -> list[tuple[float, float]]:
    """Return the mean over seeds at the tokens that all of them have."""
    curves = [dict(run.curve) for run in healing.runs]
    shared = sorted(set.intersection(*(set(curve) for curve in curves)))
    return [(tokens, sum(curve[tokens] for curve in curves) / len(curves)) for tokens in shared]


def _line(
    points: Sequence[tuple[float, float]],
    colour: str,
    dash: str,
    width: float,
    *,
    symbol: str | None = None,
    name: str | None = None,
) -> go.Scatter:
    return go.Scatter(
        x=[tokens for tokens, _ in points],
        y=[loss for _, loss in points],
        mode="lines" if symbol is None else "lines+markers",
        line={"color": colour, "dash": dash, "width": width},
        marker={"symbol": symbol, "size": 6} if symbol else None,
        name=name,
        showlegend=name is not None,
        hovertemplate="%{y:.3f} nats after %{x:,} tokens<extra></extra>",
    )


def _method_words(result: RetrofitResult) -> list[str]:
    request, plan = result.request, result.request.healing
    found = [
        f"Layers are converted on {plural(request.fitting_texts, 'text')} of {result.length} tokens of the training "
        "text, each to what the original model gives it; keys and values by least squares on these activations.",
        f"Costs are means over {plural(result.texts, 'held-out text')}; intervals are Student's t over texts.",
    ]
    if plan.tokens:
        found += [
            f"Healing: {plural(plan.seeds, 'seed')}, {count(plan.tokens)} tokens each, batches of {plan.batch_size} "
            f"texts, AdamW at {plan.learning_rate:g}. Distillation has {percent(plan.distil_share)} of the tokens. A "
            "seed is an order of the text, the same for all variants and methods; intervals are Student's t over them.",
            f"Healed means a perplexity within {percent(plan.within)} of the original's before healing, a loss up to "
            f"{fixed(result.limit, 4)} nats. Between measurements the loss is taken to be linear in the tokens.",
        ]
    return found
