"""The cost of a whole model: parameters, FLOPs, training memory, and the cache for generation.

For B sequences of N tokens, L layers, the widths D of the model and M of the MLP, and a vocabulary of V tokens:

    embedding      V D parameters, and another D for each learned position; no products
    norms          D or 2 D parameters, or none; no products
    attention      see `attention_cost`
    MLP            2 · 2 B N D M      for the up- and the down-projection; 3 · 2 B N D M if it is gated
    head           2 B N D V          its parameters are the embedding's if they are tied
    gradients      twice as much again, because each product has two factors

The MLP recomputes φ in the backward pass, which is no product; the recomputed products are those of attention, and with
activation checkpointing the forward products of every block.

*Useful* FLOPs are those that training needs with any kernel: three times the products of a forward pass, counting only
visible pairs in attention, and nothing that is recomputed. The utilisation of the machine's peak is computed from them.
Six times the parameters times the tokens is a good estimate of them for short sequences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from attnlab.attention import AttentionSpec
from attnlab.attention.kernels import Kernel
from attnlab.attention.spec import borrowed
from attnlab.cost.activations import kept_by_embedding, kept_by_loss, kept_outside_attention
from attnlab.cost.attention import AttentionCost, Cost, PartCost, attention_cost, multiply_adds, sum_by
from attnlab.cost.block import mlp_shapes, norm_vectors
from attnlab.cost.call import ModelCall
from attnlab.models import ModelSpec


@dataclass(frozen=True)
class ModelCost(Cost):
    """The cost of a model at a size. Parts are named by kind, after their layer if there are several."""

    call: ModelCall
    visible_only: bool
    useful_forward_flops: int
    attention: tuple[AttentionCost, ...]  # by layers, as in the spec
    cross_attention: tuple[AttentionCost, ...]
    encoder_attention: tuple[AttentionCost, ...]
    last_block: Cost | None = None  # with checkpointing: as it is during its backward pass, without its input

    @property
    def useful_training_flops(self) -> int:
        """Return the FLOPs that one step cannot do without, under either count of pairs."""
        return 3 * self.useful_forward_flops

    @property
    def weight_bytes(self) -> int:
        return self.parameters * self.call.bytes_per_number

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """Return the kernels that serve its attention, each once."""
        every = (*self.encoder_attention, *self.attention, *self.cross_attention)
        return tuple(dict.fromkeys(cost.kernel for cost in every))

    def cache_bytes(self, tokens: int) -> int:
        """Return the bytes cached for the batch after generating so many tokens one by one; an encoder has none.

        The cache of an encoder–decoder holds keys and values of the source too, but what they were made
        from is not counted.
        """
        self.call.require_context("tokens", tokens, least=0)
        if self.call.spec.family == "encoder" or tokens == 0:
            return 0
        own = sum(cost.cache_bytes(tokens) for cost in self.attention)
        return own + sum(cost.cache_bytes(cost.call.keys) for cost in self.cross_attention)

    def by_kind(self) -> tuple[PartCost, ...]:
        """Return the parts of all layers together: one for attention, one for MLPs, and so on."""
        return sum_by(self.parts, lambda name: name.rpartition(": ")[2])


def model_cost(
    spec: ModelSpec,
    *,
    batch: int = 1,
    tokens: int | None = None,
    source_tokens: int | None = None,
    visible_only: bool = False,
    bytes_per_number: int = 4,
    checkpointing: bool = False,
) -> ModelCost:
    """Return the cost of one training step on one batch, from tokens to the loss and back.

    Parameters
    ----------
    spec
        The specification of the model.
    batch
        Sequences in a batch.
    tokens
        Tokens of each sequence; the whole context if omitted.
    source_tokens
        Tokens of each source sequence of an encoder–decoder; the whole context if omitted.
    visible_only
        Count only the pairs that masks leave visible, not every pair.
    bytes_per_number
        Bytes per number, of weights and activations alike.
    checkpointing
        Keep only the input of each block, and recompute its forward pass in the backward pass.
    """
    if source_tokens is None and spec.family == "encoder-decoder":
        source_tokens = spec.context_length
    call = ModelCall(spec, batch, spec.context_length if tokens is None else tokens, source_tokens, bytes_per_number)
    builder = _Builder(call, visible_only, checkpointing)
    own = builder.attention(spec.attention, call.tokens)
    cross = builder.attention(spec.cross_attention, call.tokens, source_tokens)
    encoder = builder.attention(spec.encoder_attention, source_tokens or 0)
    parts = list(builder.parts(own, cross, encoder))
    products = sum(part.forward_flops for part in parts) - sum(cost.forward_flops for cost in (*own, *cross, *encoder))
    needed = sum(2 * sum(multiply_adds(cost.call, True).values()) for cost in (*own, *cross, *encoder))
    last = None
    if checkpointing:
        last = builder.held_going_backward(own[-1], cross[-1] if cross else None)
        own, cross, encoder = (
            tuple(replace(cost, parts=_made_again(cost.parts)) for cost in costs) for costs in (own, cross, encoder)
        )
    return ModelCost(tuple(parts), call, visible_only, products + needed, own, cross, encoder, last)


@dataclass(frozen=True)
class _Builder:
    """Computes the parts of a model, in the order of the forward pass."""

    call: ModelCall
    visible_only: bool
    checkpointing: bool

    def attention(
        self, specs: tuple[AttentionSpec, ...], queries: int, keys: int | None = None
    ) -> tuple[AttentionCost, ...]:
        """Return the cost of attention in each layer, computed once for layers that are alike."""
        layers = list(zip(specs, borrowed(specs), strict=True))
        known = {
            (spec, lent): attention_cost(
                spec,
                batch=self.call.batch,
                queries=queries,
                keys=keys,
                visible_only=self.visible_only,
                bytes_per_number=self.call.bytes_per_number,
                lent=lent,
            )
            for spec, lent in set(layers)
        }
        return tuple(known[layer] for layer in layers)

    def parts(
        self, own: tuple[AttentionCost, ...], cross: tuple[AttentionCost, ...], encoder: tuple[AttentionCost, ...]
    ) -> Iterator[PartCost]:
        spec, call = self.call.spec, self.call
        vocabulary = spec.vocabulary_size * spec.model_width
        yield PartCost("embedding", parameters=vocabulary, activation_bytes=kept_by_embedding(call))
        if call.source_tokens is not None:
            # The encoder's output is kept once, however many layers attend to it.
            memory = max(cost.part("source").activation_bytes for cost in cross)
            yield from self._stack("encoder ", call.source_tokens, encoder, (), memory)
        yield from self._stack("decoder " if encoder else "", call.tokens, own, cross)
        yield _products(
            "head",
            call.batch * call.tokens * vocabulary,
            parameters=0 if spec.tied_embedding else vocabulary,
            activation_bytes=kept_by_loss(call),
        )

    def _stack(
        self,
        place: str,
        tokens: int,
        attention: tuple[AttentionCost, ...],
        cross: tuple[AttentionCost, ...],
        output_bytes: int = 0,
    ) -> Iterator[PartCost]:
        """Yield the parts of a stack: positions, layers and the last norm."""
        spec, kept = self.call.spec, kept_outside_attention(self.call, tokens)
        at = f"{place.strip()}: " if place else ""
        if spec.learns_positions:
            yield PartCost(f"{at}positions", parameters=spec.context_length * spec.model_width)
        if spec.dropout:
            yield PartCost(f"{at}embedding dropout", activation_bytes=kept["embedding dropout"])
        norm, mlp = self._norm(kept["norm"]), self._mlp(tokens, kept["mlp"])
        for number, cost in enumerate(attention):
            block = _block(norm, mlp, cost, cross[number] if cross else None)
            if self.checkpointing:
                first, *others = _made_again(block)
                block = (replace(first, activation_bytes=self._stream(tokens)), *others)
            yield from (replace(part, name=f"{place}layer {number + 1}: {part.name}") for part in block)
        yield replace(norm, name=f"{at}final norm", activation_bytes=norm.activation_bytes + output_bytes)

    def held_going_backward(self, attention: AttentionCost, cross: AttentionCost | None) -> Cost:
        """Return a block with all that it keeps beyond its input, as it is during its backward pass."""
        tokens, kept = self.call.tokens, kept_outside_attention(self.call, self.call.tokens)
        block = _block(self._norm(kept["norm"]), self._mlp(tokens, kept["mlp"]), attention, cross)
        return Cost((replace(block[0], activation_bytes=kept["norm"] - self._stream(tokens)), *block[1:]))

    def _stream(self, tokens: int) -> int:
        """Return the bytes of the residual stream."""
        return self.call.batch * tokens * self.call.spec.model_width * self.call.bytes_per_number

    def _norm(self, kept: int) -> PartCost:
        spec = self.call.spec
        return PartCost("norm", parameters=spec.model_width * len(norm_vectors(spec)), activation_bytes=kept)

    def _mlp(self, tokens: int, kept: int) -> PartCost:
        spec = self.call.spec
        shapes = mlp_shapes(spec).values()
        maps = sum(outputs * inputs for outputs, inputs in shapes)
        biases = sum(outputs for outputs, _ in shapes) * spec.bias
        return _products("mlp", self.call.batch * tokens * maps, parameters=maps + biases, activation_bytes=kept)


def _block(
    norm: PartCost, mlp: PartCost, attention: AttentionCost, cross: AttentionCost | None
) -> tuple[PartCost, ...]:
    """Return the parts of one block in the order in which they compute."""
    parts = [replace(norm, name="attention norm"), attention.total("attention")]
    if cross is not None:
        seen = tuple(part for part in cross.parts if part.name != "source")
        parts += [replace(norm, name="cross-attention norm"), Cost(seen).total("cross-attention")]
    return (*parts, replace(norm, name="mlp norm"), mlp)


def _made_again(parts: tuple[PartCost, ...]) -> tuple[PartCost, ...]:
    """Return the same parts where they keep nothing, and repeat their forward pass in the backward pass."""
    return tuple(
        replace(part, activation_bytes=0, recomputed_flops=part.recomputed_flops + part.forward_flops) for part in parts
    )


def _products(name: str, multiply_adds: int, **others: int) -> PartCost:
    """Return a part whose products have gradients for both of their factors."""
    return PartCost(name, forward_flops=2 * multiply_adds, backward_flops=4 * multiply_adds, **others)
