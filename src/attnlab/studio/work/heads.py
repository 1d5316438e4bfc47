"""Trained models: which there are, what their heads look at, and what comes next without some of them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from attnlab.errors import AttnlabError, InputError
from attnlab.knowledge.material.material import RECORD
from attnlab.lens import look_at
from attnlab.lens.heads.ablation import next_tokens
from attnlab.lens.pages.look_page import number_rows
from attnlab.lens.pages.views import printable
from attnlab.lens.subjects import Subject, corpus_of_run, open_subject
from attnlab.pages import MapGrid, render
from attnlab.runs.directory import MODEL, RunDirectory
from attnlab.runs.ledger import find_paths, run_id

MOST_TOKENS = 128
_MOST_RUNS = 400
_OWN_TOKENS = 48  # of the run's own text, to begin with
_SHOWN = 12  # tokens that may come next


def runs(runs: str) -> dict[str, Any]:
    """Every run below the folder that has weights, the newest first."""
    root = Path(runs)
    found = [path for path in find_paths(root) if _has_weights(path)]
    # Those that were finetuned on questions come last: their text is no corpus that could be opened.
    found.sort(key=lambda path: (not (path / RECORD).exists(), path.stat().st_mtime), reverse=True)
    return {"runs": [_summary(path, root) for path in found[:_MOST_RUNS]]}


def own_text(runs: str, name: str) -> dict[str, Any]:
    """A piece of a run's own validation text."""
    subject = _opened(runs, name)
    assert subject.run is not None
    path, loaded = subject.run
    corpus = corpus_of_run(path, loaded.record)
    context = loaded.resolved.model.context_length
    batch = next(iter(corpus.validation_batches(batch_size=1, context_length=context, limit=1)))
    return {"text": loaded.tokenizer.decode(batch.inputs[0, :_OWN_TOKENS].tolist())}


def look(runs: str, name: str, text: str) -> dict[str, Any]:
    """The maps of all heads on a text as a page, their numbers, and what comes next."""
    found = look_at(_find(runs, name), text, tokens=MOST_TOKENS)
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


def ablate(runs: str, name: str, text: str, heads: list[list[int]]) -> dict[str, Any]:
    """What comes next with all heads, and without those given as (layer, head)."""
    subject = _opened(runs, name)
    tokenizer = subject.tokenizer
    assert tokenizer is not None  # a run has one
    ids = tokenizer.encode(text)[: min(MOST_TOKENS, subject.model.spec.context_length)]
    if not ids:
        raise InputError("the text is empty: there is nothing to look at", hint="give a few words")
    found = next_tokens(subject.model, torch.tensor(ids), [(layer, head) for layer, head in heads])
    most = found.most(_SHOWN)
    return {
        "next": [
            {"token": token, "before": float(found.before[one]), "after": float(found.after[one])}
            for one, token in zip(most, printable(tokenizer, most), strict=True)
        ],
    }


def _has_weights(path: Path) -> bool:
    return (path / MODEL).is_file() or any((path / "checkpoints").glob("step-*"))


def _name(path: Path, root: Path) -> str:
    """What a browser knows a run by; it says nothing of where that lies."""
    return hashlib.sha256(run_id(path, root).encode()).hexdigest()[:16]


def _summary(path: Path, root: Path) -> dict[str, Any]:
    found: dict[str, Any] = {"name": _name(path, root), "run": run_id(path, root)}
    try:
        directory = RunDirectory.open(path)
        spec = directory.record.get("spec", {})
        return found | {
            "words": f"{spec.get('variant')} {spec.get('size')} seed {spec.get('seed')}, {directory.status}"
        }
    except AttnlabError as error:
        return found | {"words": error.message}


def _find(runs: str, name: str) -> Path:
    root = Path(runs)
    for path in find_paths(root):
        if _name(path, root) == name:
            return path
    raise AttnlabError("there is no such run here", hint="choose one from the list")


def _opened(runs: str, name: str) -> Subject:
    path = _find(runs, name)
    return _open(path, (path / MODEL).stat().st_mtime if (path / MODEL).exists() else 0.0)


@lru_cache(maxsize=2)
def _open(path: Path, changed: float) -> Subject:
    """A run's model, as it was when its weights were last written."""
    del changed
    return open_subject(path)
