"""Learning what was kept, and the report, on a run that is really trained, if briefly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attnlab.errors import InputError
from attnlab.knowledge import KnowledgeModel, Pair
from attnlab.knowledge.answers.guarantee import find_guarantee, set_guarantee
from attnlab.knowledge.report import describe, report_page
from attnlab.knowledge.store.store import FactStore
from attnlab.knowledge.training.learning import learn_kept, measure, to_learn
from attnlab.pages import render
from support.answering import TEMPLATE, TableModel, calibrated
from support.knowledge import finetuned, world_material


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finetuned(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FactStore]:
    with FactStore(tmp_path / "facts.sqlite") as opened:
        yield opened


def test_what_is_there_to_learn(store: FactStore, tmp_path: Path) -> None:
    model: Any = TableModel(tmp_path, {}, train=[Pair(TEMPLATE.ask("Old One"), "Rome")])
    for name, place in (("Old One", "Rome"), ("New One", "Oslo"), ("Both", "Bray"), ("Both", "Cork"), ("Changed", "x")):
        store.add(TEMPLATE.ask(name), place, who="Ada", source="told")
    store.retract(5, who="Ada")
    store.import_facts([Pair(TEMPLATE.ask("Imported"), "Sligo")], who="Ada", source="list")
    new, against = to_learn(model, store.facts(told=True))
    assert new == [Pair(TEMPLATE.ask("New One"), "Oslo")]
    assert [(one.question, one.answers) for one in against] == [(TEMPLATE.ask("Both"), ("Bray", "Cork"))]
    assert len(to_learn(model, store.facts())[0]) == 2


def test_what_is_gained_and_lost_is_counted(tmp_path: Path) -> None:
    before: Any = calibrated(
        tmp_path, sure=10, unsure=5, train=[Pair(TEMPLATE.ask(f"Sure {n}"), f"Town {n}") for n in range(8)]
    )
    after: Any = calibrated(tmp_path, sure=10, unsure=5, weights="others")
    after.memory["Sure 0"] = ("London", 0.9)  # forgotten
    new = [Pair(TEMPLATE.ask(f"New {number}"), "Oslo") for number in range(4)]
    for pair in new[:3]:
        after.memory[TEMPLATE.name(pair.question)] = ("Oslo", 0.9)
    found = measure(before, after, new)
    assert (found.gained.before.correct, found.gained.after.correct, found.gained.change) == (0, 3, 75)
    assert (found.taught.before.correct, found.taught.after.correct) == (8, 7)
    assert found.taught.change == -12.5
    assert found.heldout is not None
    assert found.heldout.change == 0
    assert found.to_dict()["guarantee"] == "void until it is set again"


def test_a_run_learns_what_was_told(run: Path, store: FactStore) -> None:
    with pytest.raises(InputError, match="holds nothing that"):
        learn_kept(run, store)
    model = KnowledgeModel.open(run)
    set_guarantee(model, risk=0.9)
    place = model.pairs("train")[0].answer
    question = model.template.ask("Balick Flunder")
    store.add(question, place, who="Ada", source="told")
    found = learn_kept(run, store, epochs=1)
    learned = KnowledgeModel.open(found.run)
    assert found.run != run
    assert Pair(question, place) in learned.pairs("train")
    assert len(learned.pairs("train")) == len(model.pairs("train")) + 1
    assert found.gained.after.total == 1
    assert found.taught.before.total == len(model.pairs("train"))
    assert find_guarantee(model) is not None
    assert find_guarantee(learned) is None  # void until it is set again
    with pytest.raises(InputError, match="has not learned"):
        learn_kept(found.run, store)


def test_the_report_of_a_run(run: Path) -> None:
    found = describe(run, samples=2, risk=0.5, unseen=20)
    assert found.found.exact_match.total == len(world_material().heldout)
    assert [one.score for one in found.scores] == ["probability", "length_normalised", "agreement"]
    assert found.guarantee is not None
    assert found.alone is None  # it is itself the one without pretraining
    page = render(report_page(found))
    for words in ("What the model knows", "Detection of unseen entities", "Calibration", "Risk and coverage"):
        assert words in page
    assert "http" not in page.split("<script>")[0].replace("http-equiv", "")
    data = found.to_dict()
    assert data["exact_match"]["total"] == found.found.exact_match.total
    assert data["guarantee"]["weights_sha256"] == found.model.weights_sha256
    assert len(data["comparisons"]) == 3
    assert found.sentences()[0].startswith(f"{found.found.exact_match.correct} of")


def test_the_report_needs_questions(tmp_path: Path) -> None:
    material = replace(world_material(), heldout=())
    with pytest.raises(InputError, match="kept no pairs back"):
        describe(finetuned(tmp_path, material))
