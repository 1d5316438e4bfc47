"""Asking: from memory, from the store, or not at all; and what a person says is kept."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab.errors import InputError
from attnlab.knowledge import Pair
from attnlab.knowledge.answers.guarantee import set_guarantee
from attnlab.knowledge.asker import Asker, agree
from attnlab.knowledge.store.store import FactStore
from support.answering import TEMPLATE, calibrated

asked = TEMPLATE.ask


@pytest.fixture
def asker(tmp_path: Path) -> Iterator[Asker]:
    model: Any = calibrated(tmp_path, sure=100, unsure=50)
    with Asker(model, set_guarantee(model), FactStore(tmp_path / "facts.sqlite")) as made:
        yield made


def test_recalled(asker: Asker) -> None:
    reply = asker.ask(asked("Sure 7"))
    assert (reply.origin, reply.answer) == ("recalled", "Town 7")
    assert reply.threshold is not None
    assert reply.confidence >= reply.threshold
    assert reply.evidence == ()


def test_unknown_then_told_then_looked_up(asker: Asker) -> None:
    reply = asker.ask(asked("Unsure 7"))
    assert (reply.origin, reply.answer, reply.said) == ("unknown", None, "London")
    added = asker.keep(reply.question, "Oslo", who="Ada", source="her aunt")
    assert added.standing == "new"
    again = asker.ask(asked("Unsure 7"))
    assert (again.origin, again.answer) == ("looked up", "Oslo")
    (evidence,) = again.evidence
    assert (evidence.who, evidence.source, evidence.fact) == ("Ada", "her aunt", added.fact.id)


def test_the_sentence_is_quoted(asker: Asker) -> None:
    assert asker.store is not None
    asker.store.import_documents(["Unsure 9. Unsure 9 was born in Bergen, Norway. He sang."], who="Bo", source="a text")
    reply = asker.ask(asked("Unsure 9"))
    assert (reply.origin, reply.answer) == ("looked up", "Bergen")
    assert reply.evidence[0].quote == "Unsure 9 was born in Bergen, Norway."
    assert reply.evidence[0].source == "a text"
    asker.store.add(asked("Unsure 9"), "Bergen", who="Ada", source="told")
    assert asker.ask(asked("Unsure 9")).evidence[0].quote == "Unsure 9 was born in Bergen, Norway."


def test_sources_that_disagree_are_shown_and_none_is_chosen(asker: Asker) -> None:
    asker.keep(asked("Unsure 1"), "Oslo", who="Ada", source="a book")
    assert asker.keep(asked("Unsure 1"), "Rome", who="Bo", source="a friend").standing == "contradicts"
    reply = asker.ask(asked("Unsure 1"))
    assert (reply.origin, reply.answer) == ("unknown", None)
    assert [one.answer for one in reply.evidence] == ["Oslo", "Rome"]
    assert "sources disagree: Oslo (a book, Ada); Rome (a friend, Bo)" in reply.notes


def test_memory_that_contradicts_the_store_says_so(asker: Asker) -> None:
    asker.keep(asked("Sure 1"), "Rome", who="Bo", source="a friend")
    reply = asker.ask(asked("Sure 1"))
    assert (reply.origin, reply.answer) == ("recalled", "Town 1")
    assert reply.notes == ("the store says Rome (a friend, Bo)",)


def test_nobody_is_recalled_however_sure_the_model_is(asker: Asker) -> None:
    asker.model.memory["Nobody Ever"] = ("Town 1", 1.0)  # type: ignore[attr-defined]
    reply = asker.ask(asked("Nobody Ever"))
    assert (reply.origin, reply.confidence) == ("unknown", 1.0)
    assert "never read about Nobody Ever" in reply.notes[0]


def test_a_question_of_another_kind(asker: Asker) -> None:
    reply = asker.ask("Who wrote Sure 7?")
    assert reply.origin == "unknown"
    assert "questions like “Where was … born?”" in reply.notes[0]
    asker.keep("Who wrote Sure 7?", "Ada", who="Bo", source="the cover")
    assert asker.ask("Who wrote Sure 7?").answer == "Ada"


@pytest.mark.parametrize(
    "name",
    ['"quoted"', "'); DROP TABLE facts; --", "NEAR(a OR b*)", "محمد", "🦄", "x" * 10_000, "a\x00b", "José", "*"],
)
def test_any_question_gets_a_clear_answer(asker: Asker, name: str) -> None:
    reply = asker.ask(asked(name))
    assert reply.origin == "unknown"
    assert reply.notes
    assert asker.store is not None
    assert asker.store.check() == []


@pytest.mark.parametrize("question", ["", "  \t", "\x00"])
def test_no_question_is_refused(asker: Asker, question: str) -> None:
    with pytest.raises(InputError, match="question 2 is empty"):
        asker.ask_all(["Where?", question])


def test_without_a_store(tmp_path: Path) -> None:
    model: Any = calibrated(tmp_path, sure=100, unsure=50)
    with Asker(model, set_guarantee(model)) as asker:
        assert asker.ask(asked("Sure 1")).origin == "recalled"
        assert asker.ask(asked("Unsure 1")).origin == "unknown"
        with pytest.raises(InputError, match="no fact store"):
            asker.keep("x?", "y", who="Ada", source="told")


def test_the_terms_last_until_others_are_named(tmp_path: Path) -> None:
    model: Any = calibrated(tmp_path, sure=100, unsure=50)
    first = agree(model)
    assert (first.risk, first.delta, first.score) == (0.05, 0.1, "probability")
    second = agree(model, risk=0.2, score="length_normalised")
    assert (second.risk, second.delta, second.score) == (0.2, 0.1, "length_normalised")
    assert agree(model) == second
    learned: Any = calibrated(tmp_path, sure=100, unsure=50, weights="others")
    third = agree(learned)
    assert third.weights_sha256 != second.weights_sha256


def test_a_taught_name_is_not_called_never_read(tmp_path: Path) -> None:
    model: Any = calibrated(tmp_path, sure=100, unsure=50, train=[Pair(asked("New One"), "Oslo")])
    model.memory["New One"] = ("Oslo", 0.99)
    with Asker(model, set_guarantee(model)) as asker:
        assert asker.ask(asked("New One")).origin == "recalled"


@pytest.mark.parametrize("asked_for", ["Naima Azough", "naïma AZOUGH", "Naïma Azough"])
def test_a_name_matches_without_its_accents(tmp_path: Path, asked_for: str) -> None:
    model: Any = calibrated(tmp_path, sure=100, unsure=50, read=["Naïma Azough", "José Roe", "Jose Roe"])
    model.memory["Naïma Azough"] = ("Oslo", 0.99)
    with Asker(model, set_guarantee(model)) as asker:
        reply = asker.ask(asked(asked_for))
        assert (reply.origin, reply.answer) == ("recalled", "Oslo")
        read_as = (f"the question was read as “{asked('Naïma Azough')}”",) if asked_for != "Naïma Azough" else ()
        assert reply.notes == read_as
        assert "never read about josé roe" in asker.ask(asked("josé roe")).notes[0], "two people have this name"
        taught = calibrated(tmp_path, sure=1, unsure=1, train=[Pair(asked("Zoë Ro"), "Rome")])
        taught.memory["Zoë Ro"] = ("Rome", 0.99)
    with Asker(taught, asker.guarantee) as asker:  # type: ignore[arg-type]
        assert asker.ask(asked("Zoe Ro")).answer == "Rome", "taught names count too"
