"""Measures and head roles of a finished run, computed once and stored in its directory.

    measures_of_run(Path("runs/softmax-nano-gpt2-seed0-…"))["entropy"]
    heads_of_run(Path("runs/softmax-pico-gpt2-seed0-…"))["induction, strongest"]

Besides the measures of attention there are three of learning: the accuracy on a task, the loss on rows that the run was
trained on, and its gap to the validation loss. Both losses are means over the same number of rows, of the final model
in eval mode. The texts of the two differ, so that a gap alone says little; the gaps of two variants on the same rows
show which of them memorised.

For the heads, these are the numbers of a profile (`heads/study.py`) that need one pass over a few validation rows: the
score of the strongest head for each role, and the mean over heads. No head is named here, as that needs shuffled copies
of the model; where variants are compared over seeds, the baseline is the control.

    runs/<id>/measures.json    the format, the hash of the weights, the numbers, and a hash of these
    runs/<id>/heads.json       the format, the hash of the weights, and the numbers
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import torch

from attnlab.corpora import IGNORED, Batch, Corpus
from attnlab.corpora.batches import spread
from attnlab.errors import FileError
from attnlab.lens.heads.role_scores import ROLES, RoleReading, delimiter_tokens, marked, repeated_tokens
from attnlab.lens.heads.study import COUNT, MEAN, PROFILE, STRONGEST, mean
from attnlab.lens.measures import MEASURES, Described, measure
from attnlab.lens.subjects import corpus_of_run
from attnlab.lens.taps import Inputs, evaluating
from attnlab.models import LanguageModel
from attnlab.runs import RunDirectory
from attnlab.storage.records import content_hash, read_json, to_plain, write_json
from attnlab.training import LoadedRun, ResolvedRun, load_run

FORMAT = 1  # increase it when a measure changes, so that stored numbers are measured again
MEASURES_FILE, HEADS_FILE = "measures.json", "heads.json"
_ROWS_AT_ONCE = 64
_ACCURACY_BATCHES = 2
_HEADS_ROWS = 16
_HEADS_LENGTH = 64  # tokens of a row

RUN_MEASURES: Mapping[str, Described] = MappingProxyType(
    {
        **MEASURES,
        "train loss": Described("the final model's loss on rows that it was trained on", "nats"),
        "gap": Described("validation loss − train loss; the larger, the more was learnt by heart", "nats"),
        "accuracy": Described("how often a task's answer is right, on rows that were held back", "share"),
    }
)
RUN_HEADS: Mapping[str, Described] = MappingProxyType(
    {
        name: one
        for name, one in PROFILE.items()
        if any(name.startswith(f"{role}, ") for role in ROLES) and not name.endswith(f", {COUNT}")
    }
)
Numbers = TypeVar("Numbers", bound=Mapping[str, float | None])
Take = Callable[[LoadedRun, Corpus, Mapping[str, Any]], Numbers]


def measure_run(path: Path, *, cache: Path | None = None) -> None:
    """Compute and store the measures and head roles of a finished run."""
    measures_of_run(path, cache=cache)
    heads_of_run(path, cache=cache)


def measures_of_run(path: Path, *, cache: Path | None = None) -> dict[str, float | None]:
    """Return every one of `RUN_MEASURES` for the finished run in this directory; None where nothing can be measured.

    They are computed the first time and read from the file afterwards. `cache` is where `open_corpus` keeps its texts.

    Parameters
    ----------
    path
        The folder of a finished run.
    cache
        The folder that keeps corpora; None uses the default.
    """

    def take(loaded: LoadedRun, corpus: Corpus, result: Mapping[str, Any]) -> dict[str, float | None]:
        found: dict[str, float | None] = to_plain(
            {**measure(loaded.model, corpus), **_losses(loaded, corpus, result)}, nulls=True
        )
        return found

    return _stored(path, MEASURES_FILE, lambda found: found.keys() == RUN_MEASURES.keys(), take, cache)


def heads_of_run(path: Path, *, cache: Path | None = None) -> dict[str, float]:
    """Return every one of `RUN_HEADS` that the finished run in this directory has; measured the first time.

    Parameters
    ----------
    path
        The folder of a finished run.
    cache
        The folder that keeps corpora; None uses the default.
    """

    def whole(found: Mapping[str, float]) -> bool:
        return found.keys() <= RUN_HEADS.keys() and all(isinstance(value, float) for value in found.values())

    def take(loaded: LoadedRun, corpus: Corpus, _: Mapping[str, Any]) -> dict[str, float]:
        return measure_roles(loaded.model, corpus)

    return _stored(path, HEADS_FILE, whole, take, cache)


def _stored(
    path: Path, file: str, whole: Callable[[Numbers], bool], take: Take[Numbers], cache: Path | None
) -> Numbers:
    """Return the numbers in a file of the run's directory, or take them and write the file."""
    result = RunDirectory.open(path).result
    if result is None or result.get("outcome") != "finished":
        state = "is not finished" if result is None else "diverged"
        raise FileError(
            f"the run in {path} {state}: there are no final weights to measure",
            hint="train it to its end first" if result is None else "train it with a lower learning rate",
        )
    weights = result.get("weights_sha256")
    found: Numbers | None = _read(path / file, weights)
    if found is None or not whole(found):
        loaded = load_run(path)
        found = take(loaded, corpus_of_run(path, loaded.record, cache), result)
        content = {"format": FORMAT, "weights_sha256": weights, Path(file).stem: found}
        with suppress(FileError):  # where nothing can be written, it is measured again next time
            signature = {"sha256": content_hash(content)} if file == MEASURES_FILE else {}
            write_json(path / file, {**content, **signature})
    return found


def _read(path: Path, weights: object) -> Any:
    """Return the numbers that were stored, unless they are damaged, of another version or of other weights."""
    try:
        content = read_json(path)
    except FileError:
        return None
    if path.name == MEASURES_FILE and content.pop("sha256", None) != content_hash(content):
        return None
    if content.get("format") != FORMAT or content.get("weights_sha256") != weights:
        return None
    found = content.get(path.stem)
    return found if isinstance(found, dict) else None


# What heads do


def measure_roles(model: LanguageModel, corpus: Corpus) -> dict[str, float]:
    """Return every one of `RUN_HEADS` that a model has, on the same validation rows every time."""
    length = min(_HEADS_LENGTH, model.spec.context_length)
    batch = next(iter(corpus.validation_batches(batch_size=_HEADS_ROWS, context_length=length, limit=_HEADS_ROWS)))
    reading = RoleReading(model, marked(model, delimiter_tokens(corpus.tokenizer)), "self")
    reading.add("texts", Inputs.of(batch))
    if length >= 4:
        repeated = repeated_tokens(model.spec.vocabulary_size, len(batch.inputs), length)
        reading.add("repeated", Inputs.of(batch._replace(inputs=repeated)))
    found: dict[str, float | None] = {}
    for role, layers in reading.scores(model).items():
        excess = [value for layer in layers for value in layer[..., 2].nanmean(0).tolist() if value == value]
        found[f"{role}, {STRONGEST}"] = max(excess, default=None)
        found[f"{role}, {MEAN}"] = mean(excess)
    return {name: value for name, value in found.items() if value is not None}


# Losses


def _losses(loaded: LoadedRun, corpus: Corpus, result: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the loss on training rows, the gap to the validation loss, and the accuracy on a task."""
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
    """Return the rows of a batch: more than in training, unless memory is short, to save time."""
    return run.execution.micro_batch_size or max(run.batch_size, _ROWS_AT_ONCE)


def training_rows(run: ResolvedRun, corpus: Corpus, count: int) -> Iterator[Batch]:
    """Yield `count` rows that the run was trained on, or all it had, from evenly spaced steps.

    They follow from the corpus, the seed and the steps: variants trained with the same seed get the same rows.
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
    """Yield the same rows, about `rows` at once; batches with a source, whose lengths differ, stay as they are."""
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
    """Return the share of all targets of the batches that the model in eval mode predicts as the most likely."""
    right = count = 0
    with evaluating(model):
        for batch in batches:
            asked = batch.targets != IGNORED
            best = model(batch.inputs, source=batch.source, source_padding=batch.source_padding).argmax(-1)
            right += int((best == batch.targets)[asked].sum())
            count += int(asked.sum())
    return right / count if count else None


def mean_loss(model: LanguageModel, batches: Iterable[Batch]) -> float:
    """Return the mean loss in nats over all targets of the batches, of the model in eval mode."""
    total, count = 0.0, 0
    with evaluating(model):
        for batch in batches:
            targets = int((batch.targets != IGNORED).sum())
            if targets:  # the mean of nothing is NaN
                loss = model.loss(batch.inputs, batch.targets, source=batch.source, source_padding=batch.source_padding)
                total += loss.item() * targets
                count += targets
    return total / count if count else math.nan
