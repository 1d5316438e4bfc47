"""What one part of a computation costs, and what parts cost together."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class PartCost:
    """The cost of one part.

    A FLOP is half a multiply–add of a matrix product, as PyTorch's own counter has it; work on single elements is not
    counted. Activation bytes are those of the tensors that this part makes and that autograd keeps until the backward
    pass.
    """

    name: str
    parameters: int = 0
    forward_flops: int = 0
    backward_flops: int = 0
    recomputed_flops: int = 0  # what a kernel does again in the backward pass instead of remembering it
    activation_bytes: int = 0


@dataclass(frozen=True)
class Cost:
    """The parts of a computation in their order, and their sums."""

    parts: tuple[PartCost, ...]

    @property
    def parameters(self) -> int:
        return sum(part.parameters for part in self.parts)

    @property
    def forward_flops(self) -> int:
        return sum(part.forward_flops for part in self.parts)

    @property
    def backward_flops(self) -> int:
        """Those of the gradients alone, without what is computed again."""
        return sum(part.backward_flops for part in self.parts)

    @property
    def recomputed_flops(self) -> int:
        return sum(part.recomputed_flops for part in self.parts)

    @property
    def activation_bytes(self) -> int:
        return sum(part.activation_bytes for part in self.parts)

    def part(self, name: str) -> PartCost:
        """A part by its name; one that costs nothing if there is none."""
        return next((part for part in self.parts if part.name == name), PartCost(name))

    def as_dict(self) -> dict[str, Any]:
        """The sums and the parts, for JSON."""
        return {
            "parameters": self.parameters,
            "forward_flops": self.forward_flops,
            "backward_flops": self.backward_flops,
            "recomputed_flops": self.recomputed_flops,
            "activation_bytes": self.activation_bytes,
            "parts": [asdict(part) for part in self.parts],
        }
