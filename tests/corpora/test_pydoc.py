"""Python's own documentation as a text."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from attnlab.corpora import CorpusSpec, TextCorpus, open_corpus, python_sources
from attnlab.errors import FileError


def test_as_a_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = Path(sysconfig.get_path("stdlib"))
    monkeypatch.setattr(python_sources, "_sources", lambda folder, _: sorted(folder.glob("p*.py"))[::-1])
    corpus = open_corpus(CorpusSpec(), tmp_path)
    assert isinstance(corpus, TextCorpus)
    text = corpus.tokenizer.decode([*corpus.train, *corpus.validation])
    assert set(text) <= {"\n", *map(chr, range(32, 127))}
    assert 'The "assert" statement' in text or "Assert statements" in text  # of the reference
    docstring = "Pretty-print a Python object to a stream"
    assert docstring in (library / "pprint.py").read_text(encoding="utf-8")
    assert docstring in text
    assert " \n" not in text
    monkeypatch.setattr(python_sources, "_topics", lambda: pytest.fail("the text was made again"))
    assert open_corpus(CorpusSpec(tokenizer="byte"), tmp_path).training_tokens == corpus.training_tokens


@pytest.mark.slow
def test_the_whole_text(tmp_path: Path) -> None:
    corpus = open_corpus(CorpusSpec(), tmp_path)
    assert corpus.training_tokens + corpus.validation_tokens > 1_500_000
    assert corpus.vocabulary_size <= 96


def test_sources_without_tests_and_packages(tmp_path: Path) -> None:
    for name in ("a.py", "b/c.py", "test/d.py", "b/tests/e.py", "site-packages/f.py", "g.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert sorted(path.name for path in python_sources._sources(tmp_path, python_sources._NOT_IN_PYDOC)) == [
        "a.py",
        "c.py",
    ]


def test_docstrings_are_read_without_importing(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        '"""Of the module."""\nraise SystemExit\n'
        'class One:\n    """Of a class."""\n    def f(self):\n        """Of a method.\n\n        More."""\n'
        'async def g():\n    "Of a coroutine."\ndef h(): pass\nx = "no docstring"\n'
    )
    found = list(python_sources.read_docstrings(path))
    assert found == ["Of the module.", "Of a class.", "Of a method.\n\nMore.", "Of a coroutine."]


@pytest.mark.parametrize("content", [b"def (", b"\xff\xfe", b"x = '\0'"])
def test_what_is_no_module_is_passed_over(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "module.py").write_bytes(content)
    assert list(python_sources.read_docstrings(tmp_path / "module.py")) == []
    assert list(python_sources.read_docstrings(tmp_path / "missing.py")) == []


def test_normalise() -> None:
    assert python_sources.normalise("  “Café”\t\t…  \r\n — naïve 日本 →\n\n") == '"Cafe"       ...\n - naive  ->'


def test_a_python_without_its_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(python_sources, "_topics", lambda: iter(()))
    monkeypatch.setattr(python_sources, "_modules", lambda: iter(()))
    with pytest.raises(FileError, match="neither its topics nor its sources"):
        python_sources.python_text()
