"""What one part of a computation costs, and what parts cost together."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from functools import cached_property


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

    @property
    def training_flops(self) -> int:
        return self.forward_flops + self.backward_flops + self.recomputed_flops


_NUMBERS = tuple(field.name for field in fields(PartCost) if field.name != "name")


@dataclass(frozen=True)
class Cost:
    """The parts of a computation in their order, and their sums."""

    parts: tuple[PartCost, ...]

    @cached_property
    def _sums(self) -> PartCost:
        return self.total("")

    def total(self, name: str) -> PartCost:
        """Return all parts as one, under a name."""
        sums = {field: sum(getattr(part, field) for part in self.parts) for field in _NUMBERS}
        return PartCost(name, **sums)

    @property
    def parameters(self) -> int:
        return self._sums.parameters

    @property
    def forward_flops(self) -> int:
        return self._sums.forward_flops

    @property
    def backward_flops(self) -> int:
        """Those of the gradients alone, without what is computed again."""
        return self._sums.backward_flops

    @property
    def recomputed_flops(self) -> int:
        return self._sums.recomputed_flops

    @property
    def training_flops(self) -> int:
        """Those of one step on the batch, without the optimizer's."""
        return self._sums.training_flops

    @property
    def activation_bytes(self) -> int:
        return self._sums.activation_bytes

    def part(self, name: str) -> PartCost:
        """A part by its name; one that costs nothing if there is none."""
        return next((part for part in self.parts if part.name == name), PartCost(name))

    def as_dict(self) -> dict[str, object]:
        """The sums and the parts, for JSON."""
        sums = {field: getattr(self, field) for field in _NUMBERS}
        return {**sums, "parts": [asdict(part) for part in self.parts]}
