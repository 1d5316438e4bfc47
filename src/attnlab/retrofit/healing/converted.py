"""The converted model as a run of zero training steps: a folder that every command accepts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attnlab.corpora import Corpus
from attnlab.models import LanguageModel
from attnlab.runs import RunDirectory
from attnlab.runs.checkpoints import digest
from attnlab.runs.directory import MODEL
from attnlab.runs.verification import hash_text
from attnlab.storage.tensors import write_tensors
from attnlab.training import ResolvedRun


def write_converted(
    path: Path, model: LanguageModel, corpus: Corpus, resolved: ResolvedRun, record: Mapping[str, object], loss: float
) -> None:
    """Write a model as a finished run of no steps, if it is not there yet."""
    if RunDirectory.exists(path) and RunDirectory.open(path).result is not None:
        return
    tokenizer = corpus.tokenizer.to_json()
    content = {
        **record,
        "resolved": resolved.model_dump(mode="json"),
        "corpus": {"hash": corpus.hash, "tokenizer_sha256": hash_text(tokenizer)},
    }
    directory = RunDirectory.open(path) if RunDirectory.exists(path) else RunDirectory.create(path, content)
    with directory.hold():
        directory.write_tokenizer(tokenizer)
        weights = {name: parameter.detach() for name, parameter in model.named_parameters()}
        write_tensors(path / MODEL, weights)
        directory.finish(
            {
                "outcome": "finished",
                "steps": 0,
                "validation_loss": loss,
                "seconds": 0.0,
                "tokens_per_second": None,
                "weights_sha256": digest(weights),
                "message": None,
            }
        )
