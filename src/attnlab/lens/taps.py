"""Taps: the attention weights of every layer and head of a model, of any variant, and what each head writes.

    for layer in attention_maps(model, tokens):
        layer.weights                            (batch, heads, queries, keys), or None where the variant has no map

An encoder–decoder attends in three places: `of="self"` is the decoder's attention to its own sequence, `of="encoder"`
that of the encoder, and `of="cross"` the decoder's attention to what the encoder read. It needs its source: give a
`Batch`, or `Inputs(tokens, source=…)`, instead of tokens.

The reference recomputes the weights of each attention layer from the layer's input. The model itself continues with the
output of its own kernel, so that observing it changes no bit of any result; afterwards no hook is left on the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from operator import itemgetter
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attnlab.attention import AttentionSpec, MultiHeadAttention, Visibility, WholeLayer
from attnlab.attention.groups import for_every_query_head
from attnlab.corpora import Batch
from attnlab.errors import InputError, UnsupportedError
from attnlab.models import LanguageModel

Place = Literal["self", "encoder", "cross"]
_MOST_WEIGHTS = 1 << 24  # of one layer that are computed together


@dataclass(frozen=True, eq=False)
class Inputs:
    """What a model reads: tokens, and for an encoder–decoder the source. Padding is True for real tokens."""

    tokens: Tensor  # (texts, tokens)
    padding: Tensor | None = None  # (texts, tokens)
    source: Tensor | None = None  # (texts, source tokens)
    source_padding: Tensor | None = None

    @classmethod
    def of(cls, given: Given) -> Inputs:
        """Convert tokens or a batch to inputs; return inputs as they are."""
        if isinstance(given, Batch):
            return cls(given.inputs, source=given.source, source_padding=given.source_padding)
        return cls(given) if isinstance(given, Tensor) else given

    def change(self, function: Callable[[Tensor], Tensor]) -> Inputs:
        """Return inputs with every tensor changed."""
        tensors = (self.padding, self.source, self.source_padding)
        return Inputs(function(self.tokens), *(None if one is None else function(one) for one in tensors))

    def parts(self, rows: int) -> Iterator[Inputs]:
        """Yield the inputs some rows at a time."""
        rows = max(1, rows)
        for start in range(0, len(self.tokens), rows):
            yield self.change(itemgetter(slice(start, start + rows)))

    def read(self, model: LanguageModel) -> Tensor:
        """Run the model up to its head, on its own device: (texts, tokens, model width)."""
        check_tokens(model, self.tokens)
        here = self.change(lambda one: one.to(model.embedding.weight.device))
        return model.hidden(here.tokens, padding=here.padding, source=here.source, source_padding=here.source_padding)

    def few_weights(self, model: LanguageModel, of: Place) -> Iterator[Inputs]:
        """Yield the inputs a few rows at a time, so that one layer's weights fit in memory."""
        longest = max(self.tokens.shape[1], 0 if self.source is None else self.source.shape[1])
        heads = max(1, *(layer.spec.observed_heads for layer in attention_layers(model, of)))
        yield from self.parts(_MOST_WEIGHTS // (heads * longest**2))


Given = Tensor | Batch | Inputs


@dataclass(frozen=True, eq=False)
class LayerMaps:
    """The attention of one layer on a batch: the weights, the keys before positions and normalisation, and which keys
    each query sees by the spec's mask.

    Key heads that several query heads share are repeated for each of these. `weights` is None for an operator and for
    a user-defined layer, and `keys` is None where there are none.
    """

    weights: Tensor | None  # (batch, heads, queries, keys)
    keys: Tensor | None  # (batch, heads, keys, width)
    visible: Tensor  # (queries, keys), True where the query sees the key
    padding: Tensor | None = None  # (batch, tokens), True for a real token
    crosses: bool = False  # whether keys and padding are those of another sequence

    @property
    def map(self) -> Tensor:
        """Return the weights of a layer that has some."""
        if self.weights is None:
            raise UnsupportedError("this layer has no attention map", hint="leave out layers whose weights are None")
        return self.weights

    @cached_property
    def pairs(self) -> Tensor:
        """Return where a real query sees a real key, (batch or 1, 1, queries, keys)."""
        pairs = self.visible[None, None]
        if self.padding is None:
            return pairs
        pairs = pairs & self.padding[:, None, None, :]
        return pairs if self.crosses else pairs & self.padding[:, None, :, None]

    @cached_property
    def num_visible(self) -> Tensor:
        """Return how many keys each query sees, (batch or 1, 1, queries); 0 for a query that is padding."""
        return self.pairs.sum(-1)

    @cached_property
    def shares(self) -> Tensor:
        """Return the weights divided by their row's mass, so that a row sums to 1, (batch, heads, queries, keys).

        NaN in a row without mass. Weights below 0 count by their absolute value.
        """
        sizes = self.map.abs()
        return sizes / sizes.sum(-1, keepdim=True)


See = Callable[[int, LayerMaps], None]
Progress = Callable[[str], None]  # called with a description of the next step


def silent(step: str) -> None:
    """Show no progress."""
    del step


def attention_maps(model: LanguageModel, inputs: Given, *, of: Place = "self") -> list[LayerMaps]:
    """Return the maps of every layer, by default of the model's attention to its own sequence.

    Parameters
    ----------
    model
        The model.
    inputs
        Tokens (rows, tokens), or a batch; all rows are of one length.
    of
        Which attention: `self`, `cross` or `encoder`.
    """
    found: list[LayerMaps] = []
    look(model, inputs, lambda _, maps: found.append(maps), of=of)
    return found


def places(model: LanguageModel) -> tuple[Place, ...]:
    """Return the places where this model attends."""
    return ("self",) if model.encoder is None else ("encoder", "self", "cross")


def attention_specs(model: LanguageModel) -> tuple[AttentionSpec, ...]:
    """Return the specs of all attention layers, in every place."""
    return (*model.spec.attention, *model.spec.encoder_attention, *model.spec.cross_attention)


def look(model: LanguageModel, inputs: Given, see: See, *, of: Place = "self") -> None:
    """Call `see(layer, maps)` for each layer in turn; maps that it does not keep are freed before the next layer.

    Parameters
    ----------
    model
        The model.
    inputs
        Tokens (rows, tokens), or a batch; all rows are of one length.
    see
        Called with the number of each layer and its maps.
    of
        Which attention: `self`, `cross` or `encoder`.
    """
    layers = attention_layers(model, of)
    with evaluating(model), ExitStack() as stack:
        for number, attention in enumerate(layers):
            stack.enter_context(attention.register_forward_hook(partial(_observe, number, see), with_kwargs=True))
        Inputs.of(inputs).read(model)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Set the model to eval mode, without gradients; afterwards restore the mode of every module."""
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, flag in flags:
            module.training = flag


def attention_layers(model: LanguageModel, of: Place) -> list[Any]:
    """Return the attention of each layer in that place."""
    if of not in places(model):
        raise InputError(
            f"a model of the family {model.spec.family} has no attention called {of!r}",
            hint=f"there is {', '.join(places(model))}",
        )
    blocks: Any = model.stack.blocks if model.encoder is None or of != "encoder" else model.encoder.blocks
    return [block.cross_attention if of == "cross" else block.attention for block in blocks]


def _observe(
    number: int,
    see: See,
    layer: MultiHeadAttention | WholeLayer,
    arguments: tuple[Tensor, ...],
    keywords: Mapping[str, Any],
    output: Tensor,
) -> None:
    """Observe a layer; a hook that returns None leaves the layer's output as it is."""
    del output
    x, padding = arguments[0], keywords.get("padding")
    source = arguments[1] if len(arguments) > 1 else None
    weights = None
    if isinstance(layer, MultiHeadAttention) and layer.spec.has_map:
        # `forward` itself, since calling the layer would call this hook again.
        _, weights = layer.forward(x, source, padding=padding, return_weights=True)
        weights = weights.to(torch.promote_types(weights.dtype, torch.float32))  # long sums need the precision
    seen = x if source is None else source
    visible = Visibility(layer.spec.mask, x.shape[1], seen.shape[1]).grid(x.device)[0, 0]
    see(number, LayerMaps(weights, _keys(layer, seen), visible, padding, source is not None))


def _keys(layer: MultiHeadAttention | WholeLayer, x: Tensor) -> Tensor | None:
    """Return the key vectors of tokens (batch, tokens, model width), before they are rotated or normalised.

    The rotary part of a key from a latent is rotated, because it is cached like this.
    """
    spec = layer.spec
    if isinstance(layer, WholeLayer) or not spec.score.projects_key:
        return None
    if spec.compression is not None:
        return layer.project(x, x if spec.source == "cross" else None)[1]
    if spec.sharing != "identity":  # where the tokens themselves are the keys
        x = layer.projections["key" if "key" in layer.projections else "query"](x)
    batch, tokens, _ = x.shape
    heads = x.view(batch, tokens, spec.num_key_value_heads, spec.key_width).transpose(1, 2)
    return for_every_query_head(heads, spec)


def check_tokens(model: LanguageModel, tokens: Tensor) -> None:
    """Refuse tokens for which the embedding would fail without a clear message."""
    if tokens.numel() == 0:
        raise InputError(f"tokens of shape {tuple(tokens.shape)} hold none to look at", hint="give one or more")
    low, high, size = int(tokens.min()), int(tokens.max()), model.spec.vocabulary_size
    if low < 0 or high >= size:
        raise InputError(
            f"the tokens lie between {low} and {high}, and the model knows 0 to {size - 1}",
            hint="encode the text with the tokenizer that the model was trained with",
        )


# What heads write


def head_outputs(layer: MultiHeadAttention, heads: Tensor) -> Tensor:
    """Return what each head adds to the residual path, (batch, heads, tokens, model width), from its values.

        W_O (o_1, …, o_H) + b  =  Σ_h W_O[:, h] o_h  +  b         W_O[:, h] the columns of the head's values

    `heads` are (batch, heads, tokens, value width). If heads are averaged, every head uses all of W_O, times
    1 / H; with a full value map there is no W_O. The sum over heads lacks only the bias.
    """
    spec = layer.spec
    share = 1 / spec.num_heads if spec.join == "average" else 1.0
    if layer.output is None:
        return heads * share
    weight = layer.output.weight
    if spec.join == "average":
        return heads @ weight.t() * share
    slices = weight.view(spec.model_width, spec.num_heads, spec.value_width)
    return torch.einsum("bhtv,dhv->bhtd", heads, slices)


def output_bias(layer: MultiHeadAttention) -> Tensor | None:
    """Return the bias that the layer adds to every token besides its heads, (model width,), or None."""
    return None if layer.output is None else layer.output.bias
