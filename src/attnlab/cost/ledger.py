"""The bytes that autograd keeps, by the part of a layer that created them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks


class Ledger:
    """Which storages are kept, and which part created them."""

    def __init__(self, layer: nn.Module) -> None:
        self._maker: dict[torch.UntypedStorage, str] = {}
        self._kept: set[torch.UntypedStorage] = set()
        self._parameters = {parameter.untyped_storage() for parameter in layer.parameters()}

    def made(self, part: str, *tensors: Tensor) -> None:
        """Record that a part made these tensors; a storage belongs to the part that made it first."""
        for tensor in tensors:
            self._maker.setdefault(tensor.untyped_storage(), part)

    def keep(self, part: str, *tensors: Tensor | None) -> None:
        """Count tensors as kept; those that no earlier part made belong to this one."""
        for tensor in tensors:
            if tensor is not None:
                self.made(part, tensor)
                self._kept.add(tensor.untyped_storage())

    @contextmanager
    def watch(self, part: str) -> Iterator[None]:
        """Record the tensors that autograd keeps inside."""

        # The tensor itself is not returned: an operation that saves its own output would never be freed.
        def pack(tensor: Tensor) -> None:
            self.keep(part, tensor)

        def unpack(_: None) -> Tensor:
            raise AssertionError("there is no backward pass here")

        with saved_tensors_hooks(pack, unpack):
            yield

    def bytes_by_part(self) -> dict[str, int]:
        result: Counter[str] = Counter()
        for storage in self._kept - self._parameters:
            result[self._maker[storage]] += storage.nbytes()
        return dict(result)


@dataclass(frozen=True)
class Kept:
    """The bytes that each part keeps, and the width of the product that is recomputed; 0 if there is none."""

    bytes_by_part: dict[str, int]
    product_width: int

    def times(self, count: int) -> Kept:
        """Return what so many sequences keep, if this is what one keeps."""
        return replace(self, bytes_by_part={name: count * number for name, number in self.bytes_by_part.items()})
