"""The fact store for a visitor: browsing, correcting and retracting facts; and what a model can learn from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from attnlab.errors import InputError
from attnlab.knowledge.answers.model import KnowledgeModel
from attnlab.knowledge.store.store import MOST, FactStore
from attnlab.knowledge.training.learning import HEADINGS, learn_kept, to_learn
from attnlab.processes.child import report_progress
from attnlab.runs.ledger import run_id
from attnlab.studio.folders import opaque_id
from attnlab.studio.work.runs import STORE, find_model, open_model
from attnlab.training.progress import Silent

PAGE = 25  # facts per page
_SHOWN = 200  # facts with their answers before and after
_NAMED = 5  # contradictions that are named
_MOST_LETTERS = 500  # characters of a search


def facts(runs: str, words: str = "", *, told: bool = False, before: int = MOST) -> dict[str, object]:
    """Return a page of facts, the newest first, and how many there are in all; none where there is no store."""
    if len(words) > _MOST_LETTERS:
        raise InputError(f"a search of {len(words)} letters", hint=f"search for at most {_MOST_LETTERS}")
    path = Path(runs) / STORE
    if not path.is_file():
        return {"facts": [], "more": False, "size": 0, "told": 0}
    with FactStore(path) as store:
        found = store.browse(words, told=told, before=before, limit=PAGE + 1)
        sizes = {"size": store.size(), "told": store.size(told=True)}
    return {"facts": [fact.to_dict() for fact in found[:PAGE]], "more": len(found) > PAGE, **sizes}


def correct_fact(runs: str, number: int, answer: str, who: str, source: str) -> dict[str, object]:
    """Give the question of a fact another answer; return the number of the new fact, and whether it was known."""
    with FactStore(Path(runs) / STORE, create=False) as store:
        added = store.correct(number, answer, who=who, source=source)
    return {"number": added.fact.id, "known": added.standing == "known"}


def retract_fact(runs: str, number: int, who: str) -> dict[str, object]:
    """Have a fact no longer used."""
    with FactStore(Path(runs) / STORE, create=False) as store:
        return {"fact": store.retract(number, who=who).to_dict()}


def restore_fact(runs: str, number: int) -> dict[str, object]:
    """Take a retraction back."""
    with FactStore(Path(runs) / STORE, create=False) as store:
        return {"fact": store.restore(number).to_dict()}


# Learning


def learnable(runs: str, name: str) -> dict[str, object]:
    """Return how many told facts a model has not learned, and questions with several answers, which it cannot learn."""
    path = Path(runs) / STORE
    if not path.is_file():
        return {"count": 0, "contradictions": []}
    with FactStore(path) as store:
        pairs, against = to_learn(open_model(runs, name), store.facts(told=True))
    return {"count": len(pairs), "contradictions": [one.question for one in against[:_NAMED]]}


def learn(runs: str, name: str) -> dict[str, object]:
    """Teach a new run what people told the store; return what it says to the new questions before and after."""
    root, parent = Path(runs), find_model(runs, name)
    with FactStore(root / STORE, create=False) as store:
        found = learn_kept(parent, store, reporter=_LearningReporter())
    report_progress("asking the new facts again")
    shown = found.pairs[:_SHOWN]
    before, after = (
        [one.text for one in KnowledgeModel.open(run).answer([pair.question for pair in shown])]
        for run in (parent, found.run)
    )
    groups = {"facts that were told": found.gained, "what it was taught before": found.taught}
    groups |= {"questions that were held out": found.heldout} if found.heldout is not None else {}
    return {
        "name": opaque_id(run_id(found.run, root)),
        "headings": list(HEADINGS),
        "rows": [group.row(label) for label, group in groups.items()],
        "facts": [
            {"question": pair.question, "answer": pair.answer, "before": first, "after": then}
            for pair, first, then in zip(shown, before, after, strict=True)
        ],
        "left_out": [one.question for one in found.contradictions[:_NAMED]],
    }


class _LearningReporter(Silent):
    """Reports the progress of the training."""

    _steps: int | None = None

    def begin(self, step: int, steps: int, *_: Any) -> None:
        self._steps = steps
        report_progress("learning", step, steps)

    def step(self, done: int, loss: float) -> None:
        report_progress(f"learning, loss {loss:.3f}", done, self._steps)

    def end(self) -> None:
        report_progress("asking old and new questions")
