"""A comparison as sentences: the same for a terminal, a page, a notebook and JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise

from attnlab.experiments.judging.collecting import NEEDS_ATTENTION
from attnlab.experiments.judging.judgement import Judgement, Verdict
from attnlab.experiments.judging.trends import FEWEST_RUNGS, arm_trends
from attnlab.experiments.numbers import percent_interval, percent_text, seeds_text, share_text
from attnlab.experiments.planning.plan import Arm, CostMatch, Plan, Rung
from attnlab.experiments.results import Comparison
from attnlab.formats import NOTHING, and_list, count, ratio
from attnlab.formats import percent as share

# In the order in which they are told.
VERDICTS: tuple[Verdict, ...] = ("better", "worse", "unstable", "equivalent", "undecided", "unsettled")

_CLOSE = 0.005  # ratios nearer to 1 are not worth a word
_GPT2 = 124_000_000  # parameters


def first_lines(comparison: Comparison) -> tuple[str, ...]:
    """Return what every report begins with: the verdicts with their scope, the trend, and how far they reach."""
    lines = (headline(comparison), trend_words(comparison), scale_words(comparison.plan))
    return tuple(line for line in lines if line)


def scope(rung: Rung) -> str:
    """Return the size and the tokens that a verdict holds for, as in "31 k parameters and 4 M tokens"."""
    return f"{count(rung.parameters)} parameters and {count(rung.tokens)} tokens"


def headline(comparison: Comparison) -> str:
    """Return the verdict on all variants in one sentence, with its scope."""
    plan, seeds = comparison.plan, len(comparison.seeds)
    runs = f"context {plan.context_length}, {seeds} paired seeds"
    opening = f"Against {comparison.baseline.name} at {scope(plan.rungs[-1])} ({runs})"
    if len(comparison.judgements) == 1:
        return f"{opening}, {verdict_sentence(comparison, comparison.judgements[0], scoped=False)}"
    groups = []
    for verdict in VERDICTS:
        names = [one.arm for one in comparison.ranking if one.verdict == verdict]
        if names:
            groups.append(f"{and_list(names)} {'is' if len(names) == 1 else 'are'} {verdict}")
    return f"{opening}: {'; '.join(groups)}."


def trend_words(comparison: Comparison) -> str:
    """Return how the differences change over the rungs, in a sentence; "" without rungs."""
    if not comparison.lower:
        return ""
    sizes = [count(result.rung.parameters) for result in comparison.lower if not result.rung.halved]
    over = f"From {sizes[0]} to {count(comparison.plan.baseline.parameters)} parameters"
    trends = arm_trends(comparison)
    if all(one.word == "too few rungs" for one in trends):
        return f"{over}, no trend is tested: runs diverged, or an arm has fewer than {FEWEST_RUNGS} rungs."
    groups = []
    for word, verb in (("rises", "rises"), ("falls", "falls"), ("no trend shown", "shows no trend")):
        names = [one.arm for one in trends if one.word == word]
        if names:
            groups.append(f"the difference of {and_list(names)} {verb}")
    return f"{over}, {'; '.join(groups)}." if groups else ""


def scale_words(plan: Plan) -> str:
    """Return what runs of this size can say, and what would say more."""
    parameters = plan.baseline.parameters
    if parameters >= _GPT2:
        return f"Each run saw {count(plan.tokens)} tokens; longer training may say otherwise."
    return (
        f"GPT-2 small has {_GPT2 / parameters:,.0f} times as many parameters. `attnlab scale` measures the trend over "
        "more sizes, and says how far it can be extrapolated."
    )


def verdict_sentences(comparison: Comparison) -> list[str]:
    """Return one sentence for each variant, those that differ first."""
    ordered = sorted(comparison.ranking, key=lambda one: VERDICTS.index(one.verdict))
    return [verdict_sentence(comparison, one) for one in ordered]


def verdict_sentence(comparison: Comparison, judgement: Judgement, *, scoped: bool = True) -> str:
    """Return the verdict on one variant in plain terms, with its scope."""
    where = f" at {scope(comparison.plan.rungs[-1])}" if scoped else ""
    if judgement.verdict == "unsettled":
        return f"{judgement.arm} gets no verdict{where}: the runs are too short to judge it. {judgement.reason}"
    parts = [f"{judgement.arm} is {judgement.verdict}{where}{_proviso(comparison, judgement)}"]
    found = percent_interval(judgement.percent, confidence(comparison.plan))
    if found != NOTHING:
        parts[0] += f": {found.replace(' %', ' % perplexity', 1)}"
    worth = comparison.worth(judgement.arm) if judgement.verdict in {"better", "worse"} else None
    if worth is not None:
        parts.append(f"worth {share(abs(worth - 1))} {'more' if worth >= 1 else 'fewer'} steps")
    arm, baseline = comparison.plan.arm(judgement.arm), comparison.plan.baseline
    parts += _cost_words(arm, baseline)
    return ", ".join(parts) + "."


def _proviso(comparison: Comparison, judgement: Judgement) -> str:
    margin = f"the margin of {share_text(comparison.plan.request.margin)}"
    if judgement.verdict == "unstable":
        seeds = len(comparison.seeds)
        return f" (diverged at {seeds_text(judgement.diverged)}, {len(judgement.diverged)} of {seeds})"
    if judgement.verdict == "equivalent":
        return f" within {margin}"
    return f", though by less than {margin}" if judgement.within_margin else ""


def _cost_words(arm: Arm, baseline: Arm) -> list[str]:
    costs = {
        "parameters": (arm.parameters, baseline.parameters),
        "training FLOPs": (arm.training_flops, baseline.training_flops),
        "cache": (arm.cache_bytes, baseline.cache_bytes),
    }
    return [
        f"{ratio(ours, theirs)} the {name}"
        for name, (ours, theirs) in costs.items()
        if theirs and abs(ours / theirs - 1) > _CLOSE
    ]


def row_words(comparison: Comparison) -> str:
    """Return how to read the table of verdicts."""
    name = comparison.baseline.name
    return (
        f"The first row shows {name} in its own units; the others are relative to it. Intervals are at "
        f"{confidence(comparison.plan)} and not corrected for the number of variants; the verdicts are. “Worth in "
        f"steps” is how many more or fewer of {name}'s steps come to the same loss. Speeds are those of runs that "
        "shared the machine."
    )


def notes(comparison: Comparison) -> tuple[str, ...]:
    """Return what else must be known before the verdict is believed."""
    found = [
        bigram_words(comparison),
        analysis_words(comparison),
        pilot_words(comparison),
        *diverged_words(comparison),
        *matching_words(comparison),
        *(comparison.plan.warnings if len(comparison.looks) == 1 else ()),  # they are about the first analysis
    ]
    return tuple(words for words in found if words)


def bigram_words(comparison: Comparison) -> str:
    """Return where the baseline ends, in nats beside the best bigram table and in bits per byte."""
    bigram, loss, name = comparison.plan.bigram_loss, comparison.baseline.loss, comparison.baseline.name
    if bigram is None or loss is None:
        return ""
    below = bigram - loss
    where = f"{below:.2f} nats below" if below >= 0 else f"{-below:.2f} nats above"
    words = f"{name} ends at {loss:.3f} nats, {where} the best bigram table ({bigram:.3f})"
    if below >= NEEDS_ATTENTION:
        return f"{words}{_bits(comparison)}."
    return f"{words}{_bits(comparison)}: these runs are too short or too small to judge attention by."


def _bits(comparison: Comparison) -> str:
    """Return the baseline's loss in bits per byte, which other tokenizers and corpora can be compared with."""
    size, loss = comparison.plan.bytes_per_token, comparison.baseline.loss
    return "" if size is None or loss is None else f"; that is {loss / math.log(2) / size:.3f} bits per byte"


def pilot_words(comparison: Comparison) -> str:
    """Return which variants are judged without the pilot that the plan counts on."""
    known = comparison.plan.pilot.noise(comparison.plan.request.size)
    without = [one.arm for one in comparison.judgements if one.arm in known and one.degrees == len(one.seeds) - 1]
    if not without:
        return ""
    why = "these seeds are significantly noisier than its own"
    if not {*comparison.seeds}.isdisjoint(comparison.plan.pilot.seeds):
        why = "it has some of these seeds too"
    return f"The pilot was not used for {and_list(without)}, because {why}: less can be detected than the plan says."


def analysis_words(comparison: Comparison) -> str:
    """Return which of the planned interim analyses this is, and what the earlier ones said."""
    procedure, looks = comparison.plan.procedure, comparison.looks
    last = looks[-1]
    if procedure.looks == 1:
        words = [f"This is the only analysis planned; it tests at a level of {procedure.level:.3g}."]
    else:
        words = [
            f"This is interim analysis {last.number} of {procedure.looks} planned; each tests at a level of "
            f"{procedure.alpha:g} / {procedure.looks} = {procedure.level:.3g}."
        ]
    for before, after in pairwise(looks):
        added = [seed for seed in after.seeds if seed not in before.seeds]
        then, now = before.verdicts or {}, after.verdicts or {}
        changed = [
            f"{name} from {then[name]} to {verdict}"
            for name, verdict in now.items()
            if name in then and then[name] != verdict
        ]
        said = f"it changed {and_list(changed)}" if changed else "it changed no verdict"
        words.append(f"Analysis {after.number} added {seeds_text(added)} to {seeds_text(before.seeds)}: {said}.")
    undecided = any(one.verdict == "undecided" for one in comparison.judgements)
    left = procedure.looks - last.number
    if undecided and left > 0:
        times = "once" if left == 1 else f"{left} times"
        words.append(
            f"Seeds can be added {times} more (`add_seeds={len(comparison.plan.seeds)}`).{_seeds_needed(comparison)}"
        )
    elif undecided:
        words.append("No analysis is left: more seeds need a new plan.")
    return " ".join(words)


def _seeds_needed(comparison: Comparison) -> str:
    needed = comparison.plan.seeds_for_margin
    if needed is None or needed <= len(comparison.seeds):
        return ""
    return f" About {needed} seeds would decide a difference of the margin's size."


def diverged_words(comparison: Comparison) -> list[str]:
    """Return the runs that diverged, each named."""
    found = [f"{arm.name} at {seeds_text(arm.diverged)}" for arm in comparison.arms if arm.diverged]
    return [f"Diverged: {and_list(found)}. They are counted and shown, never dropped."] if found else []


def confidence(plan: Plan) -> str:
    """Return the confidence level of all intervals of differences."""
    return share_text(1 - plan.procedure.level)


def matching_words(comparison: Comparison) -> list[str]:
    """Return whether verdicts and ranking survive when variants are made equal in what they cost."""
    judged = {one.arm: one for one in comparison.judgements}
    words: list[str] = []
    twins: dict[str, str] = {}
    for arm in comparison.plan.others:
        if arm.matching is None:
            continue
        plain = arm.name.removesuffix(f" [{arm.matching.what}]")
        twin = judged.get(plain) if plain != arm.name else None
        words.append(_matched_sentence(arm, arm.matching, twin, judged[arm.name]))
        if twin is not None:
            twins[plain] = arm.name
    names = [one.arm for one in comparison.ranking if one.arm not in twins.values() and one.mean is not None]
    if not twins or len(names) < 2:
        return words
    swapped = _swaps([judged[name] for name in names], [judged[twins.get(name, name)] for name in names])
    if not swapped:
        return [*words, "The ranking survives the matching."]
    return [*words, f"The ranking does not survive the matching: {and_list(swapped)} change places."]


def _matched_sentence(arm: Arm, matching: CostMatch, plain: Judgement | None, now: Judgement) -> str:
    apart = f"{share(abs(matching.error), 1)} {'more' if matching.error > 0 else 'fewer'}"
    made = f"{arm.name} is made equal in {matching.what} ({apart}) by {matching.field} = {matching.value}, and is "
    if plain is None:
        return f"{made}{now.verdict}."
    same = now.verdict == plain.verdict
    made += f"still {now.verdict}" if same else f"{now.verdict}, where {plain.arm} as it is is {plain.verdict}"
    if now.mean is None or plain.mean is None:
        return f"{made}."
    return f"{made} ({percent_text(now.mean)} where it was {percent_text(plain.mean)})."


def _swaps(before: Sequence[Judgement], after: Sequence[Judgement]) -> list[str]:
    """Return pairs in the order of `before` that stand the other way round in `after`."""
    found = []
    for (first, ours), (second, theirs) in combinations(zip(before, after, strict=True), 2):
        if ours.mean is not None and theirs.mean is not None and ours.mean > theirs.mean:
            overlap = ours.low is not None and theirs.high is not None and ours.low <= theirs.high
            found.append(f"{first.arm} and {second.arm}{' (intervals overlap)' if overlap else ''}")
    return found
