"""A run's model, to be used: the final weights of a finished run, or those of a checkpoint.

loaded = load_run(Path("runs/softmax-nano-gpt2-seed0-…"))
loaded.model(tokens), loaded.tokenizer.decode(…)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from attnlab.corpora import Tokenizer
from attnlab.errors import FileError, InputError, UnknownNameError
from attnlab.models import LanguageModel
from attnlab.models.language_model import empty_model
from attnlab.runs.checkpoints import DamagedCheckpointError
from attnlab.runs.directory import MODEL, RunDirectory
from attnlab.runs.receipts import TOKENIZER
from attnlab.storage.records import read_json
from attnlab.storage.tensors import read_tensors
from attnlab.training.spec import ResolvedRun


@dataclass(frozen=True)
class LoadedRun:
    """A model as it was after `step` steps, on the CPU and in evaluation mode, with the record of its run."""

    model: LanguageModel
    tokenizer: Tokenizer
    resolved: ResolvedRun
    record: dict[str, Any]
    step: int


def load_run(path: Path, step: int | None = None) -> LoadedRun:
    """Return the model of a run after `step` steps, by default the last that were saved."""
    directory = RunDirectory.open(path)
    resolved = resolved_of(directory)
    weights, found = _weights(directory, step)
    tokenizer = _tokenizer(path)
    return LoadedRun(_model(resolved, weights, path), tokenizer, resolved, directory.record, found)


def resolved_of(directory: RunDirectory) -> ResolvedRun:
    """Return what the run in this directory does, with nothing left open."""
    try:
        return ResolvedRun.model_validate(directory.record["resolved"])
    except (KeyError, ValueError, LookupError) as error:
        raise FileError(
            f"{directory.path} holds no run that this attnlab can resume: {error}",
            hint="train it anew in another folder, or use the version that began it",
        ) from None


def _weights(directory: RunDirectory, step: int | None) -> tuple[dict[str, Tensor], int]:
    """Return the weights, and the number of steps before them."""
    last = _last_step(directory)
    if last is not None and step in {None, last}:
        return read_tensors(directory.path / MODEL), last
    saved = directory.checkpoints.steps()
    if step is None:
        found = directory.checkpoints.latest()
        if found is None:
            raise FileError(
                f"{directory.path} has no weights yet",
                hint="train it further: they are there after the first checkpoint",
            )
        return found.tensors("model"), found.step
    if step not in saved:
        known = sorted({*saved, *([] if last is None else [last])})
        there = f"there are those of {', '.join(map(str, known))}" if known else "there are none yet"
        raise FileError(f"{directory.path} has no weights of step {step}", hint=there)
    try:
        return directory.checkpoints.check(step).tensors("model"), step
    except DamagedCheckpointError as damage:
        raise FileError(f"{directory.checkpoints.path(step)} is damaged: {damage}", hint="load another step") from None


def _last_step(directory: RunDirectory) -> int | None:
    """Return the number of steps before the final weights, if there are any."""
    result = directory.result
    if result is None or not (directory.path / MODEL).exists():
        return None
    return int(result["steps"])


def _tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_json(read_json(path / TOKENIZER)["tokenizer"])
    except (KeyError, InputError, UnknownNameError) as error:
        raise FileError(f"{path / TOKENIZER} holds no tokenizer: {error}", hint="train the run anew") from None


def _model(resolved: ResolvedRun, weights: Mapping[str, Tensor], path: Path) -> LanguageModel:
    model = empty_model(resolved.model)
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise FileError(
            f"the weights in {path} are not those of its model: {error}", hint="use the attnlab that trained it"
        ) from None
    return model.eval()
