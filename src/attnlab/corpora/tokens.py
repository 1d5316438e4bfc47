"""Tokens on disk: raw little-endian shards, memory-mapped and read-only."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike, NDArray

SHARD = 1 << 26  # tokens


def dtype_for(vocabulary_size: int) -> np.dtype[Any]:
    """Return the smallest type that holds the tokens, little-endian."""
    return np.dtype("<u2" if vocabulary_size <= 1 << 16 else "<u4")


def write_shards(folder: Path, pieces: Iterable[NDArray[Any]], dtype: np.dtype[Any], shard: int = SHARD) -> list[int]:
    """Write tokens into `tokens-00000.bin` and so on, and return how many each holds."""
    counts: list[int] = []
    file = None
    try:
        for piece in pieces:
            while piece.size:
                if file is None or counts[-1] == shard:
                    if file is not None:
                        file.close()
                    file = (folder / shard_name(len(counts))).open("xb")
                    counts.append(0)
                part, piece = piece[: shard - counts[-1]], piece[shard - counts[-1] :]
                file.write(np.ascontiguousarray(part, dtype=dtype).tobytes())
                counts[-1] += part.size
    finally:
        if file is not None:
            file.close()
    return counts


def shard_name(number: int) -> str:
    return f"tokens-{number:05}.bin"


class Tokens(Sequence[int]):
    """A range of the tokens in one or several shards, as if they were one read-only array.

    `tokens[3]`, `tokens[3:9]`, `len(tokens)` and `numpy.asarray(tokens)` work; with a single shard nothing is copied.
    """

    def __init__(self, shards: Sequence[NDArray[Any]]) -> None:
        self._shards = [np.asarray(shard) for shard in shards]  # a plain view of a memory map is faster to index
        self._ends = np.cumsum([shard.size for shard in shards], dtype=np.int64)

    @classmethod
    def open(cls, folder: Path, counts: Sequence[int], dtype: np.dtype[Any]) -> Tokens:
        files = (folder / shard_name(number) for number in range(len(counts)))
        return cls([np.memmap(file, dtype=dtype, mode="r", shape=(n,)) for file, n in zip(files, counts, strict=True)])

    def part(self, start: int, stop: int) -> Tokens:
        """Return the tokens from `start` up to `stop`, which must be in range."""
        pieces = []
        for shard, end in zip(self._shards, self._ends.tolist(), strict=True):
            first = end - shard.size
            piece = shard[max(start - first, 0) : max(stop - first, 0)]
            if piece.size:
                pieces.append(piece)
        return Tokens(pieces or [np.empty(0, dtype=self.dtype)])

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._shards[0].dtype

    def gather(self, starts: NDArray[np.int64], length: int) -> NDArray[np.int64]:
        """Return the windows of `length` tokens that begin at these places, (windows, length)."""
        if len(self._shards) == 1:
            places = starts[:, None] + np.arange(length)
            return np.asarray(self._shards[0][places], dtype=np.int64)
        windows = np.empty((starts.size, length), dtype=np.int64)
        for row, start in enumerate(starts.tolist()):
            windows[row] = self[start : start + length]
        return windows

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if not isinstance(index, slice):
            place = range(len(self))[index]
            shard = int(np.searchsorted(self._ends, place, side="right"))
            return int(self._shards[shard][place - int(self._ends[shard])])
        start, stop, step = index.indices(len(self))
        if step != 1:
            return np.asarray(self)[index]
        parts = self.part(start, max(start, stop))._shards
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def __iter__(self) -> Iterator[int]:
        for shard in self._shards:
            for start in range(0, shard.size, 1 << 16):  # one piece at a time, to leave the rest on disk
                yield from shard[start : start + (1 << 16)].tolist()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        whole = self[:]
        return np.array(whole, dtype=dtype, copy=copy)
