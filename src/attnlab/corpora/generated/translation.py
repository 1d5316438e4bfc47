"""`translation`: sentences of a small language translated into another, with known alignment, for encoder–decoders.

Source: clauses of  adjective* noun verb adjective* noun .   The target language has one word for each word, and puts
the adjectives after their noun and the verb at the end of its clause:

    a3 n1 v2 a0 a5 n4 .     →     N6 A2 N0 A7 A1 V5 .

The dictionary is a bijection drawn from the seed, nouns to nouns and so on; "." is unchanged. Both languages and the
special tokens <pad>, <bos>, <eos> share one vocabulary. The decoder reads <bos> and the words, and predicts the words
and <eos>.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attnlab.corpora.batches import IGNORED, Batch, TaskCorpus, draws, tensor
from attnlab.corpora.randomness import digest, permutation
from attnlab.corpora.spec import CorpusSpec, TranslationOptions
from attnlab.errors import InputError, SpecError

VERSION = 1
DEFAULT_SYMBOLS = 128
SIGNS = ("<pad>", "<bos>", "<eos>", ".")
PAD, BOS, EOS, STOP = range(len(SIGNS))
FEWEST = 4 + 2 * 4  # symbols: one verb, one adjective and two nouns in each language
NOWHERE = -1


class TranslationCorpus(TaskCorpus):
    """Symbols: the special tokens, then the source's adjectives, verbs and nouns, then the target's in that order."""

    def __init__(self, spec: CorpusSpec) -> None:
        options = spec.parsed_options
        assert isinstance(options, TranslationOptions)
        self.options = options
        size = spec.vocabulary_size or DEFAULT_SYMBOLS
        if size < FEWEST or size % 2:
            raise SpecError(
                f"{size} symbols are not {len(SIGNS)} signs and two languages of equally many words",
                hint=f"use an even vocabulary_size of at least {FEWEST}, such as {max(FEWEST, size + size % 2)}",
            )
        self.words_per_language = (size - len(SIGNS)) // 2
        quarter = self.words_per_language // 4
        # Where adjectives, verbs and nouns begin, and the nouns end, in the source language.
        self.bounds = tuple(len(SIGNS) + count for count in (0, quarter, 2 * quarter, self.words_per_language))
        self.adjectives, self.verbs, self.nouns = (range(*ends) for ends in pairwise(self.bounds))
        kinds = [(letter, len(words)) for letter, words in zip("avn", self._classes, strict=True)]
        names = [f"{letter}{number}" for letter, count in kinds for number in range(count)]
        super().__init__(spec, VERSION, [*SIGNS, *names, *(n.upper() for n in names)], options.validation_examples)
        self.dictionary = self._draw_dictionary()

    @property
    def _classes(self) -> tuple[range, range, range]:
        return self.adjectives, self.verbs, self.nouns

    def _draw_dictionary(self) -> NDArray[np.int64]:
        """Draw the translation of each symbol; signs map to themselves, and so do target words, which are not used."""
        dictionary = np.arange(self.vocabulary_size, dtype=np.int64)
        for number, words in enumerate(self._classes):
            order = permutation(digest(self.hash, "dictionary", number), len(words))
            dictionary[words.start : words.stop] = words.start + self.words_per_language + order
        return dictionary

    @property
    def validation_tokens(self) -> int:
        """The words and ends of the validation sentences."""
        words = self._validation_words(list(range(self.validation_examples)), self._words_per_example)
        return sum(len(sentence) + 1 for sentence in map(self._sentence, words))

    @property
    def _words_per_example(self) -> int:
        return 1 + self.options.clauses * (2 * (self.options.adjectives + 2) + 1)

    def words_needed(self, context_length: int) -> int:
        if context_length <= self.options.longest:
            raise SpecError(
                f"sentences of up to {self.options.longest} words do not fit, with their end, "
                f"into a context of {context_length}",
                hint=f"use a context of at least {self.options.longest + 1}, or fewer clauses or adjectives",
            )
        return self._words_per_example

    def examples(self, words: NDArray[np.uint64], context_length: int) -> Batch:
        source = np.full((len(words), self.options.longest), PAD, dtype=np.int64)
        inputs = np.full((len(words), context_length), PAD, dtype=np.int64)
        targets = np.full((len(words), context_length), IGNORED, dtype=np.int64)
        for row, sentence in enumerate(map(self._sentence, words)):
            length = len(sentence)
            translated = self.dictionary[sentence[self._order(sentence)]]
            source[row, :length] = sentence
            inputs[row, 0], inputs[row, 1 : length + 1] = BOS, translated
            targets[row, :length], targets[row, length] = translated, EOS
        return Batch(tensor(inputs), tensor(targets), tensor(source), tensor(source) != PAD)

    def _sentence(self, words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Make a source sentence from its random words."""
        draw = draws(words)
        sentence: list[int] = []
        for _ in range(1 + draw(self.options.clauses)):
            for phrase in range(2):
                if phrase == 1:
                    sentence.append(self.verbs[draw(len(self.verbs))])
                sentence += [
                    self.adjectives[draw(len(self.adjectives))] for _ in range(draw(self.options.adjectives + 1))
                ]
                sentence.append(self.nouns[draw(len(self.nouns))])
            sentence.append(STOP)
        return np.array(sentence, dtype=np.int64)

    def _order(self, sentence: NDArray[np.int64]) -> list[int]:
        """Return for each word of the translation the place of the source word that it translates."""
        order: list[int] = []
        adjectives: list[int] = []
        verb: list[int] = []
        for place, word in enumerate(sentence.tolist()):
            if word in self.adjectives:
                adjectives.append(place)
            elif word in self.verbs:
                verb.append(place)
            elif word in self.nouns:
                order += [place, *adjectives]
                adjectives = []
            else:  # the end of the clause
                order += [*verb, place]
                verb = []
        return order

    def alignment(self, batch: Batch) -> Tensor:
        """Return which place of the source each target translates, (rows, context); −1 for <eos> and padding."""
        if batch.source is None:
            raise InputError("this batch has no source", hint="give a batch of the translation task")
        aligned = torch.full_like(batch.targets, NOWHERE)
        for row, sentence in enumerate(batch.source.cpu().numpy()):
            order = self._order(sentence[sentence != PAD])
            aligned[row, : len(order)] = torch.tensor(order)
        return aligned
