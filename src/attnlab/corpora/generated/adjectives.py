"""`adjectives`: sentences in which the verb depends on one adjective before the noun, and on no other word.

    the old hungry fox eats . the tired grey hen sleeps . the young thirsty fox drinks .

Exactly one of the adjectives before a noun decides the verb (`DECIDES`); the others, from none up to the number in the
options, stand around it in any order and decide nothing. A model that carries the deciding adjective to the noun knows
the verb; any other model has to guess among all verbs, since neither the noun nor a fixed distance helps.

Every row has the same number of sentences; the rest of the context is <pad>, which is never a target.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlab.corpora.batches import IGNORED, Batch, TaskCorpus, draws, tensor
from attnlab.corpora.spec import AdjectivesOptions, CorpusSpec
from attnlab.errors import SpecError

VERSION = 1
DECIDES = {
    "hungry": "eats",
    "thirsty": "drinks",
    "tired": "sleeps",
    "angry": "fights",
    "cheerful": "sings",
    "frightened": "hides",
    "curious": "searches",
    "lost": "wanders",
}
OTHERS = ("old", "young", "small", "grey", "brown", "thin")
NOUNS = ("fox", "owl", "hen", "bear", "hare", "wolf", "goose", "cat")
SYMBOLS = ("<pad>", ".", "the", *DECIDES, *DECIDES.values(), *OTHERS, *NOUNS)
PAD, STOP, THE = range(3)
NOWHERE = -1
_FIRST_ADJECTIVE = 3
_FIRST_VERB = _FIRST_ADJECTIVE + len(DECIDES)
_FIRST_OTHER = _FIRST_VERB + len(DECIDES)
_FIRST_NOUN = _FIRST_OTHER + len(OTHERS)


class AdjectivesCorpus(TaskCorpus):
    """Symbols: padding, stop, article, then deciding adjectives, verbs in the same order, other adjectives, nouns."""

    adjectives = range(_FIRST_ADJECTIVE, _FIRST_VERB)
    verbs = range(_FIRST_VERB, _FIRST_OTHER)
    others = range(_FIRST_OTHER, _FIRST_NOUN)
    nouns = range(_FIRST_NOUN, len(SYMBOLS))

    def __init__(self, spec: CorpusSpec) -> None:
        options = spec.parsed_options
        assert isinstance(options, AdjectivesOptions)
        self.options = options
        if spec.vocabulary_size not in {None, len(SYMBOLS)}:
            raise SpecError(
                f"the sentences with adjectives have {len(SYMBOLS)} words, not {spec.vocabulary_size}",
                hint="leave vocabulary_size out",
            )
        super().__init__(spec, VERSION, SYMBOLS, options.validation_examples)

    @property
    def validation_tokens(self) -> int:
        """The words of the validation sentences, but for the first of each row."""
        words = self._validation_words(list(range(self.validation_examples)), self._words_per_example)
        return sum(len(self._sentences(row)) - 1 for row in words)

    @property
    def _words_per_example(self) -> int:
        return self.options.sentences * (4 + self.options.others)

    def words_needed(self, context_length: int) -> int:
        if context_length < self.options.longest - 1:
            raise SpecError(
                f"{self.options.sentences} sentences of up to {self.options.longest} words do not fit into a context "
                f"of {context_length}",
                hint=f"use a context of at least {self.options.longest - 1}, or fewer sentences or other adjectives",
            )
        return self._words_per_example

    def examples(self, words: NDArray[np.uint64], context_length: int) -> Batch:
        inputs = np.full((len(words), context_length), PAD, dtype=np.int64)
        targets = np.full((len(words), context_length), IGNORED, dtype=np.int64)
        for row, text in enumerate(map(self._sentences, words)):
            inputs[row, : len(text) - 1] = text[:-1]
            targets[row, : len(text) - 1] = text[1:]
        return Batch(tensor(inputs), tensor(targets))

    def _sentences(self, words: NDArray[np.uint64]) -> list[int]:
        """Make the sentences of a row from its random words."""
        draw = draws(words)
        text: list[int] = []
        for _ in range(self.options.sentences):
            which = draw(len(self.adjectives))
            before = [self.others[draw(len(self.others))] for _ in range(draw(self.options.others + 1))]
            before.insert(draw(len(before) + 1), self.adjectives[which])
            text += [THE, *before, self.nouns[draw(len(self.nouns))], self.verbs[which], STOP]
        return text

    def deciding(self, batch: Batch) -> Tensor:
        """Return for each noun of the inputs the place of the adjective that decides its verb, −1 for other words."""
        found = torch.full_like(batch.inputs, NOWHERE)
        for row, words in enumerate(batch.inputs.tolist()):
            last = NOWHERE
            for place, word in enumerate(words):
                if word in self.adjectives:
                    last = place
                elif word in self.nouns:
                    found[row, place] = last
        return found
