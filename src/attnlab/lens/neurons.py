"""Single neurons: which tokens make a row of the MLP's up-projection fire, and what its column of the down-projection
writes into the logits.

    h = φ(W₁ norm(x) + b₁),  y = W₂ h + b₂         neuron n has the row W₁[n] and the column W₂[:, n]
    logits per unit of h:    W g (w − mean w)      w = W₂[:, n], g the last norm's weight; W g w for RMSNorm
                             minus the mean over tokens, which changes no probability, and over their deviation

    firing = watch(model, batches, layer=1)         all neurons of a layer: where each fires most, and how often
    neurons_for(model, batches, token)              those that fire mostly for this token
    writes(model, layer, neuron)                    what a neuron promotes and suppresses
    neurons_writing(model, token)                   those that promote this token beyond chance

What a neuron writes is its direct effect on the logits. Later layers read it, too: to measure that, replace
`blocks.*.mlp.hidden`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from scipy import special  # type: ignore[import-untyped,unused-ignore]
from torch import Tensor, nn

from attnlab.corpora import Batch
from attnlab.errors import InputError
from attnlab.lens.taps import Inputs, evaluating
from attnlab.models import LanguageModel


class Fired(NamedTuple):
    """Where a neuron fired."""

    text: int  # the row, counted over all batches
    position: int
    token: int
    context: tuple[int, ...]  # up to this token
    value: float


@dataclass(frozen=True, eq=False)
class Firing:
    """The neurons of one layer on some texts."""

    layer: int
    top: tuple[tuple[Fired, ...], ...]  # for each neuron the positions with the largest h, in descending order
    mean: Tensor  # (neurons,), of h
    zeros: Tensor  # (neurons,): the share of tokens at which h is exactly 0, as with relu-squared
    off: Tensor  # (neurons,): the share at which the pre-activation is not above 0, for any φ
    tokens: int  # how many were read


def watch(model: LanguageModel, batches: Iterable[Batch], *, layer: int, count: int = 10, context: int = 8) -> Firing:
    """Return where each neuron of a layer fires most, with `context` tokens of context.

    Parameters
    ----------
    model
        The model.
    batches
        Batches of tokens.
    layer
        The number of the layer.
    count
        Tokens for each neuron.
    context
        Tokens shown before each.
    """
    _check_neuron(model, layer)
    if count < 1 or context < 1:
        raise InputError(f"{count} places with {context} tokens", hint="ask for one or more of each")
    texts: list[Tensor] = []
    best = torch.empty(0), torch.empty(0, dtype=torch.long)  # values and flat positions, each (neurons, kept)
    ends, sums, read = [0], torch.zeros(3, model.spec.mlp_width, dtype=torch.float64), 0
    for batch, before, hidden in _hidden(model, batches, [layer]):
        h = hidden[0].flatten(0, 1).t()  # (neurons, tokens)
        sums += torch.stack([h.double().sum(1), (h == 0).sum(1), (before[0].flatten(0, 1).t() <= 0).sum(1)])
        places = torch.arange(h.shape[1]).expand_as(h) + read
        values, places = (torch.cat(pair, 1) if read else pair[1] for pair in ((best[0], h), (best[1], places)))
        kept = values.topk(min(count, values.shape[1]), dim=1)
        best = kept.values, places.gather(1, kept.indices)
        read += h.shape[1]
        for row in batch.inputs.cpu():
            texts.append(row)
            ends.append(ends[-1] + len(row))
    if not read:
        raise InputError("no texts", hint="give one batch or more")
    mean, zeros, off = sums / read
    rows = torch.bucketize(best[1], torch.tensor(ends[1:]), right=True)
    top = tuple(
        tuple(_place(texts, ends, row, place, value, context) for row, place, value in zip(*lists, strict=True))
        for lists in zip(rows.tolist(), best[1].tolist(), best[0].tolist(), strict=True)
    )
    return Firing(layer, top, mean, zeros, off, read)


def _place(texts: list[Tensor], ends: list[int], row: int, place: int, value: float, context: int) -> Fired:
    position = place - ends[row]
    seen = texts[row][max(0, position + 1 - context) : position + 1].tolist()
    return Fired(row, position, seen[-1], tuple(seen), value)


class Reader(NamedTuple):
    """A neuron that fires for a token, and the p-value of that, corrected for the number of neurons."""

    layer: int
    neuron: int
    share: float  # of all its firing, Σ max(0, h), that is at this token
    mean: float  # of the pre-activation, at this token
    mean_elsewhere: float
    p: float


def neurons_for(
    model: LanguageModel, batches: Iterable[Batch], token: int, *, least: float = 0.5, alpha: float = 0.05
) -> list[Reader]:
    """Return the neurons that fire for this token more than for all others together, the most selective first.

    `least` is the share of its firing that the token must have. A neuron with random weights also fires most for
    some token by chance. So the mean pre-activation at the token must also be larger, compared with other tokens, than
    that of a normal variable would be (a t-test of one new value, with as many others as there are tokens of equal
    frequency); p is multiplied by the number of neurons, so that with random weights the chance of finding any is at
    most about alpha.

    Parameters
    ----------
    model
        The model.
    batches
        Batches of tokens.
    token
        The number of the token.
    least
        The share of its firing that the token must have.
    alpha
        The accepted chance of a false positive.
    """
    _check_token(model, token)
    layers = list(range(model.spec.num_layers))
    # At the token and elsewhere: sums of pre-activations, of their squares, and of positive activations.
    sums = torch.zeros(2, 3, len(layers), model.spec.mlp_width, dtype=torch.float64)
    counts = torch.zeros(model.spec.vocabulary_size, dtype=torch.float64)
    for batch, before, hidden in _hidden(model, batches, layers):
        here = (batch.inputs.cpu() == token).flatten()
        counts += batch.inputs.cpu().flatten().bincount(minlength=len(counts))
        for layer, (x, h) in enumerate(zip(before, hidden, strict=True)):
            x, h = x.flatten(0, 1).double(), h.flatten(0, 1).double()
            for kind, where in enumerate((here, ~here)):
                some = x[where]
                sums[kind, :, layer] += torch.stack([some.sum(0), some.square().sum(0), h[where].clamp(min=0).sum(0)])
    here_count, others = float(counts[token]), torch.cat([counts[:token], counts[token + 1 :]])
    if here_count == 0 or (others > 0).sum() < 3:
        raise InputError(
            f"texts with {int(here_count)} times token {token} and {int((others > 0).sum())} other tokens",
            hint="give texts that hold it, and some others",
        )
    shares = sums[0, 2] / sums[:, 2].sum(0).clamp(min=torch.finfo(torch.float64).tiny)
    means = sums[0, 0] / here_count, sums[1, 0] / others.sum()
    p = _outlier(means[0], means[1], sums[1, 1] / others.sum(), float(others.sum() ** 2 / others.square().sum()))
    p = (p * p.numel()).clamp(max=1)
    found = [
        Reader(layer, neuron, *(float(table[layer, neuron]) for table in (shares, *means, p)))
        for layer, neuron in ((shares > least) & (p < alpha)).nonzero().tolist()
    ]
    return sorted(found, key=lambda one: -one.share)


def _outlier(value: Tensor, mean: Tensor, squares: Tensor, count: float) -> Tensor:
    """Return p of a value this large or larger, if it is normal like `count` others of this mean and mean square."""
    variance = (squares - mean.square()).clamp(min=torch.finfo(torch.float64).tiny) * count / (count - 1)
    t = (value - mean) / (variance * (1 + 1 / count)).sqrt()
    return torch.from_numpy(special.stdtr(count - 1, -t.numpy()))


class Written(NamedTuple):
    """A token, and what a neuron writes for it, in standard deviations over all tokens."""

    token: int
    logit: float


class Writes(NamedTuple):
    """The tokens that a neuron promotes and suppresses when it fires."""

    promoted: list[Written]
    suppressed: list[Written]


def writes(model: LanguageModel, layer: int, neuron: int, *, count: int = 10) -> Writes:
    """Return the tokens that a neuron promotes most and suppresses most.

    Parameters
    ----------
    model
        The model.
    layer
        The number of the layer.
    neuron
        The number of the neuron.
    count
        Tokens on each side.
    """
    _check_neuron(model, layer, neuron)
    with torch.no_grad():
        logits = model.head_weight.double() @ _columns(model, layer)[:, neuron]
    logits = (logits - logits.mean()) / logits.std(unbiased=False).clamp(min=1e-30)  # 0 if it writes the same for all
    order = logits.argsort(descending=True, stable=True).tolist()
    count = max(0, min(count, len(order) // 2))
    up, down = order[:count], order[len(order) - count :][::-1]
    return Writes(*([Written(token, float(logits[token])) for token in tokens] for tokens in (up, down)))


class Writer(NamedTuple):
    """A neuron that promotes a token, and the p-value of that, corrected for the number of neurons."""

    layer: int
    neuron: int
    cosine: float  # of its column with the direction that promotes this token over the mean of all
    p: float


def neurons_writing(model: LanguageModel, token: int, *, alpha: float = 0.05) -> list[Writer]:
    """Return the neurons that promote this token beyond chance, the strongest first.

    p is that of a column of normal numbers, t = cos √((d − 1) / (1 − cos²)), times the number of neurons: with random
    weights the chance of finding any is at most alpha.

    Parameters
    ----------
    model
        The model.
    token
        The number of the token.
    alpha
        The accepted chance of a false positive.
    """
    _check_token(model, token)
    width, norm = model.spec.model_width, model.stack.norm
    head = model.head_weight.detach().double()
    direction = head[token] - head.mean(0)
    gain = _gain(model)
    if gain is not None:
        direction = direction * gain
    if isinstance(norm, nn.LayerNorm):
        direction = direction - direction.mean()
    found = []
    for layer in range(model.spec.num_layers):
        cosines = F.cosine_similarity(_down_projection(model, layer), direction[:, None], dim=0).clamp(-1, 1).cpu()
        t = cosines * ((width - 1) / (1 - cosines.square()).clamp(min=1e-15)).sqrt()
        p = torch.from_numpy(special.stdtr(width - 1, -t.numpy())) * model.spec.num_layers * model.spec.mlp_width
        for neuron in (p < alpha).nonzero()[:, 0].tolist():
            found.append(Writer(layer, neuron, float(cosines[neuron]), float(p[neuron])))
    return sorted(found, key=lambda one: -one.cosine)


def _down_projection(model: LanguageModel, layer: int) -> Tensor:
    """Return the MLP's down-projection, (model width, neurons)."""
    block: Any = model.stack.blocks[layer]
    weight: Tensor = block.mlp.narrow.weight.detach().double()
    return weight


def _columns(model: LanguageModel, layer: int) -> Tensor:
    """Return what each neuron writes, as the head reads it except for the norm's scale, (model width, neurons)."""
    columns, gain = _down_projection(model, layer), _gain(model)
    if isinstance(model.stack.norm, nn.LayerNorm):
        columns = columns - columns.mean(0)
    return columns if gain is None else columns * gain[:, None]


def _gain(model: LanguageModel) -> Tensor | None:
    """Return the weight of the last norm, (model width,), if it has one."""
    weight: Tensor | None = getattr(model.stack.norm, "weight", None)
    return None if weight is None else weight.detach().double()


def _hidden(
    model: LanguageModel, batches: Iterable[Batch], layers: list[int]
) -> Iterator[tuple[Batch, list[Tensor], list[Tensor]]]:
    """Yield each batch with pre-activations and activations of these layers, each (rows, tokens, neurons)."""
    points = [[f"blocks.{layer}.mlp.{point}" for layer in layers] for point in ("before", "hidden")]
    for batch in batches:
        with evaluating(model), model.tap(*points[0], *points[1]) as seen:
            Inputs.of(batch).read(model)
        before, hidden = ([seen[name].cpu() for name in names] for names in points)
        yield batch, before, hidden


def _check_neuron(model: LanguageModel, layer: int, neuron: int = 0) -> None:
    for what, number, count in (("layer", layer, model.spec.num_layers), ("neuron", neuron, model.spec.mlp_width)):
        if not 0 <= number < count:
            raise InputError(f"there is no {what} {number}", hint=f"use 0 to {count - 1}")


def _check_token(model: LanguageModel, token: int) -> None:
    if not 0 <= token < model.spec.vocabulary_size:
        raise InputError(f"{token} is no token", hint=f"the model knows 0 to {model.spec.vocabulary_size - 1}")
