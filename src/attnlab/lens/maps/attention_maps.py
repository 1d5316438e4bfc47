"""The attention weights of every layer and head of a model, whatever its variant.

    for layer in attention_maps(model, tokens):
        layer.weights                            (batch, heads, queries, keys), or None where the variant has no map

An encoder–decoder attends in three places: `of="self"` is the decoder's look at its own sequence, `of="encoder"` that
of the encoder, and `of="cross"` the decoder's look at what the encoder read.

Beside each attention layer the reference computes the weights from what goes into the layer. The model itself goes on
with its own kernel's output, so that looking changes no bit of any result; afterwards nothing is left on the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attnlab.attention import MultiHeadAttention, Visibility
from attnlab.attention.functional import for_every_query_head
from attnlab.errors import InputError, UnsupportedError
from attnlab.models import LanguageModel

Place = Literal["self", "encoder", "cross"]


@dataclass(frozen=True, eq=False)
class LayerMaps:
    """What one layer did with a batch: the weights, the keys as they were before positions and normalisation, and
    which keys each query may see by the spec's mask.

    Key heads that several query heads share are repeated for each of these. `weights` are None for an operator, and
    `keys` are None where the score uses none.
    """

    weights: Tensor | None  # (batch, heads, queries, keys)
    keys: Tensor | None  # (batch, heads, keys, width)
    visible: Tensor  # (queries, keys), True where the query sees the key
    padding: Tensor | None = None  # (batch, tokens), True for a real token
    crosses: bool = False  # whether the keys are another sequence's, as then the padding is

    @property
    def map(self) -> Tensor:
        """The weights of a layer that has some."""
        if self.weights is None:
            raise UnsupportedError("this layer has no attention map", hint="leave out layers whose weights are None")
        return self.weights

    @cached_property
    def pairs(self) -> Tensor:
        """Where a real query sees a real key, (batch or 1, 1, queries, keys)."""
        pairs = self.visible[None, None]
        if self.padding is None:
            return pairs
        pairs = pairs & self.padding[:, None, None, :]
        return pairs if self.crosses else pairs & self.padding[:, None, :, None]

    @cached_property
    def num_visible(self) -> Tensor:
        """How many keys each query sees, (batch or 1, 1, queries); 0 for a query that is padding."""
        return self.pairs.sum(-1)

    @cached_property
    def shares(self) -> Tensor:
        """The weights divided by their row's mass, so that a row sums to 1, (batch, heads, queries, keys).

        Not a number in a row that has no mass. Where a normaliser gives weights below 0, sizes count.
        """
        sizes = self.map.abs()
        return sizes / sizes.sum(-1, keepdim=True)


See = Callable[[int, LayerMaps], None]


def attention_maps(
    model: LanguageModel,
    tokens: Tensor,
    *,
    padding: Tensor | None = None,
    source: Tensor | None = None,
    source_padding: Tensor | None = None,
    of: Place = "self",
) -> list[LayerMaps]:
    """The maps of every layer for tokens (batch, tokens), by default of the model's attention to its own sequence.

    An encoder–decoder needs its `source`.
    """
    found: list[LayerMaps] = []
    others: dict[str, Any] = {"padding": padding, "source": source, "source_padding": source_padding, "of": of}
    look(model, tokens, lambda _, maps: found.append(maps), **others)
    return found


def places(model: LanguageModel) -> tuple[Place, ...]:
    """Where this model attends."""
    return ("self",) if model.encoder is None else ("encoder", "self", "cross")


def look(
    model: LanguageModel,
    tokens: Tensor,
    see: See,
    *,
    padding: Tensor | None = None,
    source: Tensor | None = None,
    source_padding: Tensor | None = None,
    of: Place = "self",
) -> None:
    """Call `see(layer, maps)` for each layer in turn; maps that it does not keep are freed before the next layer."""
    check_tokens(model, tokens)
    layers = attention_layers(model, of)
    device = model.embedding.weight.device
    padding, source, source_padding = (
        None if tensor is None else tensor.to(device) for tensor in (padding, source, source_padding)
    )
    with evaluating(model), _watched(layers, see):
        model.hidden(tokens.to(device), padding=padding, source=source, source_padding=source_padding)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """The model set to evaluate and without gradients; afterwards every part of it is as it was."""
    flags = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, flag in flags:
            module.training = flag


def attention_layers(model: LanguageModel, of: Place) -> list[Any]:
    """The attention of each layer in that place."""
    if of not in places(model):
        raise InputError(
            f"a model of the family {model.spec.family} has no attention called {of!r}",
            hint=f"there is {', '.join(places(model))}",
        )
    blocks: Any = model.stack.blocks if model.encoder is None or of != "encoder" else model.encoder.blocks
    return [block.cross_attention if of == "cross" else block.attention for block in blocks]


@contextmanager
def _watched(layers: list[Any], see: See) -> Iterator[None]:
    with ExitStack() as stack:
        for number, attention in enumerate(layers):
            stack.enter_context(attention.register_forward_hook(partial(_observe, number, see), with_kwargs=True))
        yield


def _observe(
    number: int,
    see: See,
    layer: MultiHeadAttention,
    arguments: tuple[Tensor, ...],
    keywords: Mapping[str, Any],
    output: Tensor,
) -> None:
    """What is returned is the layer's output from now on; None leaves it as it is."""
    del output
    x, padding = arguments[0], keywords.get("padding")
    source = arguments[1] if len(arguments) > 1 else None
    weights = None
    if layer.spec.has_map:
        # `forward` itself, since calling the layer would call this hook again.
        _, weights = layer.forward(x, source, padding=padding, return_weights=True)
        weights = weights.to(torch.promote_types(weights.dtype, torch.float32))  # long sums are taken of them
    seen = x if source is None else source
    visible = Visibility(layer.spec.mask, x.shape[1], seen.shape[1]).grid(x.device)[0, 0]
    see(number, LayerMaps(weights, _keys(layer, seen), visible, padding, source is not None))


def _keys(layer: MultiHeadAttention, x: Tensor) -> Tensor | None:
    """The key vectors that tokens (batch, tokens, model width) have, before they are turned or normalised."""
    spec = layer.spec
    if not spec.score.projects_key:
        return None
    if spec.sharing != "identity":  # where the tokens themselves are the keys
        x = layer.projections["key" if "key" in layer.projections else "query"](x)
    batch, tokens, _ = x.shape
    heads = x.view(batch, tokens, spec.num_key_value_heads, spec.key_width).transpose(1, 2)
    return for_every_query_head(heads, spec)


def check_tokens(model: LanguageModel, tokens: Tensor) -> None:
    """Refuse what the embedding would refuse without saying why."""
    if tokens.numel() == 0:
        raise InputError(f"tokens of shape {tuple(tokens.shape)} hold none to look at", hint="give one or more")
    low, high, size = int(tokens.min()), int(tokens.max()), model.spec.vocabulary_size
    if low < 0 or high >= size:
        raise InputError(
            f"the tokens lie between {low} and {high}, and the model knows 0 to {size - 1}",
            hint="encode the text with the tokenizer that the model was trained with",
        )
