"""Two recall tasks: the value of a key (`mqar`), and the position of a symbol (`matching`).

`mqar`: multi-query associative recall. Key–value pairs come first, then each key again as a query.

    k3 v7 k1 v2 … | k1 _ k3 …      targets: v2 where k1 is asked, v7 where k3 is asked, IGNORED elsewhere

As in Zoology (Arora et al., arXiv 2312.04927): no key or value occurs twice among the pairs; the queries lie in slots
of two tokens after the pairs, slot g with probability ∝ g^(power − 1), no slot twice; the tokens between them are
random. An example is as long as the context.

`matching`: symbols in a random order, then each of them again: what was its position?

    s7 s2 s9 s4 | s9 s7 s4 s2      targets: p2 p0 p3 p1 under the second half, IGNORED before

No symbol occurs twice in a half, and the choice of symbols is random too, so that the position can only be found by
comparing the query symbol with each earlier one. The accuracy of a model that compares nothing is 1 / number of
positions. The rest of the context is blank.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnlab.corpora.batches import IGNORED, Batch, TaskCorpus, tensor
from attnlab.corpora.randomness import below, uniform
from attnlab.corpora.spec import CorpusSpec, MatchingOptions, MqarOptions
from attnlab.errors import SpecError

VERSION = 1
DEFAULT_SYMBOLS = 256
BLANK = 0


class MqarCorpus(TaskCorpus):
    """Multi-query associative recall. Symbol 0 is blank, the rest of the lower half are keys, the upper half values."""

    def __init__(self, spec: CorpusSpec) -> None:
        options = spec.parsed_options
        assert isinstance(options, MqarOptions)
        self.options = options
        size = spec.vocabulary_size or DEFAULT_SYMBOLS
        self.first_value = (size + 1) // 2
        self.num_keys, self.num_values = self.first_value - 1, size - self.first_value
        if min(self.num_keys, self.num_values) < options.pairs:
            raise SpecError(
                f"{size} symbols hold {max(self.num_keys, 0)} keys and {self.num_values} values, "
                f"too few for {options.pairs} different pairs",
                hint=f"use a vocabulary_size of at least {2 * options.pairs + 1}, or fewer pairs",
            )
        symbols = ["_", *(f"k{n}" for n in range(self.num_keys)), *(f"v{n}" for n in range(self.num_values))]
        super().__init__(spec, VERSION, symbols, options.validation_examples)

    @property
    def validation_tokens(self) -> int:
        return self.validation_examples * self.options.pairs

    def words_needed(self, context_length: int) -> int:
        least = 4 * self.options.pairs
        if context_length < least:
            raise SpecError(
                f"{self.options.pairs} pairs and their queries do not fit into a context of {context_length}",
                hint=f"use a context of at least {least}, or at most {context_length // 4} pairs"
                if context_length >= 4
                else f"use a context of at least {least}",
            )
        return 2 * self.options.pairs + self._slots(context_length) + context_length

    def _slots(self, context_length: int) -> int:
        return (context_length - 2 * self.options.pairs) // 2

    def examples(self, words: NDArray[np.uint64], context_length: int) -> Batch:
        pairs, slots = self.options.pairs, self._slots(context_length)
        for_keys, for_values, for_slots, for_filler = np.split(words, [pairs, 2 * pairs, 2 * pairs + slots], axis=1)
        keys = 1 + _draw_without_replacement(self.num_keys, for_keys)  # (rows, pairs)
        values = self.first_value + _draw_without_replacement(self.num_values, for_values)
        places = 2 * pairs + 2 * _draw_slots(for_slots, pairs, self.options.power)

        inputs = np.full((len(words), context_length), BLANK, dtype=np.int64)
        if self.options.filler == "random":
            inputs = below(self.vocabulary_size, for_filler)
        inputs[:, 0 : 2 * pairs : 2] = keys
        inputs[:, 1 : 2 * pairs : 2] = values
        np.put_along_axis(inputs, places, keys, axis=1)
        targets = np.full_like(inputs, IGNORED)
        np.put_along_axis(targets, places, values, axis=1)
        return Batch(tensor(inputs), tensor(targets))


class MatchingCorpus(TaskCorpus):
    """The position of an equal symbol. Symbol 0 is blank, then come the answers p0, p1, …, then the symbols."""

    def __init__(self, spec: CorpusSpec) -> None:
        options = spec.parsed_options
        assert isinstance(options, MatchingOptions)
        self.options = options
        self.first_symbol = 1 + options.places
        size = spec.vocabulary_size or self.first_symbol + 2 * options.places
        self.num_symbols = size - self.first_symbol
        if self.num_symbols < options.places:
            raise SpecError(
                f"of {size} symbols {max(self.num_symbols, 0)} are left for {options.places} places",
                hint=f"use a vocabulary_size of at least {self.first_symbol + options.places}, or fewer places",
            )
        answers = [f"p{place}" for place in range(options.places)]
        symbols = [f"s{number}" for number in range(self.num_symbols)]
        super().__init__(spec, VERSION, ["_", *answers, *symbols], options.validation_examples)

    @property
    def chance(self) -> float:
        """Return the accuracy of a model that compares nothing."""
        return 1 / self.options.places

    @property
    def validation_tokens(self) -> int:
        return self.validation_examples * self.options.places

    def words_needed(self, context_length: int) -> int:
        places = self.options.places
        if context_length < 2 * places:
            raise SpecError(
                f"{places} places and as many questions do not fit into a context of {context_length}",
                hint=f"use a context of at least {2 * places}"
                + (f", or at most {context_length // 2} places" if context_length > 3 else ""),
            )
        return 2 * places

    def examples(self, words: NDArray[np.uint64], context_length: int) -> Batch:
        places = self.options.places
        for_symbols, for_questions = np.split(words, 2, axis=1)
        symbols = self.first_symbol + _draw_without_replacement(self.num_symbols, for_symbols)  # (rows, places)
        asked = _draw_without_replacement(places, for_questions)  # the position that each query asks for
        inputs = np.full((len(words), context_length), BLANK, dtype=np.int64)
        targets = np.full_like(inputs, IGNORED)
        inputs[:, :places] = symbols
        inputs[:, places : 2 * places] = np.take_along_axis(symbols, asked, axis=1)
        targets[:, places : 2 * places] = 1 + asked
        return Batch(tensor(inputs), tensor(targets))


def _draw_without_replacement(bound: int, words: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Draw for each row as many different numbers below the bound as it has words, by a Fisher–Yates shuffle."""
    pool = np.tile(np.arange(bound, dtype=np.int64), (len(words), 1))
    rows = np.arange(len(words))
    for place in range(words.shape[1]):
        other = place + below(bound - place, words[:, place])
        pool[rows, place], pool[rows, other] = pool[rows, other], pool[rows, place]
    return pool[:, : words.shape[1]]


def _draw_slots(words: NDArray[np.uint64], count: int, power: float) -> NDArray[np.int64]:
    """Draw `count` different slots for each row, without replacement, in proportion to (slot + 1)^(power − 1).

    Taking the largest values of log-weights plus Gumbel noise gives such a sample (Vieira, 2014).
    """
    weights = (power - 1) * np.log(np.arange(1, words.shape[1] + 1))
    noise = -np.log(-np.log(uniform(words)))
    return np.argsort(-(weights + noise), axis=1, kind="stable")[:, :count].astype(np.int64, copy=False)
