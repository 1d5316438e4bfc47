"""Modules without storage: shapes and dtypes on PyTorch's meta device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

__all__ = ["nothing_drawn", "on_meta"]


@contextmanager
def on_meta() -> Iterator[None]:
    """Create tensors and modules on the meta device, without drawing initial weights.

    A meta tensor has no values, and `normal_` on one imports PyTorch's compiler, which takes over a second.
    """
    with torch.device("meta"), _NothingDrawn():
        yield


@contextmanager
def nothing_drawn() -> Iterator[None]:
    """Create modules with uninitialised weights, without advancing the random number generator."""
    with torch.random.fork_rng(devices=[]), _NothingDrawn():
        yield


class _NothingDrawn(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)
