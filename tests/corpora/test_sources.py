"""Reading text: chunks that can be encoded alone, folders in order, and clear words about what is no text."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.corpora import BpeTokenizer, CorpusSpec, WordTokenizer, open_corpus, sources
from attnlab.corpora.sources import TextSource
from attnlab.corpora.tokenizer import WORD
from attnlab.errors import FileError


def message(path: Path, cache: Path, tokenizer: str = "char") -> str:
    with pytest.raises(FileError) as caught:
        open_corpus(CorpusSpec(name=str(path), tokenizer=tokenizer), cache)
    assert caught.value.hint
    return caught.value.message


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("sources") / "text.txt"


@pytest.fixture(scope="module")
def bpe() -> BpeTokenizer:
    return BpeTokenizer.train(["a b   b\n\n\n a'll \t\t it's  !! b 12 é!\x1c!\x1c\n\n" * 10], 320)


@given(text=st.text(st.sampled_from("ab1'ls é\n\t\r\x1c\x85\u2003😀!"), max_size=80))
@settings(max_examples=300)
def test_chunks_are_encoded_like_the_whole(scratch: Path, bpe: BpeTokenizer, text: str) -> None:
    scratch.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sources, "BLOCK", 7)
        chunks = list(TextSource.find(scratch).chunks())
    assert "".join(chunks) == text
    words = WordTokenizer(sorted(set(WORD.findall(text))))
    for tokenizer in (bpe, words):
        assert [token for chunk in chunks for token in tokenizer.encode(chunk)] == tokenizer.encode(text)


def test_text_is_read_in_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "text.txt").write_text("some words here\n" * 1000)
    (tmp_path / "long.txt").write_text("x" * 1000)
    monkeypatch.setattr(sources, "BLOCK", 128)
    monkeypatch.setattr(sources, "LONGEST_WORD", 300)
    chunks = list(TextSource.find(tmp_path / "text.txt").chunks())
    assert len(chunks) > 100
    assert max(map(len, chunks)) < 256
    assert max(map(len, TextSource.find(tmp_path / "long.txt").chunks())) < 600


def test_folder(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    (folder / "sub").mkdir(parents=True)
    (folder / ".hidden").mkdir()
    for name, text in {
        "b.txt": "second", "a.md": "first\n", "sub/c.py": "third", "d.png": "picture", ".e.txt": "hidden",
        ".hidden/f.txt": "hidden", "g.TXT": "capital", "empty.txt": "",
    }.items():  # fmt: skip
        (folder / name).write_text(text)
    (folder / "broken.txt").symlink_to("nowhere")
    assert b"".join(TextSource.find(folder).blocks()) == b"first\nsecond\ncapital\nthird"
    one = open_corpus(CorpusSpec(name=str(folder)), tmp_path / "cache")
    (tmp_path / "same.txt").write_text("first\nsecond\ncapital\nthird")
    assert open_corpus(CorpusSpec(name=str(tmp_path / "same.txt")), tmp_path / "cache").hash == one.hash


def test_nothing_there(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    (tmp_path / "empty.txt").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "picture.png").write_text("x")
    for tokenizer in ("char", "byte", "bpe", "word"):
        assert message(tmp_path / "empty.txt", cache, tokenizer) == f"{tmp_path / 'empty.txt'} is empty"
    assert message(tmp_path / "folder", cache) == f"the folder {tmp_path / 'folder'} holds no text"
    assert message(tmp_path / "none.txt", cache) == f"there is no file or folder {tmp_path / 'none.txt'}"
    os.mkfifo(tmp_path / "pipe")
    assert "neither a file nor a folder" in message(tmp_path / "pipe", cache)
    assert not list(cache.glob("*/manifest.json"))


@pytest.mark.parametrize("tokenizer", ["char", "bpe", "word"])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"good text, then \xff bad", "is not in UTF-8: byte 16 is 0xff"),
        ("é".encode() * 10 + b"\xc3", "is not in UTF-8: byte 20 is 0xc3"),
        (b"ends in half a character \xe2\x82", "is not in UTF-8: byte 25 is 0xe2"),
        (b"\x7fELF\x02\x01\x01\0\0", "is no text: byte 7 is 0"),
        ("text".encode("utf-16-le"), "is no text: byte 1 is 0"),
    ],
)
def test_no_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer: str, content: bytes, expected: str
) -> None:
    monkeypatch.setattr(sources, "BLOCK", 3)  # so that characters lie across blocks
    path = tmp_path / "rubbish"
    path.write_bytes(content)
    assert message(path, tmp_path / "cache", tokenizer) == f"{path} {expected}" + (
        ", as in a binary file or in UTF-16" if "no text" in expected else ""
    )
    assert not [entry for entry in (tmp_path / "cache").iterdir() if entry.suffix != ".lock"]
    corpus = open_corpus(CorpusSpec(name=str(path), tokenizer="byte", validation_share=0), tmp_path / "cache")
    assert corpus.training_tokens == len(content)


def test_a_character_cut_by_the_end_of_a_file(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"half \xe2\x82")
    (folder / "b.txt").write_bytes(b"\xac whole")
    assert message(folder, tmp_path / "cache") == f"{folder / 'a.txt'} is not in UTF-8: byte 5 is 0xe2"


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text.txt"
    path.write_text("before")
    true_hash = TextSource.hash

    def change(source: TextSource) -> str:
        found = true_hash(source)
        path.write_text("after it")
        return found

    monkeypatch.setattr(TextSource, "hash", change)
    assert "changed while it was read" in message(path, tmp_path / "cache")


def test_a_file_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "text.txt"
    path.write_text("text")

    def forbid(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", forbid)
    assert message(path, tmp_path / "cache") == f"{path} cannot be read: Permission denied"
