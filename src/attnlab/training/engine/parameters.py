"""All parameters of a model in one flat tensor, and all gradients in another.

Parameters are then views. An optimizer, the gradient norm and an exchange between processes need one call instead of
one per parameter, which would be most of their cost in a small model; and matrices of the same shape are contiguous, so
that they form a batch without a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

Allocate = Callable[[Tensor], Tensor]  # returns zeros of the same shape and dtype as another tensor

_ALIGNMENT = 16  # numbers: a cache line of float32


@dataclass(frozen=True)
class Shard:
    """The share of the work of one process among several."""

    rank: int = 0
    size: int = 1

    def of(self, count: int) -> slice:
        """Return the positions out of `count` that belong to this process."""
        return slice(count * self.rank // self.size, count * (self.rank + 1) // self.size)


WHOLE = Shard()


@dataclass(frozen=True)
class Group:
    """Contiguous parameters: those of one kind and, if they are treated as matrices, of one shape."""

    kind: str
    names: tuple[str, ...]
    shape: tuple[int, ...] | None  # of each parameter, if they form a batch
    start: int
    stop: int


class FlatParameters:
    """A model's parameters as views of `values`, their gradients as views of `gradients`.

    `kind_of` returns the kind of a parameter. A kind in `batched` is divided further, by shape.
    """

    def __init__(
        self,
        model: nn.Module,
        kind_of: Callable[[str, nn.Parameter], str],
        batched: Sequence[str] = (),
        allocate: Allocate = torch.zeros_like,
    ) -> None:
        self.parameters = dict(model.named_parameters())
        members: dict[tuple[str, tuple[int, ...] | None], list[str]] = {}
        for name, parameter in self.parameters.items():
            kind = kind_of(name, parameter)
            members.setdefault((kind, tuple(parameter.shape) if kind in batched else None), []).append(name)
        groups, self.spans, end = [], {}, 0
        for (kind, shape), names in members.items():
            start = end
            for name in names:
                if shape is None:
                    end = _aligned(end)
                self.spans[name] = (end, end + self.parameters[name].numel())
                end = self.spans[name][1]
            end = _aligned(end)
            groups.append(Group(kind, tuple(names), shape, start, end))
        self.groups = tuple(groups)
        example = next(iter(self.parameters.values()))
        self.values = allocate(torch.empty(end, dtype=example.dtype, device=example.device))
        for name, home in self.named(self.values).items():
            home.copy_(self.parameters[name].detach())
            self.parameters[name].data = home
        self.gradients = self.values
        self.collect_in(allocate(self.values))

    def collect_in(self, gradients: Tensor) -> None:
        """Accumulate the gradients in other memory of the same size."""
        for name, place in self.named(gradients).items():
            self.parameters[name].grad = place
        self.gradients = gradients

    def named(self, flat: Tensor) -> dict[str, Tensor]:
        """Return views of a flat tensor of this layout by the names of the parameters."""
        return {name: flat[a:b].view(self.parameters[name].shape) for name, (a, b) in self.spans.items()}


def _aligned(position: int) -> int:
    return -(-position // _ALIGNMENT) * _ALIGNMENT
