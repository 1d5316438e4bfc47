"""A question of cost, everything that the model of the question costs, and measurements beside it.

    found = estimate("gpt2", variant="tied-kv", context_length=4096)
    found.parameters, found.training.useful_training_flops, found.memory.peak, found.decoding.intensity

An estimate takes milliseconds and builds no model. All numbers are exact integers, but for intensities and ratios.
`attnlab.bench.products.cost` measures.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveInt, model_validator

from attnlab.attention import Mask
from attnlab.cost.attention import Cost, PartCost, sum_by
from attnlab.cost.configs import is_config, model_of_config
from attnlab.cost.inference import InferencePass, inference_pass
from attnlab.cost.model import ModelCost, model_cost
from attnlab.cost.peak import TrainingMemory, training_memory
from attnlab.cost.serving import ServingMemory, serving_memory
from attnlab.cost.tensors import NamedTensor, named_tensors
from attnlab.errors import SpecError, UnknownNameError
from attnlab.models import ModelSpec
from attnlab.models.hf.folder import CONFIG
from attnlab.models.sizes import Size
from attnlab.models.sizes import size as size_called
from attnlab.models.spec import RECIPE_OPTIMIZERS, OptimizerKind, attention_layers
from attnlab.specification import Specification

GPT2_VOCABULARY = 50257

_MOST = 2**36  # beyond it, products of two of them are no shapes any more
Count = Annotated[PositiveInt, Field(le=_MOST)]


class Question(Specification):
    """A model by its names, with what is changed about its size. What is left out is the size's own.

    A size is a name, a number of parameters, or the path of a config.json of Hugging Face or of its folder. A named
    size has GPT-2's vocabulary. A recipe is an architecture of the same name and an optimizer; the rest of it costs
    nothing. The architecture of a configuration is its own.

    mixed_precision    bfloat16 weights, gradients and activations; float32 master weights and optimizer state
    checkpointing      training keeps the inputs of blocks alone, and does their forward pass again
    """

    what: ClassVar[str] = "a question of cost"
    help_at: ClassVar[str | None] = "give another number, or leave it out"

    size: str = "gpt2"
    variant: str = "softmax"
    recipe: str = "gpt2"
    family: Literal["decoder", "encoder"] = "decoder"
    batch_size: Count = 1
    vocabulary_size: Count | None = None
    bytes_per_number: Literal[2, 4, 8] = 4
    mixed_precision: bool = False
    checkpointing: bool = False
    context_length: Count | None = None
    num_layers: Annotated[PositiveInt, Field(le=2**16)] | None = None
    model_width: Count | None = None
    num_heads: Annotated[PositiveInt, Field(le=2**20)] | None = None
    head_width: Count | None = None
    mlp_width: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _precise(cls, fields: Any) -> Any:
        """Mixed precision computes in bfloat16."""
        if not isinstance(fields, dict) or fields.get("mixed_precision") is not True:
            return fields
        if fields.get("bytes_per_number", 2) != 2:
            raise SpecError(
                f"mixed precision has numbers of 2 bytes, not of {fields['bytes_per_number']}",
                hint="leave out `bytes_per_number`, or `mixed_precision`",
            )
        return {**fields, "bytes_per_number": 2}

    @model_validator(mode="after")
    def _known(self) -> Question:
        if not is_config(self.size):
            size_called(self.size)
        if self.recipe not in RECIPE_OPTIMIZERS:
            raise UnknownNameError("recipe", self.recipe, RECIPE_OPTIMIZERS)
        return self

    @property
    def label(self) -> str:
        """Size and variant."""
        return f"{self.name} {self.variant}"

    @property
    def name(self) -> str:
        """The size; a configuration is called as its folder."""
        return self.size.removesuffix(CONFIG).rstrip("/") or self.size

    @property
    def optimizer(self) -> OptimizerKind:
        return RECIPE_OPTIMIZERS[self.recipe]

    @property
    def shape(self) -> Size:
        """Layers, width, heads and context."""
        return self._changed(self._usual(self._configured()))

    @property
    def is_changed(self) -> bool:
        """Whether its shape is not that of the size."""
        usual = self._usual(self._configured())
        return self._changed(usual) != usual or self.head_width is not None or self.mlp_width is not None

    def model(self) -> ModelSpec:
        """The spec of the model; what is impossible is refused here."""
        base = self._configured()
        shape = self._changed(self._usual(base))
        return self._named_model(shape) if base is None else self._changed_model(base, shape)

    def _configured(self) -> ModelSpec | None:
        """The model of the configuration; None for a named size."""
        return model_of_config(self.size) if is_config(self.size) else None

    def _usual(self, base: ModelSpec | None) -> Size:
        if base is None:
            return size_called(self.size)
        return Size(base.num_layers, base.model_width, base.attention[0].num_heads, base.context_length)

    def _changed(self, usual: Size) -> Size:
        return Size(**{name: getattr(self, name) or number for name, number in usual.dimensions().items()})

    def _changed_model(self, base: ModelSpec, shape: Size) -> ModelSpec:
        """The model of a configuration with another attention; its perceptron keeps its ratio to the width."""
        attention = base.attention[0].replace(
            model_width=shape.model_width,
            num_heads=shape.num_heads,
            position=None,
            mask=Mask(causal=self.family == "decoder"),
        )
        if self.head_width is not None:
            attention = attention.replace(key_width=self.head_width)
        return base.replace(
            family=self.family,
            vocabulary_size=self.vocabulary_size or base.vocabulary_size,
            context_length=shape.context_length,
            num_layers=shape.num_layers,
            model_width=shape.model_width,
            mlp_width=self.mlp_width or base.mlp_width * shape.model_width // base.model_width,
            attention=attention_layers(self.variant, shape.num_layers, shape.context_length, attention, base.position),
        )

    def _named_model(self, shape: Size) -> ModelSpec:
        if self.head_width is None and shape.model_width % shape.num_heads:
            lower = shape.model_width - shape.model_width % shape.num_heads
            raise SpecError(
                f"a width of {shape.model_width} does not divide into {shape.num_heads} heads",
                hint=f"use a multiple of {shape.num_heads} such as {lower or shape.num_heads}, or other num_heads",
            )
        widths = {"head_width": self.head_width, "mlp_width": self.mlp_width}
        sizes: dict[str, Any] = {name: width for name, width in widths.items() if width is not None}
        sizes |= shape.dimensions()
        return ModelSpec.build(
            self.size,
            vocabulary_size=self.vocabulary_size or GPT2_VOCABULARY,
            variant=self.variant,
            architecture=self.recipe,
            family=self.family,
            **sizes,
        )


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
    """A number of an estimate that tables show: what it is, its unit, and where it comes from."""

    key: str
    label: str
    unit: str  # "", "FLOPs", "B" or "FLOPs/B"
    value: Callable[[CostEstimate], float | int | None]


@dataclass(frozen=True)
class CostEstimate:
    """What a model costs. It is derived when asked for, and then kept."""

    question: Question
    model: ModelSpec

    @property
    def label(self) -> str:
        return self.question.label

    @functools.cached_property
    def training(self) -> ModelCost:
        """One training step, products of visible pairs alone."""
        return self._cost(visible_only=True)

    @functools.cached_property
    def defined(self) -> ModelCost:
        """The same, every pair: what PyTorch's counter finds where attention computes what it is defined to be."""
        return self._cost(visible_only=False)

    @functools.cached_property
    def memory(self) -> TrainingMemory:
        return training_memory(self.training, self.question.optimizer, mixed_precision=self.question.mixed_precision)

    @functools.cached_property
    def prefill(self) -> InferencePass:
        """Reading a prompt as long as the context."""
        return self._pass(tokens=self.model.context_length, cached=0)

    @functools.cached_property
    def decoding(self) -> InferencePass | None:
        """Writing the last token that the context has room for; an encoder writes none."""
        cached = self.model.context_length - 1
        return None if self.model.family == "encoder" or not cached else self._pass(tokens=1, cached=cached)

    @functools.cached_property
    def serving(self) -> ServingMemory:
        """The memory to serve the batch, each sequence as long as the context."""
        return serving_memory(
            self.model, batch=self.question.batch_size, bytes_per_number=self.question.bytes_per_number
        )

    @functools.cached_property
    def tensors(self) -> tuple[NamedTensor, ...]:
        """Every parameter by its name."""
        return named_tensors(self.model)

    @property
    def parameters(self) -> int:
        return self.training.parameters

    @property
    def defined_flops(self) -> int:
        """To train on one batch, every pair."""
        return self.defined.forward_flops + self.defined.backward_flops

    @property
    def attention_parameters(self) -> int:
        return sum(cost.parameters for cost in self.training.attention)

    @property
    def tokens(self) -> int:
        """Of one training step."""
        return self.question.batch_size * self.model.context_length

    @property
    def cache_bytes(self) -> int:
        """Of the whole batch after the whole context."""
        return self.training.cache_bytes(self.model.context_length)

    @property
    def cache_bytes_per_token(self) -> int:
        """What one token of one sequence adds, in all layers; 0 where there is a state instead, or no decoding."""
        if self.model.family == "encoder":
            return 0
        return sum(cost.cache_bytes_per_token for cost in self.training.attention)

    def parts(self) -> tuple[PartCost, ...]:
        """By kind, attention by its own parts, norms together, those that cost nothing left out."""
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
        if self.question.checkpointing:  # with the inputs of the blocks, which their first norms keep
            return *found, Cost(tuple(norms)).total("norms, block inputs")
        return *found, Cost(tuple(norms)).total("norms")

    def as_dict(self, *, tensors: bool = False) -> dict[str, object]:
        """Everything as plain numbers, for JSON."""
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
    """What a model costs; `fields` are those of a `Question`."""
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

_TIMED = ("a training step", "reading the context", "writing one token")


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
        """The products of a step, what is recomputed included, at the machine's best rate."""
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
