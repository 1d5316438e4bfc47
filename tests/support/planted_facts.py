"""Truth set by hand: a model with a fact in one perceptron and a neuron for each name, and an embedding with analogies.

A person is a first name and a family name; the family name says the birthplace. In "first family was born in":

    blocks.1.mlp              neuron n fires for family n and writes its place, at the family name
    blocks.2.attention        head 1 brings the place from the family name to "in", where the head reads it

All other weights are small random numbers.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.lens import Fact
from attnlab.models import LanguageModel, ModelSpec, build_model

FIRSTS, FAMILIES = 4, 6  # and as many places as families
WAS, BORN, IN = range(FIRSTS + FAMILIES, FIRSTS + FAMILIES + 3)
PLACES = IN + 1  # the first place
SYMBOLS = PLACES + FAMILIES
LAYERS, WIDTH, HEADS = 3, 32, 2
FACT_LAYER, CARRIER = 1, 2  # whose perceptron knows, and whose head 1 carries


def family(number: int) -> int:
    return FIRSTS + number


def place(number: int) -> int:
    return PLACES + number


def all_facts() -> list[Fact]:
    return [
        Fact((first, family(number), WAS, BORN, IN), (0, 2), (place(number),), f"{first} {number}")
        for first in range(FIRSTS)
        for number in range(FAMILIES)
    ]


def random_model(seed: int, std: float = 0.3, variant: str = "softmax") -> LanguageModel:
    """A model that knows nothing, its weights far from the identity."""
    spec = ModelSpec.build(
        "nano",
        vocabulary_size=SYMBOLS,
        variant=variant,
        num_layers=LAYERS,
        model_width=WIDTH,
        num_heads=HEADS,
        context_length=8,
        norm="rms",
        activation="relu-squared",
        tied_embedding=False,
        position="none",
    )
    model = build_model(spec, seed).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(std * torch.randn(parameter.shape, generator=generator))
    return model


def planted_model(seed: int = 0, std: float = 0.01) -> LanguageModel:
    model = random_model(seed, std)
    units, names = torch.eye(WIDTH), slice(FIRSTS, FIRSTS + FAMILIES)
    said = slice(SYMBOLS, SYMBOLS + FAMILIES)  # the dimensions that stand for places
    with torch.no_grad():
        model.embedding.weight += 3 * units[:SYMBOLS]
        mlp = model.stack.blocks[FACT_LAYER].mlp
        # Behind the norm a family name is about √width in its own dimension, and 0 in the others'.
        mlp.widen.weight[:FAMILIES, names] += torch.eye(FAMILIES)
        mlp.widen.bias[:FAMILIES] -= 3
        mlp.narrow.weight[said, :FAMILIES] += torch.eye(FAMILIES)
        attention = model.stack.blocks[CARRIER].attention
        row = WIDTH // HEADS  # where head 1 begins
        attention.projections["query"].weight[row, IN] += 5
        attention.projections["key"].weight[row, names] += 5
        attention.projections["value"].weight[row : row + FAMILIES, said] += torch.eye(FAMILIES)
        attention.output.weight[said, row : row + FAMILIES] += 4 * torch.eye(FAMILIES)
        model.head.weight[PLACES:, said] += 2 * torch.eye(FAMILIES)
    return model


def planted_pairs(*, shuffled: bool = False, pairs: int = 8, tokens: int = 120, width: int = 48) -> tuple[Tensor, list]:
    """Vectors in which token 2n + 1 is token 2n plus one direction that is common to all pairs, and the analogies of
    every two pairs. Each has another token that is nearer. Shuffled, the same vectors belong to other tokens."""
    generator = torch.Generator().manual_seed(1)
    vectors = torch.randn(tokens, width, generator=generator)
    direction = torch.randn(width, generator=generator)
    vectors[1 : 2 * pairs : 2] = vectors[: 2 * pairs : 2] + 1.5 * direction
    nearer = vectors[: 2 * pairs : 2] + 0.5 * torch.randn(pairs, width, generator=generator)
    vectors[2 * pairs : 3 * pairs] = nearer
    if shuffled:
        vectors = vectors[torch.randperm(tokens, generator=generator)]
    couples = [(2 * number, 2 * number + 1) for number in range(pairs)]
    return vectors, [(*one, *other) for one in couples for other in couples if one != other]
