"""Text to token ids and back. A tokenizer is saved as JSON in full, so that a run is enough to decode its tokens.

Closed vocabularies are a list of pieces: characters, bytes, words, and the symbols of a task. Byte-pair encodings,
trained on a corpus or loaded from GPT-2's files, are byte-level with GPT-2's pre-tokenization (Radford et al., 2019),
so they can encode any text. They use the `tokenizers` library.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import tokenizers
from numpy.typing import NDArray
from tokenizers import decoders, models, pre_tokenizers, trainers

from attnlab.errors import FileError, InputError, UnknownNameError

# A word includes the space before it, as in GPT-2, so that joining the pieces restores the text.
WORD = re.compile(r" ?\w+|[^\w]")
END_OF_TEXT = "<|endoftext|>"  # of GPT-2
SHOWN = 5  # unknown pieces that an error lists


class Tokenizer(ABC):
    """Encode text as integers in [0, vocabulary_size). `Tokenizer.from_json` finds the subclass."""

    kind: ClassVar[str]
    vocabulary_size: int
    _known: ClassVar[dict[str, type[Tokenizer]]] = {}

    def __init_subclass__(cls) -> None:
        if "kind" in cls.__dict__:
            Tokenizer._known[cls.kind] = cls

    @abstractmethod
    def encode_array(self, text: str) -> NDArray[Any]:
        """Return the tokens of a text, as an array of integers."""

    @abstractmethod
    def _decode(self, ids: Sequence[int]) -> str: ...

    @abstractmethod
    def _content(self) -> Mapping[str, object]:
        """Return what `_from_content` needs to build the tokenizer again."""

    @classmethod
    @abstractmethod
    def _from_content(cls, content: Mapping[str, Any]) -> Tokenizer: ...

    def encode(self, text: str) -> list[int]:
        tokens: list[int] = self.encode_array(text).tolist()
        return tokens

    def decode(self, ids: Iterable[int]) -> str:
        ids = [int(token) for token in ids]
        for token in (min(ids), max(ids)) if ids else ():
            if not 0 <= token < self.vocabulary_size:
                raise InputError(
                    f"{token} is no token: this {self.kind} tokenizer has 0 to {self.vocabulary_size - 1}",
                    hint="decode with the tokenizer that encoded",
                )
        return self._decode(ids)

    def to_json(self) -> str:
        return json.dumps({"kind": self.kind, **self._content()}, ensure_ascii=True)

    @staticmethod
    def from_json(text: str | bytes) -> Tokenizer:
        try:
            content = json.loads(text)
            kind = content.pop("kind")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"this is not a tokenizer's JSON: {error!r}", hint="give what to_json returned") from None
        if kind not in Tokenizer._known:
            raise UnknownNameError("tokenizer", str(kind), Tokenizer._known)
        try:
            return Tokenizer._known[kind]._from_content(content)
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"this JSON of a {kind} tokenizer is damaged: {error!r}", hint="make it again") from None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.to_json())

    def __repr__(self) -> str:
        return f"<{self.kind} tokenizer of {self.vocabulary_size}>"


def utf8(text: str) -> bytes:
    """Return the UTF-8 bytes of a text; refuse half a surrogate pair, which has none."""
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise InputError(
            f"the text holds {text[error.start]!r} at {error.start}, which is no character", hint="remove it"
        ) from None


def unknown(kind: str, pieces: Iterable[str]) -> InputError:
    found = list(dict.fromkeys(pieces))
    shown = ", ".join(repr(piece) for piece in found[:SHOWN]) + (", …" if len(found) > SHOWN else "")
    return InputError(
        f"the {kind} tokenizer does not know {shown}: not in the text that it was made from",
        hint="remove it, or train with `tokenizer=byte` or `tokenizer=bpe`, which know every text",
    )


class CharTokenizer(Tokenizer):
    """One token for each character of a text, ordered by code point."""

    kind = "char"

    def __init__(self, characters: Iterable[str]) -> None:
        self.characters = "".join(sorted(set(characters)))
        self.vocabulary_size = len(self.characters)
        points = np.array([ord(character) for character in self.characters], dtype=np.int64)
        # One entry more than the largest code point, for all larger ones.
        self._table = np.full(int(points.max(initial=0)) + 2, -1, dtype=np.int32)
        self._table[points] = np.arange(len(points))

    def encode_array(self, text: str) -> NDArray[Any]:
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        tokens: NDArray[Any] = self._table[np.minimum(points, len(self._table) - 1)]
        if tokens.size and tokens.min() < 0:
            raise unknown("char", (chr(point) for point in points[tokens < 0].tolist()))
        return tokens

    def _decode(self, ids: Sequence[int]) -> str:
        return "".join(self.characters[token] for token in ids)

    def _content(self) -> Mapping[str, object]:
        return {"characters": self.characters}

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> CharTokenizer:
        return cls(content["characters"])


class ByteTokenizer(Tokenizer):
    """The bytes of UTF-8. Invalid bytes are decoded as �."""

    kind = "byte"
    vocabulary_size = 256

    def encode_array(self, text: str) -> NDArray[Any]:
        return np.frombuffer(utf8(text), dtype=np.uint8)

    def _decode(self, ids: Sequence[int]) -> str:
        return bytes(ids).decode("utf-8", errors="replace")

    def _content(self) -> Mapping[str, object]:
        return {}

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> ByteTokenizer:
        if content:
            raise ValueError(f"a byte tokenizer has no {', '.join(content)}")
        return cls()


class ListTokenizer(Tokenizer):
    """Base of tokenizers whose tokens are a list of strings."""

    def __init__(self, pieces: Iterable[str]) -> None:
        self.pieces = list(pieces)
        if not all(isinstance(piece, str) for piece in self.pieces) or len(set(self.pieces)) < len(self.pieces):
            raise ValueError("the pieces are not different strings")
        self.vocabulary_size = len(self.pieces)
        self._numbers = {piece: number for number, piece in enumerate(self.pieces)}

    def _look_up(self, pieces: list[str]) -> NDArray[Any]:
        try:
            return np.array([self._numbers[piece] for piece in pieces], dtype=np.int32)
        except KeyError:
            raise unknown(self.kind, (piece for piece in pieces if piece not in self._numbers)) from None

    def _content(self) -> Mapping[str, object]:
        return {"pieces": self.pieces}

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> ListTokenizer:
        return cls(content["pieces"])


class WordTokenizer(ListTokenizer):
    """One token for each distinct word of a text, with the space before it, and for each other character."""

    kind = "word"

    def encode_array(self, text: str) -> NDArray[Any]:
        return self._look_up(WORD.findall(text))

    def _decode(self, ids: Sequence[int]) -> str:
        return "".join(self.pieces[token] for token in ids)


class SymbolTokenizer(ListTokenizer):
    """The symbols of a task, written with spaces between them."""

    kind = "symbols"

    def encode_array(self, text: str) -> NDArray[Any]:
        return self._look_up(text.split())

    def _decode(self, ids: Sequence[int]) -> str:
        return " ".join(self.pieces[token] for token in ids)


class TokenIds(Tokenizer):
    """Token ids, written as numbers with spaces between them: for a model whose tokenizer is not known."""

    kind = "ids"

    def __init__(self, vocabulary_size: int) -> None:
        self.vocabulary_size = vocabulary_size

    def encode_array(self, text: str) -> NDArray[Any]:
        words = text.split()
        odd = [word for word in words if not word.isdecimal() or not int(word) < self.vocabulary_size]
        if odd:
            raise InputError(
                f"{odd[0]!r} is no token id; without a tokenizer, texts are ids from 0 to {self.vocabulary_size - 1}",
                hint="give token ids with spaces between them, as in: 12 7 330",
            )
        return np.array([int(word) for word in words], dtype=np.int32)

    def _decode(self, ids: Sequence[int]) -> str:
        return "".join(f" {token}" for token in ids)

    def _content(self) -> Mapping[str, object]:
        return {"vocabulary_size": self.vocabulary_size}

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> TokenIds:
        return cls(int(content["vocabulary_size"]))


class BpeTokenizer(Tokenizer):
    """A byte-level BPE of the `tokenizers` library."""

    kind = "bpe"

    def __init__(self, inner: tokenizers.Tokenizer) -> None:
        self._inner = inner
        self.vocabulary_size = inner.get_vocab_size(with_added_tokens=True)

    @classmethod
    def train(cls, chunks: Iterable[str], vocabulary_size: int, special: Sequence[str] = ()) -> BpeTokenizer:
        """Merge the most frequent pairs of a text until the vocabulary is full or nothing is left to merge.

        Each string of `special` is always a single token.
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
        utf8(text)  # the library has no clear error for invalid characters
        return np.array(self._inner.encode(text, add_special_tokens=False).ids, dtype=np.int32)

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._inner.decode(list(ids), skip_special_tokens=False))

    def save(self, path: Path) -> None:
        """Write the `tokenizer.json` that Transformers and `tokenizers` read."""
        path.write_text(self._inner.to_str(), encoding="utf-8")

    def _content(self) -> Mapping[str, object]:
        return {"tokenizer": json.loads(self._inner.to_str())}

    @classmethod
    def _from_content(cls, content: Mapping[str, Any]) -> BpeTokenizer:
        try:
            return cls(tokenizers.Tokenizer.from_str(json.dumps(content["tokenizer"])))
        except KeyError:
            raise
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(str(error)) from None


class PretrainedTokenizer(BpeTokenizer):
    """The tokenizer of a pretrained model. Special tokens are recognised in a text, but never added to it."""

    kind = "pretrained"

    @classmethod
    def from_file(cls, path: Path) -> PretrainedTokenizer:
        """Read the tokenizer from a `tokenizer.json`."""
        try:
            return cls(tokenizers.Tokenizer.from_file(str(path)))
        except Exception as error:  # the library raises nothing narrower
            raise FileError(f"the tokenizer {path} cannot be read: {error}", hint="fetch it again") from None


class Gpt2Tokenizer(BpeTokenizer):
    """GPT-2's BPE, from a folder of files."""

    kind = "gpt2"

    @classmethod
    def from_folder(cls, folder: Path) -> Gpt2Tokenizer:
        """Read the tokenizer from `tokenizer.json`, or from `vocab.json` and `merges.txt`."""
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
