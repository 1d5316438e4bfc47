"""Reading and replacing what a model computes, by name, without a trace on a model that is not tapped.

    with model.tap("blocks.*.attention.output", {"blocks.1.mlp.hidden": change}) as seen:
        model(tokens)

While a name is tapped, the module that reports it has an observer (`attention/observer.py`). All others have none.

Reading changes no bit of any result. Two names are made beside the way that the model takes, since it never makes them
itself: `weights`, by the reference, and, where only the loss is asked for, `logits`. Once replaced, the model goes on
with them: with weights · values by definition and without dropout, and with the cross-entropy of all logits at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attnlab.attention.observer import Observed
from attnlab.errors import InputError, UnknownNameError, UnsupportedError
from attnlab.models.tap_names import matching, tap_names

if TYPE_CHECKING:
    from attnlab.models.language_model import LanguageModel

Replace = Callable[[Tensor], Tensor | None]


class Seen(dict[str, Tensor]):
    """What a tap has read, by name: of each the last."""

    def __init__(self, names: set[str]) -> None:
        super().__init__()
        self.names = names

    def __missing__(self, name: str) -> Tensor:
        if name not in self.names:
            raise UnknownNameError("activation in this tap", name, self.names)
        raise InputError(f"{name!r} was not computed inside the tap", hint="run the model inside the `with`")


class Taps:
    """The taps on one model."""

    def __init__(self) -> None:
        self.open: list[tuple[dict[str, Replace], Seen]] = []  # as they were entered

    def wants(self, *names: str) -> bool:
        return any(name in replaced or name in seen.names for replaced, seen in self.open for name in names)

    def offer(self, name: str, tensor: Tensor) -> Tensor | None:
        """What takes the tensor's place, None if nothing does."""
        if torch.compiler.is_compiling():
            raise UnsupportedError("a compiled model cannot be tapped", hint="tap the model that was not compiled")
        now = None
        for replaced, _ in self.open:
            if name in replaced:
                given = tensor if now is None else now
                made = replaced[name](given)
                now = now if made is None else _checked(name, made, given)
        for _, seen in self.open:
            if name in seen.names:
                seen[name] = tensor if now is None else now
        return now

    def settle(self, model: LanguageModel) -> None:
        """Give the modules whose results are wanted an observer, and no other. A name begins with its module's path."""
        for path, module in model.named_modules():
            if isinstance(module, Observed):
                path = path.removeprefix("stack").removeprefix(".")
                prefix = f"{path}." if path else ""
                module.observer = At(self, prefix) if self.wants(*(prefix + name for name in module.reported)) else None


class At:
    """The taps as the observer of one module, whose names begin with `prefix`."""

    def __init__(self, taps: Taps, prefix: str) -> None:
        self.taps, self.prefix = taps, prefix

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        """The tensor that the model goes on with."""
        made = self.offer(name, tensor)
        return tensor if made is None else made

    def offer(self, name: str, tensor: Tensor) -> Tensor | None:
        return self.taps.offer(self.prefix + name, tensor)

    def wants(self, *names: str) -> bool:
        return self.taps.wants(*(self.prefix + name for name in names))


@contextmanager
def tap(model: LanguageModel, names: tuple[str | Mapping[str, Replace], ...]) -> Iterator[Seen]:
    """`LanguageModel.tap`."""
    if any(module._compiled_call_impl is not None for module in model.modules()):
        raise UnsupportedError("a compiled model cannot be tapped", hint="tap a model before `compile()`")
    known = tap_names(model)
    read: set[str] = set()
    replaced: dict[str, Replace] = {}
    for name in names:
        if isinstance(name, str):
            read.update(matching(name, known))
            continue
        for pattern, function in name.items():
            if not callable(function):
                raise InputError(
                    f"{pattern!r} is to be replaced by a {type(function).__name__}",
                    hint="give a function that gets the tensor and returns another",
                )
            replaced |= dict.fromkeys(matching(pattern, known), function)
    entry, taps = (replaced, Seen(read)), model.taps
    taps.open.append(entry)
    try:
        taps.settle(model)
        yield entry[1]
    finally:
        taps.open = [other for other in taps.open if other is not entry]
        taps.settle(model)


def is_tapped(model: LanguageModel) -> bool:
    return bool(model.taps.open)


def _checked(name: str, made: object, given: Tensor) -> Tensor:
    if not isinstance(made, Tensor):
        raise InputError(f"the function for {name!r} returned a {type(made).__name__}", hint="return a tensor or None")
    if made.shape != given.shape or made.dtype != given.dtype or made.device != given.device:
        wanted, found = (f"{tuple(x.shape)} of {x.dtype} on {x.device}" for x in (given, made))
        raise InputError(
            f"the function for {name!r} got {wanted} and returned {found}",
            hint="return a tensor of the same shape and type, e.g. by expand_as and type_as",
        )
    return made
