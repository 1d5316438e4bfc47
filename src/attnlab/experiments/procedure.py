"""What a plan fixes about judging, in numbers and in words, and what can be expected of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from attnlab.errors import SpecError
from attnlab.statistics import (
    count_needed,
    detectable_difference,
    equivalence_count_needed,
    equivalence_power,
    smallest_sign_flip_p,
    upper_sd,
)


@dataclass(frozen=True)
class Procedure:
    """How arms are judged; `judging.py` says what the numbers do."""

    alpha: float = 0.05
    looks: int = 2  # planned; each tests at alpha / looks
    margin: float = math.log(1.01)  # nats: one per cent of perplexity
    power: float = 0.9  # that the plan's smallest detectable effect is sized for

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise SpecError(f"alpha = {self.alpha:g} is not between 0 and 1", hint="use alpha = 0.05")
        if self.looks < 1:
            raise SpecError(f"with {self.looks} looks nothing is ever judged", hint="use looks = 1 or more")
        if not (self.margin > 0 and math.isfinite(self.margin)):
            raise SpecError(
                f"a margin of {self.margin:g} nats leaves no room in which arms could be equivalent",
                hint="use a margin above 0, such as 0.01, which is one per cent of perplexity",
            )
        if not self.level < self.power < 1:
            raise SpecError(
                f"power = {self.power:g} is not between alpha / looks = {self.level:g} and 1", hint="use power = 0.9"
            )

    @property
    def level(self) -> float:
        """What p is held against at each look."""
        return self.alpha / self.looks

    def in_words(self, arms: int) -> str:
        """The procedure, for the plan and the report."""
        family = " " if arms == 1 else f", corrected for {arms} arms by Holm's method, "
        likewise = "" if arms == 1 else " and corrected likewise"
        looks = "its only look" if self.looks == 1 else f"each of {self.looks} planned looks"
        return (
            f"Every arm's final validation loss is paired with the baseline's by seed and tested by a paired t{family}"
            f"at a level of {self.level:.3g} at {looks}: in at most {as_share(self.alpha)} of comparisons does any arm "
            "that does not differ come out “better” or “worse”. Where it finds no difference, two one-sided tests at "
            f"a margin of {percent(self.margin):.3g} % of perplexity, at the same level{likewise}, tell "
            "“equivalent” from “undecided”. An arm that diverged at any seed is “unstable”; sign flips and the "
            "bootstrap are shown, and do not decide."
        )


@dataclass(frozen=True)
class Sensitivity:
    """What a number of seeds can be expected to show."""

    detectable: float  # nats: the smallest difference that is found with the procedure's power
    detectable_percent: float  # of perplexity
    smallest_p: float  # that flipping signs can reach
    can_reach: bool  # whether that is as small as the corrected level
    seeds_for_margin: (
        int | None
    )  # to find a difference as large as the margin, and to show that there is none; None: endless
    warnings: tuple[str, ...]


def planned_effect(
    sd: float, seeds: int, arms: int, procedure: Procedure, *, degrees: float | None = None
) -> Sensitivity:
    """What can be expected at the first look, if a paired difference has the standard deviation `sd`.

    If `sd` comes from a pilot, `degrees` are its degrees of freedom, and what it may well be instead is reckoned with:
    an sd that happened to come out small would promise too much. Everything holds at Holm's first step, that is for the
    one arm that differs while all others do not.
    """
    if arms < 1:
        raise SpecError(f"{arms} arms are nothing to compare with the baseline", hint="name at least one arm")
    sd = sd if degrees is None else upper_sd(sd, degrees)
    level, power, margin = procedure.level / arms, procedure.power, procedure.margin
    detectable = detectable_difference(sd, seeds, level, power)
    smallest = smallest_sign_flip_p(seeds)
    warnings = []
    if smallest > level:
        warnings.append(
            f"With {seeds} seeds the sign-flip test cannot go below p = {smallest:.3g}, and {level:.3g} is asked for: "
            "a verdict would rest on the noise being normal, with no second witness. "
            f"{math.ceil(1 - math.log2(level))} seeds would do."
        )
    find, show = _needed(sd, level, procedure)
    if detectable > margin:
        warnings.append(
            f"Only differences of at least {percent(detectable):.2g} % of perplexity are found with a chance of "
            f"{as_share(power)}; for {percent(margin):.2g} %, the margin, {_seeds_would_do(find)}."
        )
    chance = equivalence_power(sd, seeds, margin, level)
    if chance < power:
        warnings.append(
            f"An arm that does not differ at all is shown to be equivalent with a chance of only {100 * chance:.0f} %; "
            f"for {as_share(power)}, {_seeds_would_do(show)}."
        )
    both = None if find is None or show is None else max(find, show)
    return Sensitivity(detectable, percent(detectable), smallest, smallest <= level, both, tuple(warnings))


def percent(nats: float) -> float:
    """A difference of losses in per cent of perplexity."""
    return 100 * math.expm1(nats) if nats < 700 else math.inf


def as_share(value: float) -> str:
    return f"{100 * value:.4g} %"


def _needed(sd: float, level: float, procedure: Procedure) -> tuple[int | None, int | None]:
    """Seeds to find a difference of the margin, and to show that there is none; None where no number would do."""
    try:
        return (
            count_needed(sd, procedure.margin, level, procedure.power),
            equivalence_count_needed(sd, procedure.margin, level, procedure.power),
        )
    except SpecError:
        return None, None


def _seeds_would_do(count: int | None) -> str:
    return "no number of seeds that could be trained would do" if count is None else f"{count} seeds would do"
