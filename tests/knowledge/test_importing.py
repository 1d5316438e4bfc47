"""Files into a fact store and out of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from attnlab.errors import FileError
from attnlab.knowledge.store.files import export_lines, export_pairs, import_file
from attnlab.knowledge.store.schema import Imported
from attnlab.knowledge.store.store import FactStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FactStore]:
    with FactStore(tmp_path / "facts.sqlite") as opened:
        yield opened


def test_pairs_and_text_and_back(store: FactStore, tmp_path: Path) -> None:
    pairs, text = tmp_path / "pairs.tsv", tmp_path / "text.txt"
    pairs.write_bytes("\ufeffWho?\tAda\r\n\r\nWhere?\tBray\ta book\r\nWhere?\tCork\n".encode())
    text.write_text('Ada lived.\n\n  \nBo "too" — 🦄 née Ḿ.\n')
    found = import_file(store, pairs, who="me")
    assert (found.new, found.contradictions) == (3, 1)
    assert [(one.answer, one.source) for one in store.facts()] == [
        ("Ada", "pairs.tsv"),
        ("Bray", "a book"),
        ("Cork", "pairs.tsv"),
    ]
    steps: list[Imported] = []
    assert import_file(store, text, who="me", source="lives", progress=steps.append).new == 2
    assert steps[-1].new == 2
    assert list(export_pairs(store)) == ["Who?\tAda\tpairs.tsv", "Where?\tBray\ta book", "Where?\tCork\tpairs.tsv"]
    lines = tmp_path / "all.jsonl"
    lines.write_text("".join(f"{line}\n" for line in export_lines(store)))
    with FactStore(tmp_path / "copy.sqlite") as copy:
        assert import_file(copy, lines, who="somebody else").new == 5
        assert [(one.question, one.answer, one.source, one.who) for one in copy.facts()] == [
            (one.question, one.answer, one.source, one.who) for one in store.facts()
        ]
        assert [one.text for one in copy.documents()] == [one.text for one in store.documents()]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.tsv", b"Who?\tAda\nWhere? Bray\n", "line 2 of .* has no tab"),
        ("a.tsv", b"Who?\t \n", "line 1 of .* has no answer"),
        ("a.tsv", b"\tAda\n", "line 1 of .* has no question"),
        ("a.tsv", b"Who?\tAda\n\xff\xfe?\tx\n", "line 2 of .* is no UTF-8"),
        ("a.txt", b"fine\n\xff\n", "line 2 of .* is no UTF-8"),
        ("a.txt", b"", "is empty"),
        ("a.txt", b"\n \n\x00\n", "is empty"),
        ("a.jsonl", b"{}\n", "line 1 of .* is no fact and no document"),
        ("a.jsonl", b'{"kind": "fact", "question": 3, "answer": "x"}\n', "is no fact"),
        ("a.jsonl", b'{"kind": "document", "text": ""}\n', "is no fact"),
        ("a.jsonl", b"no json\n", "is no fact"),
        ("a.jsonl", b"[" * 100_000, "is no fact"),
    ],
)
def test_a_file_with_a_bad_line_changes_nothing(
    store: FactStore, tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(FileError, match=said) as caught:
        import_file(store, path, who="me")
    assert caught.value.hint
    assert store.counts()["facts"] == store.counts()["documents"] == 0


def test_a_file_that_is_not_there(store: FactStore, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read"):
        import_file(store, tmp_path / "absent.tsv", who="me")


def test_what_is_exported_is_json_of_one_line_each(store: FactStore) -> None:
    store.add("Who?\n", 'A "b"', who="me", source="told")
    (line,) = export_lines(store)
    assert json.loads(line)["answer"] == 'A "b"'
    assert json.loads(line)["told"] is True
