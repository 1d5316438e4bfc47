"""What was measured of a model on this machine, beside what was predicted. `attnlab.bench.products.cost` measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from attnlab.cost.estimate import Estimate
from attnlab.cost.presentation.grids import NOTHING, Grid, bytes_text, ratio_text


@dataclass(frozen=True)
class MachineRates:
    """What the machine can do, measured just before: products of large matrices, and reading memory."""

    flops_per_second: float
    bytes_per_second: float

    @property
    def balance(self) -> float:
        """FLOPs per byte at which arithmetic and memory take the same time."""
        return self.flops_per_second / self.bytes_per_second


@dataclass(frozen=True)
class MeasuredCost:
    """Times and memory of one model; `refusal` says why nothing was measured."""

    estimate: Estimate
    rates: MachineRates
    step_seconds: float | None = None
    prefill_seconds: float | None = None
    decoding_seconds: float | None = None
    peak_bytes: int | None = None
    refusal: str = ""

    @property
    def predicted_step_seconds(self) -> float:
        """The products of a step, what kernels do again included, at the machine's best rate."""
        return self.estimate.training.training_flops / self.rates.flops_per_second

    def predicted_seconds(self) -> dict[str, float | None]:
        found, rates = self.estimate, (self.rates.flops_per_second, self.rates.bytes_per_second)
        decoding = found.decoding
        return {
            "a training step": self.predicted_step_seconds,
            "reading the context": found.prefill.seconds(*rates),
            "writing one token": None if decoding is None else decoding.seconds(*rates),
        }

    def measured_seconds(self) -> dict[str, float | None]:
        return {
            "a training step": self.step_seconds,
            "reading the context": self.prefill_seconds,
            "writing one token": self.decoding_seconds,
        }

    def grids(self) -> list[Grid]:
        name = f"{self.estimate.label}: predicted and measured here"
        if self.refusal:
            return [Grid(name, ("", "reason"), [["not measured", self.refusal]], text_columns=(0, 1))]
        rows = []
        measured = self.measured_seconds()
        for what, predicted in self.predicted_seconds().items():
            rows.append([what, _time(predicted), _time(measured[what]), _ratio(measured[what], predicted)])
        peak = self.estimate.memory.peak
        held = self.peak_bytes
        rows.append(["peak memory of training", bytes_text(peak), _bytes(held), _ratio(held, peak)])
        return [Grid(name, ("", "predicted", "measured", "measured ÷ predicted"), rows, self._words())]

    def as_dict(self) -> dict[str, Any]:
        return {
            "question": self.estimate.question.model_dump(),
            "flops_per_second": self.rates.flops_per_second,
            "bytes_per_second": self.rates.bytes_per_second,
            "predicted_seconds": self.predicted_seconds(),
            "measured_seconds": self.measured_seconds(),
            "predicted_peak_bytes": self.estimate.memory.peak,
            "measured_peak_bytes": self.peak_bytes,
            "refusal": self.refusal or None,
        }

    def _words(self) -> str:
        rates = self.rates
        return (
            f"Predicted times are the least that products take at this machine's {rates.flops_per_second / 1e9:.0f} "
            f"GFLOPS and {rates.bytes_per_second / 1e9:.1f} GB/s, both measured just before: work on single elements "
            f"and waiting come on top. What has fewer than {rates.balance:.0f} FLOPs per byte is bound by memory here. "
            f"Memory is highest when {self.estimate.memory.moment}."
        )


def _time(seconds: float | None) -> str:
    if seconds is None:
        return NOTHING
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} µs"


def _bytes(number: int | None) -> str:
    return NOTHING if number is None else bytes_text(number)


def _ratio(measured: float | None, predicted: float | None) -> str:
    return NOTHING if measured is None or not predicted else ratio_text(measured / predicted)
