"""Simulated comparisons with known truth: random losses, judged by `judge` like those of a real comparison.

A loss is the arm's true mean, plus an effect of the seed that all arms share, plus independent noise; the differences
to one baseline are therefore correlated, as in reality. While an arm is undecided, seeds are added and the comparison
is analysed again, until the planned interim analyses are used up.

    false difference    no arm differs, but one is judged better or worse at any interim analysis
    false equivalence   every arm differs by exactly the margin, but one is judged equivalent at any interim analysis
    overlooked          one arm differs by the detectable effect of a pilot's plan, but the first analysis misses it
    false on a ladder   no arm differs at any of three sizes, but one is judged better or worse at one of them
    false trend         no arm's difference changes over three sizes, but one is judged to rise or to fall

Each is simulated for the given design. The first two and the last are also simulated with few seeds whose noise is
pooled with that of a pilot, as in the default comparison; the first also with a pilot of half the noise.

Except for the third, errors count once per family of arms, however many of its arms are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from attnlab.errors import SpecError
from attnlab.experiments.judging.judgement import Judgement, judge
from attnlab.experiments.planning.pilot import DEFAULT
from attnlab.experiments.planning.procedure import Procedure, planned_effect, rung_shares
from attnlab.experiments.request import Request
from attnlab.statistics import Noise, holm, pooled_sd, trend

Kind = Literal["normal", "heavy tails", "unequal"]
Question = Literal["false difference", "false equivalence", "overlooked", "false on a ladder", "false trend"]
Losses = NDArray[np.float64]  # (1 + arms, seeds), the baseline first

ODD: tuple[Kind, ...] = ("heavy tails", "unequal")  # violate assumptions of the tests
PILOT_SEEDS = 3
_FEW, _POOLED = Request().seeds, len(DEFAULT.pilot_seeds)  # of the default comparison, and of its pilot
_QUIETER = 0.5  # relative noise of a pilot that underestimates the noise

_BASELINE = "baseline"
_RUNGS = 3
_TAILS = 4  # degrees of freedom of heavy tails
_TIMES = 2.0  # unequal arms have from 1 / 2 of the baseline's noise up to twice as much
_SEED_EFFECT = 5.0  # relative to the noise; pairing removes it
_MUCH_NOISE = 3.0  # margins: no arm is judged equivalent, so all interim analyses are used up
# Standard deviations of a difference, in margins. With less noise, arms at the margin are judged worse or better; with
# more, none can be judged equivalent; in between, errors are most likely.
_AT_MARGIN = (0.7, 1.0, 1.4)


@dataclass(frozen=True)
class Design:
    """The comparisons that are simulated."""

    arms: int = 8
    seeds: int = 9
    extension: int = 9  # seeds that are added for each further interim analysis
    procedure: Procedure = field(default_factory=Procedure)
    pooled: int = 0  # seeds of a pilot whose noise is pooled with that of the others
    pilot_noise: float = 1.0  # of that pilot, as a multiple of the others'

    def __post_init__(self) -> None:
        for name, least in (("arms", 1), ("seeds", 2), ("extension", 1)):
            if getattr(self, name) < least:
                raise SpecError(f"{getattr(self, name)} {name} simulate nothing", hint=f"use `{name}={least}` or more")

    @property
    def looks(self) -> tuple[int, ...]:
        """Return the number of seeds at each interim analysis."""
        return tuple(self.seeds + number * self.extension for number in range(self.procedure.looks))

    def draw(self, rng: np.random.Generator, noise: Kind, sd: float) -> tuple[Losses, Losses]:
        """Draw the losses of arms that do not differ, at the seeds of all looks, and those of the pilot."""
        losses = draw_losses(rng, noise, self.arms, self.looks[-1], sd)
        return losses, draw_losses(rng, noise, self.arms, self.pooled, self.pilot_noise * sd)

    def named(self, setting: str) -> str:
        if not self.pooled:
            return setting
        quieter = "" if self.pilot_noise == 1 else f" with {self.pilot_noise:g} × the noise"
        return f"{setting}, {self.seeds} seeds and a pilot of {self.pooled}{quieter}"


@dataclass(frozen=True)
class SimulatedTrial:
    """One question under one kind of noise; `goes_wrong` simulates the comparison with a given number."""

    question: Question
    setting: str
    bounded: bool  # whether a bar limits its error rate
    goes_wrong: Callable[[np.random.Generator, int], bool]


def draw_losses(rng: np.random.Generator, noise: Kind, arms: int, seeds: int, sd: float) -> Losses:
    """Draw losses of arms that do not differ; a difference to the baseline has the standard deviation `sd`.

    If arms have unequal noise, this holds for an arm with the noise of the baseline.
    """
    shape = (1 + arms, seeds)
    if noise == "heavy tails":
        own = rng.standard_t(_TAILS, shape) / math.sqrt(_TAILS / (_TAILS - 2))
    else:
        own = rng.standard_normal(shape)
    if noise == "unequal":
        own[1:] *= np.geomspace(1 / _TIMES, _TIMES, arms)[:, None]
    return np.asarray((own + _SEED_EFFECT * rng.standard_normal(seeds)) * (sd / math.sqrt(2)))


def take_looks(
    losses: Losses, looks: tuple[int, ...], procedure: Procedure, pilot: Losses | None = None
) -> Iterator[tuple[Judgement, ...]]:
    """Yield the judgements at the first interim analysis, and at each further one as long as an arm is undecided."""
    names = [_BASELINE, *(f"arm {number}" for number in range(1, len(losses)))]
    known = {}
    if pilot is not None and pilot.shape[1]:
        known = {name: Noise.of((pilot[row] - pilot[0]).tolist()) for row, name in enumerate(names) if row}
    for seeds in looks:
        rows = losses[:, :seeds].tolist()
        table = {name: dict(enumerate(row)) for name, row in zip(names, rows, strict=True)}
        judgements = judge(table, _BASELINE, procedure, noise=known, witnesses=False)
        yield judgements
        if all(one.verdict != "undecided" for one in judgements):
            return


def finds_difference(losses: Losses, looks: tuple[int, ...], procedure: Procedure, pilot: Losses | None = None) -> bool:
    """Return whether any arm comes out better or worse at any interim analysis."""
    taken = take_looks(losses, looks, procedure, pilot)
    return any(one.verdict in ("better", "worse") for look in taken for one in look)


def all_trials(design: Design) -> list[SimulatedTrial]:
    """Return the trials of every question, under noise as the tests assume it and under noise that they do not."""
    margins: list[tuple[Kind, float]] = [("normal", sd) for sd in _AT_MARGIN]
    margins += [(noise, _AT_MARGIN[1]) for noise in ODD]
    pilots = list(dict.fromkeys((min(2, design.arms), design.arms)))
    few = replace(design, seeds=_FEW, procedure=replace(design.procedure, looks=1), pooled=_POOLED)
    quieter = replace(few, pilot_noise=_QUIETER)
    return [
        *(_no_difference(design, noise) for noise in ("normal", *ODD)),
        *(_at_margin(design, noise, sd) for noise, sd in margins),
        *(_planted(design, "normal", arms) for arms in pilots),
        *(_planted(design, noise, pilots[-1]) for noise in ODD),
        *(_null_ladder(design, noise) for noise in ("normal", *ODD)),
        *(_null_trend(design, noise) for noise in ("normal", *ODD)),
        *(_no_difference(few, noise) for noise in ("normal", *ODD)),
        _no_difference(quieter, "normal"),
        *(_at_margin(few, noise, sd) for noise, sd in margins),
        *(_null_trend(few, noise) for noise in ("normal", *ODD)),
    ]


def _no_difference(design: Design, noise: Kind) -> SimulatedTrial:
    def goes_wrong(rng: np.random.Generator, _: int) -> bool:
        losses, pilot = design.draw(rng, noise, _MUCH_NOISE * design.procedure.margin)
        return finds_difference(losses, design.looks, design.procedure, pilot)

    bounded = noise == "normal" and design.pilot_noise == 1
    return SimulatedTrial("false difference", design.named(noise), bounded, goes_wrong)


def _null_ladder(design: Design, noise: Kind) -> SimulatedTrial:
    procedures = [
        replace(design.procedure, alpha=design.procedure.alpha * share, looks=1) for share in rung_shares(_RUNGS - 1)
    ]

    def goes_wrong(rng: np.random.Generator, _: int) -> bool:
        sd = _MUCH_NOISE * design.procedure.margin
        rungs = [draw_losses(rng, noise, design.arms, design.seeds, sd) for _ in procedures]
        found = zip(rungs, procedures, strict=True)
        return any(finds_difference(losses, design.looks[:1], procedure) for losses, procedure in found)

    return SimulatedTrial("false on a ladder", noise, noise == "normal", goes_wrong)


def _null_trend(design: Design, noise: Kind) -> SimulatedTrial:
    sizes = [10.0**rung for rung in range(_RUNGS)]

    def goes_wrong(rng: np.random.Generator, _: int) -> bool:
        drawn = [design.draw(rng, noise, design.procedure.margin) for _ in sizes]
        ps = []
        for arm in range(1, design.arms + 1):
            seen = [(losses[arm] - losses[0])[: design.seeds].tolist() for losses, _ in drawn]
            pilot = [(losses[arm] - losses[0]).tolist() for _, losses in drawn] if design.pooled else None
            ps.append(trend(seen, sizes, pilot=pilot).p)
        return min(holm(ps)) <= design.procedure.alpha

    return SimulatedTrial("false trend", design.named(noise), noise == "normal", goes_wrong)


def _at_margin(design: Design, noise: Kind, sd: float) -> SimulatedTrial:
    margin = design.procedure.margin

    def goes_wrong(rng: np.random.Generator, _: int) -> bool:
        losses, pilot = design.draw(rng, noise, sd * margin)
        losses[1:] += margin * rng.choice((-1.0, 1.0), (design.arms, 1))
        looks = take_looks(losses, design.looks, design.procedure, pilot)
        return any(one.verdict == "equivalent" for look in looks for one in look)

    setting = design.named(f"{noise}, {sd:g} × margin")
    return SimulatedTrial("false equivalence", setting, noise == "normal", goes_wrong)


def _planted(design: Design, noise: Kind, pilot_arms: int) -> SimulatedTrial:
    degrees = pilot_arms * (PILOT_SEEDS - 1)
    # The detectable effect is proportional to the pilot's standard deviation.
    unit = planned_effect(1.0, design.seeds, design.arms, design.procedure, degrees=degrees).detectable

    def goes_wrong(rng: np.random.Generator, number: int) -> bool:
        sd = _MUCH_NOISE * design.procedure.margin
        # Drawn for all arms, so that the pilot's noise levels match the plan's; the pilot uses the arms in the middle.
        pilot = draw_losses(rng, noise, design.arms, PILOT_SEEDS, sd)
        first = 1 + (design.arms - pilot_arms) // 2
        found, seen = pooled_sd(pilot[first : first + pilot_arms] - pilot[0])
        assert seen == degrees
        arm, sign = number % design.arms, 1 if number % 2 else -1
        losses = draw_losses(rng, noise, design.arms, design.seeds, sd)
        losses[1 + arm] += sign * unit * found
        judgements = next(take_looks(losses, design.looks[:1], design.procedure))
        return judgements[arm].verdict != ("worse" if sign > 0 else "better")

    return SimulatedTrial("overlooked", f"{noise}, pilot of {pilot_arms} arms", noise == "normal", goes_wrong)
