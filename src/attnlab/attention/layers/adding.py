"""Register a module as a named variant, after a test run on a few numbers."""

from __future__ import annotations

import torch
from torch import nn

from attnlab.attention.layers.own import define_layer
from attnlab.attention.layers.whole import WholeLayer
from attnlab.attention.names.catalogue import Variant, add_variant, check_name
from attnlab.attention.parts.part import Number
from attnlab.errors import SpecError

_WIDTH, _HEADS, _TOKENS = 24, 4, 3


def add_layer(
    name: str,
    module: type[nn.Module],
    meaning: str = "",
    *,
    equation: str = "",
    source: str = "",
    claim: str = "",
    number: str | None = None,
) -> Variant:
    """Register a module as a variant that replaces attention.

    Parameters
    ----------
    name
        The name of the variant and of its layer.
    module
        A class; its signatures say what it needs (`attnlab.attention.layers.own`).
    meaning
        One sentence; the first line of the class's docstring if left out.
    equation
        Its equation, for display.
    source
        Where the idea comes from.
    claim
        The claim that it tests.
    number
        The argument of the constructor that may follow the name, as in `conv-gate:8`.
    """
    check_name(name)
    part = define_layer(name, module, equation)
    example = None
    if number is not None:
        if number not in part.model_fields:
            raise SpecError(
                f"the layer {name!r} has no argument {number!r} to set",
                hint=f"it has {', '.join(part.model_fields) or 'none'}",
            )
        default = part.model_fields[number].default
        example = Number(f"layer.{number}", str(default), f"{name} with {number} = {{}}.")
    meaning = meaning or (module.__doc__ or f"{module.__name__} in the place of attention.").strip().splitlines()[0]
    made = Variant(name, meaning, {"layer": {"kind": name}}, source, claim, number=example)
    _try(made)
    return add_variant(made)


@torch.no_grad()
def _try(one: Variant) -> None:
    """Refuse a layer that fails on a few numbers, or that sets weights which the model would initialise."""
    spec = one.spec(_WIDTH, _HEADS, _TOKENS)
    with torch.random.fork_rng(devices=[]), torch.device("cpu"):
        first, second = WholeLayer(spec), WholeLayer(spec)
        result = first(torch.sin(1.7 * torch.arange(_TOKENS * _WIDTH)).view(1, _TOKENS, _WIDTH))
    if not bool(torch.isfinite(result).all()):
        raise SpecError(
            f"the layer {one.name!r} makes numbers that are not finite of ordinary tokens", hint="check its equation"
        )
    if first.part.starts_itself:
        return
    drawn = {name for name, inner in first.named_modules() if isinstance(inner, nn.Linear | nn.Embedding)}
    others = dict(second.named_parameters())
    for name, parameter in first.named_parameters():
        if name.rpartition(".")[0] in drawn and torch.equal(parameter, others[name]):
            raise SpecError(
                f"the layer {one.name!r} sets {name.removeprefix('module.')} in its constructor, and the model would "
                "draw it anew",
                hint="set first weights in a method reset_parameters(self): the layer then begins as it says",
            )
