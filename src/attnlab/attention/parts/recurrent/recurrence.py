"""The base of recurrent operators: S_t = update(S_{t−1}, token t), o_t = q_t S_t.

A subclass implements `update` for one token, which is the definition, and `advance`, which does the same for several
chunks of tokens by matrix products. Time and memory then grow linearly with N:

    segments   the sequence is processed in segments of a fixed length. For the backward pass only the inputs and the
               state before each segment are saved; the rest is recomputed, segment by segment, from the last to the
               first.
    chunks     within a segment everything but the state is computed for all chunks at once.

Padding leaves the state unchanged: its key writes nothing, and its gate is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention.gradients import once
from attnlab.attention.parts.masks import Visibility
from attnlab.attention.parts.operators import Operator, full_precision

Step = Callable[..., tuple[Tensor, Tensor]]

CHUNK = 64  # a power of two
SEGMENT = 128  # a multiple of a chunk


class Recurrence(Operator):
    """Base class. All tensors are (batch, heads, tokens, width); a state is (batch, heads, key width, value width)."""

    recomputes: ClassVar[bool] = True
    looks_back: ClassVar[bool] = True

    def prepare(
        self, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None, *args: Any, **own: Any
    ) -> list[Tensor]:
        """Return the query, and the inputs of the update for each token, such as key, value and log gate.

        `real` (batch, 1, tokens, 1) is True for each real token. A token of zeros must leave the state unchanged.
        """
        raise NotImplementedError

    def update(self, state: Tensor | None, *token: Any, **own: Any) -> Tensor:
        """Return the state after one token; None is the state before the first, which is zero."""
        raise NotImplementedError

    def advance(self, state: Tensor, *chunks: Any, **own: Any) -> tuple[Tensor, Tensor]:
        """Return the outputs for chunks, (batch, heads, chunks, tokens, width), and the state after them."""
        raise NotImplementedError

    def define(self, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, *_: Any, **own: Any) -> Tensor:
        query, *tokens = self.prepare(query, key, value, _column(visibility.padding), **own)
        state, outputs = None, []
        for place in range(visibility.query_start + query.shape[2]):
            state = self.update(state, *(vectors[:, :, place : place + 1] for vectors in tokens))
            if (row := place - visibility.query_start) >= 0:
                outputs.append(query[:, :, row : row + 1] @ state)
        return torch.cat(outputs, dim=2)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, *_: Any, **own: Any) -> Tensor:
        before = visibility.query_start
        inputs = {"query": F.pad(query, (0, 0, before, 0)) if before else query, "key": key, "value": value, **own}
        if visibility.padding is not None:
            inputs["real"] = _column(visibility.padding)
        state = _empty(key, value)
        if torch.compiler.is_compiling():  # the compiler decides what is kept
            return _in_segments(self._step, state, inputs)[0][:, :, before:]
        output: Tensor = _Recomputed.apply(self._step, state, [*inputs], *inputs.values())  # type: ignore[no-untyped-call]
        return output[:, :, before:]

    def decode(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        state: Tensor | None,
        padding: Tensor | None = None,
        *_: Any,
        **own: Any,
    ) -> tuple[Tensor, Tensor]:
        inputs = {"query": query, "key": key, "value": value, **own}
        if padding is not None:
            inputs["real"] = _column(padding)
        output, states = _in_segments(self._step, _empty(key, value) if state is None else state, inputs)
        return output, states[-1]

    def state_shape(self, key_width: int, value_width: int) -> tuple[int, ...]:
        return key_width, value_width

    def kept_states(self, tokens: int) -> int:
        return max(0, -(-tokens // SEGMENT) - 1)

    def _step(
        self, state: Tensor, query: Tensor, key: Tensor, value: Tensor, real: Tensor | None = None, **own: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs for a segment and the state after it."""
        tokens = query.shape[2]
        size = chunk_size(tokens)
        chunks = [_divided(vectors, size) for vectors in self.prepare(query, key, value, real, **own)]
        output, state = self.advance(state, *chunks)
        return output.flatten(2, 3)[:, :, :tokens], state


def chunk_size(tokens: int) -> int:
    """Return the tokens of a chunk: the power of two that a short sequence needs, at most `CHUNK`."""
    return min(CHUNK, 1 << max(0, tokens - 1).bit_length())


def filled(tokens: int) -> int:
    """Return the number of tokens after padding the last chunk."""
    return tokens + -tokens % chunk_size(tokens)


def masked(vectors: Tensor, real: Tensor | None) -> Tensor:
    """Return the vectors with zeros in place of padding."""
    return vectors if real is None else vectors.masked_fill(~real, 0.0)


def _column(padding: Tensor | None) -> Any:
    return None if padding is None else padding[:, None, :, None]


def _empty(key: Tensor, value: Tensor) -> Tensor:
    return key.new_zeros(*key.shape[:2], key.shape[-1], value.shape[-1])


def _divided(vectors: Tensor, size: int) -> Tensor:
    """Pad with zeros and split: (batch, heads, tokens, width) → (batch, heads, chunks, size, width)."""
    whole = F.pad(vectors, (0, 0, 0, -vectors.shape[2] % size))
    return whole.reshape(*whole.shape[:2], -1, size, whole.shape[-1])


def _segments(tokens: int) -> Iterator[slice]:
    return (slice(start, min(start + SEGMENT, tokens)) for start in range(0, tokens, SEGMENT))


def _cut(inputs: Mapping[str, Tensor], tokens: slice) -> dict[str, Tensor]:
    """Return the inputs of a segment; tensors that are not per token are passed whole."""
    return {name: tensor[:, :, tokens] if tensor.dim() == 4 else tensor for name, tensor in inputs.items()}


def _in_segments(step: Step, state: Tensor, inputs: Mapping[str, Tensor]) -> tuple[Tensor, list[Tensor]]:
    """Return the outputs, and the states before the first segment and after each."""
    outputs, states = [], [state]
    for tokens in _segments(inputs["query"].shape[2]):
        output, state = step(state, **_cut(inputs, tokens))
        outputs.append(output)
        states.append(state)
    return torch.cat(outputs, dim=2) if outputs else inputs["value"], states


class _Recomputed(torch.autograd.Function):
    """The outputs of all segments, each of which is recomputed in the backward pass."""

    @staticmethod
    def forward(ctx: Any, step: Step, state: Tensor, names: Sequence[str], *tensors: Tensor) -> Tensor:
        output, states = _in_segments(step, state, dict(zip(names, tensors, strict=True)))
        ctx.step, ctx.names = step, names
        ctx.save_for_backward(*tensors, *states[1:-1])
        return output

    @staticmethod
    @once
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        count = len(ctx.names)
        inputs = dict(zip(ctx.names, ctx.saved_tensors[:count], strict=True))
        first = _empty(inputs["key"], inputs["value"])
        states = [first, *ctx.saved_tensors[count:]]
        wanted = [name for name, tensor in inputs.items() if tensor.is_floating_point()]
        gradients = {name: torch.zeros_like(inputs[name]) for name in wanted}
        of_state = torch.zeros_like(first)
        for state, tokens in reversed([*zip(states, _segments(gradient.shape[2]), strict=False)]):
            with torch.enable_grad(), full_precision(gradient):
                pieces = {name: piece.detach() for name, piece in _cut(inputs, tokens).items()}
                leaves = [state.detach().requires_grad_(), *(pieces[name].requires_grad_() for name in wanted)]
                results = ctx.step(leaves[0], **pieces)
            of_state, *found = torch.autograd.grad(results, leaves, (gradient[:, :, tokens], of_state))
            for part, one in zip(_cut(gradients, tokens).values(), found, strict=True):
                part += one
        return None, None, None, *(gradients.get(name) for name in ctx.names)
