"""What is measured of a finished run is kept, and nothing that happens to the file spoils it."""

from __future__ import annotations

import errno
import json
import math
import os
import shutil
import signal
from pathlib import Path

import pytest
import torch

from attnlab.corpora import open_corpus
from attnlab.errors import FileError
from attnlab.lens import MEASURES, RUN_MEASURES, measure, measures_of_run
from attnlab.lens import runs as run_measures
from attnlab.lens.runs import mean_loss, training_rows
from attnlab.models import build_model
from attnlab.runs import RunDirectory
from attnlab.storage import disk as disk_module
from attnlab.storage.records import content_hash
from attnlab.training import Saving, load_run
from support.disk import FailingDisk, raising
from support.training import KINSHIP, MQAR, TRANSLATION, At, make_engine, resolve, smoke, train_in


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_in(tmp_path_factory.mktemp("trained")).path


@pytest.fixture
def finished(trained: Path, tmp_path: Path) -> Path:
    """A finished run of the test's own."""
    return Path(shutil.copytree(trained, tmp_path / "finished"))


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The runs that were loaded to be measured."""
    loaded: list[Path] = []

    def load(path: Path) -> object:
        loaded.append(path)
        return load_run(path)

    monkeypatch.setattr(run_measures, "load_run", load)
    return loaded


@pytest.mark.parametrize("corpus", [MQAR, KINSHIP, TRANSLATION], ids=lambda corpus: str(corpus["name"]))
def test_a_finished_run(tmp_path: Path, corpus: dict[str, object], counted: list[Path]) -> None:
    spec = smoke(corpus=corpus, context_length=32 if corpus is TRANSLATION else 8)
    result = train_in(tmp_path, spec)
    found = measures_of_run(result.path, cache=tmp_path / "cache")
    assert list(found) == list(RUN_MEASURES)
    opened = open_corpus(spec.corpus, tmp_path / "cache")
    loaded = load_run(result.path)
    assert {name: found[name] for name in MEASURES} == measure(loaded.model, opened)
    assert found["train loss"] is not None
    assert result.validation_loss is not None
    assert found["gap"] == pytest.approx(result.validation_loss - found["train loss"])
    (result.path / "model.safetensors").unlink()  # nothing but the file is needed from now on
    assert measures_of_run(result.path, cache=tmp_path / "elsewhere") == found
    assert counted == [result.path]
    assert RunDirectory.open(result.path).status == "finished"


def test_the_gap_is_measured_as_the_run_validates() -> None:
    """On the validation rows the same function gives the loss that the engine gives."""
    engine = make_engine(smoke())
    rows = engine.corpus.validation_batches(batch_size=3, context_length=8, limit=4)
    assert mean_loss(engine.model, rows) == pytest.approx(engine.evaluate(), rel=1e-6)


def test_learning_by_heart_opens_a_gap(tmp_path: Path) -> None:
    shape = {"model_width": 32, "batch_size": 8, "learning_rate": 1e-2, "warmup_steps": 0}
    corpus = {"name": "kinship", "options": {"families": 1, "sentences": 30}}
    result = train_in(tmp_path, smoke(corpus=corpus, steps=100, context_length=16, **shape), saving=Saving())
    gap = measures_of_run(result.path, cache=tmp_path / "cache")["gap"]
    assert gap is not None
    assert gap > 0.1


def test_training_rows_are_those_of_the_run() -> None:
    run, corpus = resolve(smoke(steps=10))
    batches = list(training_rows(run, corpus, 10))
    assert [len(batch.inputs) for batch in batches] == [4, 4, 2]
    for step, batch in zip((0, 3, 6), batches, strict=True):
        seen = corpus.batch(seed=0, step=step, batch_size=4, context_length=8)
        assert torch.equal(batch.inputs, seen.inputs[: len(batch.inputs)])
    assert sum(len(batch.inputs) for batch in training_rows(run, corpus, 1000)) == 40, "all that there were"
    small, _ = resolve(smoke(steps=10), micro_batch_size=3)
    assert [len(batch.inputs) for batch in training_rows(small, corpus, 7)] == [3, 3, 1]


def test_a_mean_of_nothing_is_no_number() -> None:
    run, _ = resolve(smoke())
    assert math.isnan(mean_loss(build_model(run.model), []))


def edit(path: Path, *, signed: bool = True, **changes: object) -> None:
    """Change what a file says, with the hash that belongs to it or with that of before."""
    content = {**json.loads(path.read_text()), **changes}
    if signed:
        del content["sha256"]
        content["sha256"] = content_hash(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.unlink(),
        lambda path: path.write_text(""),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text("{}"),
        lambda path: path.write_bytes(b"\xff\xfe"),
        lambda path: os.truncate(path, path.stat().st_size // 2),
        lambda path: edit(path, signed=False, measures=dict.fromkeys(RUN_MEASURES, 0.5)),
        lambda path: edit(path, measures={}),
        lambda path: edit(path, format=0),
        lambda path: edit(path, weights_sha256="of another run"),
    ],
)
def test_a_damaged_file_is_measured_again(finished: Path, damage: object, counted: list[Path]) -> None:
    kept = finished / "measures.json"
    found = measures_of_run(finished)
    written = kept.read_bytes()
    damage(kept)  # type: ignore[operator]
    assert measures_of_run(finished) == found
    assert kept.read_bytes() == written
    assert len(counted) == 2


def test_what_another_version_measured_is_measured_again(
    finished: Path, counted: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    measures_of_run(finished)
    monkeypatch.setattr(run_measures, "FORMAT", run_measures.FORMAT + 1)
    measures_of_run(finished)
    assert len(counted) == 2
    measures_of_run(finished)
    assert len(counted) == 2
    monkeypatch.setattr(run_measures, "RUN_MEASURES", {**RUN_MEASURES, "new": RUN_MEASURES["gap"]})
    measures_of_run(finished)
    assert len(counted) == 3


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC])
def test_where_nothing_can_be_written(
    finished: Path, number: int, counted: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_module, "disk", FailingDisk(0, raising(number), for_ever=True))
    before = sorted(path.name for path in finished.iterdir())
    found = measures_of_run(finished)
    assert found.keys() == RUN_MEASURES.keys()
    assert sorted(path.name for path in finished.iterdir()) == before
    assert measures_of_run(finished) == found
    assert len(counted) == 2


def test_runs_without_an_end(tmp_path: Path) -> None:
    stopped = train_in(tmp_path, reporter=At(4, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    with pytest.raises(FileError, match="is not finished") as caught:
        measures_of_run(stopped.path)
    assert "to its end" in str(caught.value.hint)
    diverged = train_in(tmp_path / "other", smoke(learning_rate=1e30, warmup_steps=0, steps=30))
    assert diverged.outcome == "diverged"
    with pytest.raises(FileError, match="diverged") as caught:
        measures_of_run(diverged.path)
    assert "lower learning rate" in str(caught.value.hint)
    with pytest.raises(FileError, match="no run directory"):
        measures_of_run(tmp_path / "absent")


def test_damaged_weights_and_changed_text_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question. " * 30)
    result = train_in(tmp_path, smoke(corpus={"name": str(text)}))
    text.write_text(text.read_text().upper())
    with pytest.raises(FileError, match="has changed since"):
        measures_of_run(result.path, cache=tmp_path / "cache")
    assert not (result.path / "measures.json").exists()
    os.truncate(result.path / "model.safetensors", 100)
    with pytest.raises(FileError, match="is damaged"):
        measures_of_run(result.path, cache=tmp_path / "cache")


def test_a_task_that_is_answered_rightly(tmp_path: Path) -> None:
    """There are three values, so that guessing is right a third of the time."""
    easy = {"name": "mqar", "vocabulary_size": 6, "options": {"pairs": 1, "validation_examples": 64}}
    spec = smoke(corpus=easy, steps=150, recipe="fast", batch_size=16, evaluate_every=150, validation_rows=64)
    result = train_in(tmp_path, spec)
    found = measures_of_run(result.path, cache=tmp_path / "cache")["accuracy"]
    assert found is not None
    assert found > 0.8
    untrained = train_in(tmp_path, spec.replace(steps=1, evaluate_every=1))
    guessing = measures_of_run(untrained.path, cache=tmp_path / "cache")["accuracy"]
    assert guessing is not None
    assert guessing < 0.6
    text = train_in(tmp_path, smoke(corpus=KINSHIP))
    assert measures_of_run(text.path, cache=tmp_path / "cache")["accuracy"] is None
