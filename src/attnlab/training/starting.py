"""Finetuning: a run that starts from the weights of another run.

    RunSpec(start="runs/softmax-nano-gpt2-seed0-…", learning_rate=3e-4)

The model is that of the other run. Its spec and the hash of its weights are part of this run's own spec, so that a run
is fully described even if the other run is not available.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from attnlab.corpora import Corpus
from attnlab.errors import FileError, SpecError
from attnlab.models import ModelSpec
from attnlab.runs.directory import RunDirectory
from attnlab.runs.verification import hash_text
from attnlab.specification import Specification


class Start(Specification):
    """The folder of a finished run, with its model and the hashes of its weights and its tokenizer."""

    what: ClassVar[str] = "the start of a run"

    run: str
    weights_sha256: str
    tokenizer_sha256: str
    model: ModelSpec

    @classmethod
    def of(cls, path: str | Path) -> Start:
        """Return the start from the run in a folder, whose weights are not read yet."""
        directory = RunDirectory.open(Path(path))
        result = directory.result or {}
        if result.get("outcome") != "finished":
            raise FileError(f"{path} has not finished, so no run can start from it", hint="train it to its end first")
        record = directory.record
        try:
            model = ModelSpec.from_plain(record["resolved"]["model"])
            hashes = (str(result["weights_sha256"]), str(record["corpus"]["tokenizer_sha256"]))
        except (LookupError, TypeError):
            raise FileError(f"{path} is damaged: it does not say which model it trained") from None
        return cls(run=str(directory.path.resolve()), weights_sha256=hashes[0], tokenizer_sha256=hashes[1], model=model)

    def at_context(self, length: int | None) -> ModelSpec:
        """Return the model with another context; one with learned positions keeps its own."""
        model = self.model
        if length in {None, model.context_length}:
            return model
        if model.learns_positions:
            raise SpecError(
                f"{self.run} has learned positions, so its context of {model.context_length} cannot become {length}",
                hint="leave `context_length` out",
            )
        return model.replace(context_length=length)

    def check_text(self, corpus: Corpus) -> None:
        """Refuse a text in other tokens than those that the weights were trained on."""
        if hash_text(corpus.tokenizer.to_json()) != self.tokenizer_sha256:
            raise SpecError(
                f"{corpus.spec.name} has other tokens than {self.run} was trained on",
                hint=f"use the text of that run, or its tokenizer, by `tokenizer=run:{self.run}`",
            )

    def weights(self) -> Mapping[str, Tensor]:
        """Return the weights, if they are those that the spec was made of."""
        directory = RunDirectory.open(Path(self.run))
        result = directory.result or {}
        weights = directory.final_weights(result)
        if result.get("weights_sha256") != self.weights_sha256:
            raise FileError(
                f"{self.run} was trained anew since this run was asked to start from it",
                hint="restore the old run, or ask again for a run that starts from the new one",
            )
        return weights


def recorded_start(record: Mapping[str, Any]) -> Callable[[], Mapping[str, Tensor]] | None:
    """Return what gives the weights that a run with this record starts from; None where they are new."""
    start = record.get("spec", {}).get("start")
    return None if start is None else Start.from_plain(start).weights
