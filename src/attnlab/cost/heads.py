"""The maps of a single head, from which all of attention's parameters follow.

    query down   D → D_k       key down   D → D_k       value down   D → D_v       value up   D_v → D

A head's way back up is its slice of the output projection: the slices of all heads stand side by side in it. Down and
up together are the value map of the head, factored through a small space. Unfactored it would be one map D → D.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from attnlab.attention.layer import output_width, projection_widths
from attnlab.cost.estimate import CostEstimate

_NAMES = {"query": "W_Q", "key": "W_K", "value": "W_V, down"}


@dataclass(frozen=True)
class HeadMatrix:
    """One map of one head, without its bias; several query heads may share it."""

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
    """The parameters of a head, of a layer's heads, of all attention, and of the model. Layers are the first one's."""

    estimate: CostEstimate
    maps: tuple[HeadMatrix, ...]

    @property
    def width(self) -> int:
        return self.estimate.model.model_width

    @property
    def head(self) -> int:
        """The maps of a head together, those that it shares included."""
        return sum(one.parameters for one in self.maps)

    @property
    def layer(self) -> int:
        """The maps of all heads of a layer, each once."""
        heads = self.estimate.model.attention[0].num_heads
        return sum(one.parameters * heads // one.shared_by for one in self.maps)

    @property
    def attention(self) -> int:
        """All of attention: maps, biases, and what scores bring."""
        return self.estimate.attention_parameters

    @property
    def full_value(self) -> int:
        """An unfactored value map."""
        return self.width**2

    @property
    def rounded_width(self) -> int:
        """The width in whole thousands, as one says it."""
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
    """The maps of one head of the first layer."""
    spec = found.model.attention[0]
    maps = []
    for name, width in projection_widths(spec).items():
        heads = spec.num_heads if name == "query" else spec.num_key_value_heads
        label = "W_V, full" if name == "value" and spec.value_map == "full" else _NAMES[name]
        maps.append(HeadMatrix(label, spec.model_width, width // heads, spec.num_heads // heads))
    inner = output_width(spec)
    if inner is not None:
        shared = spec.num_heads if spec.join == "average" else 1
        maps.append(HeadMatrix("W_V, up: its part of W_O", spec.value_width, spec.model_width, shared))
    return PerHead(found, tuple(maps))
