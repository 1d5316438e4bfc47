"""The order of variants, and whether it survives when they are made equal in what they cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attnlab.experiments.judging.judgement import Judgement
from attnlab.experiments.planning.plan import Arm, Matching
from attnlab.experiments.reporting.formats import and_list, percent_text
from attnlab.experiments.results import ArmResult, Comparison


def in_order(judgements: Iterable[Judgement]) -> list[Judgement]:
    """The best difference first; arms without any come last."""
    return sorted(judgements, key=lambda one: (one.mean is None, one.mean or 0.0))


def others(comparison: Comparison) -> list[ArmResult]:
    """All arms but the baseline, the best difference first."""
    return [comparison.arm(one.arm) for one in in_order(comparison.judgements)]


def matching_words(comparison: Comparison) -> list[str]:
    """Whether verdicts and ranking survive when variants are made equal in what they cost."""
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
    names = [
        one.arm for one in in_order(comparison.judgements) if one.arm not in twins.values() and one.mean is not None
    ]
    if not twins or len(names) < 2:
        return words
    swapped = _swaps([judged[name] for name in names], [judged[twins.get(name, name)] for name in names])
    if not swapped:
        return [*words, "The ranking survives the matching."]
    return [*words, f"The ranking does not survive the matching: {and_list(swapped)} change places."]


def _matched_sentence(arm: Arm, matching: Matching, plain: Judgement | None, now: Judgement) -> str:
    apart = f"{abs(matching.error):.1%} {'more' if matching.error > 0 else 'fewer'}".replace("%", " %")
    made = f"{arm.name} is made equal in {matching.what} ({apart}) by {matching.field} = {matching.value}, and is "
    if plain is None:
        return f"{made}{now.verdict}."
    same = now.verdict == plain.verdict
    made += f"still {now.verdict}" if same else f"{now.verdict}, where {plain.arm} as it is is {plain.verdict}"
    if now.mean is None or plain.mean is None:
        return f"{made}."
    return f"{made} ({percent_text(now.mean)} where it was {percent_text(plain.mean)})."


def _swaps(before: Sequence[Judgement], after: Sequence[Judgement]) -> list[str]:
    """Pairs in the order of `before` that stand the other way round in `after`."""
    found = []
    for first in range(len(before)):
        for second in range(first + 1, len(before)):
            ours, theirs = after[first], after[second]
            if ours.mean is not None and theirs.mean is not None and ours.mean > theirs.mean:
                overlap = ours.low is not None and theirs.high is not None and ours.low <= theirs.high
                found.append(f"{before[first].arm} and {before[second].arm}{' (intervals overlap)' if overlap else ''}")
    return found
