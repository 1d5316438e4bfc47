"""Asking a knowledge model: which there are, a question, a fact that somebody knows, and how far it can be trusted."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from attnlab.errors import AttnlabError, InputError
from attnlab.knowledge.answers.model import KnowledgeModel
from attnlab.knowledge.asker import Asker, agree
from attnlab.knowledge.material.material import RECORD
from attnlab.knowledge.report import describe, report_page
from attnlab.knowledge.store.store import FactStore
from attnlab.runs.ledger import find_paths, run_id
from attnlab.studio.work.parts import page_data

STORE = "facts.sqlite"  # in the folder of the runs, as for `attnlab ask`
_EXAMPLES = 5
_MOST_LETTERS = 2_000


def models(runs: str) -> dict[str, Any]:
    """Every run that was finetuned on questions, the newest first."""
    root = Path(runs)
    found = [path for path in find_paths(root) if (path / RECORD).is_file() and (path / "result.json").is_file()]
    found.sort(key=lambda path: path.stat().st_mtime, reverse=True)
    return {"models": [{"name": _name(path, root), "run": run_id(path, root)} for path in found]}


def ask(runs: str, name: str, question: str, risk: float) -> dict[str, Any]:
    """What the model, or else the store, or else nobody says."""
    if len(question) > _MOST_LETTERS:
        raise InputError(f"a question of {len(question)} letters", hint=f"ask in at most {_MOST_LETTERS}")
    model = _model(_find(runs, name))
    with Asker(model, agree(model, risk), FactStore(Path(runs) / STORE)) as asker:
        return {"reply": asker.ask(question).to_dict()}


def keep(runs: str, name: str, question: str, answer: str, who: str, source: str) -> dict[str, Any]:
    """Keep a fact that somebody knows, to be looked up from now on."""
    model = _model(_find(runs, name))
    with Asker(model, agree(model), FactStore(Path(runs) / STORE)) as asker:
        added = asker.keep(question, answer, who=who, source=source)
    return {"standing": added.standing, "others": [str(fact) for fact in added.others]}


def promise(runs: str, name: str, risk: float) -> dict[str, Any]:
    """The threshold at a risk, what it promises and what not, and a few questions to begin with."""
    model = _model(_find(runs, name))
    found = agree(model, risk)
    return {
        "words": found.words,
        "limits": found.limits,
        "threshold": found.threshold,
        "examples": [pair.question for pair in model.pairs("heldout")[:_EXAMPLES]],
    }


def trust(runs: str, name: str, risk: float) -> dict[str, Any]:
    """The report: what it knows, reliability diagram, risk against coverage."""
    return {"page": page_data(report_page(describe(_find(runs, name), risk=risk)))}


def _find(runs: str, name: str) -> Path:
    root = Path(runs)
    for path in find_paths(root):
        if (path / RECORD).is_file() and _name(path, root) == name:
            return path
    raise AttnlabError("there is no such model here", hint="choose one from the list")


def _name(path: Path, root: Path) -> str:
    return hashlib.sha256(run_id(path, root).encode()).hexdigest()[:16]


@lru_cache(maxsize=2)
def _model(path: Path) -> KnowledgeModel:
    return KnowledgeModel.open(path)
