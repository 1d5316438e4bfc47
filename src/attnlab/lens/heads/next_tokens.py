"""What a model expects next, with all its heads and without some of them.

    found = next_tokens(model, ids, without=[(1, 3)])
    found.before[5], found.after[5]        the probability of token 5 behind the text

Without a head means, as in `ablation.py`, with the mean of what it makes over the tokens of this text instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.errors import InputError, UnsupportedError
from attnlab.lens.maps.attention_maps import check_tokens, evaluating
from attnlab.models import LanguageModel


@dataclass(frozen=True, eq=False)
class NextTokens:
    """The probability of every token behind a text, (vocabulary,), with all heads and without some."""

    before: Tensor
    after: Tensor

    def most(self, count: int) -> list[int]:
        """The tokens that are likely before or after, most likely first."""
        largest = torch.maximum(self.before, self.after)
        found: list[int] = largest.topk(min(count, len(largest))).indices.tolist()
        return sorted(found, key=lambda token: -float(self.before[token]))


def next_tokens(model: LanguageModel, ids: Tensor, without: Collection[tuple[int, int]] = ()) -> NextTokens:
    """What comes behind one text, (tokens,), with every head and without those given as (layer, head)."""
    if model.encoder is not None or not all(spec.mask.causal for spec in model.spec.attention):
        raise UnsupportedError(
            f"a model of the family {model.spec.family} does not go on with a text", hint="use a decoder such as gpt"
        )
    for layer, head in without:
        heads = model.spec.attention[layer].num_heads if 0 <= layer < model.spec.num_layers else 0
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
        """(batch, heads, tokens, value width) with some heads made constant."""
        changed = made.clone()
        changed[:, chosen] = made[:, chosen].mean(dim=2, keepdim=True)
        return changed

    return replace


def _expected(model: LanguageModel, ids: Tensor) -> Tensor:
    logits: Tensor = model(ids[None].to(model.embedding.weight.device), last_only=True)
    return logits[0, -1].float().softmax(-1).cpu()
