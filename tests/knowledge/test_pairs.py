"""Pairs: what a file may hold, and what becomes of what it should not."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.errors import FileError, InputError
from attnlab.knowledge import Pair, QuestionTemplate, read_pairs, write_pairs
from attnlab.knowledge.pairs import commonest_answer, split_pairs
from attnlab.knowledge.text import clean

ODD = [
    "Where was Naïma Azough born?",
    "Where was محمود درويش born?",
    'Where was 🦊 O\'Brien "Bob" born?',
    "Where was Robert'); DROP TABLE facts;-- born?",
    f"Where was {'x' * 10_000} born?",
]


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_pairs_of_a_file(tmp_path: Path) -> None:
    found = read_pairs(write(tmp_path / "p.tsv", "a?\tX\n\n b?  \t Y  Z \r\na?\tX\n"))
    assert found.pairs == (Pair("a?", "X"), Pair("b?", "Y Z"))
    assert found.duplicates == 1
    assert found.problems is not None
    assert "said twice" in found.problems


def test_odd_names_stay_as_they_are(tmp_path: Path) -> None:
    pairs = [Pair(question, "Zürich") for question in ODD]
    write_pairs(tmp_path / "deep" / "p.tsv", pairs)
    assert read_pairs(tmp_path / "deep" / "p.tsv").pairs == tuple(pairs)


def test_an_accent_is_the_same_however_it_was_typed(tmp_path: Path) -> None:
    found = read_pairs(write(tmp_path / "p.tsv", "Nai\u0308ma?\tX\nNa\u00efma?\tX\n"))
    assert found.pairs == (Pair("Na\u00efma?", "X"),)


def test_contradictions_are_kept_apart_and_reported(tmp_path: Path) -> None:
    found = read_pairs(write(tmp_path / "p.tsv", "a?\tX\na?\tY\na?\tX\nb?\tZ\n"))
    assert found.pairs == (Pair("b?", "Z"),)
    assert found.contradictions[0].answers == ("X", "Y")
    assert found.duplicates == 1
    assert "'a?': 'X', 'Y'" in str(found.problems)


def test_a_clean_file_has_no_problems(tmp_path: Path) -> None:
    assert read_pairs(write(tmp_path / "p.tsv", "a?\tX\n")).problems is None


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ("a?\tX\nno tab here\n", "line 2 of .* has no tab"),
        ("a?\t\n", "line 1 of .* has no answer"),
        ("\tX\n", "line 1 of .* has no question"),
        ("", "holds no pairs"),
        ("\n \n", "holds no pairs"),
        (b"a?\tX\nb\xff?\tY\n", "line 2 of .* is no UTF-8"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, content: str | bytes, complaint: str) -> None:
    with pytest.raises(FileError, match=complaint):
        read_pairs(write(tmp_path / "p.tsv", content))


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.tsv", tmp_path):
        with pytest.raises(FileError, match="cannot be read"):
            read_pairs(path)


def test_marks_of_the_model_are_ordinary_text() -> None:
    assert clean("what\u2047 a \u25a1") == "what?? a ■"


def test_a_split_gives_each_pair_one_use() -> None:
    pairs = [Pair(str(number), "X") for number in range(100)]
    first, second, rest = split_pairs(pairs, [0.1, 0.2], seed=3)
    assert (len(first), len(second), len(rest)) == (10, 20, 70)
    assert {*first, *second, *rest} == set(pairs)
    assert split_pairs(pairs, [0.1, 0.2], seed=3) == [first, second, rest]
    assert split_pairs(pairs, [0.1, 0.2], seed=4) != [first, second, rest]
    with pytest.raises(InputError, match="add up below 1"):
        split_pairs(pairs, [0.5, 0.5])


def test_the_commonest_answer() -> None:
    assert commonest_answer([Pair("a", "X"), Pair("b", "Y"), Pair("c", "Y")]) == "Y"


def test_the_template_of_questions() -> None:
    template = QuestionTemplate.find(["Where was Ann Lee born?", "Where was Bob Lee born?", "Where was Al born?"])
    assert template == QuestionTemplate("Where was ", " born?")
    assert template.ask("Cy") == "Where was Cy born?"
    assert template.name("Where was Cy  Young born?") == "Cy Young"
    assert template.name("Who was Cy born?") is None
    assert template.name("Where was born?") is None
    assert QuestionTemplate.find(["What is Anna?", "What is Anton?"]) == QuestionTemplate("What is ", "?")
    assert QuestionTemplate.find(["one question"]) == QuestionTemplate("", "")


@given(st.lists(st.from_regex(r"[A-Z][a-z]{2,8}( [A-Z][a-z]{2,8})?", fullmatch=True), min_size=3, unique=True))
def test_a_template_gives_every_name_back(names: list[str]) -> None:
    template = QuestionTemplate.find([f"Where was {name} born?" for name in names])
    for name in names:
        found = template.name(f"Where was {name} born?")
        assert found is not None
        assert template.ask(found) == f"Where was {name} born?"
