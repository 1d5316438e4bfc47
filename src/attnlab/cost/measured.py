"""What was measured of a model on this machine, beside what was predicted. `attnlab.bench.products.cost` measures."""

from __future__ import annotations

from dataclasses import dataclass

from attnlab.cost.estimate import CostEstimate


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

    estimate: CostEstimate
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

    def as_dict(self) -> dict[str, object]:
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
