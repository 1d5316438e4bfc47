"""Which windows of a text a step reads: epochs without replacement, as a pure function.

Sample i = step × batch size + row lies in epoch i // W, where W is the number of windows in an epoch. Each epoch starts
its windows at a phase of its own, so that in time every token stands at every position of a window, and has its own
order of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnlab.corpora.randomness import below, digest, permutation, words

KEPT = 4  # epochs whose order is remembered: a batch may touch two, and there may be two readers


class WindowOrder:
    """The order of the windows of one text, known by its hash and its number of tokens."""

    def __init__(self, corpus_hash: str, tokens: int) -> None:
        self._hash = corpus_hash
        self._tokens = tokens
        self._epochs: dict[tuple[int, int, int], NDArray[np.int64]] = {}

    def windows(self, context_length: int) -> int:
        """The windows of an epoch: all that fit whatever the phase, and at least one. Targets need one token more."""
        return max(1, (self._tokens - context_length) // context_length)

    def starts(self, samples: NDArray[np.int64], seed: int, context_length: int) -> NDArray[np.int64]:
        """Where the window of each sample begins."""
        epochs, places = np.divmod(samples, self.windows(context_length))
        starts = np.empty_like(samples)
        for epoch in np.unique(epochs).tolist():
            chosen = epochs == epoch
            starts[chosen] = self._epoch(seed, epoch, context_length)[places[chosen]]
        return starts

    def _epoch(self, seed: int, epoch: int, context_length: int) -> NDArray[np.int64]:
        """The starts of all windows of an epoch, in its order."""
        name = (seed, epoch, context_length)
        starts = self._epochs.get(name)
        if starts is None:
            key = digest(self._hash, "order", int(seed), epoch)
            windows = self.windows(context_length)
            phases = min(context_length, self._tokens - windows * context_length)
            phase = below(phases, words(digest(key, "phase"), 1))
            starts = phase + permutation(key, windows) * context_length
            self._epochs[name] = starts
            if len(self._epochs) > KEPT:
                self._epochs.pop(next(iter(self._epochs)), None)
        return starts
