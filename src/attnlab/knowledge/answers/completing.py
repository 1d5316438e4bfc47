"""Going on with many prompts at once, up to the next MASK, with the cache.

Prompts of one length go together: nothing is padded, so that every variant of attention can do it, and what a prompt
gets does not depend on the others.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.models import LanguageModel

_TOGETHER = 128  # prompts
LONGEST = 64  # tokens, where the context leaves room for so many


@dataclass(frozen=True)
class Completion:
    """What follows a prompt up to the mark that ends it, which is not in `tokens`."""

    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]  # of each token, and of the end if it came
    ended: bool

    @property
    def probability(self) -> float:
        """Of the tokens and the end; 0 where no end came."""
        return math.exp(sum(self.log_probabilities)) if self.ended else 0.0

    @property
    def length_normalised(self) -> float:
        """The geometric mean of these probabilities; 0 where no end came."""
        return math.exp(sum(self.log_probabilities) / len(self.log_probabilities)) if self.ended else 0.0


@torch.no_grad()
def complete(
    model: LanguageModel, prompts: Sequence[Sequence[int]], end: int, *, seed: int | None = None, longest: int = LONGEST
) -> list[Completion]:
    """What the model says after each prompt: the likeliest token each time, or drawn ones if there is a seed."""
    by_length: dict[int, list[int]] = {}
    for number, prompt in enumerate(prompts):
        by_length.setdefault(len(prompt), []).append(number)
    found: dict[int, Completion] = {}
    was_training = model.training
    model.eval()
    try:
        for length, numbers in sorted(by_length.items()):
            room = min(longest, model.spec.context_length - length)
            for first in range(0, len(numbers), _TOGETHER):
                some = numbers[first : first + _TOGETHER]
                tokens = torch.tensor([list(prompts[number]) for number in some])
                draw = None if seed is None else torch.Generator().manual_seed(seed * 1_000_003 + some[0])
                found |= zip(some, _complete(model, tokens, end, room, draw), strict=True)
    finally:
        model.train(was_training)
    return [found[number] for number in range(len(prompts))]


def _complete(
    model: LanguageModel, tokens: Tensor, end: int, room: int, draw: torch.Generator | None
) -> list[Completion]:
    """Completions of prompts of one length, (rows, tokens)."""
    device = model.embedding.weight.device
    cache = model.new_cache()
    rows = len(tokens)
    written: list[list[int]] = [[] for _ in range(rows)]
    chances: list[list[float]] = [[] for _ in range(rows)]
    open_rows = set(range(rows))
    for _ in range(room):
        logits = model(tokens.to(device), cache=cache, last_only=True)[:, -1].float().cpu()
        log_probabilities = logits.log_softmax(-1)  # (rows, vocabulary)
        if draw is None:
            chosen = log_probabilities.argmax(-1, keepdim=True)
        else:
            chosen = torch.multinomial(log_probabilities.exp(), 1, generator=draw)
        chances_now = log_probabilities.gather(1, chosen)[:, 0].tolist()
        for row, token in enumerate(chosen[:, 0].tolist()):
            if row not in open_rows:
                continue
            chances[row].append(chances_now[row])
            if token == end:
                open_rows.discard(row)
            else:
                written[row].append(token)
        if not open_rows:
            break
        tokens = chosen
    return [
        Completion(tuple(written[row]), tuple(chances[row]), row not in open_rows and bool(chances[row]))
        for row in range(rows)
    ]
