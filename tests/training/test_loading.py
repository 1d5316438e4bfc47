"""A run's model can be used, whole or at any step that is there; and what this room offers is what it says."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch

import attnlab.training
from attnlab.corpora import open_corpus
from attnlab.errors import FileError
from attnlab.runs import RunDirectory
from attnlab.runs.checkpoints import DamagedCheckpointWarning, digest
from attnlab.training import Saving, load_run
from support.checkpoints import flip
from support.runs import change_record
from support.training import KINSHIP, TRANSLATION, At, smoke, train_in


def test_public_names() -> None:
    assert attnlab.training.__all__ == [
        "OPTIMIZERS",
        "RECIPES",
        "ConsoleReporter",
        "DivergedError",
        "Execution",
        "Learner",
        "LoadedRun",
        "LostWorkerError",
        "OptimizerSpec",
        "Recipe",
        "Reporter",
        "ResolvedRun",
        "RunResult",
        "RunSpec",
        "Saving",
        "Schedule",
        "TensorBoard",
        "Tracker",
        "Treatment",
        "choose_execution",
        "load_run",
        "resume",
        "train",
        "treatment",
    ]
    assert all(hasattr(attnlab.training, name) for name in attnlab.training.__all__)


def test_a_finished_run(tmp_path: Path) -> None:
    spec = smoke(corpus=KINSHIP)
    result = train_in(tmp_path, spec)
    loaded = load_run(result.path)
    assert loaded.step == 6
    assert not loaded.model.training
    assert loaded.record == RunDirectory.open(result.path).record
    assert loaded.resolved.steps == 6
    assert digest(dict(loaded.model.named_parameters())) == result.weights_sha256
    corpus = open_corpus(spec.corpus, tmp_path / "cache")
    text = corpus.tokenizer.decode(range(5))
    assert loaded.tokenizer.decode(loaded.tokenizer.encode(text)) == text
    assert loaded.tokenizer.to_json() == corpus.tokenizer.to_json()
    total = count = 0.0
    for batch in corpus.validation_batches(batch_size=4, context_length=8, limit=4):
        total += loaded.model.loss(batch.inputs, batch.targets).item() * batch.targets.numel()
        count += batch.targets.numel()
    assert total / count == pytest.approx(result.validation_loss, rel=1e-5)


def test_it_can_be_trained_further(tmp_path: Path) -> None:
    loaded = load_run(train_in(tmp_path).path)
    tokens = torch.ones(1, 8, dtype=torch.long)
    loaded.model.loss(tokens, tokens).backward()
    assert all(parameter.grad is not None for parameter in loaded.model.parameters())


def test_any_family(tmp_path: Path) -> None:
    loaded = load_run(train_in(tmp_path, smoke(corpus=TRANSLATION, context_length=16, recipe="fast")).path)
    logits = loaded.model(torch.ones(1, 3, dtype=torch.long), source=torch.ones(1, 4, dtype=torch.long))
    assert torch.isfinite(logits).all()


def test_any_step_that_is_there(tmp_path: Path) -> None:
    result = train_in(tmp_path)
    checkpoints = RunDirectory.open(result.path).checkpoints
    loaded = load_run(result.path, step=4)
    assert loaded.step == 4
    assert digest(dict(loaded.model.named_parameters())) == digest(checkpoints.check(4).tensors("model"))
    assert load_run(result.path, step=6).step == 6
    bare = train_in(tmp_path / "bare", saving=Saving())
    assert RunDirectory.open(bare.path).checkpoints.steps() == []
    assert load_run(bare.path, step=6).step == 6, "the final weights are those of the last step"
    with pytest.raises(FileError, match="no weights of step 3") as caught:
        load_run(result.path, step=3)
    assert caught.value.hint == "there are those of 4, 6"
    flip(checkpoints.path(4) / "model.safetensors")
    with pytest.raises(FileError, match="is damaged"):
        load_run(result.path, step=4)


def test_an_unfinished_run(tmp_path: Path) -> None:
    stopped = train_in(tmp_path, reporter=At(4, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    assert load_run(stopped.path).step == 5
    flip(stopped.path / "checkpoints" / "step-000005" / "model.safetensors")
    with pytest.warns(DamagedCheckpointWarning):
        assert load_run(stopped.path).step == 4


def test_a_run_without_weights(tmp_path: Path) -> None:
    def fail() -> None:
        raise RuntimeError("pulled the plug")

    with pytest.raises(RuntimeError, match="plug"):
        train_in(tmp_path, reporter=At(1, fail))
    (path,) = (tmp_path / "runs").iterdir()
    with pytest.raises(FileError, match="no weights yet") as caught:
        load_run(path)
    assert "train it further" in str(caught.value.hint)
    with pytest.raises(FileError, match="no weights of step 2") as caught:
        load_run(path, step=2)
    assert caught.value.hint == "there are none yet"


def test_a_diverged_run_has_its_last_checkpoint(tmp_path: Path) -> None:
    spec = smoke(learning_rate=1e30, warmup_steps=0, steps=30)
    result = train_in(tmp_path, spec, saving=Saving(steps=1))
    assert result.outcome == "diverged"
    if result.steps > 1:
        assert load_run(result.path).step == result.steps - 1


def test_no_run_at_all(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="is no run directory"):
        load_run(tmp_path)
    with pytest.raises(FileError, match="there is no run directory"):
        load_run(tmp_path / "absent")


@pytest.mark.parametrize("content", ["{}", '{"tokenizer": "{}"}', '{"tokenizer": "[3]"}', '{"tokenizer": 3}', "{"])
def test_a_damaged_tokenizer(tmp_path: Path, content: str) -> None:
    result = train_in(tmp_path)
    (result.path / "tokenizer.json").write_text(content)
    with pytest.raises(FileError, match=r"tokenizer\.json"):
        load_run(result.path)


def test_weights_of_another_model(tmp_path: Path) -> None:
    result = train_in(tmp_path)
    resolved = RunDirectory.open(result.path).record["resolved"]
    resolved["model"]["vocabulary_size"] += 1
    change_record(result.path, resolved=resolved)
    with pytest.raises(FileError, match="not those of its model"):
        load_run(result.path)


def test_a_cut_model(tmp_path: Path) -> None:
    result = train_in(tmp_path)
    os.truncate(result.path / "model.safetensors", 100)
    with pytest.raises(FileError, match="is damaged"):
        load_run(result.path)
