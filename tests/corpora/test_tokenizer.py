"""Tokenizers: what is encoded comes back, what is unknown is named, and JSON keeps them whole."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as LibraryTokenizer

from attnlab.corpora import (
    BpeTokenizer,
    ByteTokenizer,
    CharTokenizer,
    Gpt2Tokenizer,
    SymbolTokenizer,
    Tokenizer,
    WordTokenizer,
)
from attnlab.corpora.tokenizer import WORD
from attnlab.errors import FileError, InputError, UnknownNameError

TEXT = "the cat sat on the mat, and the other cat sat on the other mat.\n" * 20
texts = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.fixture(scope="module")
def bpe() -> BpeTokenizer:
    return BpeTokenizer.train([TEXT], 270)


@pytest.fixture(scope="module")
def folder(bpe: BpeTokenizer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two files of a GPT-2, with a vocabulary of our own."""
    folder = tmp_path_factory.mktemp("gpt2")
    model = json.loads(bpe.to_json())["tokenizer"]["model"]
    vocabulary = {**model["vocab"], "<|endoftext|>": len(model["vocab"])}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n", encoding="utf-8")
    return folder


@given(texts)
def test_round_trip_of_bytes(text: str) -> None:
    tokenizer = ByteTokenizer()
    assert tokenizer.encode(text) == list(text.encode())
    assert tokenizer.decode(tokenizer.encode(text)) == text


@given(texts)
def test_round_trip_of_characters(text: str) -> None:
    tokenizer = CharTokenizer(text)
    tokens = tokenizer.encode(text)
    assert tokenizer.decode(tokens) == text
    assert tokenizer.vocabulary_size == len(set(text))
    assert len(tokens) == len(text)
    assert Tokenizer.from_json(tokenizer.to_json()) == tokenizer


@given(texts)
def test_round_trip_of_words(text: str) -> None:
    tokenizer = WordTokenizer(sorted(set(WORD.findall(text))))
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert Tokenizer.from_json(tokenizer.to_json()) == tokenizer


@given(text=texts)
def test_round_trip_of_bpe(bpe: BpeTokenizer, text: str) -> None:
    assert bpe.decode(bpe.encode(text)) == text


def test_bpe_merges_what_is_common(bpe: BpeTokenizer) -> None:
    assert bpe.vocabulary_size == 270
    assert len(bpe.encode(" the")) == 1
    assert len(bpe.encode(TEXT)) < len(TEXT) / 2
    assert BpeTokenizer.train([TEXT], 270) == bpe


def test_json_keeps_bpe(bpe: BpeTokenizer) -> None:
    again = Tokenizer.from_json(bpe.to_json())
    assert again == bpe
    assert isinstance(again, BpeTokenizer)
    assert again.encode(TEXT) == bpe.encode(TEXT)
    assert again.kind == "bpe"


def test_gpt2_from_two_files(folder: Path, bpe: BpeTokenizer) -> None:
    tokenizer = Gpt2Tokenizer.from_folder(folder)
    assert tokenizer.kind == "gpt2"
    assert tokenizer.vocabulary_size == 271
    assert tokenizer.encode(TEXT) == bpe.encode(TEXT)
    assert tokenizer.encode("cat<|endoftext|>") == [*bpe.encode("cat"), 270]
    assert tokenizer.decode([270]) == "<|endoftext|>"
    assert Tokenizer.from_json(tokenizer.to_json()).encode(" ça va?") == tokenizer.encode(" ça va?")


def test_gpt2_from_one_file(folder: Path, tmp_path: Path) -> None:
    two = Gpt2Tokenizer.from_folder(folder)
    inner = LibraryTokenizer.from_str(json.dumps(json.loads(two.to_json())["tokenizer"]))
    inner.save(str(tmp_path / "tokenizer.json"))
    assert Gpt2Tokenizer.from_folder(tmp_path) == two


def test_gpt2_without_files(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="holds no tokenizer") as caught:
        Gpt2Tokenizer.from_folder(tmp_path)
    assert "vocab.json" in (caught.value.hint or "")
    with pytest.raises(FileError, match="there is no folder"):
        Gpt2Tokenizer.from_folder(tmp_path / "none")
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(FileError, match="cannot be read"):
        Gpt2Tokenizer.from_folder(tmp_path)


def test_unknown_characters_are_named() -> None:
    tokenizer = CharTokenizer("abc")
    with pytest.raises(InputError, match="does not know 'x', '😀', 'y':") as caught:
        tokenizer.encode("axb😀yx")
    assert "byte" in (caught.value.hint or "")
    with pytest.raises(InputError, match=r"'5', '6', '7', '8', '9', …"):
        tokenizer.encode("567890")
    with pytest.raises(InputError, match="' dog'"):
        WordTokenizer(["a", " cat"]).encode("a dog")
    with pytest.raises(InputError, match="'k9'"):
        SymbolTokenizer(["k1"]).encode("k1 k9")


@pytest.mark.parametrize("tokenizer", [ByteTokenizer(), BpeTokenizer.train(["a"], 256)], ids=["byte", "bpe"])
def test_half_a_surrogate_pair_is_refused(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match="no character"):
        tokenizer.encode("a\ud800")


def test_no_tokens() -> None:
    for tokenizer in (CharTokenizer(""), ByteTokenizer(), WordTokenizer([]), SymbolTokenizer(["a"])):
        assert tokenizer.encode("") == []
        assert tokenizer.decode([]) == ""


@pytest.mark.parametrize("token", [-1, 3])
def test_decode_refuses_what_is_no_token(token: int) -> None:
    with pytest.raises(InputError, match=f"{token} is no token: this char tokenizer has 0 to 2"):
        CharTokenizer("abc").decode([0, token])


def test_bytes_that_are_no_text() -> None:
    assert ByteTokenizer().decode([97, 255]) == "a�"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "3",
        "{}",
        '{"kind": "char"}',
        '{"kind": "byte", "a": 1}',
        '{"kind": "word", "pieces": [1]}',
        '{"kind": "word", "pieces": ["a", "a"]}',
        '{"kind": "bpe"}',
        '{"kind": "bpe", "tokenizer": {}}',
    ],
)
def test_damaged_json_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="JSON"):
        Tokenizer.from_json(text)


def test_unknown_kind_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="no tokenizer called 'cha'"):
        Tokenizer.from_json('{"kind": "cha"}')
