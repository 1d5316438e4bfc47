"""How the time of a training step grows with the context, below N = D and far above it.

The exponent b of seconds = a · Nᵇ is fitted to the medians of several contexts, and so is that of the predicted FLOPs
of the same step. One layer, and a vocabulary so small that the head does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from attnlab.bench.results.findings import FoundTable
from attnlab.bench.results.judging import Claim, Outcome, judge_claim
from attnlab.bench.results.progress import Listener
from attnlab.bench.results.timing import Ratio, check_rounds, take_turns
from attnlab.cost import model_cost
from attnlab.models import ModelSpec, build_model
from attnlab.statistics import power_growth

_VOCABULARY = 17

GROWTH = Claim(
    "growth",
    "the time of a training step as the context grows, below N = D and far above it",
    "measured and predicted exponent of N, their distance",
    0.25,
)


@dataclass(frozen=True)
class Regime:
    """A width, a batch, and contexts on one side of N = D."""

    name: str
    width: int
    heads: int
    batch: int
    contexts: tuple[int, ...]

    def model(self, tokens: int) -> ModelSpec:
        shape: dict[str, Any] = {
            "num_layers": 1,
            "model_width": self.width,
            "num_heads": self.heads,
            "context_length": tokens,
        }
        return ModelSpec.build("nano", vocabulary_size=_VOCABULARY, **shape)

    def flops(self, tokens: int) -> int:
        """Those of a training step, what kernels do again included."""
        return model_cost(self.model(tokens), batch=self.batch, visible_only=True).training_flops


@dataclass(frozen=True)
class GrowthPlan:
    """The two regimes."""

    regimes: tuple[Regime, ...] = (
        Regime("N < D", 512, 8, 8, (32, 64, 128, 256)),
        Regime("N > D", 64, 1, 1, (2048, 4096, 8192, 16384)),
    )

    def smoke(self) -> GrowthPlan:
        return GrowthPlan((Regime("N < D", 16, 2, 1, (2, 4)), Regime("N > D", 8, 1, 1, (16, 32))))


@dataclass(frozen=True)
class MeasuredGrowth:
    """The exponents of one regime."""

    name: str
    width: int
    contexts: tuple[int, ...]
    seconds: tuple[float, ...]
    predicted: float
    measured: float

    @property
    def apart(self) -> float:
        return abs(self.measured - self.predicted)


def measure_growth(plan: GrowthPlan, rounds: int, listener: Listener) -> tuple[MeasuredGrowth, ...]:
    """Time both regimes with the threads that PyTorch has now."""
    check_rounds(rounds)
    found = []
    for place, regime in enumerate(plan.regimes):
        listener.step(f"growth with N: {regime.name}", place, len(plan.regimes))
        calls = {str(tokens): _step(regime, tokens) for tokens in regime.contexts}
        durations = take_turns(calls, rounds)
        seconds = tuple(durations.median(name) for name in calls)
        flops = [regime.flops(tokens) for tokens in regime.contexts]
        found.append(
            MeasuredGrowth(
                regime.name,
                regime.width,
                regime.contexts,
                seconds,
                power_growth(regime.contexts, flops).slope,
                power_growth(regime.contexts, seconds).slope,
            )
        )
    return tuple(found)


def _step(regime: Regime, tokens: int) -> Callable[[], object]:
    model = build_model(regime.model(tokens))
    inputs, targets = torch.randint(0, _VOCABULARY, (2, regime.batch, tokens))

    def step() -> None:
        model.zero_grad(set_to_none=True)
        model.loss(inputs, targets).backward()  # type: ignore[no-untyped-call]

    return step


def judge_growth(found: Sequence[MeasuredGrowth]) -> Outcome:
    return judge_claim(GROWTH, {one.name: Ratio.exact(one.apart) for one in found})


def growth_table(found: Sequence[MeasuredGrowth]) -> FoundTable:
    rows = [
        (
            one.name,
            str(one.width),
            f"{one.contexts[0]:,}–{one.contexts[-1]:,}",
            f"{one.seconds[0]:.2g}–{one.seconds[-1]:.2g} s",
            f"{one.predicted:.2f}",
            f"{one.measured:.2f}",
        )
        for one in found
    ]
    words = "The exponent of N fitted to the predicted FLOPs, and to the measured time, of one layer's training step."
    headings = ("", "D", "N", "time", "predicted", "measured")
    return FoundTable("Growth with the context", words, headings, rows)
