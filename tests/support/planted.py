"""A model whose heads are set by hand, so that it is known what each of them does.

The residual path has a place of its own for every token, for every position, and for the token that a head found one
step earlier. All else is small random numbers, as at the start of training.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from attnlab.models import LanguageModel, ModelSpec, build_model

SYMBOLS, CONTEXT = 24, 32
WIDTH = SYMBOLS + CONTEXT + SYMBOLS
TOKEN = torch.arange(SYMBOLS)
POSITION = SYMBOLS + torch.arange(CONTEXT)
EARLIER = SYMBOLS + CONTEXT + torch.arange(SYMBOLS)
STRENGTH = 20.0  # how far the score of what a head looks for is above the others


def random_model(seed: int, *, spread: float = 0.0, variant: str = "softmax", **changes: object) -> LanguageModel:
    """As at the start of training; `spread` is added to every weight, so that attention is far from even."""
    shape = {"num_layers": 2, "model_width": 16, "num_heads": 4, "context_length": CONTEXT, **changes}
    model = build_model(ModelSpec.build("nano", vocabulary_size=SYMBOLS, variant=variant, **shape), seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(spread * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def blank_model(seed: int = 0, **changes: object) -> LanguageModel:
    """Two layers of four heads that do nothing yet, with one-hot tokens and positions."""
    shape = {"num_layers": 2, "num_heads": 4, "model_width": WIDTH, "context_length": CONTEXT, "head_width": CONTEXT}
    spec = ModelSpec.build(
        "nano", vocabulary_size=SYMBOLS, architecture="fast", position="learned", mlp_width=16, **{**shape, **changes}
    )
    model = build_model(spec, seed)
    with torch.no_grad():
        for block in model.stack.blocks:
            torch.nn.init.normal_(block.attention.output.weight, std=0.02)  # which this architecture begins with at 0
        model.embedding.weight.zero_()[:, TOKEN] = torch.eye(SYMBOLS)
        assert model.stack.positions is not None
        model.stack.positions.weight.zero_()[:, POSITION] = torch.eye(CONTEXT)
    return model.eval()


@torch.no_grad()
def plant(model: LanguageModel, layer: int, head: int, asks: Tensor, holds: Tensor) -> None:
    """A head whose queries are `asks` x and whose keys are `holds` x, (rows, model width) each.

    Behind the norm a one-hot entry is √(width / number of entries); the score of what matches is `STRENGTH`.
    """
    rows = _rows(model, head)
    scale = math.sqrt(STRENGTH * math.sqrt(CONTEXT) * 3 / WIDTH)
    for name, matrix in (("query", asks), ("key", holds)):
        weight = _attention(model, layer).projections[name].weight
        weight[rows] = 0.0
        weight[rows.start : rows.start + len(matrix)] = scale * matrix


@torch.no_grad()
def write(model: LanguageModel, layer: int, head: int, source: Tensor, goal: Tensor) -> None:
    """What the head finds in the places `source` it adds to the places `goal`, both lists of dimensions."""
    rows, attention = _rows(model, head), _attention(model, layer)
    attention.projections["value"].weight[rows] = 0.0
    attention.output.weight[:, rows] = 0.0
    dimensions = rows.start + torch.arange(len(source))
    attention.projections["value"].weight[dimensions, source] = math.sqrt(2 / WIDTH)
    attention.output.weight[goal, dimensions] = 1.0


def previous_token(model: LanguageModel, layer: int, head: int) -> None:
    """It also says which token that was."""
    plant(model, layer, head, picking(POSITION), picking(POSITION).roll(1, 0))
    write(model, layer, head, TOKEN, EARLIER)


def own_token(model: LanguageModel, layer: int, head: int) -> None:
    plant(model, layer, head, picking(POSITION), picking(POSITION))


def sink(model: LanguageModel, layer: int, head: int) -> None:
    """Every token asks for the first position."""
    plant(model, layer, head, picking(TOKEN).sum(0, keepdim=True), picking(POSITION[:1]))


def delimiter(model: LanguageModel, layer: int, head: int, tokens: Tensor) -> None:
    plant(model, layer, head, picking(TOKEN).sum(0, keepdim=True), picking(tokens).sum(0, keepdim=True))


def same_token(model: LanguageModel, layer: int, head: int) -> None:
    """Every occurrence of the token, itself included."""
    plant(model, layer, head, picking(TOKEN), picking(TOKEN))


def induction(model: LanguageModel, layer: int, head: int) -> None:
    """It needs a previous-token head in a layer before."""
    plant(model, layer, head, picking(TOKEN), picking(EARLIER))


@torch.no_grad()
def copy_head(model: LanguageModel, layer: int, head: int, goal: int) -> None:
    attention, rows, to = _attention(model, layer), _rows(model, head), _rows(model, goal)
    for projection in attention.projections.values():
        projection.weight[to] = projection.weight[rows]
    attention.output.weight[:, to] = attention.output.weight[:, rows]


def picking(places: Tensor) -> Tensor:
    """The matrix that reads these places, (places, model width)."""
    return torch.eye(WIDTH)[places]


def _rows(model: LanguageModel, head: int) -> slice:
    width = model.spec.attention[0].key_width
    return slice(head * width, (head + 1) * width)


def _attention(model: LanguageModel, layer: int) -> Any:
    return model.stack.blocks[layer].attention
