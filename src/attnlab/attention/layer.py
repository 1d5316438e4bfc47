"""Multi-head attention as a layer: projections, positions, attention, and the output projection.

    q = x W_Q,  k = y W_K,  v = y W_V        y is x, or the other sequence in cross-attention
    o_h = attend(q_h, k_h, v_h)              for each head h; the head output may gate, norm or mix them
    out = (o_1, …, o_H) W_O                  or the mean of the heads; full value maps are summed without W_O

Each projection is computed for all heads at once; `sharing` in the spec omits some of them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, ClassVar, NoReturn

import torch
from torch import Tensor, nn

from attnlab.attention import latent
from attnlab.attention.cache import Cache
from attnlab.attention.declarations import check_declarations
from attnlab.attention.functional import attend, check_tokens, finish
from attnlab.attention.groups import for_every_query_head
from attnlab.attention.linear import Linear, in_heads, together
from attnlab.attention.observer import Observed, Observer
from attnlab.attention.parts.masks import Visibility
from attnlab.attention.parts.operators import full_precision
from attnlab.attention.parts.positions import Rope
from attnlab.attention.parts.values import FirstValues
from attnlab.attention.spec import AttentionSpec
from attnlab.errors import InputError, UnsupportedError

_INSIDE = ("query", "key", "value", "weights")


class MultiHeadAttention(Observed):
    """Multi-head attention as its spec defines it."""

    reported: ClassVar[tuple[str, ...]] = (*_INSIDE, "heads")

    def __init__(self, spec: AttentionSpec) -> None:
        super().__init__()
        if spec.layer is not None:
            raise UnsupportedError(
                f"the layer {spec.layer} is no multi-head attention", hint="use attnlab.attention.make_layer(spec)"
            )
        self.spec = spec
        self.rope = spec.position if isinstance(spec.position, Rope) else None
        self.tied = spec.sharing in {"key-value", "query-key-value", "identity"}  # the value is the key
        self.projections = nn.ModuleDict(
            {name: Linear(columns, rows, bias) for name, (rows, columns, bias) in projection_shapes(spec).items()}
        )
        inner = output_width(spec)
        self.output = None if inner is None else Linear(inner, spec.model_width, spec.bias)
        check_declarations(spec)
        self.extras = nn.ParameterDict(
            {
                name: nn.Parameter(torch.empty(parameter.stored_shape(spec.num_heads)))
                for name, parameter in spec.parameters.items()
            }
        )
        if spec.projections:  # most layers have none, and skip the empty module
            self.token_maps = nn.ModuleDict(
                {
                    name: Linear(spec.model_width, projection.columns(spec.num_heads), bias=False)
                    for name, projection in spec.projections.items()
                }
            )
        self.lenders: dict[str, MultiHeadAttention] = {}  # by parameter, the layer that holds it for the whole model
        self.dropout = nn.Dropout(spec.output_dropout)
        self.drops = spec.output_dropout > 0
        self.reset_parameters()

    def reset_parameters(self, std: float = 0.02) -> None:
        """Initialise as GPT-2: normal weights, zero biases; the parameters of the parts as these declare."""
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=std)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        for name, tensor in self.extras.items():
            parameter = self.spec.parameters[name]
            nn.init.normal_(tensor, parameter.initial, parameter.std)

    def borrow(self, lender: MultiHeadAttention) -> None:
        """Use the parameters of another layer where they belong to the whole model and to the same kind of part."""
        for name, declared in self.spec.of_model.items():
            if lender.spec.of_model.get(name) == declared and name in self.extras:
                self.lenders[name] = lender
                del self.extras[name]

    def forward(
        self,
        x: Tensor,
        source: Tensor | None = None,
        *,
        padding: Tensor | None = None,
        visible: Tensor | None = None,
        cache: Cache | None = None,
        first_values: FirstValues | None = None,
        return_weights: bool = False,
    ) -> Tensor | tuple[Tensor, Tensor]:
        """Map (batch, tokens, model width) to the same; `return_weights` adds weights (batch, heads, queries, keys).

        `source` is the other sequence of cross-attention; with a cache it is needed only once. `padding` is True for
        the real tokens among the keys, including those in the cache. `first_values` are passed through all layers of a
        model, for layers that mix in the values of the first one. Weights are computed by the reference.
        """
        check_tokens(self.spec, x, source, cache)
        spec, observer = self.spec, self.observer
        if spec.compression is not None and cache is not None:
            if observer is not None and observer.wants(*_INSIDE):
                _refuse_taps()
            heads, weights = latent.decode(self, x, source, cache, padding, visible, return_weights)
            output = self._join(heads)
            return output if weights is None else (output, weights)
        first = 0 if cache is None or spec.source == "cross" else cache.length
        query, key, value = self._project(x, source, self.holds_source(cache))
        extras = self.learned(x, source)
        if observer is not None and observer.wants(*_INSIDE):
            query, key, value = _report_vectors(observer, query, key, value, cache)
        value = self._mixed(value, extras, first_values)
        if spec.operator is not None and spec.operator.keeps_state and cache is not None and spec.source == "self":
            if visible is not None:
                raise InputError(
                    f"the operator {spec.operator} does not accept your own mask", hint="give padding instead"
                )
            return self._join(self._decode(query, key, value, cache, padding, return_weights, extras))
        query, key, value = self.place(query, key, value, cache, extras)
        start = 0 if cache is None else cache.start
        call = functools.partial(
            attend,
            query,
            key,
            value,
            spec,
            num_queries=x.shape[1],
            query_start=first - start,
            extras=extras,
            padding=padding if padding is None or cache is None else cache.of_held(padding),
            visible=visible,
        )
        weights = None
        if observer is not None and observer.wants("weights"):
            weights = observer.offer("weights", call(return_weights=True)[1])
        if weights is not None:
            summed = weights.to(value.dtype) @ for_every_query_head(value, spec)
            heads = finish(summed, spec, extras, value, first - start)
        elif return_weights:
            heads, weights = call(training=self.training, return_weights=True)
        else:
            heads = call(training=self.training)
        output = self._join(heads)
        return (output, weights) if return_weights and weights is not None else output

    def project(self, x: Tensor, source: Tensor | None = None) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """Return queries, keys and values, each (batch, heads, tokens, width), before the position `rope` is applied.

        Vectors that share a projection are the same tensor; those that the score does not use are None.
        """
        check_tokens(self.spec, x, source, None)
        query, key, value = self._project(x, source)
        value = self._mixed(value, self.learned(x, source), None)
        assert value is not None
        return query, key, value

    def _mixed(
        self, value: Tensor | None, extras: Mapping[str, Tensor], first_values: FirstValues | None
    ) -> Tensor | None:
        """Return the values mixed with those of the first layer, which may be this layer itself."""
        spec = self.spec
        if spec.values is None or value is None:
            return value
        first = value if first_values is None else first_values.setdefault(spec.values_key, value)
        return spec.values.mix(value, first, **spec.own(spec.values, extras))

    def learned(self, x: Tensor, source: Tensor | None = None) -> dict[str, Tensor]:
        """Return the parameters of the parts, and their projections of these tokens, by the layer's names."""
        found: dict[str, Tensor] = dict(self.extras.items())
        for name, lender in self.lenders.items():
            found[name] = lender.extras[name]
        for name, projection in self.spec.projections.items():
            tokens = x if source is None or projection.of == "query" else source
            found[name] = in_heads(self.token_maps[name](tokens), projection.width)
        return found

    def place(
        self,
        query: Tensor | None,
        key: Tensor | None,
        value: Tensor | None,
        cache: Cache | None = None,
        extras: dict[str, Tensor] | None = None,
    ) -> tuple[Tensor | None, Tensor | None, Tensor]:
        """Return the vectors as attention takes them: rotated by position, with the cached keys and values in front.

        Where the value is the key, the cache keeps one unrotated vector, which is rotated when it is read as a key.
        """
        rope, start = self.rope, 0 if cache is None else cache.length
        late = self.tied and cache is not None
        if rope is not None:
            assert query is not None
            query = rope.rotate(query, start)
            if not late:
                assert key is not None
                key = rope.rotate(key, start)
        if cache is not None:
            held = self.remember(cache, {"key": key} if self.tied else {"key": key, "value": value}, extras)
            key, value = held.get("key"), held["key" if self.tied else "value"]
            if late and rope is not None:
                key = _rotated_late(rope, value, cache)
        assert value is not None
        return query, key, value

    def remember(
        self, cache: Cache, new: Mapping[str, Tensor | None], extras: dict[str, Tensor] | None
    ) -> dict[str, Tensor]:
        """Add tokens to a cache, unless it already holds the other sequence, and return all cached tensors.

        The parts' projections of the attended tokens are cached, too, and updated in `extras`.
        """
        if self.holds_source(cache):
            held = cache.held
        else:
            added = {name: tensor for name, tensor in new.items() if tensor is not None}
            for name, projection in self.spec.projections.items():
                if extras is not None and projection.of == "key":
                    added[name] = extras[name]
            window = self.spec.mask.window
            held = cache.append(added, None if window is None else window - 1, self.spec.mask.first or 0)
        if extras is not None:
            extras.update({name: tensor for name, tensor in held.items() if name in extras})
        return held

    def _project(
        self, x: Tensor, source: Tensor | None, only_query: bool = False
    ) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        if self.spec.compression is not None:
            return latent.vectors(self, x, x if source is None else source)
        made, tokens = self._made(x), x if source is None else source
        query = self._projected("query", x, made)
        if only_query:
            return query, None, None
        same = source is None and _SERVED_BY[self.spec.sharing].get("key") == "query"
        key = query if same else self._projected("key", tokens, made)
        return query, key, key if self.tied else self._projected("value", tokens, made)

    def _made(self, x: Tensor) -> dict[str, Tensor]:
        """Return the projections of x by name, in heads; none in cross-attention, where not all are of x."""
        spec = self.spec
        if spec.source == "cross":
            return {}
        maps: dict[str, Any] = dict(self.projections.items())
        widths = [spec.value_width if name == "value" else spec.key_width for name in maps]
        return dict(zip(maps, together(x, [*maps.values()], widths), strict=True))

    def _projected(self, name: str, tokens: Tensor, made: dict[str, Tensor]) -> Tensor | None:
        """Return queries, keys or values, (batch, heads, tokens, width); None where the score needs none."""
        spec = self.spec
        if name == "query":
            width, wanted = spec.key_width, spec.score.projects_query
        elif name == "key":
            width, wanted = spec.key_width, spec.score.projects_key
        else:
            width, wanted = spec.value_width, True
        if not wanted:
            return None
        if spec.sharing != "identity":
            server = _SERVED_BY[spec.sharing].get(name, name)
            if server in made:
                return made[server]
            tokens = self.projections[server](tokens)
        return in_heads(tokens, width)

    def holds_source(self, cache: Cache | None) -> bool:
        """Return whether the cache holds the keys and values of the other sequence."""
        return cache is not None and cache.length > 0 and self.spec.source == "cross"

    def _decode(
        self,
        query: Tensor | None,
        key: Tensor | None,
        value: Tensor | None,
        cache: Cache,
        padding: Tensor | None,
        return_weights: bool,
        extras: Mapping[str, Tensor],
    ) -> Tensor:
        """Decode new tokens with the operator from its state, and update the state in the cache."""
        operator = self.spec.operator
        if return_weights or not self.spec.mask.causal:
            what = "has no attention weights" if return_weights else "decodes only if it is causal"
            raise InputError(f"the operator {operator} {what}", hint="leave out the cache or the weights")
        assert operator is not None
        assert query is not None
        assert key is not None
        assert value is not None
        if not operator.takes_groups:
            key, value = (for_every_query_head(tensor, self.spec) for tensor in (key, value))
        new, first = query.shape[2], cache.length
        if padding is not None:
            visibility = Visibility(self.spec.mask, new, first + new, first, padding)
            visibility.check(query.shape[0], self.spec.num_heads)
        real = cache.advance(new, padding)
        others = {} if real is None else {"padding": real}
        with full_precision(value) as cast:
            others |= {name: cast(tensor) for name, tensor in self.spec.own(operator, extras).items()}
            output, cache.state = operator.decode(cast(query), cast(key), cast(value), cache.state, **others)
        return finish(output.to(value.dtype), self.spec, extras, value)

    def _join(self, heads: Tensor) -> Tensor:
        """Join the heads: (batch, heads, tokens, value width) → (batch, tokens, model width)."""
        if self.observer is not None:
            heads = self.observer("heads", heads)
        if self.spec.join == "average":
            joined = heads.mean(dim=1)
        elif self.spec.value_map == "full":
            joined = heads.sum(dim=1)
        else:
            joined = heads.transpose(1, 2).flatten(2)
        result: Tensor = joined if self.output is None else self.output(joined)
        return self.dropout(result) if self.drops else result

    def extra_repr(self) -> str:
        return f"score={self.spec.score}, normaliser={self.spec.normaliser}, mask={self.spec.mask}"


# Which projection computes a vector that has no projection of its own.
_SERVED_BY: dict[str, dict[str, str]] = {
    "none": {},
    "key-value": {"value": "key"},
    "query-key": {"key": "query"},
    "query-key-value": {"key": "query", "value": "query"},
    "identity": {},
}


def _report_vectors(
    observer: Observer, query: Tensor | None, key: Tensor | None, value: Tensor | None, cache: Cache | None
) -> tuple[Tensor | None, ...]:
    if cache is not None:
        _refuse_taps()
    vectors = {"query": query, "key": key, "value": value}
    return tuple(None if tensor is None else observer(name, tensor) for name, tensor in vectors.items())


def _rotated_late(rope: Rope, held: Tensor, cache: Cache) -> Tensor:
    """Return the vectors that a cache holds, rotated by the positions of their tokens."""
    if not cache.first:
        return rope.rotate(held, cache.start)
    first, rest = held[:, :, : cache.first], held[:, :, cache.first :]
    return torch.cat([rope.rotate(first, 0), rope.rotate(rest, cache.first + cache.start)], dim=2)


def _refuse_taps() -> NoReturn:
    raise UnsupportedError(
        f"{', '.join(_INSIDE)} of a layer cannot be tapped while it decodes with a cache",
        hint="give whole sequences without a cache, or tap heads or output",
    )


def projection_shapes(spec: AttentionSpec) -> dict[str, tuple[int, int, bool]]:
    """Return the projections of a spec by name: output width, input width, and whether there is a bias."""
    if spec.compression is not None:
        return spec.compression.shapes(spec)
    return {name: (width, spec.model_width, spec.bias) for name, width in projection_widths(spec).items()}


def projection_widths(spec: AttentionSpec) -> dict[str, int]:
    """Return the projections of a spec by name, with the output width of each."""
    if spec.compression is not None:
        return {name: shape[0] for name, shape in spec.compression.shapes(spec).items()}
    widths = {
        "query": spec.num_heads * spec.key_width * spec.score.projects_query,
        "key": spec.num_key_value_heads * spec.key_width * spec.score.projects_key,
        "value": spec.num_key_value_heads * spec.value_width,
    }
    absent = widths.keys() if spec.sharing == "identity" else _SERVED_BY[spec.sharing].keys()
    return {name: width for name, width in widths.items() if width and name not in absent}


def output_width(spec: AttentionSpec) -> int | None:
    """Return the input width of the output projection; None if values have the model's width and there is none."""
    if spec.value_map == "full":
        return None
    return spec.value_width if spec.join == "average" else spec.num_heads * spec.value_width
