"""Whether the runs of a comparison are long enough to judge by; if they are not, no verdict is given.

    plateau    the baseline, or the arm, has not left the plateau that the best bigram table sets
    growing    the paired difference still grows over the last quarter of the run, away from 0
    edge       the best learning rate of the arm, or of the baseline, is the lowest or highest that was tried

Each replaces the verdict by `unsettled`, with the reason. A run that diverged stays `unstable`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

from attnlab.experiments.judging.judgement import Judgement
from attnlab.experiments.planning.plan import Arm
from attnlab.experiments.results import ArmResult, ArmRun
from attnlab.formats import signed
from attnlab.statistics import paired_t

NEEDS_ATTENTION = 0.2  # nats below the best bigram table that a baseline must reach
_LEFT_PLATEAU = 0.05  # nats below it that any arm must reach
_LATE = 0.75  # of the run, from which on the difference may not grow any more
_GROWTH_LEVEL = 0.01  # of the test for growth
_LEAST_GROWTH = 0.25  # of the final difference; less growth does not matter


def withhold(
    judgements: Sequence[Judgement], arms: Sequence[ArmResult], bigram_loss: float | None
) -> tuple[Judgement, ...]:
    """Return the judgements at one size, with `unsettled` in place of every verdict that the runs are too short for.

    `arms` has the baseline first. Without `bigram_loss`, that of the best bigram table, no plateau is known.
    """
    baseline, *others = arms
    by_name = {arm.name: arm for arm in others}
    return tuple(_withheld(one, by_name[one.arm], baseline, bigram_loss) for one in judgements)


def _withheld(judgement: Judgement, arm: ArmResult, baseline: ArmResult, bigram_loss: float | None) -> Judgement:
    if judgement.verdict == "unstable" or judgement.mean is None:
        return judgement
    for reason in (_plateau(bigram_loss, arm, baseline), _growing(arm, baseline), _edge(arm.arm, baseline.arm)):
        if reason is not None:
            return replace(judgement, verdict="unsettled", reason=f"{reason} {judgement.reason}")
    return judgement


def _plateau(bigram: float | None, arm: ArmResult, baseline: ArmResult) -> str | None:
    if bigram is None or baseline.loss is None or arm.loss is None:
        return None
    for one, least in ((baseline, NEEDS_ATTENTION), (arm, _LEFT_PLATEAU)):
        assert one.loss is not None
        if one.loss > bigram - least:
            return (
                f"{one.name} ends at {one.loss:.3f} nats, less than {least:g} below the best bigram table "
                f"({bigram:.3f}): it has hardly begun to use attention."
            )
    return None


def _growing(arm: ArmResult, baseline: ArmResult) -> str | None:
    """Test by seed whether the difference grew over the last part of the run."""
    late, end, share = [], [], _LATE
    theirs = {run.seed: run for run in baseline.runs}
    for run in arm.runs:
        ours, other = _late_and_end(run), _late_and_end(theirs[run.seed])
        if ours is None or other is None:
            return None
        share, *losses = ours
        late.append(losses[0] - other[1])
        end.append(losses[1] - other[2])
    final = fmean(end)
    growth = [after - before for before, after in zip(late, end, strict=True)]
    mean = fmean(growth)
    if mean * final <= 0 or abs(mean) < _LEAST_GROWTH * abs(final) or len(growth) < 2:
        return None
    if paired_t(growth) > _GROWTH_LEVEL:
        return None
    return (
        f"Its difference to {baseline.name} still grows: {signed(fmean(late), 4)} nats at {100 * share:.0f} % of the "
        f"run, {signed(final, 4)} at the end."
    )


def _late_and_end(run: ArmRun) -> tuple[float, float, float] | None:
    """Return at which share of the run the last evaluation before its late part was, the loss there, and the last."""
    if run.outcome != "finished" or len(run.curve) < 2:
        return None
    steps, loss = run.curve[-1]
    before = [(step / steps, value) for step, value in run.curve[:-1] if step <= _LATE * steps]
    return (*before[-1], loss) if before else None


def _edge(arm: Arm, baseline: Arm) -> str | None:
    for one in (arm, baseline):
        if one.rate_at_edge:
            return f"The best learning rate of {one.name}, {one.run.learning_rate:g}, is at the edge of those tried."
    return None
