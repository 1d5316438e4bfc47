"""Copying a name or an answer out of a text: the model decides where it begins and ends, and cannot misspell it.

Behind `text tail` the model goes on token by token. Only two things are allowed: the next token of a stretch of the
text that reads like what was copied so far, or, where a stretch may end, the token `end`. Stretches are whole words.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.corpora import Tokenizer
from attnlab.knowledge.answers.completing import Completion
from attnlab.models import LanguageModel

_TOGETHER = 64  # texts
_HALF_A_CHARACTER = "\ufffd"


@dataclass(frozen=True)
class Text:
    """The tokens of a text, where a stretch of it may begin, and before which of its tokens one may end."""

    tokens: tuple[int, ...]
    begins: frozenset[int]
    ends: frozenset[int]

    @classmethod
    def of_words(cls, tokenizer: Tokenizer, tokens: Sequence[int]) -> Text:
        """A text whose stretches are whole words."""
        pieces = [tokenizer.decode([token]) for token in tokens]
        borders = [
            place
            for place in range(1, len(pieces))
            if not (_is_inside(pieces[place][:1]) and _is_inside(pieces[place - 1][-1:]))
        ]
        return cls(tuple(tokens), frozenset([0, *borders]), frozenset([*borders, len(pieces)]))

    def narrowed(self, begins: Collection[int], ends: Collection[int]) -> Text:
        """With fewer places, as long as some are left."""
        return Text(self.tokens, self.begins & set(begins) or self.begins, self.ends & set(ends) or self.ends)


@dataclass(frozen=True)
class Copied(Completion):
    """What was copied; its probability among all that the model could say, and among what it could copy."""

    among_stretches: float = 0.0


def _is_inside(sign: str) -> bool:
    """Whether a character belongs to a word, or is a part of one that may."""
    return sign.isalnum() or sign == _HALF_A_CHARACTER


@torch.no_grad()
def copy_from(
    model: LanguageModel,
    texts: Sequence[Text],
    tails: Sequence[Sequence[int]],
    end: int,
    longest: int,
    seed: int | None = None,
) -> list[Copied]:
    """What the model copies from each text behind its tail: the likeliest each time, or drawn if there is a seed."""
    by_length: dict[tuple[int, int], list[int]] = {}
    for number, (text, tail) in enumerate(zip(texts, tails, strict=True)):
        by_length.setdefault((len(text.tokens), len(tail)), []).append(number)
    found: dict[int, Copied] = {}
    model.eval()
    for _, numbers in sorted(by_length.items()):
        for first in range(0, len(numbers), _TOGETHER):
            some = numbers[first : first + _TOGETHER]
            draw = None if seed is None else torch.Generator().manual_seed(seed * 1_000_003 + some[0])
            prompts = torch.tensor([[*texts[number].tokens, *tails[number]] for number in some])
            rows = [_Row(texts[number]) for number in some]
            _copy(model, rows, prompts, end, longest, draw)
            found |= zip(some, (row.copied() for row in rows), strict=True)
    return [found[number] for number in range(len(texts))]


class _Row:
    """One text, and what was copied of it so far."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.places = sorted(text.begins)  # where the next token may stand
        self.written: list[int] = []
        self.log_probabilities: list[float] = []
        self.among_allowed = 0.0
        self.ended = self.stuck = False

    def choose(self, log_probabilities: Tensor, end: int, draw: torch.Generator | None) -> int:
        """The next token, from the model's log-probabilities (vocabulary)."""
        tokens = self.text.tokens
        allowed = {tokens[place] for place in self.places if place < len(tokens)}
        if self.written and not self.text.ends.isdisjoint(self.places):
            allowed.add(end)
        if not allowed or self.ended:
            self.stuck = not self.ended
            return end
        options = sorted(allowed)
        chances = log_probabilities[options]
        if draw is None:
            choice = int(chances.argmax())
        else:
            choice = int(torch.multinomial(chances.softmax(-1), 1, generator=draw))
        self.log_probabilities.append(chances[choice].item())
        self.among_allowed += chances.log_softmax(-1)[choice].item()
        token = options[choice]
        if token == end:
            self.ended = True
        else:
            self.written.append(token)
            self.places = [place + 1 for place in self.places if place < len(tokens) and tokens[place] == token]
        return token

    def copied(self) -> Copied:
        chance = math.exp(self.among_allowed) if self.ended else 0.0
        return Copied(tuple(self.written), tuple(self.log_probabilities), self.ended, chance)


def _copy(
    model: LanguageModel, rows: list[_Row], prompts: Tensor, end: int, longest: int, draw: torch.Generator | None
) -> None:
    device = model.embedding.weight.device
    cache = model.new_cache()
    tokens = prompts
    for _ in range(min(longest, model.spec.context_length - prompts.shape[1])):
        logits = model(tokens.to(device), cache=cache, last_only=True)[:, -1].float().cpu()
        chosen = [row.choose(each, end, draw) for row, each in zip(rows, logits.log_softmax(-1), strict=True)]
        if all(row.ended or row.stuck for row in rows):
            return
        tokens = torch.tensor(chosen)[:, None]
