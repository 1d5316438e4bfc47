"""Decode many prompts at once, up to the next MASK, with a KV cache: freely, or by copying from a text.

Prompts of equal length are batched together: nothing is padded, so that every attention variant supports it, and the
completion of a prompt does not depend on the others.

When the model copies a name or an answer from a text, it decides where the span begins and ends, and cannot misspell
it. Decoding continues `text tail` token by token. Only two kinds of token are allowed: the next token of a span of the
text that matches what was copied so far, or, where a span may end, the token `end`. Spans consist of whole words.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.corpora import Tokenizer
from attnlab.models import LanguageModel

LONGEST = 64  # tokens, if the context has space for them
_PROMPTS, _TEXTS = 128, 64  # decoded together
_HALF_A_CHARACTER = "\ufffd"


@dataclass(frozen=True)
class Completion:
    """The continuation of a prompt up to the end token, which is not part of `tokens`."""

    tokens: tuple[int, ...]
    log_probabilities: tuple[float, ...]  # of each token, and of the end token if it was reached
    ended: bool

    @property
    def probability(self) -> float:
        """Return the joint probability of the tokens and the end; 0 if no end came."""
        return math.exp(sum(self.log_probabilities)) if self.ended else 0.0

    @property
    def length_normalised(self) -> float:
        """Return the geometric mean of these probabilities; 0 if no end came."""
        return math.exp(sum(self.log_probabilities) / len(self.log_probabilities)) if self.ended else 0.0


@dataclass(frozen=True)
class CopiedCompletion(Completion):
    """A copied span, with its probability among all continuations and among the spans that could be copied."""

    among_stretches: float = 0.0


@dataclass(frozen=True)
class CopySource:
    """The tokens of a text, with the positions at which a span may begin and those before which it may end."""

    tokens: tuple[int, ...]
    begins: frozenset[int]
    ends: frozenset[int]

    @classmethod
    def of_words(cls, tokenizer: Tokenizer, tokens: Sequence[int]) -> CopySource:
        """Return a text whose stretches are whole words."""
        pieces = [tokenizer.decode([token]) for token in tokens]
        borders = [
            place
            for place in range(1, len(pieces))
            if not (_is_inside(pieces[place][:1]) and _is_inside(pieces[place - 1][-1:]))
        ]
        return cls(tuple(tokens), frozenset([0, *borders]), frozenset([*borders, len(pieces)]))

    def narrowed(self, begins: Collection[int], ends: Collection[int]) -> CopySource:
        """Return it with fewer places, as long as some are left."""
        return CopySource(self.tokens, self.begins & set(begins) or self.begins, self.ends & set(ends) or self.ends)


def _is_inside(sign: str) -> bool:
    """Return whether a character can belong to a word: alphanumeric, or part of a split character."""
    return sign.isalnum() or sign == _HALF_A_CHARACTER


def complete(
    model: LanguageModel, prompts: Sequence[Sequence[int]], end: int, *, seed: int | None = None, longest: int = LONGEST
) -> list[Completion]:
    """Return what the model says after each prompt: the likeliest token each time, or drawn ones if there is a seed."""
    found: dict[int, Completion] = {}
    for numbers, draw in _groups([(len(prompt),) for prompt in prompts], _PROMPTS, seed):
        rows = _FreeRows(len(numbers), end, draw)
        _decode(model, torch.tensor([list(prompts[number]) for number in numbers]), longest, rows.choose)
        found |= zip(numbers, rows.completions(), strict=True)
    return [found[number] for number in range(len(prompts))]


def copy_from(
    model: LanguageModel,
    texts: Sequence[CopySource],
    tails: Sequence[Sequence[int]],
    end: int,
    longest: int,
    seed: int | None = None,
) -> list[CopiedCompletion]:
    """Return what the model copies from each text after its tail: the likeliest, or drawn if there is a seed."""
    found: dict[int, CopiedCompletion] = {}
    lengths = [(len(text.tokens), len(tail)) for text, tail in zip(texts, tails, strict=True)]
    for numbers, draw in _groups(lengths, _TEXTS, seed):
        rows = [_CopyRow(texts[number]) for number in numbers]

        def choose(
            log_probabilities: Tensor, rows: list[_CopyRow] = rows, draw: torch.Generator | None = draw
        ) -> Tensor | None:
            chosen = [row.choose(each, end, draw) for row, each in zip(rows, log_probabilities, strict=True)]
            return None if all(row.ended or row.stuck for row in rows) else torch.tensor(chosen)[:, None]

        prompts = torch.tensor([[*texts[number].tokens, *tails[number]] for number in numbers])
        _decode(model, prompts, longest, choose)
        found |= zip(numbers, (row.copied() for row in rows), strict=True)
    return [found[number] for number in range(len(texts))]


def _groups(
    lengths: Sequence[tuple[int, ...]], size: int, seed: int | None
) -> Iterator[tuple[list[int], torch.Generator | None]]:
    """Yield the numbers of rows of one length, at most `size` at a time, and what their tokens are drawn with."""
    by_length: dict[tuple[int, ...], list[int]] = {}
    for number, length in enumerate(lengths):
        by_length.setdefault(length, []).append(number)
    for length in sorted(by_length):
        for first in range(0, len(by_length[length]), size):
            some = by_length[length][first : first + size]
            yield some, None if seed is None else torch.Generator().manual_seed(seed * 1_000_003 + some[0])


@torch.no_grad()
def _decode(model: LanguageModel, prompts: Tensor, longest: int, choose: Callable[[Tensor], Tensor | None]) -> None:
    """Continue prompts, (rows, tokens), until `choose` returns None or the context is full.

    `choose` maps log-probabilities, (rows, vocabulary), to the next tokens, (rows, 1).
    """
    device, was_training = model.embedding.weight.device, model.training
    model.eval()
    try:
        cache, tokens = model.new_cache(), prompts
        for _ in range(min(longest, model.spec.context_length - prompts.shape[1])):
            logits = model(tokens.to(device), cache=cache, last_only=True)[:, -1].float().cpu()
            chosen = choose(logits.log_softmax(-1))
            if chosen is None:
                return
            tokens = chosen
    finally:
        model.train(was_training)


class _FreeRows:
    """Rows that are decoded without constraints: greedily or by sampling."""

    def __init__(self, rows: int, end: int, draw: torch.Generator | None) -> None:
        self._end, self._draw = end, draw
        self._written: list[list[int]] = [[] for _ in range(rows)]
        self._chances: list[list[float]] = [[] for _ in range(rows)]
        self._open = set(range(rows))

    def choose(self, log_probabilities: Tensor) -> Tensor | None:
        if self._draw is None:
            chosen = log_probabilities.argmax(-1, keepdim=True)
        else:
            chosen = torch.multinomial(log_probabilities.exp(), 1, generator=self._draw)
        chances = log_probabilities.gather(1, chosen)[:, 0].tolist()
        for row, token in enumerate(chosen[:, 0].tolist()):
            if row not in self._open:
                continue
            self._chances[row].append(chances[row])
            if token == self._end:
                self._open.discard(row)
            else:
                self._written[row].append(token)
        return chosen if self._open else None

    def completions(self) -> Iterator[Completion]:
        for row, (written, chances) in enumerate(zip(self._written, self._chances, strict=True)):
            yield Completion(tuple(written), tuple(chances), row not in self._open and bool(chances))


class _CopyRow:
    """One text, and the tokens copied from it so far."""

    def __init__(self, text: CopySource) -> None:
        self.text = text
        self.places = sorted(text.begins)  # positions in the text that the next token may be copied from
        self.written: list[int] = []
        self.log_probabilities: list[float] = []
        self.among_allowed = 0.0
        self.ended = self.stuck = False

    def choose(self, log_probabilities: Tensor, end: int, draw: torch.Generator | None) -> int:
        """Return the next token, from the model's log-probabilities (vocabulary)."""
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

    def copied(self) -> CopiedCompletion:
        chance = math.exp(self.among_allowed) if self.ended else 0.0
        return CopiedCompletion(tuple(self.written), tuple(self.log_probabilities), self.ended, chance)
