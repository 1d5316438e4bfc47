"""Toys: set-up that several exhibits share, small models that learn in seconds and keys that are drawn with noise."""

from __future__ import annotations

import math
from typing import Any, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from attnlab.corpora import Corpus
from attnlab.errors import SpecError
from attnlab.exhibits.frame.parameters import Parameters
from attnlab.training import Learner, RunSpec


def toy_learner(corpus: Corpus, **settings: Any) -> Learner:
    """Return a learner of a small model; `settings` are those of a `RunSpec`."""
    return Learner(RunSpec(**{"recipe": "fast", "batch_size": 32, "warmup_steps": 20, **settings}), corpus)


class NoisyKeys(Parameters):
    """Keys around orthonormal means μ, which are the unit vectors; a is the first of them and b the second."""

    keys: int = Field(6, ge=2, le=64, description="how many keys there are, as many as each is wide")
    strength: float = Field(20.0, ge=5, le=200, description="C, how long the query is")
    alpha: float = Field(1e-6, ge=1e-12, le=1e-4, description="α, the variance of the noise in each direction")
    samples: int = Field(20_000, ge=2000, le=100_000, description="draws of all keys")
    seed: int = Field(0, ge=0, description="of the random numbers")

    @model_validator(mode="after")
    def _small_noise(self) -> Self:
        noise = self.strength * math.sqrt(self.alpha)
        if noise > 0.2:
            raise SpecError(
                f"C√α = {noise:.3g} is not small, and the claim is for C√α ≪ 1",
                hint="choose strength and alpha such that it is at most 0.2",
            )
        return self

    def draw(self, generator: torch.Generator, *, alpha: float | None = None, length: float | None = None) -> Tensor:
        """Return keys (samples, keys, width) with noise of variance α, and of `length` besides for k_a along μ_a."""
        n, alpha = self.keys, self.alpha if alpha is None else alpha
        noise = torch.randn(self.samples, n, n, dtype=torch.float64, generator=generator)
        keys = torch.eye(n, dtype=torch.float64) + math.sqrt(alpha) * noise
        if length is not None:
            keys[:, 0, 0] += math.sqrt(length) * torch.randn(self.samples, dtype=torch.float64, generator=generator)
        return keys
