"""The fact store: what goes in comes out, nothing is overwritten, and no name can be a command."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from attnlab.errors import FileError, InputError
from attnlab.knowledge.pairs import Pair
from attnlab.knowledge.store.store import FactStore

NAMES = {
    "quotes": 'Conan "the" O\'Brien',
    "one quote": 'Six"gun Sal',
    "accents": "Naïma Azoughé",
    "right to left": "محمد بن موسى",
    "emoji": "🦄🚀",
    "long": "Pippi " + "Långstrump " * 1000,
    "sql": "Robert'); DROP TABLE facts;--",
    "full-text": 'NEAR("a" OR b*) AND NOT ^c:d {x y}: -z +',
    "wildcards": "100% _under_ *star* ?",
    "nothing but signs": "?!*",
    "control": "Ada\x00Love\x1flace",
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FactStore]:
    with FactStore(tmp_path / "facts.sqlite") as opened:
        yield opened


def asked(name: str) -> str:
    return f"Where was {name} born?"


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES.keys())
def test_any_name_is_only_a_name(store: FactStore, name: str) -> None:
    store.add(asked("Somebody"), "Elsewhere", who="Ada", source="a book")
    added = store.add(asked(name), "Bray", who=name, source=name)
    assert added.standing == "new"
    (found,) = store.answers(asked(name))
    assert (found.answer, found.who) == ("Bray", added.fact.who)
    store.import_documents([f"{name} was born in Bray.", "Somebody else was not."], who="Ada", source="a text")
    texts = [one.text for one in store.documents_naming(name)]
    assert len(texts) == (0 if name == "?!*" else 1)
    if name != "?!*":
        facts, documents = store.search(name)
        assert [one.answer for one in facts] == ["Bray"]
        assert len(documents) == 1
    assert store.check() == []
    assert store.counts()["facts"] == 2


@pytest.mark.parametrize("words", ['zzz"OR"somebody', "zzz OR somebody", "some*", "NOT zzz", 'question:"somebody"'])
def test_no_search_is_a_command(store: FactStore, words: str) -> None:
    store.add(asked("Somebody"), "Elsewhere", who="Ada", source="a book")
    store.import_documents(["Somebody was born elsewhere."], who="Ada", source="a text")
    assert store.search(words) == ((), ())
    assert store.documents_naming(words) == ()
    assert len(store.search("somebody")[0]) == 1


def test_case_and_accents(store: FactStore) -> None:
    store.add("Where was José Núñez born?", "Málaga", who="Ada", source="a book")
    apart = "where was jose\u0301 nu\u0301n\u0303ez born?"  # decomposed
    for question in (
        "WHERE WAS JOSÉ NÚÑEZ BORN?",
        apart,
        "Where was Jose Nunez born?",
        " Where  was José\tNúñez born? ",
    ):
        assert [one.answer for one in store.answers(question)] == ["Málaga"]
    assert store.search("malaga")[0][0].question == "Where was José Núñez born?"
    assert store.answers("Where was José Nuñoz born?") == ()


def test_an_exact_name_comes_before_one_without_its_accents(store: FactStore) -> None:
    store.add(asked("Muller"), "Bonn", who="Ada", source="a book")
    assert store.add(asked("Müller"), "Köln", who="Ada", source="a book").standing == "new"
    assert [one.answer for one in store.answers(asked("Müller"))] == ["Köln"]
    assert [one.answer for one in store.answers(asked("Muller"))] == ["Bonn"]
    assert {one.answer for one in store.answers(asked("Mullér"))} == {"Bonn", "Köln"}


def test_a_contradiction_is_kept_and_said(store: FactStore) -> None:
    first = store.add(asked("Ada"), "London", who="Bo", source="a book")
    assert store.add(asked("ada"), "LONDON", who="Cy", source="another").standing == "known"
    second = store.add(asked("Ada"), "Paris", who="Cy", source="a friend")
    assert second.standing == "contradicts"
    assert second.others == (first.fact,)
    assert [(one.answer, one.who, one.source) for one in store.answers(asked("Ada"))] == [
        ("London", "Bo", "a book"),
        ("Paris", "Cy", "a friend"),
    ]
    assert store.counts()["contradicted"] == 1
    total = store.import_facts([Pair(asked("Ada"), "Rome"), Pair(asked("Bo"), "Oslo")], who="Cy", source="list")
    assert (total.new, total.known, total.contradictions) == (2, 0, 1)
    assert [one.answer for one in total.examples[0].others] == ["London", "Paris"]


def test_a_retracted_fact_stays_in_the_file(store: FactStore) -> None:
    wrong = store.add(asked("Ada"), "Paris", who="Cy", source="a friend").fact
    store.add(asked("Ada"), "London", who="Bo", source="a book")
    gone = store.retract(wrong.id, who="Dee")
    assert (gone.retracted_by, gone.answer) == ("Dee", "Paris")
    assert store.retract(wrong.id, who="Eve").retracted_by == "Dee"  # once
    assert [one.answer for one in store.answers(asked("Ada"))] == ["London"]
    assert "retracted by Dee" in " ".join(str(one) for one in store.search("Ada")[0])
    with pytest.raises(InputError, match="no fact 99"):
        store.retract(99, who="Dee")


def test_a_retraction_is_taken_back_unless_another_fact_says_the_same(store: FactStore) -> None:
    store.import_facts([Pair(asked("Ada"), "London")], who="Bob", source="a book")
    store.retract(1, who="Eve")
    restored = store.restore(1)
    assert (restored.retracted_at, restored.retracted_by, restored.told) == (None, None, False)
    assert store.restore(1) == restored, "one that is in use stays as it is"
    assert [fact.id for fact in store.answers(asked("ADA"))] == [1]
    store.retract(1, who="Eve")
    again = store.add(asked("ada"), "LONDON", who="Bob", source="told").fact
    with pytest.raises(InputError, match=f"fact {again.id} says the same as fact 1"):
        store.restore(1)
    assert store.check() == []


def test_a_correction_keeps_both_and_uses_the_new_one(store: FactStore) -> None:
    store.import_facts([Pair(asked("Ada"), "Paris")], who="Bob", source="a book")
    added = store.correct(1, "London", who="Eve", source="her passport")
    assert (added.standing, added.fact.answer, added.fact.who, added.fact.told) == ("new", "London", "Eve", True)
    assert store.fact(1).retracted_by == "Eve"
    assert [fact.answer for fact in store.answers(asked("Ada"))] == ["London"]
    for number, answer, words in (
        (1, "Rome", "fact 1 is retracted"),
        (2, "LONDON", "fact 2 says so already"),
        (2, " ", "needs a question and an answer"),
        (9, "Rome", "there is no fact 9"),
    ):
        with pytest.raises(InputError, match=words):
            store.correct(number, answer, who="Eve", source="told")
    assert store.fact(2).retracted_at is None, "a correction that is refused retracts nothing"
    assert store.check() == []


def test_facts_are_browsed_page_by_page(store: FactStore) -> None:
    store.import_facts([Pair(asked(f"Zoë {number}"), "Wickholm") for number in range(5)], who="Bob", source="a file")
    store.add(asked("Ada"), "London", who="Eve", source="told")
    store.retract(3, who="Eve")
    first = store.browse(limit=4)
    assert [fact.id for fact in first] == [6, 5, 4, 3]
    assert first[-1].retracted_by == "Eve"
    assert [fact.id for fact in store.browse(before=first[-1].id, limit=4)] == [2, 1]
    assert [fact.id for fact in store.browse("ZOE wickholm", limit=2)] == [5, 4]
    assert [fact.id for fact in store.browse("zoe", before=4)] == [3, 2, 1]
    assert [fact.id for fact in store.browse(told=True)] == [6]
    assert [fact.id for fact in store.browse("ada", told=True)] == [6]
    assert store.browse("zoe", told=True) == ()
    assert (store.size(), store.size(told=True)) == (6, 1)


def test_importing_twice_changes_nothing(store: FactStore) -> None:
    pairs = [Pair(asked(f"Person {number}"), f"Town {number % 7}") for number in range(50)]
    assert store.import_facts(pairs, who="Ada", source="list", batch=20).new == 50
    again = store.import_facts(pairs, who="Ada", source="list", batch=20)
    assert (again.new, again.known, again.batches) == (0, 50, 0)
    texts = [f"Person {number} was born." for number in range(50)]
    assert store.import_documents(texts, who="Ada", source="text", batch=20).new == 50
    assert store.import_documents([*texts, "", "  "], who="Ada", source="text", batch=20).new == 0
    assert store.counts()["batches"] == 6
    assert store.check() == []


def test_a_name_is_found_whole(store: FactStore) -> None:
    texts = ["Ann Lee was born.", "Joann Lee was not.", "A book on Ann Leeson.", "He met Ann Lee.", "ANN LEE, poet."]
    store.import_documents(texts, who="Ada", source="text")
    assert [one.text for one in store.documents_naming("Ann Lee")] == [texts[0], texts[4], texts[3]]
    assert len(store.documents_naming("Ann Lee", limit=1)) == 1


def test_a_batch_with_a_bad_fact_leaves_the_whole_ones_before_it(store: FactStore) -> None:
    pairs = [Pair(asked("A"), "X"), Pair(asked("B"), "Y"), Pair(asked("C"), "Z"), Pair("", "nothing")]
    with pytest.raises(InputError, match="needs a question and an answer"):
        store.import_facts(pairs, who="Ada", source="list", batch=2)
    assert store.counts()["facts"] == 2
    assert store.check() == []


@pytest.mark.parametrize(
    ("question", "answer", "who", "source", "said"),
    [
        ("", "x", "Ada", "book", "needs a question and an answer"),
        ("x?", " \t", "Ada", "book", "needs a question and an answer"),
        ("x?", "y", "", "book", "name of who says it is empty"),
        ("x?", "y", "Ada", " ", "source is empty"),
        ("\udcff?", "y", "Ada", "book", "no UTF-8"),
    ],
)
def test_what_is_no_fact_is_refused(
    store: FactStore, question: str, answer: str, who: str, source: str, said: str
) -> None:
    with pytest.raises(InputError, match=said) as caught:
        store.add(question, answer, who=who, source=source)
    assert caught.value.hint
    assert store.counts()["facts"] == 0


@pytest.mark.parametrize("words", ["", "  ", "?!"])
def test_a_search_for_nothing_is_refused(store: FactStore, words: str) -> None:
    with pytest.raises(InputError, match="nothing to search for"):
        store.search(words)
    with pytest.raises(InputError, match="limit must be from 1 to"):
        store.search("x", limit=0)


def test_never_a_write_ahead_log(tmp_path: Path) -> None:
    path = tmp_path / "facts.sqlite"
    with FactStore(path) as store:
        store.add("x?", "y", who="Ada", source="book")
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    raw.execute("PRAGMA journal_mode = WAL")  # somebody else's doing
    raw.close()
    with FactStore(path) as store:
        assert store.answers("x?")[0].answer == "y"
    raw = sqlite3.connect(path)
    assert raw.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    raw.close()


def test_files_that_are_no_store(tmp_path: Path) -> None:
    text, other, future = tmp_path / "text", tmp_path / "other.db", tmp_path / "future.sqlite"
    text.write_text("no database at all, but long enough to be read as one " * 20)
    with pytest.raises(FileError, match="is no fact store"):
        FactStore(text)
    assert text.read_text().startswith("no database")
    raw = sqlite3.connect(other)
    raw.execute("CREATE TABLE mine (x)")
    raw.commit()
    raw.close()
    with pytest.raises(FileError, match="another database"):
        FactStore(other)
    FactStore(future).close()
    raw = sqlite3.connect(future)
    raw.execute("PRAGMA user_version = 7")
    raw.close()
    with pytest.raises(FileError, match="of version 7, and this attnlab knows version 1") as caught:
        FactStore(future)
    assert "export" in str(caught.value)
    with pytest.raises(FileError, match="is a folder"):
        FactStore(tmp_path)
    with pytest.raises(FileError, match="there is no fact store"):
        FactStore(tmp_path / "absent", create=False)
    assert not (tmp_path / "absent").exists()


def test_a_damaged_store_says_so(tmp_path: Path) -> None:
    path = tmp_path / "facts.sqlite"
    with FactStore(path) as store:
        store.import_facts([Pair(asked(f"P{number}"), "X") for number in range(3000)], who="Ada", source="list")
    data = bytearray(path.read_bytes())
    data[8192 : len(data) // 2] = os.urandom(len(data) // 2 - 8192)
    path.write_bytes(data)
    with pytest.raises(FileError, match=r"is a damaged fact store|cannot be used as a fact store"):
        list(open_and_read(path))


def open_and_read(path: Path) -> Iterator[object]:
    with FactStore(path) as store:
        yield from store.facts()
        yield store.search("P1")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_that_may_only_be_read(tmp_path: Path) -> None:
    path = tmp_path / "facts.sqlite"
    FactStore(path).close()
    path.chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        with FactStore(path) as store, pytest.raises(FileError, match="may only be read"):
            store.add("x?", "y", who="Ada", source="book")
    finally:
        tmp_path.chmod(0o700)


def test_a_full_disk_loses_no_batch(tmp_path: Path) -> None:
    with FactStore(tmp_path / "facts.sqlite") as store:
        store.import_facts([Pair(asked(f"P{number}"), "X") for number in range(100)], who="Ada", source="list")
        pages = store._database.execute("PRAGMA page_count").fetchone()[0]
        store._database.execute(f"PRAGMA max_page_count = {pages + 20}")  # as a disk with little left
        with pytest.raises(FileError, match="the disk is full") as caught:
            store.import_facts(
                [Pair(asked(f"Q{number}"), "X") for number in range(5000)], who="Ada", source="more", batch=100
            )
        assert "import the same file again" in str(caught.value)
        kept = store.counts()["facts"]
        assert kept % 100 == 0
        assert store.check() == []
        store._database.execute("PRAGMA max_page_count = 1000000")
        store.import_facts([Pair(asked(f"Q{number}"), "X") for number in range(5000)], who="Ada", source="more")
        assert store.counts()["facts"] == 5100


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("UPDATE facts SET answer = x'80ff'", "fact 1 holds something that is no text"),
        ("UPDATE documents SET text = x'ff'", "document 1 holds something that is no text"),
    ],
)
def test_values_that_are_no_text_are_refused(tmp_path: Path, damage: str, said: str) -> None:
    with FactStore(tmp_path / "facts.sqlite") as store:
        store.add("Where was Ada born?", "London", who="Bo", source="told")
        store.import_documents(["Ada was born in London."], who="Bo", source="text")
    with closing(sqlite3.connect(tmp_path / "facts.sqlite", isolation_level=None)) as database:
        database.execute(damage)
    with FactStore(tmp_path / "facts.sqlite") as store:
        with pytest.raises(FileError, match=said):
            store.search("London")
        with pytest.raises(FileError, match=said):
            list(store.facts() if "facts" in damage else store.documents())
