"""What heads are compared by: where each looks beyond chance, and what each writes, on the same texts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from attnlab.errors import InputError
from attnlab.lens.heads.parts import head_outputs
from attnlab.lens.maps.attention_maps import LayerMaps, Place, attention_layers, evaluating, look
from attnlab.models import LanguageModel

Head = tuple[int, int]  # layer, head
_MOST_VALUES = 1 << 25  # that are held of all heads at once


def every_head(model: LanguageModel, of: Place) -> Iterator[Head]:
    for number, layer in enumerate(attention_layers(model, of)):
        yield from ((number, head) for head in range(layer.spec.num_heads))


def batches(model: LanguageModel, tokens: Tensor, of: Place) -> Iterator[slice]:
    if tokens.dim() != 2 or not tokens.numel():
        raise InputError(
            f"tokens have shape {tuple(tokens.shape)}, not (texts, tokens)", hint="one text is tokens[None]"
        )
    length, heads = tokens.shape[1], len(list(every_head(model, of)))
    rows = max(1, _MOST_VALUES // (heads * length * max(length, model.spec.model_width)))
    yield from (slice(start, start + rows) for start in range(0, len(tokens), rows))


def patterns_of(model: LanguageModel, tokens: Tensor, of: Place, given: dict[str, Any]) -> Tensor:
    """p − 1 / n of every head, (heads, texts × queries × keys); 0 for a head that has no map."""
    found: list[Tensor | int] = []

    def see(layer: int, maps: LayerMaps) -> None:
        if maps.weights is None:
            found.append(attention_layers(model, of)[layer].spec.num_heads)
            return
        shares, count = maps.shares, maps.num_visible[..., None]
        known = maps.pairs & (count > 1) & shares.isfinite()
        found.append((shares - 1 / count.clamp(min=1)).where(known, 0.0).transpose(0, 1).flatten(1))

    look(model, tokens, see, of=of, **given)
    size = next((one.shape[1] for one in found if isinstance(one, Tensor)), 1)
    device = model.embedding.weight.device
    return torch.cat([one if isinstance(one, Tensor) else torch.zeros(one, size, device=device) for one in found])


def written_by(model: LanguageModel, tokens: Tensor, of: Place, given: dict[str, Any]) -> Tensor:
    """What every head adds to the residual path, (heads, texts × tokens, model width)."""
    part = {
        "self": "blocks.{}.attention",
        "cross": "blocks.{}.cross_attention",
        "encoder": "encoder.blocks.{}.attention",
    }
    layers, device = attention_layers(model, of), model.embedding.weight.device
    names = [f"{part[of].format(number)}.heads" for number in range(len(layers))]
    with evaluating(model), model.tap(*names) as seen:
        model.hidden(tokens.to(device), **{name: None if x is None else x.to(device) for name, x in given.items()})
        made = [head_outputs(layer, seen[name]) for layer, name in zip(layers, names, strict=True)]
    return torch.cat([one.transpose(0, 1).flatten(1, 2) for one in made])


def products_of(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b.t()).double().cpu()


def cosines(products: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """From products and squares; not a number where one of the squares is 0."""
    squares = a[:, None] * b
    return (products / squares.sqrt()).where(squares > 0, math.nan)
