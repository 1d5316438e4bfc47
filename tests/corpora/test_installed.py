"""The corpora `python` and `docstrings`: documents, filters, the split by document, identity and cache."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from attnlab.corpora import CorpusSpec, TextCorpus, open_corpus, python_sources
from attnlab.corpora.cache import CorpusCache
from attnlab.corpora.sources import TextSource
from attnlab.errors import FileError

COUNT = 45  # documents, two of which are held out


@dataclass(frozen=True)
class Package:
    name: str
    version: str


def source(number: int) -> str:
    """Return a document that shares no long line with another and names itself in every line."""
    word = "".join(chr(ord("a") + int(digit)) for digit in f"{number:03d}")
    lines = (f"    value_{word} = compute_{word}({chr(ord('a') + line)!r}, of={word!r})" for line in range(20))
    return f'def make_{word}():\n    """Return what {word} computes, and say so in a sentence of some length."""\n' + (
        "\n".join(lines) + "\n"
    )


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, texts: Sequence[str], version: str = "1.0") -> list[Path]:
    """Have the installation consist of these files."""
    paths = [folder / f"file{number:03d}.py" for number in range(len(texts))]
    for path, text in zip(paths, texts, strict=True):
        path.write_text(text, encoding="utf-8")
    monkeypatch.setattr(python_sources, "_files", lambda: iter(paths))
    monkeypatch.setattr(python_sources, "_distributions", lambda: [Package("small", version)])
    return paths


def opened(cache: Path, name: str = "python", tokenizer: str = "char") -> TextCorpus:
    corpus = open_corpus(CorpusSpec(name=name, tokenizer=tokenizer), cache)
    assert isinstance(corpus, TextCorpus)
    return corpus


def documents(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n\n\n")


def test_every_document_is_in_one_part_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [source(number) for number in range(COUNT)]
    install(monkeypatch, tmp_path, texts)
    split = python_sources.installed_text("python")
    train, validation = documents(split.train), documents(split.validation)
    assert (len(train), len(validation)) == (COUNT - 2, 2)
    assert sorted([*train, *validation]) == sorted(python_sources.normalise(text) for text in texts)
    assert validation != [python_sources.normalise(text) for text in texts[:2]]  # shuffled, not the first
    assert python_sources.installed_text("python") == split


def test_docstrings_are_the_docstrings_of_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = []
    for number in range(COUNT):
        _, head, *_ = source(number).split('"""')
        texts.append("".join(f'def f{line}():\n    """{head} Line {chr(97 + line)}."""\n' for line in range(8)))
    install(monkeypatch, tmp_path, texts)
    split = python_sources.installed_text("docstrings")
    assert len(documents(split.train)) + len(documents(split.validation)) == COUNT
    assert "def " not in split.train + split.validation
    assert split.train.count("Return what") == 8 * (COUNT - 2)


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (source(500), True),
        (source(1), False),  # a copy of another document
        (source(1) + "x = 1\n", False),  # and one that mostly repeats it
        (source(500)[:390], False),  # too short
        (source(500) + "#" + "x" * 400 + "\n", False),  # with a line of data
        (source(500) + "#" + "x" * 398 + "\n", True),
        (source(500) + "".join(f"{line:06d},\n" for line in range(40, 120)), False),  # a table
    ],
)
def test_copies_and_data_are_left_out(text: str, kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tmp_path, [*(source(number) for number in range(COUNT)), text])
    split = python_sources.installed_text("python")
    found = documents(split.train) + documents(split.validation)
    assert len(found) == COUNT + kept
    assert (python_sources.normalise(text) in found) is (kept or text == source(1))


def test_unreadable_files_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = install(monkeypatch, tmp_path, [source(number) for number in range(COUNT)])
    paths[0].write_bytes(b"\xff\xfe" * 400)
    paths[1].unlink()
    split = python_sources.installed_text("python")
    assert len(documents(split.train)) + len(documents(split.validation)) == COUNT - 2


@pytest.mark.parametrize("count", [0, 19])
def test_too_few_documents_are_refused(count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tmp_path, [source(number) for number in range(count)])
    with pytest.raises(FileError, match=rf"no sources to read \({count} documents were found\)") as caught:
        opened(tmp_path / "cache")
    assert caught.value.hint


def test_the_split_is_where_the_held_out_text_begins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, tmp_path, [source(number) for number in range(COUNT)])
    split = python_sources.installed_text("python")
    for tokenizer in ("char", "byte"):
        corpus = opened(tmp_path / "cache", tokenizer=tokenizer)
        assert corpus.training_tokens == len(split.train)
        assert corpus.tokenizer.decode(list(corpus.train)) == split.train
        assert corpus.tokenizer.decode(list(corpus.validation)) == split.validation


def test_the_cache_is_used_until_a_package_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [source(number) for number in range(COUNT)]
    install(monkeypatch, tmp_path, texts)
    first = opened(tmp_path / "cache")
    entries = sorted(path.name for path in (tmp_path / "cache").iterdir())
    (tmp_path / "file000.py").write_text(source(900))  # the same versions: nothing is read again
    assert opened(tmp_path / "cache").hash == first.hash
    assert sorted(path.name for path in (tmp_path / "cache").iterdir()) == entries
    before = python_sources.identity()
    monkeypatch.setattr(python_sources, "_distributions", lambda: [Package("small", "1.1")])
    assert python_sources.identity() != before
    assert opened(tmp_path / "cache").hash != first.hash


def test_both_corpora_have_their_own_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = "\n".join(f'def f{letter}():\n    """{{}} does {letter * 30} and more."""' for letter in "abcdefghijkl")
    install(
        monkeypatch, tmp_path, [body.replace("{}", f"W{chr(97 + n // 26)}{chr(97 + n % 26)}") for n in range(COUNT)]
    )
    one, two = opened(tmp_path / "cache", "python"), opened(tmp_path / "cache", "docstrings")
    assert one.hash != two.hash
    assert one.training_tokens > two.training_tokens


@pytest.mark.parametrize(
    ("letters", "tokenizer", "expected"),
    [
        ("abcdefgh ", "char", 1.0),
        ("abcdefgh ", "byte", 1.0),
        ("äöüßéèêë", "char", 2.0),
        ("äöüßéèêë", "byte", 1.0),
        ("aä", "char", 1.5),
        ("日本語", "char", 3.0),
    ],
)
def test_bytes_per_token(letters: str, tokenizer: str, expected: float, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(letters * 400, encoding="utf-8")
    corpus = open_corpus(CorpusSpec(name=str(tmp_path / "text.txt"), tokenizer=tokenizer), tmp_path / "cache")
    assert corpus.bytes_per_token == pytest.approx(expected, rel=0.01)


@pytest.mark.parametrize("words", ["the cat sat on the mat and ", "größer als süße Äpfel für "])
def test_bytes_per_token_of_bpe_are_those_of_the_text(words: str, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(words * 200, encoding="utf-8")
    spec = CorpusSpec(name=str(tmp_path / "text.txt"), tokenizer="bpe", vocabulary_size=280)
    corpus = open_corpus(spec, tmp_path / "cache")
    assert isinstance(corpus, TextCorpus)
    assert corpus.bytes_per_token is not None
    assert corpus.bytes_per_token > 1.5
    total = corpus.training_tokens + corpus.validation_tokens
    assert corpus.bytes_per_token == pytest.approx(len((words * 200).encode()) / total, rel=0.03)


def test_a_task_has_no_bytes() -> None:
    assert open_corpus(CorpusSpec(name="mqar", vocabulary_size=16, options={"pairs": 2})).bytes_per_token is None


def test_held_out_text_and_the_same_text_in_one_piece_are_two_corpora(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("abcd" * 100 + "\n")
    (tmp_path / "b.txt").write_text("dcba" * 300 + "\n")
    files, spec = (tmp_path / "a.txt", tmp_path / "b.txt"), CorpusSpec(name="any")
    cache = CorpusCache(tmp_path / "cache")
    held_out = TextCorpus.open(spec, TextSource("held", files[:1], files[1:]), cache)
    whole = TextCorpus.open(spec, TextSource("whole", files), cache)
    assert (held_out.training_tokens, held_out.validation_tokens) == (401, 1201)
    assert whole.training_tokens == int(1602 * (1 - spec.validation_share))
    assert held_out.hash != whole.hash


@pytest.mark.slow
def test_the_installed_sources_are_a_large_text(tmp_path: Path) -> None:
    corpus = open_corpus(CorpusSpec(name="python"), tmp_path)
    assert corpus.training_tokens + corpus.validation_tokens >= 50_000_000
    assert corpus.validation_tokens >= 1_000_000


def test_requirements_of_other_systems_and_extras_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """They may be installed for something else, as by the tests: the text must not change then."""
    requires = {
        "attnlab": ["Some_Package>=1", 'elsewhere; sys_platform == "nowhere"', 'tested; extra == "test"'],
        "some-package": ['here; python_version >= "3.11"'],
    }

    class Installed(Package):
        @property
        def requires(self) -> list[str]:
            return requires.get(self.name, [])

    monkeypatch.setattr(python_sources.metadata, "distribution", lambda name: Installed(name, "1.0"))
    assert python_sources.identity()[1:] == ["here 1.0", "some-package 1.0"]
