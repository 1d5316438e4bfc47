"""The one procedure that decides what a comparison shows. A plan fixes it before anything is trained.

At each of K planned interim analyses, with the final validation losses of every arm paired with the baseline's by seed:

    better, worse   a paired t, Holm-corrected over all planned arms, has p ≤ α / K
    equivalent      otherwise, if two one-sided tests at the margin, corrected likewise, have p ≤ α / K
    undecided       otherwise
    unstable        the arm diverged at a seed; it stays in the family with p = 1
    unsettled       the runs are too short to judge by, whatever the tests say (`collecting.py`)

So a family of arms that do not differ gets a false `better` or `worse` with a chance of at most α, and so does a family
of arms at the margin a false `equivalent`. What a pilot shows of an arm's noise is pooled with what its seeds show.
Sign flips and the bootstrap are witnesses: shown, never asked.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeGuard

from attnlab.errors import InputError, SpecError, UnknownNameError
from attnlab.experiments.numbers import percent, seeds_text, share_text
from attnlab.experiments.planning.procedure import Procedure
from attnlab.formats import general, p_relation
from attnlab.statistics import (
    Interval,
    Noise,
    bca_interval,
    degrees_of_freedom,
    equivalence,
    holm,
    is_noisier,
    mean_interval,
    paired_t,
    sign_flip,
)

Verdict = Literal["better", "worse", "equivalent", "undecided", "unstable", "unsettled"]
Losses = Mapping[str, Mapping[int, float | None]]


@dataclass(frozen=True)
class Judgement:
    """The verdict on one arm, with all that it rests on.

    What rests on pairs is None where a seed diverged, because those that are left are a selection.
    """

    arm: str
    verdict: Verdict
    reason: str
    seeds: tuple[int, ...]  # at which both finished
    differences: tuple[float, ...]  # arm − baseline in nats, in the order of the seeds
    diverged: tuple[int, ...]  # seeds at which the arm did
    mean: float | None = None
    low: float | None = None  # of the interval at 1 − α / K, which is not corrected for the number of arms
    high: float | None = None
    p: float | None = None
    p_holm: float | None = None
    p_equivalence: float | None = None
    p_equivalence_holm: float | None = None
    p_sign_flip: float | None = None
    bca: tuple[float, float] | None = None
    within_margin: bool = False  # better or worse, yet the interval lies inside the margin
    degrees: int | None = None  # of freedom, of the tests and the interval

    @property
    def percent(self) -> Interval | None:
        """Return the difference and its interval in per cent of perplexity."""
        if self.mean is None or self.low is None or self.high is None:
            return None
        return Interval(percent(self.mean), percent(self.low), percent(self.high))


@dataclass(frozen=True)
class _Pairs:
    """An arm beside the baseline, before anything is decided."""

    arm: str
    seeds: tuple[int, ...]
    differences: tuple[float, ...]
    diverged: tuple[int, ...]
    testable: bool  # no run diverged
    noise: Noise | None = None  # that a pilot showed

    def p_difference(self) -> float:
        return paired_t(self.differences, self.noise) if self.testable else 1.0

    def p_equivalence(self, margin: float) -> float:
        return equivalence(self.differences, margin, self.noise) if self.testable else 1.0


def judge(
    losses: Losses,
    baseline: str,
    procedure: Procedure,
    arms: int | None = None,
    *,
    noise: Mapping[str, Noise] | None = None,
    witnesses: bool = True,
) -> tuple[Judgement, ...]:
    """Return the verdicts of one interim analysis on all arms but the baseline, in their order.

    Parameters
    ----------
    losses
        Final validation losses by arm and seed. None, or whatever is no finite number, means diverged.
    baseline
        The arm that the others are compared with.
    procedure
        Tests, levels and margin.
    arms
        The number of planned arms, where more were planned than are given.
    noise
        What is known of the differences of an arm from seeds that are not judged.
    witnesses
        Whether sign flips and the bootstrap are computed as well.
    """
    seeds = _check_losses(losses, baseline)
    names = [name for name in losses if name != baseline]
    planned = len(names) if arms is None else arms
    if planned < len(names):
        raise SpecError(
            f"{len(names)} arms are given, and only {planned} were planned",
            hint="judge the arms of the plan, and no more",
        )
    lost = tuple(seed for seed in seeds if not _finished(losses[baseline][seed]))
    pairs = _with_noise([_pair(name, losses[name], losses[baseline], seeds) for name in names], noise or {})
    absent = [1.0] * (planned - len(names))
    ps = [pair.p_difference() for pair in pairs]
    qs = [pair.p_equivalence(procedure.margin) for pair in pairs]
    found = zip(pairs, ps, holm([*ps, *absent]), qs, holm([*qs, *absent]), strict=False)
    return tuple(
        _decide(pair, p, p_holm, q, q_holm, procedure, witnesses) if pair.testable else _refuse(pair, lost)
        for pair, p, p_holm, q, q_holm in found
    )


def _check_losses(losses: Losses, baseline: str) -> tuple[int, ...]:
    """Return the seeds, if every arm has all of them."""
    if baseline not in losses:
        raise UnknownNameError("arm", baseline, losses)
    if len(losses) < 2:
        raise InputError("there is nothing to compare the baseline with", hint="name at least one more arm")
    seeds = tuple(sorted(set().union(*losses.values())))
    for name, row in losses.items():
        if missing := [seed for seed in seeds if seed not in row]:
            raise InputError(
                f"{name} has no result yet at {seeds_text(missing)}",
                hint="finish those runs first: an analysis needs all its seeds of all arms",
            )
    if len(seeds) < 2:
        raise InputError(
            f"too few seeds: {len(seeds)}; one seed says nothing about how much seeds differ",
            hint="use at least 2 seeds; the plan says how many an effect needs",
        )
    return seeds


def _pair(
    name: str,
    arm: Mapping[int, float | None],
    base: Mapping[int, float | None],
    seeds: tuple[int, ...],
) -> _Pairs:
    kept: list[int] = []
    differences: list[float] = []
    for seed in seeds:
        ours, theirs = arm[seed], base[seed]
        if _finished(ours) and _finished(theirs):
            kept.append(seed)
            differences.append(ours - theirs)
    diverged = tuple(seed for seed in seeds if not _finished(arm[seed]))
    return _Pairs(name, tuple(kept), tuple(differences), diverged, len(kept) == len(seeds))


def _with_noise(pairs: list[_Pairs], noise: Mapping[str, Noise]) -> list[_Pairs]:
    """Give every arm what is known of its noise, unless the arms together are noisier than that."""
    known = [(pair, noise[pair.arm]) for pair in pairs if pair.testable and pair.arm in noise]
    if not known or is_noisier([pair.differences for pair, _ in known], [one for _, one in known]):
        return pairs
    return [replace(pair, noise=noise.get(pair.arm)) for pair in pairs]


def _decide(
    pair: _Pairs, p: float, p_holm: float, q: float, q_holm: float, procedure: Procedure, witnesses: bool
) -> Judgement:
    level, margin = procedure.level, procedure.margin
    interval = mean_interval(pair.differences, 1 - level, pair.noise)
    verdict: Verdict = "undecided"
    if p_holm <= level:
        verdict = "better" if interval.mean < 0 else "worse"
    elif q_holm <= level:
        verdict = "equivalent"
    differs = verdict in ("better", "worse")
    return Judgement(
        pair.arm,
        verdict,
        _reason(verdict, interval, len(pair.seeds), p_holm, q_holm, procedure),
        pair.seeds,
        pair.differences,
        pair.diverged,
        interval.mean,
        interval.low,
        interval.high,
        p,
        p_holm,
        q,
        q_holm,
        sign_flip(pair.differences) if witnesses else None,
        bca_interval(pair.differences, 1 - level) if witnesses else None,
        within_margin=differs and -margin < interval.low and interval.high < margin,
        degrees=degrees_of_freedom(pair.differences, pair.noise),
    )


def _refuse(pair: _Pairs, lost: tuple[int, ...]) -> Judgement:
    """Return the verdict where a run diverged: on the arm if only it did, and on none if the baseline did."""
    verdict: Verdict
    if lost:
        also = f"; so did this arm at {seeds_text(pair.diverged)}" if pair.diverged else ""
        verdict = "undecided"
        reason = f"The baseline diverged at {seeds_text(lost)}, so nothing can be paired there{also}."
    else:
        share = f"{len(pair.diverged)} of {len(pair.seeds) + len(pair.diverged)} seeds"
        verdict, reason = "unstable", f"It diverged at {seeds_text(pair.diverged)} ({share}); the baseline did not."
    return Judgement(pair.arm, verdict, reason, pair.seeds, pair.differences, pair.diverged)


def _reason(
    verdict: Verdict, interval: Interval, seeds: int, p_holm: float, q_holm: float, procedure: Procedure
) -> str:
    low, mean, high = (percent(nats) for nats in (interval.low, interval.mean, interval.high))
    side = "the same" if mean == 0 else f"{abs(mean):.3g} % {'lower' if mean < 0 else 'higher'}"
    found = (
        f"Over {seeds} seeds its perplexity is {side} on average "
        f"({share_text(1 - procedure.level)} interval {general(low, 3, sign=True)} to {general(high, 3, sign=True)} %)"
    )
    margin, level = f"{percent(procedure.margin):.3g} %", f"{procedure.level:.3g}"
    if verdict in ("better", "worse"):
        return f"{found}: corrected p {p_relation(p_holm)}, against {level}."
    if verdict == "equivalent":
        return f"{found}, so it differs by less than {margin}: corrected p {p_relation(q_holm)}, against {level}."
    return (
        f"{found}, which shows neither that it differs (corrected p {p_relation(p_holm)}) nor that it differs by less "
        f"than {margin} (corrected p {p_relation(q_holm)}), against {level}."
    )


def _finished(loss: float | None) -> TypeGuard[float]:
    return loss is not None and math.isfinite(loss)
