"""The control of what is found in a model: the same model with its weights in disorder.

Every parameter keeps its numbers, and its rows and its columns each get a random order. So weights are as large and
matrices of the same rank as before, but no projection fits what another wrote. If the weights of a model are random to
begin with, it cannot be told from its shuffled copies: whatever is true of one is as likely of any other.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch import Tensor

from attnlab.models import LanguageModel


def shuffled_models(model: LanguageModel, count: int, seed: int = 0) -> Iterator[LanguageModel]:
    """So many shuffled copies, one after the other: each takes the place of the one before."""
    if not count:
        return
    generator = torch.Generator().manual_seed(seed)
    copied, originals = copy.deepcopy(model), list(model.parameters())
    for _ in range(count):
        with torch.no_grad():
            for parameter, original in zip(copied.parameters(), originals, strict=True):
                parameter.copy_(_shuffled(original, generator))
        yield copied


def _shuffled(parameter: Tensor, generator: torch.Generator) -> Tensor:
    for dimension, size in enumerate(parameter.shape):
        order = torch.randperm(size, generator=generator).to(parameter.device)
        parameter = parameter.index_select(dimension, order)
    return parameter
