"""The measures of a finished run, taken once and kept in its directory.

    measures_of_run(Path("runs/softmax-nano-gpt2-seed0-…"))["entropy"]

Beside the measures of attention there are three of learning: how often a task is answered rightly, the loss on rows
that the run was trained on, and its gap to the validation loss. The losses are means over as many rows, of the final
model set to evaluate. The texts of the two differ, so that a gap says little by itself; the gaps of two variants on the
same rows say which of them learnt by heart.

    runs/<id>/measures.json    the format of the instruments, the hash of the weights, the numbers, and a hash of these
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from attnlab.corpora import IGNORED, Batch, Corpus, CorpusSpec, open_corpus
from attnlab.corpora.batches import spread
from attnlab.errors import FileError
from attnlab.lens.maps.attention_maps import evaluating
from attnlab.lens.maps.measures import MEASURES, Described, measure
from attnlab.models import LanguageModel
from attnlab.runs import RunDirectory
from attnlab.storage.records import read_json, write_json
from attnlab.training import LoadedRun, ResolvedRun, load_run

FORMAT = 1  # to be raised when an instrument changes, so that what the old one measured is measured again
KEPT = "measures.json"
_ROWS_AT_ONCE = 64
_ACCURACY_BATCHES = 2

RUN_MEASURES: Mapping[str, Described] = MappingProxyType(
    {
        **MEASURES,
        "train loss": Described("the final model's loss on rows that it was trained on", "nats"),
        "gap": Described("validation loss − train loss; the larger, the more was learnt by heart", "nats"),
        "accuracy": Described("how often a task's answer is right, on rows that were held back", "share"),
    }
)


def measures_of_run(path: Path, *, cache: Path | None = None) -> dict[str, float | None]:
    """Every one of `RUN_MEASURES` for the finished run in this directory; None where there is nothing to measure.

    They are taken the first time and read from then on. `cache` is where `open_corpus` keeps its texts.
    """
    directory = RunDirectory.open(path)
    result = directory.result
    if result is None or result.get("outcome") != "finished":
        state = "is not finished" if result is None else "diverged"
        raise FileError(
            f"the run in {path} {state}: there are no final weights to measure",
            hint="train it to its end first" if result is None else "train it with a lower learning rate",
        )
    weights = result.get("weights_sha256")
    found = _read(path / KEPT, weights)
    if found is None:
        loaded = load_run(path)
        corpus = corpus_of_run(path, loaded.record, cache)
        taken = {**measure(loaded.model, corpus), **_losses(loaded, corpus, result)}
        found = {name: value if value is not None and math.isfinite(value) else None for name, value in taken.items()}
        with suppress(FileError):  # where nothing can be written, it is only measured again the next time
            content = {"format": FORMAT, "weights_sha256": weights, "measures": found}
            write_json(path / KEPT, {**content, "sha256": _hash(content)})
    return found


def _read(path: Path, weights: object) -> dict[str, float | None] | None:
    """What was kept, unless it is damaged or of another version, other weights or other measures."""
    try:
        content = read_json(path)
    except FileError:
        return None
    if content.pop("sha256", None) != _hash(content):
        return None
    if content.get("format") != FORMAT or content.get("weights_sha256") != weights:
        return None
    measures: dict[str, float | None] = content["measures"]
    return measures if measures.keys() == RUN_MEASURES.keys() else None


def _hash(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def corpus_of_run(path: Path, record: Mapping[str, Any], cache: Path | None = None) -> Corpus:
    """What the run with this record was trained on, refused if it is no longer the same."""
    named = record.get("spec", {}).get("corpus")
    if not isinstance(named, dict):
        raise FileError(f"{path} was not trained on a corpus by name", hint="give a text to look at")
    corpus = open_corpus(CorpusSpec(**named), cache)
    if corpus.hash != record["corpus"]["hash"]:
        raise FileError(
            f"the text of {path} has changed since the run began",
            hint="bring the old text back, or train the new text as a run of its own",
        )
    return corpus


def _losses(loaded: LoadedRun, corpus: Corpus, result: Mapping[str, Any]) -> dict[str, float | None]:
    """The loss on training rows, and the gap to the validation loss."""
    run = loaded.resolved
    held_back = list(
        corpus.validation_batches(
            batch_size=_batch_size(run), context_length=run.model.context_length, limit=run.validation_rows
        )
    )
    seen = training_rows(run, corpus, sum(len(batch.inputs) for batch in held_back))
    train = mean_loss(loaded.model, _joined(seen, _batch_size(run)))
    validation = result.get("validation_loss")
    if run.execution.precision != "float32":  # which is that of the loss above
        validation = mean_loss(loaded.model, held_back)
    return {
        "train loss": train,
        "gap": None if validation is None else validation - train,
        "accuracy": accuracy(loaded.model, held_back[:_ACCURACY_BATCHES]) if corpus.spec.is_task else None,
    }


def _batch_size(run: ResolvedRun) -> int:
    """Rows at once: more than in training, where that is no question of memory, since they take less time so."""
    return run.execution.micro_batch_size or max(run.batch_size, _ROWS_AT_ONCE)


def training_rows(run: ResolvedRun, corpus: Corpus, count: int) -> Iterator[Batch]:
    """So many rows that the run was trained on, or all it had, from steps at even distances.

    They follow from the corpus, the seed and the steps: variants trained with the same seed are asked the same.
    """
    size = min(_batch_size(run), run.batch_size)
    for step in spread(run.steps, math.ceil(count / size)):
        rows = min(size, count)
        count -= rows
        yield corpus.batch(
            seed=run.seed,
            step=step,
            batch_size=run.batch_size,
            context_length=run.model.context_length,
            rows=slice(0, rows),
        )


def _joined(batches: Iterable[Batch], rows: int) -> Iterator[Batch]:
    """The same rows, about so many at once; those with a source, whose lengths differ, as they are."""
    waiting: list[Batch] = []
    for batch in batches:
        if batch.source is not None:
            yield batch
            continue
        waiting.append(batch)
        if sum(len(one.inputs) for one in waiting) >= rows:
            yield _one(waiting)
            waiting = []
    if waiting:
        yield _one(waiting)


def _one(batches: Sequence[Batch]) -> Batch:
    return Batch(torch.cat([batch.inputs for batch in batches]), torch.cat([batch.targets for batch in batches]))


def accuracy(model: LanguageModel, batches: Iterable[Batch]) -> float | None:
    """The share of all targets of the batches that the model, set to evaluate, finds the likeliest."""
    right = count = 0
    with evaluating(model):
        for batch in batches:
            asked = batch.targets != IGNORED
            best = model(batch.inputs, source=batch.source, source_padding=batch.source_padding).argmax(-1)
            right += int((best == batch.targets)[asked].sum())
            count += int(asked.sum())
    return right / count if count else None


def mean_loss(model: LanguageModel, batches: Iterable[Batch]) -> float:
    """The mean loss in nats over all targets of the batches, of the model set to evaluate."""
    total, count = 0.0, 0
    with evaluating(model):
        for batch in batches:
            targets = int((batch.targets != IGNORED).sum())
            if targets:  # the mean of nothing is not a number
                others = (
                    {} if batch.source is None else {"source": batch.source, "source_padding": batch.source_padding}
                )
                total += model.loss(batch.inputs, batch.targets, **others).item() * targets
                count += targets
    return total / count if count else math.nan
