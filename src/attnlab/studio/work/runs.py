"""Trained models: what their heads attend to, predictions without some heads, and questions to knowledge models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from attnlab.errors import AttnlabError, InputError
from attnlab.experiments.request import Request
from attnlab.experiments.scale.study import RATES, RUNS
from attnlab.knowledge.answers.model import KnowledgeModel
from attnlab.knowledge.asker import Asker, agree
from attnlab.knowledge.material import RECORD, read_record
from attnlab.knowledge.report import describe, report_page
from attnlab.knowledge.store.store import FactStore
from attnlab.lens import look_at
from attnlab.lens.heads.ablation import next_tokens
from attnlab.lens.pages.look_page import number_rows, printable
from attnlab.lens.subjects import Subject, corpus_of_run, find_texts, open_subject
from attnlab.models.hf.folder import CONFIG
from attnlab.models.pretrained.opening import GGUF, installed_models
from attnlab.pages import MapGrid, render
from attnlab.retrofit.folder import PREFIX
from attnlab.runs.directory import MODEL, RESULT, RunDirectory
from attnlab.runs.ledger import find_paths, run_id
from attnlab.storage.plans import PLAN
from attnlab.studio.folders import opaque_id
from attnlab.studio.work.experiments.comparisons import setting_of
from attnlab.studio.work.pages import drawn_parts

TOUR = "tour"  # folder of the small model for the tour, below the runs folder
STORE = "facts.sqlite"  # in the runs folder, as for `attnlab ask`
MOST_TOKENS = 128
_MOST_RUNS = 400
_MOST_LETTERS = 2_000  # characters of a question
_OWN_TOKENS = 48  # tokens of the run's own text, shown initially
_NEXT = 12  # likely next tokens that are shown
_EXAMPLES = 5
_ASIDE = {"pilot", "tuning", RATES}  # folders of a comparison or study whose runs are not results
_FINETUNED = {"finetune", "learn"}  # stages after which a model answers questions


def find_model(runs: str, name: str) -> Path:
    """Return the folder of a run, or the place of a pretrained model, by the name that a browser knows it by."""
    root = Path(runs)
    for path in (*find_paths(root), *_pretrained(root)):
        if opaque_id(run_id(path, root)) == name:
            return path
    raise AttnlabError("there is no such run here", hint="choose one from the list")


def _pretrained(root: Path) -> list[Path]:
    """Return the pretrained models in the folder of the runs, and those of installed packages."""
    inside = sorted(root.iterdir()) if root.is_dir() else []
    found = [path for path in inside if path.suffix == GGUF or (path / CONFIG).is_file()]
    return [*found, *installed_models()]


# Heads


def runs(runs: str) -> dict[str, object]:
    """Return every run with weights below the folder, newest first, and the pretrained models.

    Each has a group, such as its comparison, and within it a variant and a seed. Pilots and learning-rate trials are
    left out.
    """
    root = Path(runs)
    every = [path for path in find_paths(root) if not _ASIDE & {*path.relative_to(root).parts}]
    found = [path for path in every if (path / MODEL).is_file() or any((path / "checkpoints").glob("step-*"))]
    # Runs finetuned on questions come last: their text is not a corpus that can be opened.
    found.sort(key=lambda path: (not (path / RECORD).exists(), path.stat().st_mtime), reverse=True)
    listed = [_listed(path, root) for path in found[:_MOST_RUNS]]
    listed += [
        {"group": "pretrained models", "comparison": "", "variant": path.name, "seed": "", "path": path}
        for path in _pretrained(root)
    ]
    return {"runs": [{"name": opaque_id(run_id(one.pop("path"), root)), **one} for one in listed]}


def _listed(path: Path, root: Path) -> dict[str, Any]:
    """Return what a run is called, in the group that it belongs to."""
    folder = root / path.relative_to(root).parts[0]
    inside = _comparison_of(path, root)
    request = None if inside is None else _request_of(inside, inside.stat().st_mtime)
    group = "knowledge models" if (path / RECORD).exists() else "single runs"
    group = "the small model of the tour" if folder.name == TOUR else group
    group = f"retrofit {folder.name.removeprefix(PREFIX)}" if folder.name.startswith(PREFIX) else group
    if request is not None:
        group = f"{', '.join(request.variants)} against {request.baseline} ({setting_of(request)})"
    found: dict[str, Any] = {"group": group, "comparison": "", "path": path}
    if inside is not None:
        found["comparison"] = opaque_id(run_id(inside, root))
    try:
        directory = RunDirectory.open(path)
    except AttnlabError as error:
        return {**found, "variant": run_id(path, root), "seed": error.message}
    spec = directory.record.get("spec", {})
    status = "" if directory.status == "finished" else f", {directory.status}"
    return {
        **found,
        "variant": f"{spec.get('variant')} {spec.get('size')}",
        "seed": f"seed {spec.get('seed')}{status}" + ("" if request else f", {path.name.rpartition('-')[2]}"),
    }


def _comparison_of(path: Path, root: Path) -> Path | None:
    """Return the folder of the comparison that a run belongs to: the newest of those of a study that share it."""
    own = [one for one in path.parents if root in one.parents and (one / PLAN).is_file()]
    shared = [one.parent for one in path.parent.parent.glob(f"*/{PLAN}")] if path.parent.name == RUNS else []
    newest = sorted(shared, key=lambda one: (one / PLAN).stat().st_mtime)[-1:]
    return next(iter([*own, *newest]), None)


@lru_cache(maxsize=256)
def _request_of(folder: Path, changed: float) -> Request | None:
    """Return what the comparison in a folder was asked; None where there is none, or it cannot be read."""
    del changed
    try:
        return Request.of(folder)
    except (AttnlabError, OSError, ValueError, RecursionError):
        return None


def own_text(runs: str, name: str) -> dict[str, object]:
    """Return a piece of a run's own validation text, or of Python's documentation for a pretrained model."""
    subject = opened(runs, name)
    if subject.run is None:
        row = find_texts(subject, rows=2).batch.inputs[0, :_OWN_TOKENS]
        return {"text": subject.known_tokenizer().decode(row.tolist())}
    path, loaded = subject.run
    corpus = corpus_of_run(path, loaded.record)
    context = loaded.resolved.model.context_length
    batch = next(iter(corpus.validation_batches(batch_size=1, context_length=context, limit=1)))
    return {"text": loaded.tokenizer.decode(batch.inputs[0, :_OWN_TOKENS].tolist())}


def look(runs: str, name: str, text: str) -> dict[str, object]:
    """Return the maps of all heads on a text as a page, their numbers, and what comes next."""
    found = look_at(opened(runs, name), text, tokens=MOST_TOKENS)
    headings, rows = number_rows(found)
    layers = [{"layer": one.layer, "heads": len(one.heads), "absence": one.absence} for one in found.of("self")]
    page = found.page()
    grids = [one for one in page.sections if any(isinstance(part, MapGrid) for part in one.content)]
    maps = replace(page, title="Attention maps", facts={}, sections=grids)
    return {
        "page": render(maps),
        "title": found.title,
        "facts": dict(found.facts),
        "notes": list(found.notes),
        "headings": headings,
        "rows": rows,
        "layers": layers,
        **ablate(runs, name, text, []),
    }


def ablate(runs: str, name: str, text: str, heads: Sequence[tuple[int, int]]) -> dict[str, object]:
    """Return what comes next with all heads, and without those given as (layer, head)."""
    subject = opened(runs, name)
    tokenizer = subject.known_tokenizer()
    ids = tokenizer.encode(text)[: min(MOST_TOKENS, subject.model.spec.context_length)]
    if not ids:
        raise InputError("the text is empty: there is nothing to look at", hint="give a few words")
    found = next_tokens(subject.model, torch.tensor(ids), [(layer, head) for layer, head in heads])
    most = found.most(_NEXT)
    return {
        "next": [
            {"token": token, "before": float(found.before[one]), "after": float(found.after[one])}
            for one, token in zip(most, printable(tokenizer, most), strict=True)
        ],
    }


def opened(runs: str, name: str) -> Subject:
    """Return the model of a run by the name that a browser knows it by."""
    path = find_model(runs, name)
    return _open(path, (path / MODEL).stat().st_mtime if (path / MODEL).exists() else 0.0)


@lru_cache(maxsize=2)
def _open(path: Path, changed: float) -> Subject:
    """Return a run's model, as it was when its weights were last written."""
    del changed
    return open_subject(path)


# Questions


def models(runs: str) -> dict[str, object]:
    """Return every run that was finetuned on questions, the newest first, with what it can be asked."""
    root = Path(runs)
    found = [(path, _record_of(path)) for path in find_paths(root) if (path / RESULT).is_file()]
    found = [(path, record) for path, record in found if record.get("stage") in _FINETUNED]
    found.sort(key=lambda one: one[0].stat().st_mtime, reverse=True)
    return {
        "models": [{"name": opaque_id(run_id(path, root)), "words": _described(path, record)} for path, record in found]
    }


def _record_of(path: Path) -> Mapping[str, Any]:
    """Return the record of a knowledge run; an empty one where it is none, or cannot be read."""
    try:
        return read_record(path)
    except AttnlabError:
        return {}


def _described(path: Path, record: Mapping[str, Any]) -> str:
    """Return what a model was taught, and when: “Where was … born?”, 24 questions from 24 documents."""
    asked, pairs = record.get("question") or {}, record.get("pairs") or {}
    kind = f"“{asked.get('before', '')}…{asked.get('after', '')}”"
    size = f"{pairs.get('train', 0)} questions from {record.get('documents', 0)} documents"
    taught = " and what it was taught later" if record["stage"] == "learn" else ""
    made = datetime.fromtimestamp(path.stat().st_mtime).astimezone()
    return f"{kind}, {size}{taught}, {record.get('recipe')}, {made:%d %b %H:%M}, {path.name.rpartition('-')[2]}"


def ask(runs: str, name: str, question: str, risk: float) -> dict[str, object]:
    """Return what the model, or else the fact store, says; or that neither knows."""
    if len(question) > _MOST_LETTERS:
        raise InputError(f"a question of {len(question)} letters", hint=f"ask in at most {_MOST_LETTERS}")
    model = open_model(runs, name)
    with Asker(model, agree(model, risk), FactStore(Path(runs) / STORE)) as asker:
        return {"reply": asker.ask(question).to_dict()}


def keep(runs: str, name: str, question: str, answer: str, who: str, source: str) -> dict[str, object]:
    """Keep a fact that a user knows, to be looked up from now on."""
    model = open_model(runs, name)
    with Asker(model, agree(model), FactStore(Path(runs) / STORE)) as asker:
        added = asker.keep(question, answer, who=who, source=source)
    return {"standing": added.standing, "others": [str(fact) for fact in added.others]}


def promise(runs: str, name: str, risk: float) -> dict[str, object]:
    """Return the threshold at a risk, what it promises and what not, and a few questions to begin with."""
    model = open_model(runs, name)
    found = agree(model, risk)
    return {
        "words": found.words,
        "limits": found.limits,
        "threshold": found.threshold,
        "examples": [pair.question for pair in model.pairs("heldout")[:_EXAMPLES]],
    }


def trust(runs: str, name: str, risk: float) -> dict[str, object]:
    """Return the report: what the model knows, its reliability diagram, and risk against coverage."""
    return {"page": drawn_parts(report_page(describe(find_model(runs, name), risk=risk)))}


def open_model(runs: str, name: str) -> KnowledgeModel:
    """Return a model to ask by the name that a browser knows it by."""
    return _model(find_model(runs, name))


@lru_cache(maxsize=2)
def _model(path: Path) -> KnowledgeModel:
    return KnowledgeModel.open(path)
