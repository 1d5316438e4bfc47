"""Observers receive tensors of a forward pass by name, and can replace them.

An observable module reports each tensor that it lists in `reported`, at one point of its forward pass:

    query = …
    if self.observer is not None:
        query = self.observer("query", query)

Without an observer, the check for None is the only cost.
"""

from __future__ import annotations

from typing import ClassVar, Protocol

from torch import Tensor, nn


class Observer(Protocol):
    """Receives tensors by name. Reporting a tensor must not change it."""

    def wants(self, *names: str) -> bool:
        """Return whether any of these tensors is read or replaced, so that it must be computed."""

    def offer(self, name: str, tensor: Tensor) -> Tensor | None:
        """Report a tensor and return its replacement, None if there is none."""

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        """Report a tensor and return the one that the forward pass continues with."""


class Observed(nn.Module):
    """A module that reports tensors of its forward pass to `observer`, if there is one."""

    reported: ClassVar[tuple[str, ...]] = ()
    observer: Observer | None = None
