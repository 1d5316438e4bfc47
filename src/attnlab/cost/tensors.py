"""Every parameter of a model by its name and shape, computed without building it.

The names are those of `model.named_parameters()`, in their order. The largest model of the catalogue has a thousand of
them, most of them the same in every layer: `grouped` puts those on one line.

All parameters of attention follow from the matrices of a single head (`per_head`):

    query down   D → D_k       key down   D → D_k       value down   D → D_v       value up   D_v → D

The value-up matrix of a head is its slice of the output projection, which is the concatenation of the slices of all
heads. Down and up together are the value map of the head in low-rank form; without the factorisation it would be one
matrix D → D.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from attnlab.attention import AttentionSpec
from attnlab.attention.layer import output_width, projection_shapes
from attnlab.attention.spec import borrowed
from attnlab.cost.block import mlp_shapes, norm_vectors
from attnlab.cost.whole_layers import layer_tensors
from attnlab.errors import UnsupportedError
from attnlab.models import ModelSpec

if TYPE_CHECKING:
    from attnlab.cost.estimate import CostEstimate

_LAYER = re.compile(r"blocks\.(\d+)\.")


@dataclass(frozen=True)
class NamedTensor:
    """One parameter."""

    name: str
    shape: tuple[int, ...]

    @property
    def parameters(self) -> int:
        return math.prod(self.shape)

    def as_dict(self) -> dict[str, object]:
        return {"name": self.name, "shape": list(self.shape), "parameters": self.parameters}

    @property
    def is_hidden_matrix(self) -> bool:
        """Return whether it is a matrix inside a block, and no parameter of a score: what Muon is for."""
        return len(self.shape) == 2 and ".blocks." in self.name and ".extras." not in self.name


@dataclass(frozen=True)
class TensorGroup:
    """Parameters of one name and shape in `count` layers; `name` lists the layers."""

    name: str
    shape: tuple[int, ...]
    count: int

    @property
    def parameters(self) -> int:
        """Return the parameters of all of them together."""
        return self.count * math.prod(self.shape)


def named_tensors(spec: ModelSpec) -> tuple[NamedTensor, ...]:
    """Return all parameters, in the order of the model's own list.

    Parameters
    ----------
    spec
        The specification of the model.
    """
    return tuple(NamedTensor(name, shape) for name, shape in _tensors(spec))


def grouped(tensors: Iterable[NamedTensor]) -> tuple[TensorGroup, ...]:
    """Return the tensors with layers that are alike on one line, such as `stack.blocks.0…11.mlp.widen.weight`."""
    places: dict[tuple[str, tuple[int, ...]], list[int | None]] = {}
    for tensor in tensors:
        found = _LAYER.search(tensor.name)
        pattern = _LAYER.sub("blocks.{}.", tensor.name)
        places.setdefault((pattern, tensor.shape), []).append(int(found[1]) if found else None)
    return tuple(
        TensorGroup(pattern.format(_spans([layer for layer in layers if layer is not None])), shape, len(layers))
        for (pattern, shape), layers in places.items()
    )


def _spans(layers: list[int]) -> str:
    """Return the runs of consecutive layers as text, such as 0…3,5."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][-1] + 1:
            runs[-1].append(layer)
        else:
            runs.append([layer])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}…{run[-1]}" for run in runs)


def _tensors(spec: ModelSpec) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield "embedding.weight", (spec.vocabulary_size, spec.model_width)
    if spec.encoder_attention:
        yield from _stack("encoder.", spec, spec.encoder_attention, ())
    yield from _stack("stack.", spec, spec.attention, spec.cross_attention)
    if not spec.tied_embedding:
        yield "head.weight", (spec.vocabulary_size, spec.model_width)


def _stack(
    place: str, spec: ModelSpec, own: tuple[AttentionSpec, ...], cross: tuple[AttentionSpec, ...]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    if spec.learns_positions:
        yield f"{place}positions.weight", (spec.context_length, spec.model_width)
    for number, attention in enumerate(own):
        block = f"{place}blocks.{number}."
        yield from _norm(f"{block}attention_norm.", spec)
        yield from _attention(f"{block}attention.", attention, borrowed(own)[number])
        if cross:
            yield from _norm(f"{block}cross_norm.", spec)
            yield from _attention(f"{block}cross_attention.", cross[number], borrowed(cross)[number])
        yield from _norm(f"{block}mlp_norm.", spec)
        for name, shape in mlp_shapes(spec).items():
            yield from _linear(f"{block}mlp.{name}.", *shape, spec.bias)
    yield from _norm(f"{place}norm.", spec)


def _attention(place: str, spec: AttentionSpec, lent: frozenset[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    if spec.layer is not None:
        yield from ((f"{place}{name}", shape) for name, shape in layer_tensors(spec))
        return
    for name, (width, columns, bias) in projection_shapes(spec).items():
        yield from _linear(f"{place}projections.{name}.", width, columns, bias)
    inner = output_width(spec)
    if inner is not None:
        yield from _linear(f"{place}output.", spec.model_width, inner, spec.bias)
    for name, parameter in sorted(spec.parameters.items()):  # the order in which PyTorch lists them
        if name not in lent:
            yield f"{place}extras.{name}", parameter.stored_shape(spec.num_heads)
    for name, projection in spec.projections.items():
        yield f"{place}token_maps.{name}.weight", (projection.columns(spec.num_heads), spec.model_width)


def _linear(place: str, rows: int, columns: int, bias: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{place}weight", (rows, columns)
    if bias:
        yield f"{place}bias", (rows,)


def _norm(place: str, spec: ModelSpec) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield from ((f"{place}{name}", (spec.model_width,)) for name in norm_vectors(spec))


# The matrices of one head


_NAMES = {"query": "W_Q", "key": "W_K", "value": "W_V, down"}
_LATENT_NAMES = {"query_latent": "W_DQ", "latent": "W_DKV", "rotary": "W_KR", "key": "W_UK", "value": "W_UV"}


@dataclass(frozen=True)
class HeadMatrix:
    """One matrix of one head, without its bias; several query heads may share it."""

    name: str
    rows: int
    columns: int
    shared_by: int = 1

    @property
    def parameters(self) -> int:
        return self.rows * self.columns

    @property
    def label(self) -> str:
        return self.name if self.shared_by == 1 else f"{self.name}, shared by {self.shared_by} heads"


@dataclass(frozen=True)
class PerHead:
    """The parameters of a head and of a layer's heads (in the first layer), of all attention, and of the model."""

    estimate: CostEstimate
    maps: tuple[HeadMatrix, ...]

    @property
    def width(self) -> int:
        return self.estimate.model.model_width

    @property
    def head(self) -> int:
        """Return the parameters of the matrices of a head, including shared ones."""
        return sum(one.parameters for one in self.maps)

    @property
    def layer(self) -> int:
        """Return the parameters of the matrices of all heads of a layer, each counted once."""
        heads = self.estimate.model.attention[0].num_heads
        return sum(one.parameters * heads // one.shared_by for one in self.maps)

    @property
    def attention(self) -> int:
        """Return the parameters of all attention: matrices, biases, and those of the scores."""
        return self.estimate.attention_parameters

    @property
    def full_value(self) -> int:
        """Return the parameters of an unfactored value map."""
        return self.width**2

    @property
    def rounded_width(self) -> int:
        """Return the width rounded down to whole thousands, or as it is below 1000."""
        return self.width // 1000 * 1000 or self.width

    def as_dict(self) -> dict[str, object]:
        return {
            "maps": [{**asdict(one), "parameters": one.parameters} for one in self.maps],
            "head": self.head,
            "full_value": self.full_value,
            "rounded_width": self.rounded_width,
            "full_value_at_rounded_width": self.rounded_width**2,
            "layer": self.layer,
            "attention": self.attention,
            "model": self.estimate.parameters,
            "attention_share": self.attention / self.estimate.parameters,
        }


def per_head(found: CostEstimate) -> PerHead:
    """Return the matrices of one head of the first layer.

    Parameters
    ----------
    found
        An estimate.
    """
    spec = found.model.attention[0]
    if spec.layer is not None:
        raise UnsupportedError(
            f"the layer {spec.layer} has no heads whose maps can be told apart", hint="leave out the maps of a head"
        )
    maps = []
    for name, (width, columns, _) in projection_shapes(spec).items():
        heads = spec.num_heads if name == "query" else spec.num_key_value_heads
        label = "W_V, full" if name == "value" and spec.value_map == "full" else _NAMES.get(name, name)
        if spec.compression is not None:
            heads = spec.num_heads if name in _NAMES else 1  # all heads share one small vector
            label = _LATENT_NAMES.get(name, label)
        maps.append(HeadMatrix(label, columns, width // heads, spec.num_heads // heads))
    inner = output_width(spec)
    if inner is not None:
        shared = spec.num_heads if spec.join == "average" else 1
        maps.append(HeadMatrix("W_V, up: its part of W_O", spec.value_width, spec.model_width, shared))
    return PerHead(found, tuple(maps))
