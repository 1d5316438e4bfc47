"""`matching`: symbols in a random order, then each of them again: at which place did it stand?

    s7 s2 s9 s4 | s9 s7 s4 s2      targets: p2 p0 p3 p1 under the second half, IGNORED before

No symbol occurs twice in a half, and which ones occur is random too, so that nothing but comparing the symbol that asks
with each one before it tells the place. Whoever compares nothing is right once in as many times as there are places.
What is left of the context is blank.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from attnlab.corpora.batches import IGNORED, Batch
from attnlab.corpora.generated.mqar import draw_without_replacement
from attnlab.corpora.generated.options import MatchingOptions
from attnlab.corpora.generated.tasks import TaskCorpus, tensor
from attnlab.corpora.spec import CorpusSpec
from attnlab.errors import SpecError

VERSION = 1
BLANK = 0


class MatchingCorpus(TaskCorpus):
    """Symbol 0 is blank, then come the answers p0, p1, …, and then the symbols that have places."""

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
        """How often one is right who compares nothing."""
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
        symbols = self.first_symbol + draw_without_replacement(self.num_symbols, for_symbols)  # (rows, places)
        asked = draw_without_replacement(places, for_questions)  # the place that each question is about
        inputs = np.full((len(words), context_length), BLANK, dtype=np.int64)
        targets = np.full_like(inputs, IGNORED)
        inputs[:, :places] = symbols
        inputs[:, places : 2 * places] = np.take_along_axis(symbols, asked, axis=1)
        targets[:, places : 2 * places] = 1 + asked
        return Batch(tensor(inputs), tensor(targets))
