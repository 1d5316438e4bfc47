"""The cache for decoding: what a layer keeps of earlier tokens.

The spec decides what is kept: keys and values of each key and value head; one tensor if the key is also the value; only
the values for a synthesizer; only the last tokens for a window, and the first ones if the mask shows them; a state of
fixed size for an operator; for a user-defined layer the tensors that it stores itself, or its inputs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.errors import InputError


class Cache:
    """The cache of one layer for one batch of sequences.

    Buffers grow by doubling, so that adding a token seldom copies those before it. `length` counts all tokens ever
    added, `start` those that were dropped. `start` is also the position of the first cached token, unless the `first`
    tokens are kept: then the dropped tokens come right after these.
    """

    def __init__(self) -> None:
        self.length = 0
        self.start = 0
        self.first = 0
        self.state: Tensor | None = None
        self.own: dict[str, Tensor] = {}  # the tensors of a user-defined layer
        self.padding: Tensor | None = None  # (batch, length), True for each real token in the state; None for all
        self._room: dict[str, Tensor] = {}
        self._begin = 0

    @property
    def held(self) -> dict[str, Tensor]:
        """The cached tensors, (batch, heads, tokens, width), as views."""
        end = self._begin + self.length - self.start
        return {name: room[:, :, self._begin : end] for name, room in self._room.items()}

    @property
    def nbytes(self) -> int:
        """The size in bytes of all cached tensors, without unused buffer space."""
        kept = (self.state, self.padding, *self.held.values(), *self.own.values())
        return sum(tensor.nbytes for tensor in kept if tensor is not None)

    def advance(self, tokens: int, padding: Tensor | None) -> Tensor | None:
        """Count the tokens added to the state, and return their part of the padding of all tokens so far.

        A state holds sums over tokens: a token can be neither removed from it nor inserted later.
        """
        before, known = None if padding is None else padding[:, : self.length], self.padding
        if before is None or known is None:
            same = all(one is None or bool(one.all()) for one in (before, known))
        else:
            same = torch.equal(before, known)
        if not same:
            raise InputError(
                f"the padding of the first {self.length} tokens differs from that which the state was made with",
                hint="give the padding of all tokens, those in the cache included, at every step",
            )
        start, self.length = self.length, self.length + tokens
        self.padding = padding
        return None if padding is None else padding[:, start:]

    def of_held(self, tensor: Tensor) -> Tensor:
        """Return the part of a tensor (batch, all tokens) that belongs to the tokens in the cache."""
        if not self.start or not self.first:
            return tensor[:, self.start :]
        return torch.cat([tensor[:, : self.first], tensor[:, self.first + self.start :]], dim=1)

    def append(self, tensors: dict[str, Tensor], keep: int | None = None, first: int = 0) -> dict[str, Tensor]:
        """Drop all cached tokens but the `first` and the last `keep`, add new ones, and return the cached tensors."""
        if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors.values()):
            raise InputError("a cache cannot be differentiated", hint="decode under torch.no_grad()")
        held = self.held
        if held and any(held[name].shape[:2] != new.shape[:2] for name, new in tensors.items()):
            shapes = {name: tuple(tensor.shape) for name, tensor in held.items()}
            raise InputError(f"the cache holds another batch: {shapes}", hint="start each batch with a new cache")
        added = next(iter(tensors.values())).shape[2]
        old = self.length - self.start
        forgotten = 0 if keep is None else max(0, old - first - keep)
        if forgotten and first:  # move these in front of the kept tokens again
            self.first = first
            for tensor in held.values():
                tensor[:, :, forgotten : forgotten + first] = tensor[:, :, :first].clone()
        self._begin, self.start, old = self._begin + forgotten, self.start + forgotten, old - forgotten
        if not held or self._begin + old + added > next(iter(self._room.values())).shape[2]:
            self._make_room(tensors, old, added)
        for name, new in tensors.items():
            self._room[name][:, :, self._begin + old : self._begin + old + added] = new
        self.length += added
        return self.held

    def _make_room(self, like: dict[str, Tensor], old: int, added: int) -> None:
        """Copy the cached tokens to the front of larger buffers."""
        for name, new in like.items():
            batch, heads, _, width = new.shape
            room = new.new_empty(batch, heads, 2 * (old + added), width)
            if old:
                room[:, :, :old] = self._room[name][:, :, self._begin : self._begin + old]
            self._room[name] = room
        self._begin = 0
