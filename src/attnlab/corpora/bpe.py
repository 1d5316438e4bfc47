"""Byte-pair encoding: trained on the spot, or GPT-2's own from its files.

Both are byte-level with GPT-2's way of cutting a text into words (Radford et al., 2019), so they know every text. The
work is done by the `tokenizers` library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import decoders, models, pre_tokenizers, trainers

from attnlab.corpora.tokenizer import Tokenizer, utf8
from attnlab.errors import FileError

END_OF_TEXT = "<|endoftext|>"


class BpeTokenizer(Tokenizer):
    """A byte-level BPE of the `tokenizers` library."""

    kind = "bpe"

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._inner = inner
        self.vocabulary_size = inner.get_vocab_size(with_added_tokens=True)

    @classmethod
    def train(cls, chunks: Iterable[str], vocabulary_size: int, special: Sequence[str] = ()) -> BpeTokenizer:
        """Merge the commonest pairs of a text until the vocabulary is full, or nothing is left to merge.

        What is `special` is a token by itself, wherever it stands.
        """
        inner = _byte_level(models.BPE())
        trainer = trainers.BpeTrainer(
            vocab_size=vocabulary_size,
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            special_tokens=list(special),
        )
        inner.train_from_iterator(chunks, trainer)
        return cls(inner)

    def encode_array(self, text: str) -> NDArray[Any]:
        utf8(text)  # the library has no words for what is no character
        return np.array(self._inner.encode(text, add_special_tokens=False).ids, dtype=np.int32)

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._inner.decode(list(ids), skip_special_tokens=False))

    def _content(self) -> dict[str, Any]:
        return {"tokenizer": json.loads(self._inner.to_str())}

    @classmethod
    def _from_content(cls, content: dict[str, Any]) -> BpeTokenizer:
        try:
            return cls(tokenizers.Tokenizer.from_str(json.dumps(content["tokenizer"])))
        except KeyError:
            raise
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(str(error)) from None


class Gpt2Tokenizer(BpeTokenizer):
    """GPT-2's BPE, from a folder of files."""

    kind = "gpt2"

    @classmethod
    def from_folder(cls, folder: Path) -> Gpt2Tokenizer:
        """From `tokenizer.json`, or from `vocab.json` and `merges.txt`."""
        whole, vocabulary, merges = (folder / name for name in ("tokenizer.json", "vocab.json", "merges.txt"))
        try:
            if whole.is_file():
                return cls(tokenizers.Tokenizer.from_file(str(whole)))
            if vocabulary.is_file() and merges.is_file():
                return cls(_from_two_files(vocabulary, merges))
        except Exception as error:  # the library raises nothing narrower
            raise FileError(
                f"the tokenizer in {folder} cannot be read: {error}", hint="take the files of a GPT-2 again"
            ) from None
        raise FileError(
            f"{folder} holds no tokenizer" if folder.is_dir() else f"there is no folder {folder}",
            hint="it should hold tokenizer.json, or vocab.json and merges.txt, as published with GPT-2",
        )


def _byte_level(model: models.Model) -> tokenizers.Tokenizer:
    inner = tokenizers.Tokenizer(model)
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return inner


def _from_two_files(vocabulary: Path, merges: Path) -> tokenizers.Tokenizer:
    inner = _byte_level(models.BPE.from_file(str(vocabulary), str(merges)))
    if inner.token_to_id(END_OF_TEXT) is not None:
        inner.add_special_tokens([END_OF_TEXT])
    return inner
