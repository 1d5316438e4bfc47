"""Query-blocked attention: any score × any normaliser × any mask, in memory that grows with N and not N².

For each block of queries, only the keys that at least one of them sees are read:

    forward    s = q kᵀ (+ position);  p = normalise(s);  o = p v                 a few numbers per row are saved
    backward   recompute s and p;  ∂p = ∂o vᵀ;  ∂s = normalise'(p, ∂p)
               ∂v += pᵀ ∂o;  ∂q = ∂s k;  ∂k += ∂sᵀ q

A block is small enough to stay in the CPU cache between these steps, which makes the kernel fast. A window costs only
as much as its band.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.attention.groups import run_length, shared_by, stacked
from attnlab.attention.kernels.dropout import DropoutGrid, WeightDropout
from attnlab.attention.parts.masks import Block, Visibility
from attnlab.attention.parts.normalisers import Normaliser
from attnlab.attention.parts.part import Biased
from attnlab.attention.parts.positions import Alibi

_ROWS = 64  # queries in a block
_LARGE = 512  # rows from which on `baddbmm` is faster than a product and an addition
_LONG = 2**18  # scores in a block of one head, from which on few heads are processed at once
_CACHED = 3 * 2**18  # scores in a block that stays in the CPU cache


@dataclass(frozen=True)
class LearnedTensor:
    """A parameter of a part: (heads of one sequence, …), or shared by all heads."""

    family: str
    name: str
    per_head: bool
    tensor: Tensor


@dataclass(frozen=True)
class Gradients:
    """The results of the backward pass; with a table of scores, `table` replaces `query` and `key`."""

    query: Tensor | None
    key: Tensor | None
    query_bias: Tensor | None
    key_bias: Tensor | None
    table: Tensor | None
    value: Tensor
    learned: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class BlockedAttention:
    """One call of the kernel. Batch and heads are flattened into one dimension, called heads here.

    Keys and values may have fewer heads, each shared by a group of consecutive query heads.
    """

    normaliser: Normaliser
    visibility: Visibility
    value: Tensor  # (value heads, keys, value width)
    query: Tensor | None  # (heads, queries, width)
    key: Tensor | None  # (key heads, keys, width)
    query_bias: Tensor | None  # (heads, queries)
    key_bias: Tensor | None  # (key heads, keys)
    table: Tensor | None  # (heads, or those of one sequence; queries; keys)
    batch: int
    num_heads: int  # of one sequence
    scale: float = 1.0
    biased: tuple[Biased, ...] = ()
    learned: tuple[LearnedTensor, ...] = ()
    dropout: WeightDropout | None = None

    def forward(self) -> tuple[Tensor, Tensor]:
        """Return the output (heads, queries, value width) and the numbers to keep (heads, queries, statistics)."""
        total, width = self._total, self.value.shape[2]
        queries = self.visibility.num_queries
        output = self.value.new_empty(total, queries, width)
        kept = self.value.new_empty(total, queries, self.normaliser.statistics)
        (space,) = self._scratch(1)
        draws = self._draws()
        for heads, block in self._tiles():
            scores, own = self._scores(space, heads, block), self._own("normaliser", heads)
            weights, numbers = self.normaliser.forward(scores, block, **own)
            if numbers is not None:
                kept[heads, block.queries] = numbers
            if draws is not None:
                weights = draws.apply_(weights, draws.bits(heads, block.queries, block.keys))
            values = self._shared(self.value, heads, block)
            product = torch.bmm(stacked(weights, len(values)), values)
            output[heads, block.queries] = product.view(*weights.shape[:2], width)
        return (output if self.dropout is None else output.mul_(self.dropout.scale)), kept

    def backward(self, gradient: Tensor, kept: Tensor) -> Gradients:
        """Return the gradients of all inputs, from that of the output."""
        if self.dropout is not None:
            gradient = gradient * self.dropout.scale
        result = Gradients(
            query=None if self.query is None else torch.empty_like(self.query),
            key=_zeros(self.key),
            query_bias=_zeros(self.query_bias),
            key_bias=_zeros(self.key_bias),
            table=_zeros(self.table),
            value=torch.zeros_like(self.value),
            learned=tuple(torch.zeros_like(one.tensor) for one in self.learned),
        )
        space, second = self._scratch(2)
        draws = self._draws()
        for heads, block in self._tiles():
            rows = gradient[heads, block.queries]
            scores, own = self._scores(space, heads, block), self._own("normaliser", heads)
            weights, context = self.normaliser.recompute(scores, kept[heads, block.queries], block, **own)
            values, slope = self._shared(self.value, heads, block), _shaped(second, scores.shape)
            count = len(values)
            torch.bmm(stacked(rows, count), values.mT, out=stacked(slope, count))
            used = weights
            if draws is not None:
                stays = draws.bits(heads, block.queries, block.keys)
                used, slope = draws.apply_(weights.clone(), stays), draws.apply_(slope, stays)
            _add_product(self._shared(result.value, heads, block), stacked(used, count).mT, stacked(rows, count))
            found = self.normaliser.backward(weights, slope, context, block, **own)
            if isinstance(found, tuple):
                self._gather("normaliser", found[1], heads, result)
            self._push(found if isinstance(found, Tensor) else found[0], heads, block, result)
        return result

    def _scores(self, space: Tensor, heads: slice, block: Block) -> Tensor:
        """Write the scores of a block, −∞ where hidden, into scratch space, and return them."""
        rows, columns = block.queries.stop - block.queries.start, block.keys.stop - block.keys.start
        scores = _shaped(space, (heads.stop - heads.start, rows, columns))
        if self.table is not None:
            scores.copy_(self.table[:, block.queries, block.keys][self._repeated(heads, self.table.shape[0])])
        else:
            assert self.query is not None
            assert self.key is not None
            keys = self._shared(self.key, heads, block)
            left, whole = stacked(self.query[heads, block.queries], len(keys)), stacked(scores, len(keys))
            torch.baddbmm(whole, left, keys.mT, beta=0, alpha=self.scale, out=whole)
        if self.query_bias is not None and not self.normaliser.shift_invariant:
            scores.add_(self.query_bias[heads, block.queries, None])
        if self.key_bias is not None:
            terms = self._shared(self.key_bias, heads, block)
            stacked(scores, len(terms)).add_(terms[:, None])
        for part in self.biased:
            if isinstance(part, Alibi):
                self._add_distance(scores, heads, block)
            else:
                bias = part.bias(*self._places(block), self.num_heads, **self._own(part.family)).to(scores.dtype)
                scores.add_(bias if bias.shape[0] == 1 else bias[self._repeated(heads, self.num_heads)])
        return block.hide_(scores)

    def _places(self, block: Block) -> tuple[Tensor, Tensor]:
        """Return the positions of the queries and keys of a block."""
        first, device = self.visibility.query_start, self.value.device
        queries = torch.arange(first + block.queries.start, first + block.queries.stop, device=device)
        return queries, torch.arange(block.keys.start, block.keys.stop, device=device)

    def _add_distance(self, scores: Tensor, heads: slice, block: Block) -> None:
        """Add −slope·|i − j|. If no key follows its query, it is slope·(j − i): a key term and a query term."""
        first = self.visibility.query_start + block.queries.start
        queries, keys = self._places(block)
        slopes = Alibi.slopes(self.num_heads, scores)[self._repeated(heads, self.num_heads), None, None]
        if self.visibility.mask.causal and self.visibility.mask.prefix is None:
            scores.add_(slopes * (keys - first)).sub_(slopes * (queries - first)[:, None])
        else:
            scores.addcmul_(slopes, Alibi.distance(queries, keys, scores.dtype))

    def _own(self, family: str, heads: slice | None = None) -> dict[str, Tensor]:
        """Return the parameters of a part, for the heads of one sequence or for a run over batch × heads."""
        mine = [one for one in self.learned if one.family == family]
        if heads is None:
            return {one.name: one.tensor for one in mine}
        which = self._repeated(heads, self.num_heads) if mine else None
        return {one.name: one.tensor[which] if one.per_head else one.tensor for one in mine}

    def _gather(self, family: str, found: Mapping[str, Tensor], heads: slice | None, result: Gradients) -> None:
        """Add the gradients of a part's parameters to the result."""
        for one, total in zip(self.learned, result.learned, strict=True):
            if one.family != family:
                continue
            if heads is None or not one.per_head:
                total.add_(found[one.name])
            else:
                total.index_add_(0, self._repeated(heads, self.num_heads), found[one.name])

    def _push(self, slope: Tensor, heads: slice, block: Block, result: Gradients) -> None:
        """Propagate the gradient of a block of scores to the tensors they were computed from."""
        for part in self.biased:
            if own := self._own(part.family):
                self._push_bias(part, own, slope, heads, block, result)
        if result.table is not None:
            result.table[:, block.queries, block.keys].index_add_(
                0, self._repeated(heads, result.table.shape[0]), slope
            )
            return
        assert self.query is not None
        assert self.key is not None
        assert result.query is not None
        assert result.key is not None
        keys, left = self._shared(self.key, heads, block), self.query[heads, block.queries]
        whole = stacked(slope, len(keys))
        _add_product(self._shared(result.key, heads, block), whole.mT, stacked(left, len(keys)), self.scale)
        product = torch.bmm(whole, keys).view_as(left)
        torch.mul(product, self.scale, out=result.query[heads, block.queries])
        if result.query_bias is not None:
            result.query_bias[heads, block.queries] = slope.sum(2)
        if result.key_bias is not None:
            terms = self._shared(result.key_bias, heads, block)
            terms += stacked(slope, len(terms)).sum(1)

    def _push_bias(
        self, part: Biased, own: Mapping[str, Tensor], slope: Tensor, heads: slice, block: Block, result: Gradients
    ) -> None:
        """Add the gradients of the parameters of a bias. Hidden scores have none."""
        with torch.enable_grad():
            learned = {name: tensor.detach().requires_grad_() for name, tensor in own.items()}
            bias = part.bias(*self._places(block), self.num_heads, **learned)
            whole = slope.new_zeros(self.num_heads, *slope.shape[1:])
            whole.index_add_(0, self._repeated(heads, self.num_heads), slope)
            whole = whole.sum_to_size(bias.shape).to(bias.dtype)
            found = torch.autograd.grad(bias, [*learned.values()], whole, materialize_grads=True)
        self._gather(part.family, dict(zip(learned, found, strict=True)), None, result)

    def _draws(self) -> DropoutGrid | None:
        keys = self.value.shape[1]
        return None if self.dropout is None else self.dropout.grid(self._total, self.visibility.num_queries, keys)

    def _shared(self, vectors: Tensor, heads: slice, block: Block) -> Tensor:
        """Return the rows of a block's keys, in those key or value heads that a run of heads uses."""
        return vectors[shared_by(heads, self._total // vectors.shape[0]), block.keys]

    def _repeated(self, heads: slice, count: int) -> Tensor:
        """Return the index of each head, of a run over batch × heads, among `count` that repeat."""
        return torch.arange(heads.start, heads.stop, device=self.value.device) % count

    @functools.cached_property
    def _total(self) -> int:
        """The number of heads in all sequences."""
        return self.batch * self.num_heads

    @functools.cached_property
    def _layout(self) -> tuple[int, int]:
        """Return how many heads are processed at once, and the size of their largest block of scores."""
        blocks = self.visibility.blocks(_ROWS, self.value)
        largest = max(((b.queries.stop - b.queries.start) * (b.keys.stop - b.keys.start) for b in blocks), default=0)
        total, fit = self._total, max(1, _CACHED // max(1, largest))
        fit = fit if largest < _LONG else min(fit, 2)  # few long rows are enough work, and use less memory
        parts = -(-total // fit)
        group = max(1, total // max(1, self.value.shape[0]))
        at_once = run_length(-(-total // max(1, parts)), group)
        return at_once, at_once * largest

    def _scratch(self, count: int) -> list[Tensor]:
        return [self.value.new_empty(self._layout[1]) for _ in range(count)]

    def _tiles(self) -> Iterator[tuple[slice, Block]]:
        total, step = self._total, self._layout[0]
        runs = [slice(start, min(start + step, total)) for start in range(0, total, max(1, step))]
        if self.visibility.structural:
            blocks = self.visibility.blocks(_ROWS, self.value)
            yield from ((heads, block) for block in blocks for heads in runs)
        else:
            for heads in runs:
                for block in self.visibility.blocks_of(heads, self.num_heads, _ROWS, self.value):
                    yield heads, block


def _add_product(total: Tensor, left: Tensor, right: Tensor, scale: float = 1.0) -> None:
    """Compute total += scale · left right; by `baddbmm`, which loops over the matrices, only if these are large."""
    if total.shape[1] < _LARGE:
        total.add_(torch.bmm(left, right), alpha=scale)
    else:
        total.baddbmm_(left, right, alpha=scale)


def _zeros(like: Tensor | None) -> Tensor | None:
    return None if like is None else torch.zeros_like(like)


def _shaped(space: Tensor, shape: tuple[int, ...] | torch.Size) -> Tensor:
    heads, rows, columns = shape
    return space[: heads * rows * columns].view(heads, rows, columns)
