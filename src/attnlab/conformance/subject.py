"""A variant at a small size: its layer and test inputs.

Weights are larger than at the initialisation of a model, so that attention is far from uniform and errors become
visible. All random numbers are seeded separately, and the global generator is left as it was.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attnlab.attention import AttentionSpec, Mask, MultiHeadAttention, Variant, Visibility, WholeLayer, make_layer
from attnlab.errors import SpecError

WIDTH, HEADS, CONTEXT = 24, 4, 8
AnyLayer = MultiHeadAttention | WholeLayer
_MOST_HEADS = 12  # as in GPT-2


@dataclass(frozen=True)
class Subject:
    """A variant under test."""

    variant: Variant

    @functools.cached_property
    def spec(self) -> AttentionSpec:
        return self.variant.spec(WIDTH, self.num_heads(), CONTEXT)

    def num_heads(self, width: int = WIDTH, few: int = HEADS) -> int:
        """Return a few heads, or as many as GPT-2 has where a number of the variant does not fit fewer (`gqa:3`)."""
        try:
            self.variant.spec(width, few, CONTEXT)
        except SpecError:
            return _MOST_HEADS
        return few

    def masked(self, mask: Mask) -> AttentionSpec | None:
        """Return the variant with another mask, None if it cannot have that."""
        try:
            return self.spec.replace(mask=mask)
        except SpecError:
            return None

    @property
    def takes_padding(self) -> bool:
        """Return whether the layer can mask padding."""
        return self.spec.layer is None or "mask" in self.spec.layer.takes

    def layer(self, spec: AttentionSpec | None = None, seed: int = 0, *, at_start: bool = False) -> AnyLayer:
        """Return a layer with weights of unit scale, in float64; what parts learn is moved a little, or `at_start`."""
        with seeded(seed):
            layer = make_layer(spec or self.spec).double()
            with torch.no_grad():
                for module in layer.modules():
                    if isinstance(module, nn.Linear):
                        module.weight.normal_(std=1.5 * module.in_features**-0.5)
                        if module.bias is not None:
                            module.bias.normal_(std=0.3)
                if isinstance(layer, WholeLayer):
                    for parameter in layer.parameters() if not at_start else ():
                        parameter.add_(0.1 * torch.randn_like(parameter))
                    return layer
                for name, parameter in layer.extras.items():
                    declared = layer.spec.parameters[name]
                    deviation = declared.std + 0.1 * (not at_start)
                    parameter.copy_(declared.initial + deviation * torch.randn_like(parameter))
        return layer

    def tokens(self, count: int, batch: int = 1, seed: int = 0) -> Tensor:
        """Return tokens (batch, count, model width) in float64."""
        with seeded(seed + 1):
            return torch.randn(batch, count, WIDTH, dtype=torch.float64)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw random numbers from a seed inside, and leave the generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


def run(layer: AnyLayer, x: Tensor, **options: Tensor | None) -> Tensor:
    """Return the output of a layer without building a graph."""
    with torch.no_grad():
        result = layer(x, **options)
    assert isinstance(result, Tensor)
    return result


def visible_grid(spec: AttentionSpec, tokens: int) -> Tensor:
    """Return (queries, keys), True where the mask shows a key, or where it is the query's own token."""
    grid = Visibility(spec.mask, tokens, tokens).grid()[0, 0]
    return grid | torch.eye(tokens, dtype=torch.bool)


def difference(one: Tensor, other: Tensor) -> float:
    """Return the largest difference, relative to the largest number; infinite where either is not finite."""
    if not bool(torch.isfinite(one).all() and torch.isfinite(other).all()):
        return float("inf")
    return float((one - other).abs().max() / other.abs().max().clamp(min=1e-30)) if one.numel() else 0.0


def gradients_of(output: Tensor, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the gradient of each tensor, zeros for one that the output does not depend on."""
    found = torch.autograd.grad(output, [*tensors.values()], materialize_grads=True)
    return dict(zip(tensors, found, strict=True))


def named_parameters(layer: AnyLayer) -> Mapping[str, Tensor]:
    """Return the parameters of a layer by short names."""
    named = layer.named_parameters()
    return {name.removeprefix("extras.").removeprefix("module."): parameter for name, parameter in named}
