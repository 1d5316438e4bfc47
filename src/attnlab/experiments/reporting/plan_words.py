"""The plan of a comparison in words, what became of it, and the machines that it ran on."""

from __future__ import annotations

import json
from pathlib import Path

from attnlab.experiments.planning.plan import Plan
from attnlab.experiments.planning.procedure import as_share
from attnlab.experiments.reporting.formats import count_text, nats_text, p_text, percent_text, seeds_text
from attnlab.experiments.results import Comparison
from attnlab.pages import Points, Table


def plan_rows(plan: Plan) -> list[tuple[str, str]]:
    """Return what is compared, by which metric and tests, with which power, and how long it takes, without warnings."""
    request, power = plan.request, as_share(plan.procedure.power)
    return [
        ("made", plan.made),
        ("variants", f"{', '.join(plan.variants)}; against {plan.baseline.name}"),
        (
            "runs",
            f"{seeds_text(plan.seeds)} of each, by the recipe {request.recipe}; runs of one seed see the same data in "
            "the same order, and start from the same weights wherever shapes allow",
        ),
        *_rung_rows(plan),
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
            f"can detect a difference of {percent_text(plan.detectable)[1:]} of perplexity "
            f"({nats_text(plan.detectable)[1:]} nats) at {power} power; an identical arm is shown to be equivalent "
            f"with {100 * plan.equivalence_power:.0f} % power; {_for_margin(plan)}",
        ),
        ("smallest p", f"{p_text(plan.smallest_p)} by flipping the signs of {len(plan.seeds)} differences"),
        ("time", f"{plan.predicted_minutes:.1f} minutes on {_processes(plan)}"),
    ]


def _rung_rows(plan: Plan) -> list[tuple[str, str]]:
    """Return a row for each size, ascending."""
    sizes = [(rung.name, rung.baseline, rung.non_embedding, rung.tokens) for rung in plan.lower]
    sizes.append((plan.request.size, plan.baseline, plan.non_embedding, plan.tokens))
    return [
        (
            "size",
            f"{name}: {baseline.parameters:,} parameters ({bare:,} without embeddings), {count_text(tokens)} tokens in "
            f"{baseline.run.steps:,} steps, {tokens / baseline.parameters:.0f} tokens per parameter",
        )
        for name, baseline, bare, tokens in sizes
    ]


def _pooled(plan: Plan) -> str:
    if not plan.pilot.differences:
        return ""
    return "; the tests pool what it shows of each arm with these seeds, unless these are significantly noisier"


def _for_margin(plan: Plan) -> str:
    margin = f"{100 * plan.request.margin:g} %, the margin"
    if plan.seeds_for_margin is None:
        return f"for {margin}, no number of seeds would do"
    return f"for {margin}, {plan.seeds_for_margin} seeds are needed"


def _processes(plan: Plan) -> str:
    processes = f"{plan.processes} process{'es' if plan.processes > 1 else ''}"
    return f"{processes} of {plan.threads} thread{'s' if plan.threads > 1 else ''}"


def plan_table(comparison: Comparison) -> Table:
    """The plan as it was, and how long it took in the end."""
    looks = " for all looks together" if len(comparison.looks) > 1 else ""
    rows = [
        (name, f"{words}; {comparison.seconds / 60:.1f} were taken{looks}" if name == "time" else words)
        for name, words in plan_rows(comparison.plan)
    ]
    rows += [("warning", warning) for warning in comparison.plan.warnings]
    return Table(("", ""), rows, text_columns=(0, 1), wrap_columns=(1,))


def arms_table(plan: Plan) -> Table:
    """The arms: what they are, and where their learning rates come from."""
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


def made_words(comparison: Comparison) -> Points:
    """The machines and versions that the runs themselves have on record, each with its runs."""
    found: dict[str, int] = {}
    for arm in comparison.arms:
        for cell in arm.cells:
            words = _machine(cell.path / "run.json")
            found[words] = found.get(words, 0) + 1
    total = sum(found.values())
    lines = [words if count == total else f"{count} of {total} runs: {words}" for words, count in found.items()]
    return Points([*lines, f"Folder: {comparison.path.name}. Request: {comparison.plan.request.hash[:12]}."])


def _machine(path: Path) -> str:
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
        machine, versions = record["machine"], record["versions"]
        cores = f"{machine['cores']} core{'s' if machine['cores'] != 1 else ''}"
        made_with = f"Python {versions['python']}, PyTorch {versions['torch']}, attnlab {versions['attnlab']}"
        return f"{machine['processor']}, {cores}, {machine['system']}; {made_with}."
    except (OSError, ValueError, LookupError, TypeError):
        return "The runs' own records are gone, so that the machine is not known."
