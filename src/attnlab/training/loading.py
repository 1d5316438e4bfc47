"""Load the model of a run: the final weights of a finished run, or those of a checkpoint.

loaded = load_run(Path("runs/softmax-nano-gpt2-seed0-…"))
loaded.model(tokens), loaded.tokenizer.decode(…)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from attnlab.attention.names.files import file_hashes
from attnlab.corpora import Tokenizer
from attnlab.errors import AttnlabError, FileError, InputError, UnknownNameError
from attnlab.models import LanguageModel
from attnlab.models.initial import restore_constants
from attnlab.models.language_model import empty_model
from attnlab.runs.checkpoints import DamagedCheckpointError
from attnlab.runs.directory import RunDirectory
from attnlab.runs.receipts import TOKENIZER
from attnlab.runs.verification import train_again
from attnlab.training.spec import ResolvedRun


@dataclass(frozen=True)
class LoadedRun:
    """A model after `step` steps, on the CPU and in evaluation mode, with the record of its run."""

    model: LanguageModel
    tokenizer: Tokenizer
    resolved: ResolvedRun
    record: dict[str, Any]
    step: int


def load_run(path: Path, step: int | None = None) -> LoadedRun:
    """Return the model of a run after `step` steps, by default the last that were saved.

    Parameters
    ----------
    path
        The folder of the run.
    step
        The step; None for the last that was saved.
    """
    return load_directory(RunDirectory.open(path), step)


def load_directory(directory: RunDirectory, step: int | None = None) -> LoadedRun:
    """Return the model of an opened run after `step` steps, by default the last that were saved."""
    check_variants(directory, known_only=True)
    resolved = resolved_of(directory)
    weights, found = _weights(directory, step)
    tokenizer = _tokenizer(directory)
    return LoadedRun(_model(resolved, weights, directory.path), tokenizer, resolved, directory.record, found)


def resolved_of(directory: RunDirectory) -> ResolvedRun:
    """Return what the run in this directory does, with nothing left open."""
    try:
        return ResolvedRun.from_plain(directory.record.get("resolved"))
    except (AttnlabError, LookupError) as error:
        reason, hint = (error.message, error.hint) if isinstance(error, AttnlabError) else (str(error), None)
        first = f"{hint}; or " if hint else ""
        raise FileError(
            f"{directory.path} holds no run that this attnlab can resume: {reason}",
            hint=f"{first}train it anew in another folder, or use the version that began it",
        ) from None


def check_variants(directory: RunDirectory, *, known_only: bool = False) -> None:
    """Refuse a variant whose file has changed since the run began; with `known_only`, only one that is known here."""
    for name, known in directory.record.get("variants", {}).items():
        try:
            found = file_hashes(name).get(name)
        except UnknownNameError:
            if known_only:
                continue
            raise FileError(
                f"the run in {directory.path} trains {name!r}, a variant from a file",
                hint="name the file that adds it, by `variants_from=FILE`",
            ) from None
        if found != known:
            raise FileError(
                f"the file that adds the variant {name!r} has changed since the run in {directory.path} began",
                hint="restore the old file, name the variant otherwise, or train in another folder by `out=FOLDER`",
            )


def _weights(directory: RunDirectory, step: int | None) -> tuple[dict[str, Tensor], int]:
    """Return the weights, and the number of steps before them."""
    result = directory.result or {}
    last = _last_step(directory.path, result)
    if last is not None and step in {None, last}:
        return directory.final_weights(result), last
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


def _last_step(path: Path, result: Mapping[str, Any]) -> int | None:
    """Return the number of steps before the final weights, if the run has finished."""
    if result.get("outcome") != "finished":
        return None
    if "steps" not in result:
        raise FileError(f"the result of {path} is damaged: it has no steps", hint="train the run again")
    return int(result["steps"])


def _tokenizer(directory: RunDirectory) -> Tokenizer:
    try:
        return Tokenizer.from_json(directory.tokenizer())
    except (InputError, UnknownNameError) as error:
        path = directory.path / TOKENIZER
        raise FileError(f"{path} holds no tokenizer: {error.message}", hint=train_again(path)) from None


def _model(resolved: ResolvedRun, weights: Mapping[str, Tensor], path: Path) -> LanguageModel:
    model = empty_model(resolved.model)
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError:
        raise FileError(
            f"the weights in {path} are not those of its model: {_difference(model, weights)}",
            hint="use the attnlab that trained it",
        ) from None
    restore_constants(model)
    return model.eval()


def _difference(model: LanguageModel, weights: Mapping[str, Tensor]) -> str:
    """Return in a few words how weights differ from those that a model has."""
    shapes = {name: tensor.shape for name, tensor in model.state_dict().items()}
    if missing := shapes.keys() - weights.keys():
        return f"{min(missing)} is missing" + (f", and {len(missing) - 1} more" if len(missing) > 1 else "")
    if extra := weights.keys() - shapes.keys():
        return f"the model has no {min(extra)}"
    name = next(name for name, shape in shapes.items() if weights[name].shape != shape)
    return f"{name} has the shape {tuple(weights[name].shape)} instead of {tuple(shapes[name])}"
