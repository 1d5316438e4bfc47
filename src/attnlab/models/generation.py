"""Text generation: one token after another, each sampled from the distribution that the model predicts.

    texts = generate(model, [tokenizer.encode("Once")], max_tokens=100, sampling=Sampling(temperature=0.8, top_k=50))

    p ∝ exp(logits / temperature), cut to the `top_k` likeliest tokens, then to the fewest whose probabilities reach
    `top_p` (arXiv 1904.09751); a temperature of 0 takes the likeliest

Keys and values of earlier tokens are cached. Prompts of different lengths form one batch, padded on the left; where a
variant counts positions from the start or does not support padding, only prompts of the same length are batched. The
samples for a prompt depend on its seed alone, not on the other prompts, until the longest sequence fills the context.
Then the model reads the last half of the context again and continues from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from attnlab.errors import InputError
from attnlab.models.decoding import TokenDecoder
from attnlab.models.language_model import LanguageModel
from attnlab.specification import Specification

_GREEDY = 1e-4  # dividing logits by a lower temperature would overflow


class Sampling(Specification):
    """How the next token is chosen."""

    what = "sampling"

    temperature: Annotated[float, Field(ge=0)] = 1.0  # below 1e-4 the most probable token is taken
    top_k: PositiveInt | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    seed: Annotated[int, Field(ge=0, lt=2**40)] = 0  # a PyTorch generator takes 64 bits


def generate(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    sampling: Sampling | None = None,
    *,
    stop: int | None = None,
    source: Tensor | None = None,
    source_padding: Tensor | None = None,
) -> list[list[int]]:
    """Return the tokens with which the model continues the prompts: `max_tokens` each, or fewer if `stop` comes first.

    `sampling` says how a token is drawn, by default the most probable one. An encoder–decoder needs the token ids of
    its `source`, (prompts, tokens), and `source_padding`, True for the real tokens among them.
    """
    written: list[list[int]] = [[] for _ in prompts]
    for number, token in stream(
        model, prompts, max_tokens, sampling, stop=stop, source=source, source_padding=source_padding
    ):
        written[number].append(token)
    return written


@torch.no_grad()
def stream(
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    max_tokens: int,
    sampling: Sampling | None = None,
    *,
    stop: int | None = None,
    source: Tensor | None = None,
    source_padding: Tensor | None = None,
) -> Iterator[tuple[int, int]]:
    """Yield (number of the prompt, token) as the model generates them.

    The parameters are those of `generate`: model, prompts, max_tokens, sampling, stop, source, source_padding.
    """
    _check(model, prompts, max_tokens, source)
    was_training = model.training
    model.eval()
    try:
        for numbers in _batches(model, prompts):
            rows = None if source is None else source[numbers]
            padding = None if source_padding is None else source_padding[numbers]
            texts = [list(prompts[number]) for number in numbers]
            most = max(map(len, texts)) + max_tokens
            writer = _Writer(_Reader(model, rows, padding, most), texts, numbers, sampling or Sampling())
            yield from writer.write(max_tokens, stop)
    finally:
        model.train(was_training)


class _Reader:
    """The model and its cache for one batch of texts."""

    def __init__(self, model: LanguageModel, source: Tensor | None, source_padding: Tensor | None, most: int) -> None:
        self.model, self.source, self.source_padding = model, source, source_padding
        self.most = most  # tokens per text
        self.device = model.embedding.weight.device
        self.cache = model.new_cache()
        self.decoder: TokenDecoder | None = None
        self.padding: Tensor | None = None  # True for real tokens; None if all are real
        self.positions: Tensor | None = None

    def begin(self, texts: list[list[int]]) -> Tensor:
        """Process texts from the start; return the logits (rows, vocabulary) of the next token of each."""
        self.cache, self.decoder = self.model.new_cache(), None
        self.lone = len(texts) == 1 and TokenDecoder.serves(self.model)
        tokens = self._align(texts)
        return self._logits(tokens, source=self.source, source_padding=self.source_padding)

    def go_on(self, tokens: list[int]) -> Tensor:
        """Process one more token of each; return the logits of the next."""
        if self.lone:
            self.decoder = self.decoder or TokenDecoder(self.model, self.cache, self.most)
            return self.decoder.read(tokens[0])
        if self.padding is not None and self.positions is not None:
            self.padding = torch.cat([self.padding, self.padding.new_ones(len(tokens), 1)], dim=1)
            self.positions = self.positions[:, -1:] + 1
        return self._logits(torch.tensor(tokens, device=self.device)[:, None])

    @property
    def length(self) -> int:
        return self.cache.length if self.decoder is None else self.decoder.length

    def _logits(self, tokens: Tensor, **source: Tensor | None) -> Tensor:
        known = {"padding": self.padding, "positions": self.positions, "cache": self.cache}
        logits: Tensor = self.model(tokens, last_only=True, **known, **source)
        return logits[:, -1]

    def _align(self, texts: list[list[int]]) -> Tensor:
        """Return the tokens (rows, longest), padded on the left; set padding and positions if some are shorter."""
        longest = max(map(len, texts))
        missing = torch.tensor([longest - len(text) for text in texts], device=self.device)[:, None]
        place = torch.arange(longest, device=self.device) - missing
        ragged = bool(missing.any())
        self.padding = place >= 0 if ragged else None
        self.positions = place.clamp(min=0) if ragged else None
        return torch.tensor([[0] * (longest - len(text)) + text for text in texts], device=self.device)


class _Writer:
    """One batch of prompts with the tokens generated after them."""

    def __init__(self, reader: _Reader, texts: list[list[int]], numbers: list[int], sampling: Sampling) -> None:
        self.reader, self.texts, self.numbers, self.sampling = reader, texts, numbers, sampling
        self.generators = [torch.Generator().manual_seed(sampling.seed * 1_000_003 + number) for number in numbers]

    def write(self, max_tokens: int, stop: int | None) -> Iterator[tuple[int, int]]:
        context = self.reader.model.spec.context_length
        open_rows = set(range(len(self.texts)))
        for written in range(max_tokens):
            if written == 0:
                logits = self.reader.begin([text[-context:] for text in self.texts])
            elif self.reader.length == context:
                logits = self.reader.begin([text[-max(1, context // 2) :] for text in self.texts])
            else:
                logits = self.reader.go_on([text[-1] for text in self.texts])
            for row, token in enumerate(self._choose(logits)):
                self.texts[row].append(token)
                if row in open_rows:
                    yield self.numbers[row], token
                    if token == stop:
                        open_rows.discard(row)
            if not open_rows:
                return

    def _choose(self, logits: Tensor) -> list[int]:
        """Choose the next token of each row, from logits (rows, vocabulary)."""
        sampling = self.sampling
        if sampling.temperature < _GREEDY:
            best: list[int] = logits.argmax(-1).tolist()
            return best
        probabilities, tokens = candidates(logits, sampling)
        drawn = [torch.rand((), generator=generator).item() for generator in self.generators]
        reached = probabilities.cumsum(-1)
        goal = reached[:, -1:] * torch.tensor(drawn, device=reached.device)[:, None]
        chosen = torch.searchsorted(reached, goal, right=True).clamp_(max=reached.shape[-1] - 1)
        result: list[int] = (chosen if tokens is None else tokens.gather(1, chosen))[:, 0].tolist()
        return result


def candidates(logits: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor | None]:
    """Return the probabilities (rows, candidates) to sample from, and which tokens these are; None for all."""
    logits = logits.float()
    kept = min(sampling.top_k or logits.shape[-1], logits.shape[-1])
    if sampling.top_k is None and sampling.top_p is None:
        return (logits / sampling.temperature).softmax(-1), None
    ordered, tokens = logits.topk(kept)
    probabilities = (ordered / sampling.temperature).softmax(-1)
    if sampling.top_p is not None:
        before = probabilities.cumsum(-1) - probabilities
        probabilities = probabilities.masked_fill(before >= sampling.top_p, 0.0)
    return probabilities, tokens


def _batches(model: LanguageModel, prompts: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the indices of the prompts by batch, each of prompts that can go together."""
    spec = model.spec
    layers = (*spec.attention, *spec.encoder_attention)
    # A table of scores is indexed by position from the start, and a layer that takes no mask cannot hide padding.
    if not any(layer.needs_context or (layer.layer and "mask" not in layer.layer.takes) for layer in layers):
        return [list(range(len(prompts)))]
    by_length: dict[int, list[int]] = {}
    for number, prompt in enumerate(prompts):
        by_length.setdefault(min(len(prompt), spec.context_length), []).append(number)
    return list(by_length.values())


def _check(model: LanguageModel, prompts: Sequence[Sequence[int]], max_tokens: int, source: Tensor | None) -> None:
    if model.spec.family == "encoder":
        raise InputError("an encoder does not write", hint="use a decoder or an encoder–decoder")
    if not prompts or not all(len(prompt) for prompt in prompts):
        raise InputError("a prompt has no tokens", hint="give at least one token to begin with")
    if max_tokens < 0:
        raise InputError(f"{max_tokens} tokens cannot be written", hint="give a number of tokens from 0 on")
    largest = max(max(prompt) for prompt in prompts)
    smallest = min(min(prompt) for prompt in prompts)
    if largest >= model.spec.vocabulary_size or smallest < 0:
        raise InputError(
            f"the prompt has the token {largest if smallest >= 0 else smallest}, and the model knows "
            f"0 … {model.spec.vocabulary_size - 1}",
            hint="use the tokenizer that the model was trained with",
        )
    if source is not None and len(source) != len(prompts):
        raise InputError(f"there are {len(source)} sources and {len(prompts)} prompts", hint="give one for each")
