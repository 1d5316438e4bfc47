"""The specification of a model: the number of layers, the widths, and the attention of each layer.

ModelSpec.build("nano", vocabulary_size=96)                                GPT-2's architecture at the default size
ModelSpec.build("gpt2", vocabulary_size=50257, variant="tied-kv")
ModelSpec.build("nano", vocabulary_size=96, variant="window*2,softmax")    a mixture over layers
ModelSpec.build("nano", vocabulary_size=96, architecture="fast", family="encoder")

An architecture defines a block apart from its size and its attention:

gpt2   learned positions, LayerNorm, GELU (its tanh form), biases, output projections scaled by the depth
fast   RoPE, RMSNorm without parameters, squared ReLU, no biases, output projections initialised to zero, as in the
       public NanoGPT speedrun
llama  RoPE, RMSNorm with a weight, an MLP gated by SiLU (SwiGLU), no biases (arXiv 2302.13971)

All tie the embedding to the head. The attention of the layers is chosen separately. Published models of the Llama
family, with their own widths and heads, are in `attnlab.models.pretrained.published`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PositiveInt, SerializeAsAny, model_validator

from attnlab.attention import AttentionSpec, Learned, Mask, Position, Rope, mixture
from attnlab.errors import SpecError, UnknownNameError
from attnlab.models.sizes import size as size_by_name
from attnlab.specification import Specification

Family = Literal["decoder", "encoder", "encoder-decoder"]
Probability = Annotated[float, Field(ge=0, lt=1)]

MOST_LAYERS = 10_000  # far more than any model has; a spec is created for each layer


@dataclass(frozen=True)
class Architecture:
    """The definition of a block; the fields are those of `ModelSpec`."""

    norm: str
    activation: str
    bias: bool
    tied_embedding: bool
    zero_outputs: bool
    position: Position
    gated: bool = False


ARCHITECTURES: dict[str, Architecture] = {
    "gpt2": Architecture("layer", "gelu-tanh", True, True, False, Learned()),
    "fast": Architecture("rms", "relu-squared", False, True, True, Rope()),
    "llama": Architecture("rms-weight", "silu", False, True, False, Rope(), gated=True),
}

OptimizerKind = Literal["adamw", "muon"]

# The optimizer in the recipe named after each architecture (`attnlab.training.recipes` has the numbers).
RECIPE_OPTIMIZERS: dict[str, OptimizerKind] = {"gpt2": "adamw", "fast": "muon"}


def architecture(name: str) -> Architecture:
    """Return an architecture by its name."""
    if name not in ARCHITECTURES:
        raise UnknownNameError("architecture", name, ARCHITECTURES)
    return ARCHITECTURES[name]


_architecture = architecture  # for use where a parameter has the same name


class ModelSpec(Specification):
    """The complete specification of a model, without weights.

    `attention` has one spec for each layer. An encoder–decoder has `num_layers` of each kind: `attention` is the
    decoder's self-attention, `cross_attention` its attention to the encoder, `encoder_attention` the encoder's.
    """

    what = "a model spec"

    family: Family = "decoder"
    vocabulary_size: PositiveInt
    context_length: PositiveInt
    num_layers: PositiveInt
    model_width: PositiveInt
    mlp_width: PositiveInt
    attention: tuple[AttentionSpec, ...]
    cross_attention: tuple[AttentionSpec, ...] = ()
    encoder_attention: tuple[AttentionSpec, ...] = ()

    norm: Literal["layer", "rms", "rms-weight"] = "layer"
    norm_epsilon: float = Field(default=1e-5, gt=0)
    activation: Literal["gelu-tanh", "gelu", "relu-squared", "silu"] = "gelu-tanh"
    gated: bool = Field(default=False, exclude_if=lambda value: not value)  # the MLP multiplies by φ(x W_g)
    bias: bool = True
    tied_embedding: bool = True
    zero_outputs: bool = False  # output projections start at zero, so that every block starts as the identity
    initial_std: float = Field(default=0.02, gt=0)  # of weights and embeddings before the first step
    dropout: Probability = 0.0  # of the embedding and of the output of each branch
    position: Annotated[SerializeAsAny[Position], BeforeValidator(Position.parse)] = Learned()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        wanted = {
            "attention": True,
            "cross_attention": self.family == "encoder-decoder",
            "encoder_attention": self.family == "encoder-decoder",
        }
        for name, needed in wanted.items():
            specs: tuple[AttentionSpec, ...] = getattr(self, name)
            if len(specs) != self.num_layers * needed:
                raise SpecError(
                    f"{name} of {self.family} has {len(specs)} specs for {self.num_layers} layers",
                    hint="give one spec for each layer" if needed else f"leave {name} out",
                )
            for spec in specs:
                if spec.model_width != self.model_width:
                    raise SpecError(
                        f"a layer's attention has width {spec.model_width} and the model {self.model_width}",
                        hint=f"use model_width={self.model_width} for both",
                    )
                if spec.source != ("cross" if name == "cross_attention" else "self"):
                    raise SpecError(f"{name} has source={spec.source!r}", hint="cross_attention alone looks elsewhere")
        self._check_start()
        if self.family != "encoder" and not all(spec.mask.causal for spec in self.attention):
            raise SpecError(
                "a decoder with bidirectional attention would see the token that it predicts",
                hint='use a causal mask, or family="encoder"',
            )
        return self

    def _check_start(self) -> None:
        """Refuse a custom layer that cannot be initialised like this model's layers."""
        every = {*self.attention, *self.cross_attention, *self.encoder_attention} if self.zero_outputs else set()
        for spec in every:
            if spec.layer is not None and not spec.layer.starts_itself and not spec.layer.has_output(spec):
                raise SpecError(
                    f"every layer of this model begins at zero, and {spec.layer.kind} has no linear map called output "
                    "to begin so",
                    hint="call its last map output, or state its first weights in a method reset_parameters(self)",
                )

    @classmethod
    def build(
        cls,
        size: str = "nano",
        *,
        vocabulary_size: int,
        variant: str = "softmax",
        architecture: str = "gpt2",
        family: Family = "decoder",
        position: Position | str | None = None,
        **changes: Any,
    ) -> ModelSpec:
        """Return the spec of a model by the names of its size, its architecture and its attention.

        `changes` are fields of the size (`num_layers`, `num_heads`, …) or of the spec, or `head_width`, which keys and
        values have instead of the model's width divided among the heads. `variant` may name a mixture over layers
        (`attnlab.attention.names.mixtures`).
        """
        shape = size_by_name(size)
        style = _architecture(architecture)
        dimensions = {name: changes.pop(name, None) or value for name, value in shape.dimensions().items()}
        heads, head_width = dimensions.pop("num_heads"), changes.pop("head_width", None)
        place = style.position if position is None else Position.parse(position)
        mlp_width = changes.pop("mlp_width", None) or 4 * dimensions["model_width"]
        fields = {**vars(style), **dimensions, "mlp_width": mlp_width, "position": place, **changes}
        dropout = fields.get("dropout", 0.0)
        if fields["num_layers"] > MOST_LAYERS:
            raise SpecError(
                f"num_layers is {fields['num_layers']}, and at most {MOST_LAYERS} can be built",
                hint=f"use `num_layers` up to {MOST_LAYERS}",
            )

        def layers(**base: Any) -> tuple[AttentionSpec, ...]:
            return attention_layers(
                variant,
                fields["num_layers"],
                fields["context_length"],
                AttentionSpec(
                    model_width=fields["model_width"],
                    num_heads=heads,
                    key_width=head_width,
                    bias=fields["bias"],
                    weight_dropout=dropout,
                    output_dropout=dropout,
                    **base,
                ),
                place,
            )

        both = Mask(causal=False)
        fields["attention"] = layers(mask=both) if family == "encoder" else layers()
        if family == "encoder-decoder":
            fields["encoder_attention"] = layers(mask=both)
            fields["cross_attention"] = layers(mask=both, source="cross")
        return cls(family=family, vocabulary_size=vocabulary_size, **fields)

    @property
    def learns_positions(self) -> bool:
        """Return whether a learned vector for each position is added to the embedding."""
        return any(isinstance(spec.position, Learned) for spec in (*self.attention, *self.encoder_attention))


def attention_layers(
    names: str, num_layers: int, context_length: int, base: AttentionSpec, position: Position
) -> tuple[AttentionSpec, ...]:
    """Return the attention of each layer: the variants of the named mixture, each made from `base`.

    The position is the model's where a variant leaves it open. If `base` is bidirectional, so are its variants, and
    their windows do not add the first tokens. In cross-attention, distances between two sequences are meaningless, so
    masks and relative positions are left out.
    """
    cross = base.source == "cross"
    mixed = mixture(names)
    specs = {}
    for one in mixed.variants:
        spec = one.change(base.replace(source="self"), context_length)
        if cross:
            spec = spec.replace(position="none", mask=base.mask, source="cross")
        elif not base.mask.causal:
            spec = spec.replace(mask=spec.mask.replace(causal=False, first=None))
        specs[one.name] = spec.replace(position=position) if spec.position is None else spec
    return tuple(specs[one.name] for one in mixed.layers(num_layers))
