"""The tests that a plan fixes before anything is trained, in numbers and in words, and their power."""

from __future__ import annotations

import math
from dataclasses import dataclass

from attnlab.errors import SpecError
from attnlab.experiments.numbers import percent, share_text
from attnlab.formats import percent as share
from attnlab.statistics import (
    count_needed,
    detectable_difference,
    equivalence_count_needed,
    equivalence_power,
    smallest_sign_flip_p,
    upper_sd,
)

_LOWER_SHARE = 0.5  # of the chance of a false verdict that the rungs below the largest have together


@dataclass(frozen=True)
class Procedure:
    """How arms are judged; `judging/judgement.py` says what the numbers do."""

    alpha: float = 0.05
    looks: int = 2  # planned interim analyses; each tests at alpha / looks
    margin: float = math.log(1.01)  # nats: one per cent of perplexity
    power: float = 0.9  # that the plan's smallest detectable effect is sized for

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise SpecError(f"alpha = {self.alpha:g} is not between 0 and 1", hint="use `alpha=0.05`")
        if self.looks < 1:
            raise SpecError(f"with {self.looks} interim analyses nothing is ever judged", hint="use `looks=1` or more")
        if not (self.margin > 0 and math.isfinite(self.margin)):
            raise SpecError(
                f"the margin must be a finite number above 0, got {self.margin:g} nats",
                hint="use a margin above 0, such as 0.01, which is one per cent of perplexity",
            )
        if not self.level < self.power < 1:
            raise SpecError(
                f"power = {self.power:g} is not between alpha / looks = {self.level:g} and 1", hint="use `power=0.9`"
            )

    @property
    def level(self) -> float:
        """Return the level of each interim analysis."""
        return self.alpha / self.looks

    def in_words(self, arms: int) -> str:
        """Return the procedure in a paragraph, for the plan and the report."""
        family = " " if arms == 1 else f", corrected for {arms} arms by Holm's method, "
        likewise = "" if arms == 1 else " and corrected likewise"
        looks = "its only analysis" if self.looks == 1 else f"each of {self.looks} planned interim analyses"
        return (
            f"Every arm's final validation loss is paired with the baseline's by seed and tested by a paired t{family}"
            f"at a level of {self.level:.3g} at {looks}: in at most {share_text(self.alpha)} of comparisons does any "
            "arm that does not differ come out “better” or “worse”. Where it finds no difference, two one-sided tests "
            f"at a margin of {percent(self.margin):.3g} % of perplexity, at the same level{likewise}, tell "
            "“equivalent” from “undecided”. An arm that diverged at any seed is “unstable”; sign flips and the "
            "bootstrap are shown, and do not decide."
        )


def rung_shares(lower: int) -> tuple[float, ...]:
    """Return how the chance of a false verdict is divided: to the `lower` rungs evenly, and half to the largest, last.

    So any false verdict on the whole ladder has at most the chance that the request accepts.
    """
    return (*[_LOWER_SHARE / lower] * lower, 1 - _LOWER_SHARE) if lower else (1.0,)


@dataclass(frozen=True)
class Sensitivity:
    """What a number of seeds can be expected to show."""

    detectable: float  # nats: the smallest difference that is found with the procedure's power
    smallest_p: float  # that flipping signs can reach
    equivalence_power: float  # chance that an arm that does not differ is shown to be equivalent
    # Seeds that detect a difference as large as the margin, and that show that there is none; None: no number would do.
    seeds_for_margin: int | None
    warnings: tuple[str, ...]


def planned_effect(
    sd: float, seeds: int, arms: int, procedure: Procedure, *, degrees: float | None = None, known: int = 0
) -> Sensitivity:
    """Return what the first interim analysis can show, if a paired difference has the standard deviation `sd`.

    If `sd` comes from a pilot, `degrees` are its degrees of freedom, and what it may well be instead is reckoned with:
    an sd that happened to come out small would promise too much. `known` are the degrees of freedom that the tests of
    an arm have from the pilot, besides those of the seeds. Everything holds at Holm's first step, that is for the
    one arm that differs while all others do not.
    """
    if arms < 1:
        raise SpecError(f"{arms} arms are nothing to compare with the baseline", hint="name at least one arm")
    sd = sd if degrees is None else upper_sd(sd, degrees)
    level, power, margin = procedure.level / arms, procedure.power, procedure.margin
    detectable = detectable_difference(sd, seeds, level, power, known)
    smallest = smallest_sign_flip_p(seeds)
    warnings = []
    if smallest > level:
        warnings.append(
            f"With {seeds} seeds the sign-flip test cannot go below p = {smallest:.3g}, and the tests are at "
            f"{level:.3g}: verdicts rely on normally distributed noise, and sign flips cannot confirm them. "
            f"{math.ceil(1 - math.log2(level))} seeds would do."
        )
    needed = _needed(sd, level, procedure, known)
    chance = equivalence_power(sd, seeds, margin, level, known=known)
    if detectable > margin or chance < power:
        warnings.append(
            f"{seeds} seeds can detect a difference of {percent(detectable):.2g} % of perplexity (at "
            f"{share_text(power)} power), and show that an identical arm is equivalent with {share(chance)} power; "
            f"to decide either way at the margin of {percent(margin):.2g} %, {_seeds_would_do(needed)}."
        )
    return Sensitivity(detectable, smallest, chance, needed, tuple(warnings))


def _needed(sd: float, level: float, procedure: Procedure, known: int) -> int | None:
    """Return the seeds that detect a difference of the margin and also show that there is none, if any number does."""
    try:
        return max(
            count_needed(sd, procedure.margin, level, procedure.power, known),
            equivalence_count_needed(sd, procedure.margin, level, procedure.power, known=known),
        )
    except SpecError:
        return None


def _seeds_would_do(count: int | None) -> str:
    return "no number of seeds that could be trained would do" if count is None else f"{count} seeds would do"
