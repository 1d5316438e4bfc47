"""A text and its pairs: each question has one use, and keeps it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from attnlab.errors import FileError, InputError, UnknownNameError
from attnlab.knowledge import Material, Pair, SyntheticPair, gather
from attnlab.knowledge.material import read_record, write_record
from attnlab.knowledge.text import DocumentIndex, read_documents
from attnlab.knowledge.training.sources import answered_documents, exchange

TEXT = ["Ann Lee. Ann Lee was born in Rome .", "Bob Stone. Stone (born in Oslo) met Ann Leeds .", "Nobody was here ."]
PAIRS = [Pair(f"Where was P{number} born?", f"T{number % 7}") for number in range(100)]


def test_documents_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("one  line\n\n \n two\n\n")
    assert read_documents(path) == ["one line", "two"]  # a last empty line is no document
    path.write_text("\n \n")
    with pytest.raises(FileError, match="holds no text"):
        read_documents(path)
    path.write_bytes(b"ok\n\xff\xfe\n")
    with pytest.raises(FileError, match=r"line 2 of .* no UTF-8"):
        read_documents(path)


def test_who_is_named_where() -> None:
    index = DocumentIndex(TEXT)
    assert index.find("Ann Lee") == [0]  # and not in Ann Leeds
    assert index.find("Ann Leeds") == [1]
    assert index.find("Nobody Else") == []
    assert index.find("") == []
    assert index.find("'); DROP TABLE") == []


def test_the_documents_that_answer_a_question() -> None:
    index = DocumentIndex(TEXT)
    assert index.find("Ann Lee", also="Rome") == [0]
    assert index.find("Ann Lee", also="Oslo") == []
    other_kind = (Pair("Who is Ann Lee?", "Rome"), Pair("Where was Bo Fox born?", "Oslo"))
    assert answered_documents(Material(tuple(TEXT), other_kind)) == {}


def test_every_pair_has_one_use() -> None:
    made = gather(TEXT, PAIRS, seed=2)
    assert (len(made.train), len(made.heldout), len(made.calibration)) == (80, 10, 10)
    assert len({pair.question for use in ("train", "heldout", "calibration") for pair in made.pairs(use)}) == 100
    assert gather(TEXT, PAIRS, seed=2).hash == made.hash != gather(TEXT, PAIRS, seed=3).hash
    with pytest.raises(UnknownNameError, match="use of pairs"):
        made.pairs("trian")


def test_what_is_asked_in_another_file_is_never_learned(tmp_path: Path) -> None:
    asked = tmp_path / "asked.tsv"
    asked.write_text("".join(f"{pair.question}\t{pair.answer}\n" for pair in PAIRS[:30]))
    made = gather(TEXT, PAIRS, heldout=asked, calibration=0.0)
    assert made.heldout == tuple(PAIRS[:30])
    assert not set(made.train) & set(PAIRS[:30])
    assert len(made.train) == 70
    assert any("30 pairs are left out" in note for note in made.notes)


def test_what_was_learned_in_pretraining_cannot_be_put_aside() -> None:
    before = gather(TEXT, PAIRS, seed=0)
    after = gather(TEXT, PAIRS, seed=1, before=before)
    assert set(after.train) == set(before.train)
    assert set(after.calibration) == set(before.calibration)
    assert set(after.heldout) == set(before.heldout)
    asked = gather(TEXT, [Pair("Where was Q born?", "T1")], heldout=PAIRS, calibration=0.0, before=before)
    assert not {pair.question for pair in asked.heldout} & {pair.question for pair in before.train}
    assert any("80 heldout questions were learned" in note for note in asked.notes)


def test_too_few_pairs_and_no_text() -> None:
    with pytest.raises(InputError, match="leave none to learn"):
        gather(TEXT, PAIRS[:1], heldout=PAIRS[:1])
    with pytest.raises(InputError, match="there is no text"):
        gather([], PAIRS)


def test_it_comes_back_from_its_folder(tmp_path: Path) -> None:
    synthetic = (SyntheticPair("Where was P1 born?", "T2", 0.25),)
    made = replace(gather(TEXT, PAIRS), synthetic=synthetic)
    made.write(tmp_path)
    assert Material.read(tmp_path) == made
    assert Material.read(tmp_path).hash == made.hash
    (tmp_path / "pairs" / "practice.tsv").write_text("half a li")
    with pytest.raises(FileError, match="is damaged"):
        Material.read(tmp_path)


def test_a_record_of_another_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="is no knowledge run"):
        read_record(tmp_path)
    write_record(tmp_path, {"stage": "pretrain"})
    assert read_record(tmp_path)["stage"] == "pretrain"
    (tmp_path / "knowledge.json").write_text('{"format": 99}')
    with pytest.raises(FileError, match="format 99"):
        read_record(tmp_path)


def test_names_are_exchanged_all_at_once() -> None:
    words = {"Ann Lee": "Rome", "Rome": "Ann Lee"}
    assert exchange("Ann Lee, Ann Leeds, Rome.", words) == "Rome, Ann Leeds, Ann Lee."
    assert exchange("a+b (c)", {"a+b": "x", "": "never"}) == "x (c)"


def test_documents_of_the_training_split_alone_are_read_with_their_question() -> None:
    pairs = [Pair("Where was Ann Lee born?", "Rome"), Pair("Where was Bob Stone born?", "Oslo")]
    made = Material(tuple(TEXT), train=tuple(pairs), heldout=(Pair("Where was Nobody born?", "here"),))
    assert answered_documents(made) == {0: pairs[0], 1: pairs[1]}
    assert answered_documents(replace(made, train=(pairs[0], Pair("Where was X Y born?", "Z")))) == {0: pairs[0]}
