"""What the heads of a finished run do, measured once, in a tenth of a second, and kept in its directory.

    heads_of_run(Path("runs/softmax-pico-gpt2-seed0-…"))["induction, strongest"]

These are the numbers of `profiles.py` that need one look at a few validation rows: how far the strongest head plays
each role, how far all do, and how alike the maps of heads are. No head gets a name here, as that takes shuffled copies
of the model; where variants are compared over seeds, the baseline is the control. For all that can be said of heads,
see `comparing_heads.py`.

    runs/<id>/heads.json    the format, the hash of the weights, and the numbers
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

from attnlab.corpora import Corpus
from attnlab.errors import FileError
from attnlab.lens.comparison.profiles import COUNT, PROFILE, mean
from attnlab.lens.heads.role_reading import Reading, delimiter_tokens, marked, repeated_tokens
from attnlab.lens.heads.role_scores import ROLES
from attnlab.lens.maps.measures import Described
from attnlab.lens.maps.run_measures import corpus_of_run, measures_of_run
from attnlab.models import LanguageModel
from attnlab.runs import RunDirectory
from attnlab.storage.records import read_json, write_json
from attnlab.training import load_run

FORMAT = 1  # to be raised when an instrument changes, so that what the old one measured is measured again
KEPT = "heads.json"
ROWS = 16
_LENGTH = 64  # tokens of a row

RUN_HEADS: Mapping[str, Described] = MappingProxyType(
    {
        name: one
        for name, one in PROFILE.items()
        if any(name.startswith(f"{role}, ") for role in ROLES) and not name.endswith(f", {COUNT}")
    }
)


def measure_run(path: Path, *, cache: Path | None = None) -> None:
    """All that is kept of a finished run: its measures, and what its heads do."""
    measures_of_run(path, cache=cache)
    heads_of_run(path, cache=cache)


def heads_of_run(path: Path, *, cache: Path | None = None) -> dict[str, float]:
    """Every one of `RUN_HEADS` that the finished run in this directory has; they are measured the first time."""
    result = RunDirectory.open(path).result
    if result is None or result.get("outcome") != "finished":
        raise FileError(f"the run in {path} has no final weights to look at", hint="train it to its end first")
    weights = result.get("weights_sha256")
    found = _read(path / KEPT, weights)
    if found is None:
        loaded = load_run(path)
        found = measure_roles(loaded.model, corpus_of_run(path, loaded.record, cache))
        with suppress(FileError):  # where nothing can be written, it is only measured again the next time
            write_json(path / KEPT, {"format": FORMAT, "weights_sha256": weights, "heads": found})
    return found


def measure_roles(model: LanguageModel, corpus: Corpus) -> dict[str, float]:
    """Every one of `RUN_HEADS` that a model has, on the same validation rows every time."""
    length = min(_LENGTH, model.spec.context_length)
    batch = next(iter(corpus.validation_batches(batch_size=ROWS, context_length=length, limit=ROWS)))
    reading = Reading(model, marked(model, delimiter_tokens(corpus.tokenizer)), "self")
    reading.add("texts", batch.inputs, None, batch.source, batch.source_padding)
    if length >= 4:
        repeated = repeated_tokens(model.spec.vocabulary_size, len(batch.inputs), length)
        reading.add("repeated", repeated, None, None if batch.source is None else batch.source, batch.source_padding)
    found: dict[str, float | None] = {}
    for role, layers in reading.scores(model).items():
        excess = [value for layer in layers for value in layer[..., 2].nanmean(0).tolist() if value == value]
        found[f"{role}, strongest"] = max(excess, default=None)
        found[f"{role}, mean"] = mean(excess)
    return {name: value for name, value in found.items() if value is not None}


def _read(path: Path, weights: object) -> dict[str, float] | None:
    """What was kept, unless it is damaged, of another version or of other weights."""
    try:
        content = read_json(path)
    except FileError:
        return None
    found = content.get("heads")
    if content.get("format") != FORMAT or content.get("weights_sha256") != weights or not isinstance(found, dict):
        return None
    whole = found.keys() <= RUN_HEADS.keys() and all(isinstance(value, float) for value in found.values())
    return found if whole else None
