"""The models: a decoder (GPT), an encoder, and an encoder–decoder, all built from the same block.

    model = build_model(ModelSpec.build("nano", vocabulary_size=96), seed=1)
    logits = model(tokens)                          (batch, tokens, vocabulary)
    loss = model.loss(tokens, targets)              never stores all logits when the vocabulary is large

The input of the first block is the token embedding, plus a learned position embedding if the spec has one; the last
block is followed by a norm and the head, which is the embedding itself if they are tied.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.attention import AttentionSpec
from attnlab.attention.linear import Linear, linear
from attnlab.attention.observer import Observed
from attnlab.attention.parts.values import FirstValues
from attnlab.corpora import IGNORED
from attnlab.errors import InputError
from attnlab.models import taps as tapping
from attnlab.models.blocks import LayerCache, TransformerBlock, make_norm
from attnlab.models.initial import initialise
from attnlab.models.loss import cross_entropy
from attnlab.models.meta import on_meta
from attnlab.models.spec import ModelSpec
from attnlab.models.taps import Replace, Seen, Taps


class ModelCache:
    """The cache of a model for the tokens that it has processed, layer by layer."""

    def __init__(self, num_layers: int) -> None:
        self.layers = [LayerCache() for _ in range(num_layers)]
        self.memory: Tensor | None = None  # the output of the encoder for the source
        self.memory_padding: Tensor | None = None

    @property
    def length(self) -> int:
        """Return how many tokens it has seen."""
        return self.layers[0].own.length

    @property
    def nbytes(self) -> int:
        return sum(layer.nbytes for layer in self.layers)


class Stack(Observed):
    """Positions, blocks and the last norm: the part between the embedding and the head."""

    reported: ClassVar[tuple[str, ...]] = ("embedding", "position", "residual", "norm.in", "norm.output")

    def __init__(self, spec: ModelSpec, attention: tuple[AttentionSpec, ...], cross: tuple[AttentionSpec, ...]) -> None:
        super().__init__()
        learned = spec.learns_positions
        self.positions = nn.Embedding(spec.context_length, spec.model_width) if learned else None
        self.dropout = nn.Dropout(spec.dropout)
        others = cross or (None,) * len(attention)
        blocks = [TransformerBlock(spec, own, other) for own, other in zip(attention, others, strict=True)]
        for earlier, block in itertools.combinations(blocks, 2):
            block.borrow(earlier)
        self.blocks = nn.ModuleList(blocks)
        self.mixes_values = any(one.values is not None for one in (*attention, *cross))
        self.norm = make_norm(spec)

    def forward(
        self,
        x: Tensor,
        *,
        padding: Tensor | None = None,
        positions: Tensor | None = None,
        memory: Tensor | None = None,
        memory_padding: Tensor | None = None,
        cache: ModelCache | None = None,
    ) -> Tensor:
        """Return the hidden states that the head reads, from embedded tokens; both (batch, tokens, model width)."""
        observer = self.observer
        if observer is not None:
            x = observer("embedding", x)
        if self.positions is not None:
            place = self.place(x.shape[1], positions, 0 if cache is None else cache.length)
            if observer is not None:
                place = observer("position", place)
            x = x + place
        x = self.dropout(x)
        if observer is not None:
            x = observer("residual", x)
        first_values: FirstValues | None = {} if self.mixes_values else None
        for number, block in enumerate(self.blocks):
            layer = None if cache is None else cache.layers[number]
            x = block(
                x,
                padding=padding,
                memory=memory,
                memory_padding=memory_padding,
                cache=layer,
                first_values=first_values,
            )
        if observer is not None:
            x = observer("norm.in", x)
        result: Tensor = self.norm(x)
        return result if observer is None else observer("norm.output", result)

    def place(self, count: int, positions: Tensor | None = None, start: int = 0) -> Tensor:
        """Return the learned vectors (tokens, model width) of positions from `start`, or of given ones (batch, …)."""
        assert self.positions is not None
        if positions is None:
            weight = self.positions.weight
            return weight if count == weight.shape[0] else weight[start : start + count]
        result: Tensor = self.positions(positions)
        return result


class LanguageModel(Observed):
    """A model of any family. Weights are drawn by `initialise`; use `build_model`."""

    reported: ClassVar[tuple[str, ...]] = ("logits",)

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__()
        self.spec = spec
        self.taps = Taps()
        self.embedding = nn.Embedding(spec.vocabulary_size, spec.model_width)
        pair = spec.family == "encoder-decoder"
        self.encoder = Stack(spec, spec.encoder_attention, ()) if pair else None
        self.stack = Stack(spec, spec.attention, spec.cross_attention)
        self.head = None if spec.tied_embedding else Linear(spec.model_width, spec.vocabulary_size, bias=False)

    @property
    def head_weight(self) -> Tensor:
        """Return the weight of the head, (vocabulary, model width)."""
        return self.embedding.weight if self.head is None else self.head.weight

    def forward(
        self,
        tokens: Tensor,
        *,
        source: Tensor | None = None,
        source_padding: Tensor | None = None,
        padding: Tensor | None = None,
        positions: Tensor | None = None,
        cache: ModelCache | None = None,
        last_only: bool = False,
    ) -> Tensor:
        """Return the logits (batch, tokens, vocabulary) of tokens (batch, tokens), or of the last one (batch, 1, …)."""
        hidden = self.hidden(
            tokens,
            source=source,
            source_padding=source_padding,
            padding=padding,
            positions=positions,
            cache=cache,
        )
        logits = linear(hidden[:, -1:] if last_only else hidden, self.head_weight)
        return logits if self.observer is None else self.observer("logits", logits)

    def hidden(
        self,
        tokens: Tensor,
        *,
        source: Tensor | None = None,
        source_padding: Tensor | None = None,
        padding: Tensor | None = None,
        positions: Tensor | None = None,
        cache: ModelCache | None = None,
    ) -> Tensor:
        """Return the hidden states that the head reads, (batch, tokens, model width).

        `padding` is True for real tokens, those in the cache included. `positions` (batch, tokens) are needed only
        where sequences of different lengths are padded on the left. With a cache the source is needed only once.
        """
        self._check(tokens, source, 0 if cache is None else cache.length)
        memory, memory_padding = None, source_padding
        if self.encoder is not None:
            if source is not None:
                memory = self.encoder(self.embedding(source), padding=source_padding)
                if cache is not None:
                    cache.memory, cache.memory_padding = memory, source_padding
            elif cache is not None:
                memory, memory_padding = cache.memory, cache.memory_padding
            if memory is None:
                raise InputError("an encoder–decoder needs the other sequence", hint="give source=…")
        result: Tensor = self.stack(
            self.embedding(tokens),
            padding=padding,
            positions=positions,
            memory=memory,
            memory_padding=memory_padding,
            cache=cache,
        )
        return result

    def loss(
        self,
        tokens: Tensor,
        targets: Tensor,
        *,
        source: Tensor | None = None,
        source_padding: Tensor | None = None,
        padding: Tensor | None = None,
    ) -> Tensor:
        """Return the mean cross-entropy in nats over the targets that are not `IGNORED`.

        The tokens of a prefix attend to the whole prefix, so they are not predicted.
        """
        hidden = self.hidden(tokens, source=source, source_padding=source_padding, padding=padding)
        targets = self.asked(targets)
        logits = None if self.observer is None else self.observer.offer("logits", F.linear(hidden, self.head_weight))
        if logits is None:
            return cross_entropy(hidden.flatten(0, 1), self.head_weight, targets.flatten())
        exact = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return F.cross_entropy(exact.flatten(0, 1), targets.flatten(), ignore_index=IGNORED)

    def asked(self, targets: Tensor) -> Tensor:
        """Return the targets (batch, tokens), those inside a prefix replaced by `IGNORED`."""
        given = max(spec.mask.prefix or 0 for spec in self.spec.attention) - 1
        if given > 0:
            targets = targets.clone()
            targets[:, :given] = IGNORED
        return targets

    def tap(self, *names: str | Mapping[str, Replace]) -> AbstractContextManager[Seen]:
        """Read or replace what the model computes, by name, in every pass inside the `with`.

            with model.tap("blocks.*.attention.output") as seen:
                model(tokens)
            seen["blocks.0.attention.output"]                       from the last pass

            with model.tap({"blocks.1.mlp.output": torch.zeros_like}):
                loss = model.loss(tokens, targets)

        A function gets the tensor, and returns another of the same shape, or None to keep it. `tap_names` lists the
        names; * matches anything. The tensors read are those that the model continues with, after all replacements.
        """
        return tapping.tap(self, names)

    def new_cache(self) -> ModelCache:
        """Return an empty cache for decoding one batch."""
        return ModelCache(self.spec.num_layers)

    def num_parameters(self) -> int:
        return sum(parameter.numel() for parameter in self.parameters())

    def _check(self, tokens: Tensor, source: Tensor | None, seen: int) -> None:
        for name, ids, before in (("tokens", tokens, seen), ("source", source, 0)):
            if ids is None:
                continue
            if ids.dim() != 2 or ids.is_floating_point():
                raise InputError(
                    f"{name} are {ids.dtype} of shape {tuple(ids.shape)}, not integers (batch, tokens)",
                    hint="one sequence alone is tokens[None]",
                )
            if before + ids.shape[1] > self.spec.context_length:
                raise InputError(
                    f"{before + ids.shape[1]} {name} do not fit into a context of {self.spec.context_length}",
                    hint="shorten them, or train a model with a longer context",
                )
        if source is not None and self.encoder is None:
            raise InputError(f"a model of the family {self.spec.family} takes no source", hint="leave source out")


def build_model(spec: ModelSpec, seed: int = 0, device: torch.device | str = "cpu") -> LanguageModel:
    """Return a model on `device` with fresh weights, which are a function of the spec and the seed alone."""
    model = empty_model(spec, device).to_empty(device=device)
    initialise(model, seed)
    return model


def empty_model(spec: ModelSpec, device: torch.device | str = "cpu") -> LanguageModel:
    """Return a model whose weights are still to be set; those of a large one are on the meta device.

    PyTorch initialises a small model, whose weights are then replaced. For a large model the meta device avoids that;
    for a small one it would take longer.
    """
    large = spec.num_layers * spec.model_width * (spec.model_width + spec.mlp_width) > _LARGE
    with torch.random.fork_rng(devices=[]), on_meta() if large else torch.device(device):
        return LanguageModel(spec)


_LARGE = 10_000_000
