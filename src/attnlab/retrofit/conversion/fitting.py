"""Fit the temperature and bias of another normaliser, and the output projection, on activations of real tokens.

A head with another normaliser gets the scores τ s + b. Its temperature is folded into its queries, its bias is the
learned parameter of the score `biased-dot`. Both, and the normaliser's own parameters, are fitted such that the head's
output is closest to the original's, by gradient descent on a few texts starting from τ = 1 and b = 0.

The output projection is then fitted by ridge regression towards its original weights:

    min_Δ |Y − O (W + Δ)|² + λ |Δ|²          O: the new head outputs, Y: the original output of the layer
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from attnlab.attention import Matched, MultiHeadAttention, Visibility
from attnlab.attention.groups import for_every_query_head
from attnlab.attention.reference import scores as define_scores

_STEPS, _RATE = 60, 0.15
_MOST_TOKENS = 1024  # for fitting temperature and bias
_RIDGE = 1e-3  # as a fraction of the mean second moment of a component
_EXACT = 1e-5  # relative to the layer's output: smaller errors are rounding


def fit_scores(layer: MultiHeadAttention, original: MultiHeadAttention, x: Tensor) -> None:
    """Fit the temperature of each head of a layer, its bias where it has one, and what its normaliser learns."""
    rows = x[: max(1, _MOST_TOKENS // x.shape[1])]
    with torch.no_grad():
        plain, value, wanted = _read(original, rows)
    visible = Visibility(layer.spec.mask, rows.shape[1], rows.shape[1]).grid(rows.device)
    learned = {name: tensor for name, tensor in layer.extras.items() if tensor.shape[:1] == (layer.spec.num_heads,)}
    fitted = {name: tensor.detach().clone().requires_grad_() for name, tensor in learned.items()}
    shape = (layer.spec.num_heads, 1, 1)
    log_temperature = torch.zeros(shape, requires_grad=True)
    energy = wanted.square().mean((0, 2, 3)).clamp(min=1e-12)
    best = torch.full((shape[0],), torch.inf)
    kept = {name: tensor.detach().clone() for name, tensor in fitted.items()}
    temperature = torch.zeros(shape)
    optimizer = torch.optim.Adam([log_temperature, *fitted.values()], lr=_RATE)
    for _ in range(_STEPS):
        own = layer.spec.own(layer.spec.normaliser, fitted)
        scores = plain * log_temperature.exp() + (fitted["bias"].view(shape) if "bias" in fitted else 0.0)
        made = layer.spec.normaliser.defined(scores, visible, **own) @ value
        errors = (made - wanted).square().mean((0, 2, 3)) / energy
        better = (errors < best).detach()
        best = torch.where(better, errors.detach(), best)
        temperature[better] = log_temperature.detach()[better]
        for name, tensor in fitted.items():
            kept[name][better] = tensor.detach()[better]
        optimizer.zero_grad()
        errors.sum().backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    with torch.no_grad():
        query = layer.projections["query"]
        for parameter in query.parameters():
            parameter.copy_((parameter.view(shape[0], -1) * temperature.view(-1, 1).exp()).view_as(parameter))
        for name, tensor in kept.items():
            layer.extras[name].copy_(tensor)


def _read(layer: MultiHeadAttention, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the scores of a layer before its mask, its values for every head, and what its heads make."""
    query, key, value = layer.place(*layer.project(x))
    count, spec = x.shape[1], layer.spec
    given = Matched(query, key, count, count, extras=layer.learned(x))
    every = for_every_query_head(value, spec)
    visible = Visibility(spec.mask, count, count).grid(x.device)
    scores = define_scores(given, spec, value)
    return scores, every, spec.normaliser.defined(scores, visible, **spec.own(spec.normaliser, given.extras)) @ every


@torch.no_grad()
def fit_output(layer: MultiHeadAttention, x: Tensor, wanted: Tensor) -> float:
    """Fit the output projection of a layer so that its output on tokens x is close to `wanted`, (rows, tokens, width).

    Return the sum of the remaining squared errors.
    """
    with _reading_heads(layer) as seen:
        made = layer(x)
    left = (wanted - made).double().flatten(0, 1)
    before = float(left.square().sum())
    if left.norm() <= _EXACT * wanted.double().norm():
        return before
    assert layer.output is not None
    heads = seen[0].transpose(1, 2).flatten(2).double().flatten(0, 1)  # (tokens, heads · value width)
    bias = layer.output.bias if layer.spec.bias else None
    columns = heads if bias is None else torch.cat([heads, heads.new_ones(len(heads), 1)], dim=1)
    if len(columns) < 2 * columns.shape[1]:
        return before  # too few tokens for a fit
    gram, mixed = columns.T @ columns, columns.T @ left
    ridge = _RIDGE * gram.diagonal().mean()
    solved = torch.linalg.solve(gram + ridge * torch.eye(len(gram), dtype=gram.dtype), mixed)
    change = solved.T
    layer.output.weight.add_(change[:, : heads.shape[1]].to(layer.output.weight.dtype))
    if bias is not None:
        bias.add_(change[:, -1].to(bias.dtype))
    return max(0.0, before + float((solved * (gram @ solved - 2 * mixed)).sum()))


class _HeadsReader:
    """An observer that keeps the head outputs."""

    def __init__(self) -> None:
        self.seen: list[Tensor] = []

    def wants(self, *names: str) -> bool:
        return "heads" in names

    def offer(self, name: str, tensor: Tensor) -> Tensor | None:
        del name
        self.seen.append(tensor)
        return None

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        self.offer(name, tensor)
        return tensor


@contextmanager
def _reading_heads(layer: MultiHeadAttention) -> Iterator[list[Tensor]]:
    before, reader = layer.observer, _HeadsReader()
    layer.observer = reader
    try:
        yield reader.seen
    finally:
        layer.observer = before
