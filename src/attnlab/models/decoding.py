"""Fast decoding of one sequence, one token at a time, on a CPU: the same numbers as the model, with less overhead.

For a single token, the matrix products read every weight once and take most of the time; the rest is the overhead of
launching a few hundred small operations. So the forward pass is planned once: every result has a fixed buffer, the
projections of a layer are one product, and the product that ends a branch adds to the residual stream itself. It
supports ordinary layers, layers whose values are their keys (which cache one vector per token, rotated by RoPE whenever
it is read as a key), and layers with a window, which cache the last tokens. `TokenDecoder.serves` checks a model.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.attention import AttentionSpec, MultiHeadAttention, attend
from attnlab.attention.layer import projection_widths
from attnlab.attention.linear import PIECES, in_pieces, linear
from attnlab.attention.parts.normalisers import Softmax
from attnlab.attention.parts.positions import Rope
from attnlab.attention.parts.scores import ScaledDot
from attnlab.models.blocks import RMSNorm, TransformerBlock
from attnlab.models.language_model import LanguageModel, ModelCache
from attnlab.models.mlp import ACTIVATIONS
from attnlab.models.taps import is_tapped

_TIED = "key-value"


class TokenDecoder:
    """A model that has read a prompt and continues token by token."""

    def __init__(self, model: LanguageModel, cache: ModelCache, most: int | None = None) -> None:
        """Continue from a cache, up to `most` tokens in all; by default as many as the context has."""
        self.model = model
        self.length = cache.length
        room = min(most or model.spec.context_length, model.spec.context_length)
        self.residual = model.embedding.weight.new_empty(1, 1, model.spec.model_width)
        held = [layer.own.held for layer in cache.layers]
        windows = [spec.mask.window for spec in model.spec.attention]
        self.held = {
            window: _Held([of for of, its in zip(held, windows, strict=True) if its == window], window, room)
            for window in set(windows)
        }
        rotations = {
            (spec.position, spec.key_width): _rotation(spec, room, self.residual) for spec in set(model.spec.attention)
        }
        self.layers = [
            _Layer(block, spec, self.residual, rotations[spec.position, spec.key_width])  # type: ignore[arg-type]
            for block, spec in zip(model.stack.blocks, model.spec.attention, strict=True)
        ]

    @staticmethod
    def serves(model: LanguageModel) -> bool:
        """Return whether this is an untapped float32 decoder on the CPU, whose layers are ordinary and of one shape."""
        shapes = {(spec.num_key_value_heads, spec.key_width, spec.value_width) for spec in model.spec.attention}
        weight = model.embedding.weight
        return (
            model.spec.family == "decoder"
            and not is_tapped(model)
            and weight.is_cpu
            and weight.dtype == torch.float32
            and model.spec.model_width % PIECES == 0
            and model.spec.mlp_width % PIECES == 0
            and len(shapes) == 1
            and all(_is_ordinary(spec) for spec in model.spec.attention)
        )

    def read(self, token: int) -> Tensor:
        """Read `token` and return the logits (1, vocabulary) of the next one."""
        model = self.model
        self.residual.copy_(model.embedding.weight[token])
        if model.stack.positions is not None:
            self.residual.add_(model.stack.positions.weight[self.length])
        rooms = {window: held.add() for window, held in self.held.items()}
        for layer in self.layers:
            keys, values = rooms[layer.spec.mask.window]
            layer.advance(self.length, (None, None) if layer.tied else next(keys), next(values))
        self.length += 1
        return linear(model.stack.norm(self.residual), model.head_weight)[0]


def _is_ordinary(spec: AttentionSpec) -> bool:
    projected = spec.score.projects_query and spec.score.projects_key and spec.sharing in {"none", _TIED}
    shaped = spec.value_map == "factored" and spec.join == "projection"
    made = sum(projection_widths(spec).values())
    cut = made % PIECES == 0 and spec.num_heads * spec.value_width % PIECES == 0
    plain = (
        spec.operator is None
        and spec.head_output is None
        and spec.compression is None
        and spec.values is None
        and spec.layer is None
        and not spec.projections
    )
    mask = spec.mask
    windowed = mask.first is None and mask.prefix is None and not spec.biased  # the cache alone decides what is visible
    return projected and shaped and cut and plain and (mask.window is None or windowed)


class _Layer:
    """A block, laid out for one token. Vectors have the shape (1, 1, width)."""

    def __init__(
        self, block: TransformerBlock, spec: AttentionSpec, residual: Tensor, rotation: _Rotation | None
    ) -> None:
        attention, mlp = block.attention, block.mlp
        assert isinstance(attention, MultiHeadAttention)
        assert attention.output is not None
        self.spec, self.residual, self.activate = spec, residual, _activation(mlp.activation)
        self.attention_norm, self.mlp_norm = _norm(block.attention_norm), _norm(block.mlp_norm)
        self.tied = spec.sharing == _TIED
        names = ("query", "key") if self.tied else ("query", "key", "value")
        parts: list[Any] = [attention.projections[name] for name in names]
        widths = [part.weight.shape[0] for part in parts]
        self.made = residual.new_empty(1, 1, sum(widths))
        heads = (spec.num_heads, spec.num_key_value_heads, spec.num_key_value_heads)[: len(names)]
        self.query, self.key, *value = (
            part.view(1, count, 1, -1) for part, count in zip(torch.split(self.made[0, 0], widths), heads, strict=True)
        )
        self.value = self.key if self.tied else value[0]
        self.both = self.made[0, 0, : sum(widths[:2])].view(1, sum(heads[:2]), 1, -1)  # queries and keys
        weight = torch.cat([part.weight for part in parts])
        bias = torch.cat([part.bias for part in parts]) if spec.bias else None
        self.project = _Product(weight, bias, self.made)
        self.put = _Product(attention.output.weight, attention.output.bias, residual, adds=True)
        self.before = residual.new_empty(1, 1, mlp.widen.weight.shape[0])
        self.widen = _Product(mlp.widen.weight, mlp.widen.bias, self.before)
        self.opening = torch.empty_like(self.before)
        self.gate = None if mlp.gate is None else _Product(mlp.gate.weight, mlp.gate.bias, self.opening)
        self.narrow = _Product(mlp.narrow.weight, mlp.narrow.bias, residual, adds=True)
        self.extras = attention.learned(residual)
        self.plain = isinstance(spec.score, ScaledDot) and isinstance(spec.normaliser, Softmax)
        self.plain = self.plain and not spec.biased
        self.rotation = rotation

    def advance(self, position: int, for_key: _Place | tuple[None, None], for_value: _Place) -> None:
        """Add the output of this block for the token at `position` to the residual stream.

        A layer whose values are its keys has no buffer for keys.
        """
        (new_key, keys), (new_value, values) = for_key, for_value
        self.project(self.attention_norm(self.residual))
        query, key, rotation = self.query, self.key, self.rotation
        new_value.copy_(self.value)
        if keys is None or new_key is None:
            keys = values if rotation is None else rotation.up_to(values, position)
            query = query if rotation is None else rotation.at(query, position)
        else:
            if rotation is not None:
                query, key = rotation.at(self.both, position).split_with_sizes((query.shape[1], key.shape[1]), 1)
            new_key.copy_(key)
        if self.plain:  # the query heads of a group are queries of the key head that they share
            out = F.scaled_dot_product_attention(query.view(1, keys.shape[1], -1, query.shape[-1]), keys, values)
        else:
            out = attend(query, keys, values, self.spec, query_start=keys.shape[2] - 1, extras=self.extras)
        self.put(out.view(1, 1, -1))
        read = self.mlp_norm(self.residual)
        self.widen(read)
        if self.gate is None:
            self.narrow(self.activate(self.before))
        else:
            self.gate(read)
            self.narrow(self.activate(self.opening).mul_(self.before))


class _Product:
    """y ← W x + b, always into the same buffer; y ← y + W x + b if `adds`."""

    def __init__(self, weight: Tensor, bias: Tensor | None, y: Tensor, *, adds: bool = False) -> None:
        self.weight = in_pieces(weight.detach())
        self.bias = None if bias is None else bias.detach().view(PIECES, 1, -1)
        self.y, self.adds = y.view(PIECES, 1, -1), adds

    def __call__(self, x: Tensor) -> None:
        x = x.expand(PIECES, 1, -1)
        if self.adds:
            if self.bias is not None:
                self.y.add_(self.bias)
            self.y.baddbmm_(x, self.weight)
        elif self.bias is None:
            torch.bmm(x, self.weight, out=self.y)
        else:
            torch.baddbmm(self.bias, x, self.weight, out=self.y)


def _norm(module: nn.Module) -> Callable[[Tensor], Tensor]:
    """Return a norm as a function, without the overhead of its module."""
    if isinstance(module, RMSNorm):
        return module.forward
    assert isinstance(module, nn.LayerNorm)
    shape, weight, epsilon = module.normalized_shape, module.weight.detach(), module.eps
    bias: Tensor | None = module.bias
    return lambda x: torch.layer_norm(x, shape, weight, bias, epsilon)


def _activation(name: str) -> Callable[[Tensor], Tensor]:
    """Return φ for a single row, where one slow operation takes less time than several fast ones."""
    if name == "gelu-tanh":
        return functools.partial(F.gelu, approximate="tanh")
    return ACTIVATIONS[name].apply


_Place = tuple[Tensor, Tensor]  # of one token, and of all cached tokens that it attends to: (1, heads, tokens, width)


class _Held:
    """The cache of layers with the same window: all tokens, or the last ones, in a buffer of up to two windows."""

    def __init__(self, held: Sequence[Mapping[str, Tensor]], window: int | None, most: int) -> None:
        known: int = held[0]["key"].shape[2]
        self.window, self.count = window, known if window is None else min(known, window - 1)
        self.length = most if window is None else min(most, 2 * window)
        keys = [of["key"] for of in held if "value" in of]  # without a value, the key is the value
        self.keys = self._room(keys) if keys else None
        self.values = self._room([of.get("value", of["key"]) for of in held])

    def _room(self, held: Sequence[Tensor]) -> Tensor:
        """Return what each layer holds, in a buffer with space for more: (layers, 1, heads, length, width)."""
        _, heads, tokens, width = held[0].shape
        room = held[0].new_empty(len(held), 1, heads, self.length, width)
        for own, known in zip(room, held, strict=True):
            own[:, :, : self.count] = known[:, :, tokens - self.count :]
        return room

    def add(self) -> tuple[Iterator[_Place], Iterator[_Place]]:
        """Make space for a token; return its slots among the keys and among the values, for one layer after another."""
        if self.count == self.length:
            self._forget()
        place, self.count = self.count, self.count + 1
        return iter(() if self.keys is None else self._places(self.keys, place)), self._places(self.values, place)

    def _places(self, room: Tensor, place: int) -> Iterator[_Place]:
        # For all layers at once: creating a view takes as long as a small product.
        first = 0 if self.window is None else max(0, place + 1 - self.window)
        return zip(room.narrow(3, place, 1).unbind(), room.narrow(3, first, place + 1 - first).unbind(), strict=True)

    def _forget(self) -> None:
        """Move the tokens that the next one sees to the front."""
        assert self.window is not None
        kept = self.window - 1
        for room in (self.keys, self.values):
            if room is not None:
                room.narrow(3, 0, kept).copy_(room.narrow(3, self.length - kept, kept))
        self.count = kept


class _Rotation:
    """RoPE from a precomputed table of cosines and sines."""

    def __init__(self, rope: Rope, width: int, length: int, like: Tensor) -> None:
        self.half = width // 2
        ones = torch.cat([like.new_ones(self.half), like.new_zeros(self.half)])
        rotated = rope.rotate(ones.expand(1, 1, length, -1), 0)[0, 0]  # (cos, sin) of each position
        self.cosines, self.sines = (part.repeat(1, 2) for part in rotated.chunk(2, dim=-1))
        self.sines[:, : self.half].neg_()

    def at(self, vectors: Tensor, position: int) -> Tensor:
        """Rotate vectors (1, heads, 1, width) to a position."""
        return self._rotated(vectors, self.cosines[position], self.sines[position])

    def up_to(self, vectors: Tensor, position: int) -> Tensor:
        """Rotate vectors (1, heads, tokens, width), of which the last is at a position, the others right before it."""
        places = slice(position + 1 - vectors.shape[2], position + 1)
        return self._rotated(vectors, self.cosines[places], self.sines[places])

    def _rotated(self, vectors: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
        return torch.addcmul(vectors * cosines, vectors.roll(self.half, -1), sines)


def _rotation(spec: AttentionSpec, length: int, like: Tensor) -> _Rotation | None:
    return _Rotation(spec.position, spec.key_width, length, like) if isinstance(spec.position, Rope) else None
