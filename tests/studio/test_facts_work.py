"""The fact store as the studio shows it, and a model that learns what was told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from attnlab.errors import AttnlabError, InputError
from attnlab.knowledge import KnowledgeModel
from attnlab.knowledge.pairs import Pair
from attnlab.knowledge.store.store import FactStore
from attnlab.processes.async_child import WithdrawnError
from attnlab.runs.ledger import run_id
from attnlab.studio.folders import opaque_id
from attnlab.studio.parts.lessons import Lessons
from attnlab.studio.work import facts as work
from attnlab.studio.work.runs import STORE, models
from support.knowledge import finetuned


def stored(folder: Path, count: int) -> str:
    with FactStore(folder / STORE) as store:
        pairs = [Pair(f"Where was Zoë {number} born?", "Wickholm") for number in range(count)]
        store.import_facts(pairs, who="Bob", source="a file")
    return str(folder)


def numbers(found: dict[str, Any]) -> list[int]:
    return [fact["id"] for fact in found["facts"]]


def test_facts_page_by_page(tmp_path: Path) -> None:
    assert work.facts(str(tmp_path)) == {"facts": [], "more": False, "size": 0, "told": 0}
    assert not (tmp_path / STORE).exists(), "looking makes no store"
    runs = stored(tmp_path, work.PAGE + 2)
    first: Any = work.facts(runs)
    assert (len(first["facts"]), first["more"], first["size"]) == (work.PAGE, True, work.PAGE + 2)
    rest: Any = work.facts(runs, before=numbers(first)[-1])
    assert (numbers(rest), rest["more"]) == ([2, 1], False)
    assert numbers(work.facts(runs, "zoe 7")) == [8]
    assert work.facts(runs, told=True)["facts"] == []
    with pytest.raises(InputError, match="nothing to search for"):
        work.facts(runs, "?!")
    with pytest.raises(InputError, match="a search of 501 letters"):
        work.facts(runs, "x" * 501)


def test_a_fact_is_corrected_retracted_and_restored(tmp_path: Path) -> None:
    runs = stored(tmp_path, 1)
    made: Any = work.correct_fact(runs, 1, "London", "Eve", "her passport")
    assert made == {"number": 2, "known": False}
    newest, oldest = work.facts(runs)["facts"]  # type: ignore[misc]
    assert (newest["answer"], newest["who"], newest["source"], newest["told"]) == (
        "London",
        "Eve",
        "her passport",
        True,
    )
    assert oldest["retracted_by"] == "Eve"
    work.retract_fact(runs, 2, "Eve")
    restored: Any = work.restore_fact(runs, 1)
    assert restored["fact"]["retracted_at"] is None
    with pytest.raises(AttnlabError, match="there is no fact store"):
        work.retract_fact(str(tmp_path / "elsewhere"), 1, "Eve")


def test_a_model_learns_what_was_told_and_the_original_stays(tmp_path: Path) -> None:
    path = finetuned(tmp_path)
    runs, name = str(tmp_path), opaque_id(run_id(path, tmp_path))
    assert work.learnable(runs, name) == {"count": 0, "contradictions": []}
    before = (path / "model.safetensors").read_bytes()
    question = KnowledgeModel.open(path).template.ask("Ada Lovelace")
    with FactStore(tmp_path / STORE) as store:
        store.add(question, "London", who="Eve", source="told")
        for answer in ("Rome", "Paris"):
            store.add(KnowledgeModel.open(path).template.ask("Bob"), answer, who="Eve", source="told")
    count: Any = work.learnable(runs, name)
    assert (count["count"], len(count["contradictions"])) == (1, 1)
    found: Any = work.learn(runs, name)
    (fact,) = found["facts"]
    assert (fact["question"], fact["answer"]) == (question, "London")
    assert {"before", "after"} <= fact.keys()
    assert found["rows"][0][:2] == ["facts that were told", "1"]
    assert len(found["left_out"]) == 1
    assert (path / "model.safetensors").read_bytes() == before
    listed: Any = models(runs)["models"]
    assert {one["name"] for one in listed} == {name, found["name"]}
    assert work.learnable(runs, found["name"])["count"] == 0


class Teacher:
    """Answers when it is told to, or never."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.answer: asyncio.Future[dict[str, Any]] | None = None

    async def ask(self, task: str, **question: Any) -> dict[str, Any]:
        self.asked.append({"task": task, **question})
        self.answer = asyncio.get_running_loop().create_future()
        return await self.answer

    def withdraw(self, owner: str) -> None:
        assert owner == self.asked[-1]["owner"]
        assert self.answer is not None
        self.answer.set_exception(WithdrawnError("withdrawn"))

    def progress(self, owner: str) -> str:
        return f"learning for {owner}"


def test_a_lesson_is_given_once_and_can_be_cancelled() -> None:
    async def use() -> None:
        teacher: Any = Teacher()
        lessons = Lessons(teacher, "runs")
        assert lessons.of("a") is None
        lessons.start("a")
        await asyncio.sleep(0)
        lessons.start("a")
        await asyncio.sleep(0)
        assert len(teacher.asked) == 1, "two visitors share a lesson"
        lesson = lessons.of("a")
        assert lesson is not None
        assert lesson.is_running
        assert lessons.progress("a") == "learning for learn a"
        lessons.cancel("a")
        await asyncio.sleep(0.01)
        assert not lesson.is_running
        with pytest.raises(AttnlabError, match="it was cancelled"):
            lesson.result()
        lessons.start("a")
        await asyncio.sleep(0)
        teacher.answer.set_result({"name": "b"})
        await asyncio.sleep(0.01)
        again = lessons.of("a")
        assert again is not None
        assert again.result() == {"name": "b"}

    asyncio.run(use())
