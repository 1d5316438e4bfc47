"""A user-defined layer as a part of a specification.

    class ConvGate(nn.Module):
        def __init__(self, model_width, kernel=4): ...
        def forward(self, x): ...                                   (batch, tokens, model width) → the same

The signatures state what the module needs. The constructor gets `model_width`, `num_heads`, `context_length`, `bias`
and `dropout` if it names them; its other arguments need defaults and are the numbers of the part: they are stored as
JSON and compared by value. `forward` gets x and, if it names them:

    mask      (batch or 1, heads or 1, queries, keys), True where a query may attend: mask, padding and patterns in one
    source    (batch, keys, model width), the other sequence of cross-attention
    cache     a dict for the tensors that decoding needs of earlier tokens; empty at first, None in training

A module without `mask` must be causal itself. One without `cache` decodes by recomputing all tokens.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

import torch
from pydantic import create_model
from torch import nn

from attnlab.attention.parts.part import Part
from attnlab.errors import AttnlabError, SpecError

if TYPE_CHECKING:
    from attnlab.attention.spec import AttentionSpec

SIZES = ("model_width", "num_heads", "context_length", "bias", "dropout")
GIVEN = ("mask", "source", "cache")
NO_MAPS = "this layer gives no attention maps"
_NUMBERS = (bool, int, float, str)


class OwnLayer(Part):
    """A module that replaces attention, with the numbers that its constructor takes."""

    family: ClassVar[str] = "layer"
    module: ClassVar[type[nn.Module]]
    equation: ClassVar[str] = ""
    sizes: ClassVar[frozenset[str]] = frozenset()  # fields of the spec that the constructor takes
    takes: ClassVar[frozenset[str]] = frozenset()  # arguments of `forward` besides x
    needs_context: ClassVar[bool] = False

    @classmethod
    def parse(cls, value: object) -> Self:
        """Return a layer from itself, from its name, or from a mapping, also one of an installed package."""
        kind = value.get("kind") if isinstance(value, dict) else value
        if isinstance(kind, str) and kind not in cls.kinds():
            from attnlab.attention.names.files import load_installed  # which adds layers

            load_installed()
            if kind not in cls.kinds():
                raise SpecError(
                    f"there is no layer called {kind!r} here", hint="name the file that adds it by `variants_from=FILE`"
                )
        elif not isinstance(value, cls) and not isinstance(kind, str):
            raise SpecError(f"a layer is given by its name, not by {value!r}", hint="add_layer gives it one")
        return super().parse(value)

    def numbers(self) -> dict[str, object]:
        """Return the constructor's arguments that do not come from the spec."""
        return {name: getattr(self, name) for name in type(self).model_fields}

    def build(self, spec: AttentionSpec) -> nn.Module:
        """Return a new module at the size of a spec."""
        sizes = {
            "model_width": spec.model_width,
            "num_heads": spec.num_heads,
            "context_length": spec.context_length,
            "bias": spec.bias,
            "dropout": spec.weight_dropout,
        }
        given = {name: sizes[name] for name in SIZES if name in self.sizes}
        try:
            module = self.module(**given, **self.numbers())
            if self.starts_itself:
                module.reset_parameters()  # type: ignore[operator]
        except AttnlabError:
            raise
        except Exception as error:
            raise SpecError(
                f"the layer {self} cannot be built with {_listed(given)}: {type(error).__name__}: {error}",
                hint="build the module by itself with these arguments to see where",
            ) from error
        _check_parameters(self, module)
        return module

    @property
    def starts_itself(self) -> bool:
        """Return whether the module initialises its own weights, by `reset_parameters`."""
        return callable(getattr(self.module, "reset_parameters", None))

    def has_output(self, spec: AttentionSpec) -> bool:
        """Return whether the module has an output projection, an `nn.Linear` called `output`."""
        with torch.device("meta"):
            return isinstance(getattr(self.build(spec), "output", None), nn.Linear)

    def formula(self) -> str:
        """Return the equation of the layer, or its signature if none was given."""
        return self.equation or f"out = {self}({', '.join(['x', *(name for name in GIVEN if name in self.takes)])})"

    def limits(self) -> Iterator[str]:
        """Yield the limits of the layer, and what happens instead."""
        yield f"{NO_MAPS} and has no heads to look at; its input and output can be tapped"
        if "mask" not in self.takes:
            yield "it takes no mask: it is causal by itself, without padding, window, prefix or an encoder"
        if "source" not in self.takes:
            yield "it takes no source: there is no cross-attention"
        if "cache" not in self.takes:
            yield "it takes no cache: decoding keeps its inputs and computes all tokens again"
        yield "FLOPs are counted by running it, and memory is estimated; Transformers cannot load it"


def define_layer(name: str, module: type[nn.Module], equation: str = "") -> type[OwnLayer]:
    """Register a module as a layer under a name, and return its part."""
    _require_module(name, module)
    sizes, numbers = _constructor(name, module)
    fields: dict[str, Any] = {key: (type(value), value) for key, value in numbers.items()}
    declared: dict[str, Any] = {
        "kind": name,
        "module": module,
        "equation": equation,
        "sizes": frozenset(sizes),
        "takes": frozenset(_forward(name, module)),
        "needs_context": "context_length" in sizes,
    }
    fields |= {key: (ClassVar[type(value)], value) for key, value in declared.items()}
    made: type[OwnLayer] = create_model(module.__qualname__, __base__=OwnLayer, __module__=module.__module__, **fields)
    return made


def check_heads(name: str, changes: Mapping[str, object]) -> None:
    """Refuse another number of heads for a layer that takes none; the rules of a spec refuse the rest."""
    if "layer" in changes and "num_heads" in changes and "num_heads" not in OwnLayer.parse(changes["layer"]).sizes:
        raise SpecError(
            f"{name!r} changes num_heads, and the constructor of the layer takes none", hint="leave one of them out"
        )


def _require_module(name: str, module: object) -> None:
    if not (isinstance(module, type) and issubclass(module, nn.Module)):
        raise SpecError(f"the layer {name!r} is {module!r}, not a class", hint="give a subclass of torch.nn.Module")


def _constructor(name: str, module: type[nn.Module]) -> tuple[list[str], dict[str, object]]:
    """Return the fields of the spec that a constructor takes, and its other numbers with their defaults."""
    sizes: list[str] = []
    numbers: dict[str, object] = {}
    for key, parameter in _parameters(module.__init__).items():
        if key in SIZES:
            sizes.append(key)
        elif isinstance(parameter.default, _NUMBERS) and not _is_taken(key):
            numbers[key] = parameter.default
        elif parameter.default is parameter.empty:
            raise SpecError(
                f"the constructor of the layer {name!r} needs {key!r}, which attnlab does not know",
                hint=f"give {key} a number as its default, or take one of {', '.join(SIZES)}",
            )
        elif _is_taken(key):
            raise SpecError(f"the layer {name!r} cannot have an argument {key!r}", hint="name it otherwise")
    return sizes, numbers


def _is_taken(key: str) -> bool:
    """Return whether a part already has an attribute of this name."""
    return key in ("kind", "module") or hasattr(OwnLayer, key)


def _forward(name: str, module: type[nn.Module]) -> list[str]:
    """Return the arguments that `forward` takes besides x."""
    given = list(_parameters(module.forward).items())
    for key, parameter in given[1:]:
        if key not in GIVEN and parameter.default is parameter.empty:
            raise SpecError(
                f"forward of the layer {name!r} needs {key!r}, which attnlab does not know",
                hint=f"it gets x and, if it names them, {', '.join(GIVEN)}",
            )
    if not given:
        raise SpecError(f"forward of the layer {name!r} takes no tokens", hint="write forward(self, x)")
    return [key for key, _ in given[1:] if key in GIVEN]


def _parameters(function: Any) -> Mapping[str, inspect.Parameter]:
    """Return the named parameters of a method, without self."""
    named = [
        (key, one)
        for key, one in inspect.signature(function).parameters.items()
        if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    return dict(named[1:])


def _check_parameters(layer: OwnLayer, module: nn.Module) -> None:
    """Refuse parameters that the optimizer could not train like the others."""
    for name, parameter in module.named_parameters():
        if not parameter.requires_grad:
            raise SpecError(
                f"the parameter {name!r} of the layer {layer} takes no gradient, and weight decay would change it",
                hint="make what does not learn a buffer, by register_buffer",
            )
        if parameter.dtype != torch.get_default_dtype():
            raise SpecError(
                f"the parameter {name!r} of the layer {layer} is of type {parameter.dtype}",
                hint="make it without a dtype: the model decides",
            )


def _listed(arguments: Mapping[str, object]) -> str:
    return ", ".join(f"{name}={value}" for name, value in arguments.items()) or "no arguments"
