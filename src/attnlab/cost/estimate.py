"""The complete cost of the model of a question, and measurements to compare it with.

    found = estimate("gpt2", variant="tied-kv", context_length=4096)
    found.parameters, found.training.useful_training_flops, found.memory.peak, found.decoding.intensity

An estimate takes milliseconds and builds no model. All numbers are exact integers, except intensities and ratios.
`attnlab.bench.products.cost` measures.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from attnlab.cost.attention import Cost, PartCost, sum_by
from attnlab.cost.inference import InferencePass, inference_pass
from attnlab.cost.model import ModelCost, model_cost
from attnlab.cost.peak import TrainingMemory, training_memory
from attnlab.cost.questions.question import Question
from attnlab.cost.serving import ServingMemory, serving_memory
from attnlab.cost.tensors import NamedTensor, named_tensors
from attnlab.models import ModelSpec

ATTENTION_PARTS = (
    "query projection",
    "key projection",
    "value projection",
    "output projection",
    "scores",
    "weighted sum",
    "operator",
)
_REST = "rest of attention"


@dataclass(frozen=True)
class Quantity:
    """A number of an estimate that tables show: its name, its unit, and how to read it from an estimate."""

    key: str
    label: str
    unit: str  # "", "FLOPs", "B" or "FLOPs/B"
    value: Callable[[CostEstimate], float | int | None]


@dataclass(frozen=True)
class CostEstimate:
    """The cost of a model. Each quantity is computed when first accessed, and then cached."""

    question: Question
    model: ModelSpec

    @property
    def label(self) -> str:
        return self.question.label

    @functools.cached_property
    def training(self) -> ModelCost:
        """Return the cost of one training step, counting the products of visible pairs alone."""
        return self._cost(visible_only=True)

    @functools.cached_property
    def defined(self) -> ModelCost:
        """Return the cost of a step, every pair counted, as PyTorch's counter does where attention is as defined."""
        return self._cost(visible_only=False)

    @functools.cached_property
    def memory(self) -> TrainingMemory:
        return training_memory(self.training, self.question.optimizer, mixed_precision=self.question.mixed_precision)

    @functools.cached_property
    def prefill(self) -> InferencePass:
        """Return the cost of reading a prompt as long as the context."""
        return self._pass(tokens=self.model.context_length, cached=0)

    @functools.cached_property
    def decoding(self) -> InferencePass | None:
        """Return the cost of generating the last token that fits into the context; None for an encoder."""
        cached = self.model.context_length - 1
        return None if self.model.family == "encoder" or not cached else self._pass(tokens=1, cached=cached)

    @functools.cached_property
    def serving(self) -> ServingMemory:
        """Return the memory to serve the batch, each sequence as long as the context."""
        return serving_memory(
            self.model, batch=self.question.batch_size, bytes_per_number=self.question.bytes_per_number
        )

    @functools.cached_property
    def tensors(self) -> tuple[NamedTensor, ...]:
        """Return every parameter with its name."""
        return named_tensors(self.model)

    @property
    def parameters(self) -> int:
        return self.training.parameters

    @property
    def defined_flops(self) -> int:
        """Return the FLOPs to train on one batch, counting every pair, without recomputation."""
        return self.defined.forward_flops + self.defined.backward_flops

    @property
    def attention_parameters(self) -> int:
        return sum(cost.parameters for cost in self.training.attention)

    @property
    def tokens(self) -> int:
        """Return the tokens of one training step."""
        return self.question.batch_size * self.model.context_length

    @property
    def cache_bytes(self) -> int:
        """Return the bytes that are cached for the whole batch after the whole context."""
        return self.training.cache_bytes(self.model.context_length)

    @property
    def cache_bytes_per_token(self) -> int:
        """Return the bytes a token of one sequence adds in all layers; 0 if there is a state, or no decoding."""
        if self.model.family == "encoder":
            return 0
        return sum(cost.cache_bytes_per_token for cost in self.training.attention)

    def parts(self) -> tuple[PartCost, ...]:
        """Return the parts by kind, attention by its own parts, norms together, those that cost nothing left out."""
        every = (part for cost in self.training.attention for part in cost.parts)
        inside = {part.name: part for part in sum_by(every, str)}
        named = [inside[name] for name in ATTENTION_PARTS if name in inside]
        rest = Cost(tuple(part for name, part in inside.items() if name not in ATTENTION_PARTS)).total(_REST)
        found: list[PartCost] = []
        norms: list[PartCost] = []
        for part in self.training.by_kind():
            if part.name.endswith("norm"):
                norms.append(part)
            elif part.name == "attention":
                found += named + ([rest] if rest != PartCost(_REST) else [])
            else:
                found.append(part)
        if self.question.checkpointing:  # including the inputs of the blocks, which their first norms keep
            return *found, Cost(tuple(norms)).total("norms, block inputs")
        return *found, Cost(tuple(norms)).total("norms")

    def as_dict(self, *, tensors: bool = False) -> dict[str, object]:
        """Return everything as plain values, for JSON."""
        spec, memory = self.model, self.memory
        return {
            "question": self.question.model_dump(),
            "model": {
                "num_layers": spec.num_layers,
                "model_width": spec.model_width,
                "num_heads": spec.attention[0].num_heads,
                "context_length": spec.context_length,
                "mlp_width": spec.mlp_width,
                "vocabulary_size": spec.vocabulary_size,
            },
            "totals": {quantity.key: quantity.value(self) for quantity in QUANTITIES},
            "parts": [asdict(part) for part in self.parts()],
            "kernels": list(self.training.kernels),
            "memory": {**asdict(memory), "peak": memory.peak, "moment": memory.moment},
            "serving": {**asdict(self.serving), "total": self.serving.total},
            "prefill": self.prefill.as_dict(),
            "decoding": None if self.decoding is None else self.decoding.as_dict(),
            **({"tensors": [tensor.as_dict() for tensor in self.tensors]} if tensors else {}),
        }

    def _cost(self, *, visible_only: bool) -> ModelCost:
        return model_cost(
            self.model,
            batch=self.question.batch_size,
            visible_only=visible_only,
            bytes_per_number=self.question.bytes_per_number,
            checkpointing=self.question.checkpointing,
        )

    def _pass(self, *, tokens: int, cached: int) -> InferencePass:
        return inference_pass(
            self.model,
            batch=self.question.batch_size,
            tokens=tokens,
            cached=cached,
            bytes_per_number=self.question.bytes_per_number,
        )


def estimate(size: str = "gpt2", **fields: Any) -> CostEstimate:
    """Return what a model costs.

    Parameters
    ----------
    size
        A size, a published model, a Hugging Face config.json, or a folder that contains one.
    fields
        The fields of a `Question`, such as variant, batch_size or context_length.
    """
    question = Question(size=size, **fields)
    return CostEstimate(question, question.model())


def _decoding(found: CostEstimate, name: str) -> float | int | None:
    value: float | int | None = getattr(found.decoding, name, None)
    return value


QUANTITIES: tuple[Quantity, ...] = (
    Quantity("parameters", "parameters", "", lambda e: e.parameters),
    Quantity("attention_parameters", "of which attention", "", lambda e: e.attention_parameters),
    Quantity("training_flops", "to train on one batch", "FLOPs", lambda e: e.training.useful_training_flops),
    Quantity("defined_flops", "the same, every pair", "FLOPs", lambda e: e.defined_flops),
    Quantity("recomputed_flops", "recomputed in the backward pass", "FLOPs", lambda e: e.training.recomputed_flops),
    Quantity("weight_bytes", "weights", "B", lambda e: e.memory.weights),
    Quantity("gradient_bytes", "gradients", "B", lambda e: e.memory.gradients),
    Quantity("optimizer_bytes", "optimizer state", "B", lambda e: e.memory.optimizer),
    Quantity("master_weight_bytes", "float32 master weights", "B", lambda e: e.memory.master_weights),
    Quantity("activation_bytes", "activations kept", "B", lambda e: e.memory.activations),
    Quantity("peak_bytes", "peak of training", "B", lambda e: e.memory.peak),
    Quantity("prefill_flops", "prefill of the context", "FLOPs", lambda e: e.prefill.flops),
    Quantity("prefill_intensity", "  FLOPs per byte, prefill", "FLOPs/B", lambda e: e.prefill.intensity),
    Quantity("decoding_flops", "to decode one token", "FLOPs", lambda e: _decoding(e, "flops")),
    Quantity("decoding_bytes", "  bytes moved, decoding", "B", lambda e: _decoding(e, "bytes_moved")),
    Quantity("decoding_intensity", "  FLOPs per byte, decoding", "FLOPs/B", lambda e: _decoding(e, "intensity")),
    Quantity("cache_bytes", "cache after the context", "B", lambda e: e.cache_bytes),
    Quantity("cache_bytes_per_token", "  cache of each token", "B", lambda e: e.cache_bytes_per_token),
    Quantity("serving_bytes", "memory to serve the batch", "B", lambda e: e.serving.total),
)


# Measurements

_TIMED = ("a training step", "prefill of the context", "decoding one token")


@dataclass(frozen=True)
class MachineRates:
    """The rates of this machine, measured just before: products of large matrices, and reading memory."""

    flops_per_second: float
    bytes_per_second: float

    @property
    def balance(self) -> float:
        """Return the FLOPs per byte at which compute and memory take the same time."""
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
        """Return the time for the products of a step, recomputed ones included, at the machine's best rate."""
        return self.estimate.training.training_flops / self.rates.flops_per_second

    def predicted_seconds(self) -> dict[str, float | None]:
        rates = self.rates.flops_per_second, self.rates.bytes_per_second
        passes = (self.estimate.prefill, self.estimate.decoding)
        seconds = (None if one is None else one.seconds(*rates) for one in passes)
        return dict(zip(_TIMED, (self.predicted_step_seconds, *seconds), strict=True))

    def measured_seconds(self) -> dict[str, float | None]:
        return dict(zip(_TIMED, (self.step_seconds, self.prefill_seconds, self.decoding_seconds), strict=True))

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
