"""The cost of converting each layer, and the layers to convert for a loss budget.

The cost of a layer is the loss of the model with only that layer converted, minus the loss of the original, on the same
texts, with an interval over the texts. The inputs of each layer are cached, so that only the layers after it are
recomputed.

For a budget, the cheapest layers are converted: in order of cost, as many as keep their measured joint cost within the
budget. Costs need not add up, so their sum is shown beside the measured joint cost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain

import torch

from attnlab.attention import MultiHeadAttention
from attnlab.corpora import Batch
from attnlab.models import LanguageModel
from attnlab.processes.machine import using_threads
from attnlab.retrofit.conversion.converting import begin, blocks_of, with_attention, with_layers
from attnlab.retrofit.texts import row_losses, text_losses
from attnlab.statistics import Interval, mean_interval

ALL = "all"
_KEPT_BYTES = 256 << 20  # of activations that are cached at a time

Layers = Mapping[int, MultiHeadAttention]
Losses = dict[str, list[float]]  # of each text, by the index of the converted layer, or `ALL`


def _ignore(_: int) -> None: ...


@dataclass(frozen=True)
class LayerCost:
    """The cost of converting one layer in nats per token, and the relative error of that layer's output."""

    layer: int
    cost: Interval
    error: float


@dataclass(frozen=True)
class Subset:
    """The layers that are converted for a budget, their joint cost, and the sum of their individual costs."""

    budget: float
    layers: tuple[int, ...]
    cost: Interval | None
    sum_of_costs: float


def rows_at_once(model: LanguageModel, length: int) -> int:
    """Return how many texts are taken at a time: the same number for each of PyTorch's threads."""
    spec, threads = model.spec, torch.get_num_threads()
    return threads * max(1, _KEPT_BYTES // (4 * (spec.num_layers + 1) * length * spec.model_width * threads))


def layer_losses(
    model: LanguageModel, variants: Mapping[str, Layers], texts: Batch, tell: Callable[[int], None] = _ignore
) -> tuple[list[float], dict[str, Losses]]:
    """Return the losses of the original on texts, and by variant those with each layer, and with all, converted.

    `tell` is called after each evaluation of a model, with the number of evaluations so far. Each of PyTorch's threads
    processes its own texts: two threads that share each matrix product wait for each other, which cost SmolLM2 a sixth
    of the time.
    """
    threads = min(torch.get_num_threads(), len(texts.inputs))
    parts = map(Batch, torch.chunk(texts.inputs, threads), torch.chunk(texts.targets, threads))
    with using_threads(1), ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        tasks = [
            pool.submit(_losses_of, model, variants, part, _ignore if number else tell)
            for number, part in enumerate(parts)
        ]
        bases, found = zip(*(task.result() for task in tasks), strict=True)
    joined = {
        name: {key: [*chain.from_iterable(one[name][key] for one in found)] for key in losses}
        for name, losses in found[0].items()
    }
    return [*chain.from_iterable(bases)], joined


@torch.no_grad()
def _losses_of(
    model: LanguageModel, variants: Mapping[str, Layers], texts: Batch, tell: Callable[[int], None]
) -> tuple[list[float], dict[str, Losses]]:
    blocks = blocks_of(model)
    streams = [begin(model, texts.inputs)]
    for block in blocks:
        streams.append(block(streams[-1]))
    base = row_losses(model, model.stack.norm(streams[-1]), texts.targets)
    found: dict[str, Losses] = {}
    done = 0
    for name, layers in variants.items():
        found[name] = {}
        for changed in (*({number: layer} for number, layer in layers.items()), layers):
            first = min(changed, default=len(blocks))
            x = streams[first]
            for number in range(first, len(blocks)):
                block = with_attention(blocks[number], changed[number]) if number in changed else blocks[number]
                x = block(x)
            key = ALL if changed is layers else str(first)
            found[name][key] = row_losses(model, model.stack.norm(x), texts.targets)
            done += 1
            tell(done)
    return base, found


def difference(losses: list[float], base: list[float]) -> Interval:
    """Return by how much losses exceed others on the same texts, with an interval over the texts."""
    return mean_interval([mine - theirs for mine, theirs in zip(losses, base, strict=True)])


def layer_costs(base: list[float], losses: Losses, errors: Mapping[int, float]) -> tuple[LayerCost, ...]:
    """Return the cost of each layer."""
    return tuple(
        LayerCost(number, difference(losses[str(number)], base), error) for number, error in sorted(errors.items())
    )


def cheapest_layers(
    model: LanguageModel, layers: Layers, costs: tuple[LayerCost, ...], budget: float, base: list[float], texts: Batch
) -> Subset:
    """Return as many of the cheapest layers as cost at most the budget together, on average over the texts."""
    order = sorted(costs, key=lambda one: one.cost.mean)
    low, high = 0, len(order)  # `low` layers are known to fit, and at most `high` can
    measured: dict[int, Interval] = {}
    while low < high:
        count = (low + high + 1) // 2
        chosen = {one.layer: layers[one.layer] for one in order[:count]}
        measured[count] = difference(text_losses(with_layers(model, chosen), texts), base)
        low, high = (count, high) if measured[count].mean <= budget else (low, count - 1)
    chosen_layers = tuple(sorted(one.layer for one in order[:low]))
    return Subset(budget, chosen_layers, measured.get(low), sum(one.cost.mean for one in order[:low]))
