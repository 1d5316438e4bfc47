"""Ablation: the importance of each head, as the rise in loss when its output is replaced by its mean.

    importance = loss(o_h ← mean of o_h over all tokens of all texts) − loss     nats per target, mean over texts

The same is done for a whole attention layer and a whole MLP. The mean is used rather than 0, because a head that always
writes the same vector carries no information, and removing it should cost nothing.

Everything before a part is computed once. From block L on, the heads of block L run through the rest of the model as
one larger batch. Their own attention is not recomputed, since the output of a layer without one head follows from what
that head wrote. This takes half of the blocks per head on average instead of all.

    found = ablate(model, batches)
    found["blocks.1.attention.heads.3"].importance   Interval(mean, low, high)
    found.heads()                                    (layers, heads)

    expected = next_tokens(model, ids, without=[(1, 3)])
    expected.before[5], expected.after[5]            the probability of token 5 after one text, with and without a head
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention.layers.own import NO_MAPS
from attnlab.attention.parts.values import FirstValues
from attnlab.corpora import IGNORED, Batch
from attnlab.errors import InputError, UnknownNameError, UnsupportedError
from attnlab.lens.taps import Inputs, check_tokens, evaluating, head_outputs
from attnlab.models import LanguageModel, tap_names
from attnlab.statistics import Interval, mean_interval

_MOST_VALUES = 1 << 24  # of a tensor in the model: bounds how many removed parts run in one batch
_NOTHING = ""


@dataclass(frozen=True, eq=False)
class Removed:
    """A model without one part: `blocks.0.attention.heads.3`, `blocks.0.attention` or `blocks.0.mlp`."""

    name: str
    layer: int
    part: str  # attention, cross_attention or mlp
    head: int | None  # None for a whole part
    differences: Tensor  # (texts,): the loss of each text without it, minus that with it
    importance: Interval


@dataclass(frozen=True, eq=False)
class Ablation:
    """The mean loss of the texts, and the importance of each part, in the order of the blocks."""

    losses: Tensor  # (texts,), of the whole model
    removed: Mapping[str, Removed]

    @property
    def loss(self) -> float:
        return float(self.losses.mean())

    def __getitem__(self, name: str) -> Removed:
        if name not in self.removed:
            raise UnknownNameError("part", name, self.removed)
        return self.removed[name]

    def heads(self, part: str = "attention") -> Tensor:
        """Return the importance of every head, (layers, heads), NaN where a layer has fewer heads."""
        found = [one for one in self.removed.values() if one.part == part and one.head is not None]
        if not found:
            raise UnknownNameError("part with heads", part, {one.part for one in self.removed.values()} - {"mlp"})
        layers, heads = (
            1 + max(numbers) for numbers in zip(*((one.layer, one.head or 0) for one in found), strict=True)
        )
        table = torch.full((layers, heads), math.nan, dtype=torch.float64)
        for one in found:
            table[one.layer, one.head or 0] = one.importance.mean
        return table


def ablate(
    model: LanguageModel,
    batches: Iterable[Batch],
    *,
    level: float = 0.95,
    progress: Callable[[str], None] = lambda _: None,
) -> Ablation:
    """Remove each head, attention and MLP of the model in turn, on the texts of some batches.

    Every row is a text; intervals at this level are over texts, from the paired differences of each text. Rows without
    a target are left out. In an encoder–decoder, only the parts of the decoder are removed. `progress` is called for
    each layer.
    """
    with evaluating(model):
        texts = [_Texts(model, batch) for batch in batches]
        count = sum(int((batch.counts > 0).sum()) for batch in texts)
        if count < 2:
            raise InputError(f"texts with targets: {count}, too few for an interval", hint="give two rows or more")
        means = _means(model, texts)
        found: dict[str, list[Tensor]] = {}
        for batch in texts:
            for name, losses in _without_each(model, batch, means):
                if name != _NOTHING:
                    progress(f"removing each head of layer {int(name.split('.')[1]) + 1} of {model.spec.num_layers}")
                found.setdefault(name, []).append(losses[batch.counts > 0].cpu())
    whole = torch.cat(found.pop(_NOTHING))
    return Ablation(whole, {name: _removed(name, torch.cat(parts) - whole, level) for name, parts in found.items()})


def _removed(name: str, differences: Tensor, level: float) -> Removed:
    _, layer, part, *head = name.split(".")
    interval = mean_interval(differences.tolist(), level)
    return Removed(name, int(layer), part, int(head[1]) if head else None, differences, interval)


class _Texts:
    """A batch on the model's device, with methods that run it through parts of the model.

    The rows of x below are those of the batch, repeated once for each part that is removed.
    """

    def __init__(self, model: LanguageModel, batch: Batch) -> None:
        device = model.embedding.weight.device
        self.model = model
        self.inputs = Inputs.of(batch).change(lambda one: one.to(device))
        self.targets = model.asked(batch.targets.to(device))
        self.asked = self.targets != IGNORED
        self.counts = self.asked.sum(1)
        self.bears = up_to_last(self.asked)  # later tokens affect no loss
        self.entry: Tensor  # the input of the first block, (batch, tokens, model width)
        self.memory: Tensor | None = None  # the encoder's output for the source
        self.first_values: FirstValues = {}  # of the blocks that were run unchanged

    def run(self, number: int, x: Tensor, first_values: FirstValues) -> Tensor:
        """Run one block."""
        result: Tensor = self.model.stack.blocks[number](x, **self._memory(x), first_values=first_values)
        return result

    def known(self, x: Tensor) -> FirstValues:
        """Return the first values for the rows of x."""
        return {key: one.repeat(len(x) // len(one), 1, 1, 1) for key, one in self.first_values.items()}

    def finish(self, number: int, part: str, x: Tensor, first_values: FirstValues) -> Tensor:
        """Run the rest of a block after one of its parts."""
        block: Any = self.model.stack.blocks[number]
        if part == "attention" and block.cross_attention is not None:
            memory = self._memory(x)
            y = block.cross_norm(x)
            others = {"padding": memory["memory_padding"], "first_values": first_values}
            x = x + block.cross_attention(y, memory["memory"], **others)
        return x if part == "mlp" else x + block.mlp(block.mlp_norm(x))

    def losses(self, x: Tensor) -> Tensor:
        """Return the mean loss of each text after the last block, (times, batch)."""
        times, weight = len(x) // len(self.targets), self.model.head_weight
        asked = self.asked.repeat(times, 1)
        hidden, targets = self.model.stack.norm(x)[asked], self.targets.repeat(times, 1)[asked]
        rows = max(1, _MOST_VALUES // len(weight))
        pieces = zip(torch.split(hidden, rows), torch.split(targets, rows), strict=True)
        nats = torch.cat([F.cross_entropy(F.linear(h, weight), goal, reduction="none") for h, goal in pieces])
        text = torch.arange(len(x), device=x.device)[:, None].expand_as(asked)[asked]
        sums = torch.zeros(len(x), dtype=torch.float64, device=x.device).index_add_(0, text, nats.double())
        return (sums / self.counts.repeat(times)).view(times, -1)

    def _memory(self, x: Tensor) -> dict[str, Tensor | None]:
        times, padding = len(x) // len(self.targets), self.inputs.source_padding
        return {
            "memory": None if self.memory is None else self.memory.repeat(times, 1, 1),
            "memory_padding": None if padding is None else padding.repeat(times, 1),
        }


def up_to_last(asked: Tensor) -> Tensor:
    """Return a mask up to the last target of each row, (rows, tokens)."""
    return asked.flip(1).cumsum(1).flip(1) > 0


def _parts(model: LanguageModel) -> list[str]:
    names = ("attention", "cross_attention", "mlp")
    return [name for name in names if getattr(model.stack.blocks[0], name) is not None]


def _means(model: LanguageModel, batches: list[_Texts]) -> dict[str, Tensor]:
    """Return the mean output of each part, over the tokens of every text up to its last target: heads (heads, value
    width), and outputs (model width,). This also sets the input of the first block in each batch."""
    sums: dict[str, Tensor] = {}
    for batch in batches:

        def add(name: str, made: Tensor, bears: Tensor = batch.bears) -> None:
            kept = made.movedim(-2, 1)[bears].double().sum(0)
            sums[name] = sums[name] + kept if name in sums else kept

        points = (f"{part}.{point}" for part in _parts(model) for point in ("heads", "output"))
        every = (f"blocks.{number}.{point}" for point in points for number in range(model.spec.num_layers))
        there = tap_names(model)  # an MLP has no heads, nor has a user-defined layer
        names = [name for name in every if name in there]
        read = ["residual"] if model.encoder is None else ["residual", "encoder.norm.output"]
        with model.tap(*read, {name: partial(add, name) for name in names}) as seen:
            batch.inputs.read(model)
        batch.entry, batch.memory = seen["residual"], seen.get("encoder.norm.output")
    count = sum(int(batch.bears.sum()) for batch in batches)
    return {name: (total / count).to(model.embedding.weight.dtype) for name, total in sums.items()}


def _without_each(model: LanguageModel, texts: _Texts, means: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Yield the names of all parts with the losses (batch,) without each; `_NOTHING` names the whole model."""
    x = texts.entry
    together = max(1, _MOST_VALUES // (x[..., 0].numel() * max(model.spec.mlp_width, model.spec.model_width)))
    for number in range(model.spec.num_layers):
        changed, after = _changed(model, texts, number, x, means)
        for part, (names, streams) in changed.items():
            for start in range(0, len(names), together):
                some = slice(start, start + together)
                y = streams[some].flatten(0, 1)
                known = texts.known(y)
                y = texts.finish(number, part, y, known)
                for later in range(number + 1, model.spec.num_layers):
                    y = texts.run(later, y, known)
                yield from zip(names[some], texts.losses(y), strict=True)
        x = after
    yield _NOTHING, texts.losses(x)[0]


def _changed(
    model: LanguageModel, texts: _Texts, number: int, x: Tensor, means: Mapping[str, Tensor]
) -> tuple[dict[str, tuple[list[str], Tensor]], Tensor]:
    """Return for each part of a block the names of what is replaced by its mean, with the residual path after the part
    in each case (removed, batch, tokens, model width); and the unchanged output of the block."""
    block: Any = model.stack.blocks[number]
    path = f"blocks.{number}"
    parts = _parts(model)
    read = [f"{path}.{part}.{point}" for part in parts[:-1] for point in ("heads", "output", "residual")]
    read = [name for name in read if not name.endswith(".heads") or name in means]
    with model.tap(*read, f"{path}.mlp.output") as seen:
        after = texts.run(number, x, texts.first_values)
    changed = {}
    for part in parts:
        name = f"{path}.{part}"
        stream = after if part == "mlp" else seen[f"{name}.residual"]
        names, streams = [name], (stream + (means[f"{name}.output"] - seen[f"{name}.output"]))[None]
        if f"{name}.heads" in means:
            shift = means[f"{name}.heads"][:, None] - seen[f"{name}.heads"]  # (batch, heads, tokens, value width)
            shift = head_outputs(getattr(block, part), shift).transpose(0, 1)
            names = [name, *(f"{name}.heads.{head}" for head in range(len(shift)))]
            streams = torch.cat([streams, stream + shift])
        changed[part] = names, streams
    return changed, after


# One text without some heads


@dataclass(frozen=True, eq=False)
class NextTokens:
    """The probability of every token after a text, (vocabulary,), with all heads and without some."""

    before: Tensor
    after: Tensor

    def most(self, count: int) -> list[int]:
        """Return the tokens that are most likely with all heads or without some, sorted by the former."""
        largest = torch.maximum(self.before, self.after)
        found: list[int] = largest.topk(min(count, len(largest))).indices.tolist()
        return sorted(found, key=lambda token: -float(self.before[token]))


def next_tokens(model: LanguageModel, ids: Tensor, without: Collection[tuple[int, int]] = ()) -> NextTokens:
    """Return the probabilities after one text, (tokens,), with all heads and without those given as (layer, head).

    A removed head is replaced by its mean output over the tokens of this text.
    """
    if model.encoder is not None or not all(spec.mask.causal for spec in model.spec.attention):
        raise UnsupportedError(
            f"a model of the family {model.spec.family} does not continue a text", hint="use a decoder such as gpt"
        )
    for layer, head in without:
        heads = model.spec.attention[layer].observed_heads if 0 <= layer < model.spec.num_layers else 0
        if 0 <= layer < model.spec.num_layers and heads == 0:
            raise UnsupportedError(f"layer {layer}: {NO_MAPS} and has no heads", hint="choose another layer")
        if not 0 <= head < heads:
            raise InputError(
                f"there is no head {head} in layer {layer}",
                hint=f"layers are 0 to {model.spec.num_layers - 1}, heads 0 to {max(heads, 1) - 1}",
            )
    check_tokens(model, ids[None])
    with evaluating(model):
        before = _expected(model, ids)
        replaced = {f"blocks.{layer}.attention.heads": _mean_of(layer, without) for layer, _ in without}
        with model.tap(replaced):
            after = _expected(model, ids)
    return NextTokens(before, after)


def _mean_of(layer: int, without: Collection[tuple[int, int]]) -> Callable[[Tensor], Tensor]:
    chosen = sorted({head for one, head in without if one == layer})

    def replace(made: Tensor) -> Tensor:
        """Return (batch, heads, tokens, value width) with some heads replaced by their mean over the tokens."""
        changed = made.clone()
        changed[:, chosen] = made[:, chosen].mean(dim=2, keepdim=True)
        return changed

    return replace


def _expected(model: LanguageModel, ids: Tensor) -> Tensor:
    logits: Tensor = model(ids[None].to(model.embedding.weight.device), last_only=True)
    return logits[0, -1].float().softmax(-1).cpu()
