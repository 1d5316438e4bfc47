"""A step is a pure function: of how the batch is divided among passes and processes it depends by rounding alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from attnlab.corpora import IGNORED, Batch
from attnlab.runs import RunDirectory
from attnlab.training import RunSpec, Saving
from attnlab.training.engine import Engine
from attnlab.training.engine.parameters import Shard
from attnlab.training.engine.step import _micro_batches
from support.training import (
    KINSHIP,
    TRANSLATION,
    losses,
    make_engine,
    rounding,
    smoke,
    take_steps,
    train_in,
)

# A sum taken in another order moves by about as many units in the last place as it has terms in a row; one unit in
# every weight is the measure, and the longest sums here have some dozens of terms.
FACTOR = 32


def assert_close(make: Callable[[], Engine], found: list[float], expected: list[float]) -> None:
    """That losses differ by no more than what rounding explains."""
    floor = 4 * torch.finfo(torch.float32).eps * max(expected)
    for step, (a, b, spread) in enumerate(zip(found, expected, rounding(make, len(expected)), strict=True)):
        assert abs(a - b) <= FACTOR * spread + floor, f"step {step}: {a} and {b}, where rounding moves {spread}"


@pytest.mark.parametrize("recipe", ["gpt2", "fast"])
@pytest.mark.parametrize("corpus", [None, TRANSLATION])
@pytest.mark.parametrize("size", [1, 3])
def test_accumulation_changes_nothing(recipe: str, corpus: dict[str, object] | None, size: int) -> None:
    """Targets are not equally many in each part, and most are ignored: the weighting has to be exact."""
    spec = smoke(recipe=recipe, batch_size=5, **({} if corpus is None else {"corpus": corpus, "context_length": 16}))
    whole = [step.loss for step in take_steps(make_engine(spec), 6)]
    parts = [step.loss for step in take_steps(make_engine(spec, micro_batch_size=size), 6)]
    assert_close(lambda: make_engine(spec), parts, whole)


def test_the_weighting_is_by_targets_and_not_by_rows() -> None:
    engine = make_engine(smoke(batch_size=3), micro_batch_size=1)
    batch = engine.corpus.batch(seed=0, step=0, batch_size=3, context_length=8)
    targets = batch.targets.clone()
    targets[1] = IGNORED
    targets[2, targets[2] != IGNORED] = torch.tensor([IGNORED, 3])  # one of its two

    class Uneven:
        def batch(self, **_: object) -> Batch:
            return Batch(batch.inputs, targets)

    engine.corpus = Uneven()  # type: ignore[assignment]
    expected = engine.model.loss(batch.inputs, targets).item()
    step = engine.step(0)
    assert step.loss == pytest.approx(expected, rel=1e-6)
    assert step.is_finite, "a row without targets has no mean"


@pytest.mark.parametrize("size", [None, 1, 2, 7])
@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_every_row_is_somebodys(size: int | None, workers: int) -> None:
    batch = Batch(torch.arange(5)[:, None], torch.arange(5)[:, None])
    parts = [list(_micro_batches(batch, Shard(rank, workers), size)) for rank in range(workers)]
    rows = [row for mine in parts for part in mine for row in part.inputs.flatten().tolist()]
    assert rows == [0, 1, 2, 3, 4]
    assert all(size is None or len(part.inputs) <= size for mine in parts for part in mine)


def test_a_step_depends_on_its_number_alone() -> None:
    """Also where something is drawn at random."""
    spec = smoke(dropout=0.3)
    first, second = make_engine(spec), make_engine(spec)
    torch.manual_seed(123)
    a = take_steps(first, 4)
    torch.manual_seed(321)
    b = take_steps(second, 4)
    assert a == b
    assert torch.equal(first.optimizer.flat.values, second.optimizer.flat.values)
    assert take_steps(make_engine(spec.replace(seed=1)), 4) != a


def test_the_first_loss_is_that_of_guessing() -> None:
    engine = make_engine(smoke(recipe="fast"))
    assert engine.evaluate() == pytest.approx(math.log(engine.run.model.vocabulary_size), abs=0.1)
    assert engine.step(0).loss == pytest.approx(math.log(engine.run.model.vocabulary_size), abs=0.1)


def test_it_learns(tmp_path: Path) -> None:
    result = train_in(tmp_path, smoke(corpus=KINSHIP, recipe="fast", steps=30, context_length=16), saving=Saving())
    found = losses(result)
    assert sum(found[-5:]) / 5 < 0.9 * found[0]
    assert result.validation_loss is not None
    assert result.validation_loss < found[0]


def test_translation_trains_an_encoder_decoder(tmp_path: Path) -> None:
    result = train_in(tmp_path, smoke(corpus=TRANSLATION, context_length=16, recipe="fast", steps=30))
    record = RunDirectory.open(result.path).record
    assert record["resolved"]["model"]["family"] == "encoder-decoder"
    found = losses(result)
    assert found[-1] < 0.9 * found[0]


def test_evaluation_changes_nothing() -> None:
    plain, looking = make_engine(smoke(dropout=0.2)), make_engine(smoke(dropout=0.2))
    for number in range(3):
        looking.evaluate()
        assert plain.step(number) == looking.step(number)
    assert looking.evaluate() == looking.evaluate()


# Several processes that share memory


@pytest.mark.parametrize("spec", [smoke(), smoke(recipe="fast", batch_size=5, num_layers=2)], ids=["even", "uneven"])
def test_two_workers_train_what_one_trains(tmp_path: Path, spec: RunSpec) -> None:
    one = train_in(tmp_path / "one", spec)
    two = train_in(tmp_path / "two", spec, workers=2)
    assert RunDirectory.open(two.path).record["resolved"]["execution"]["workers"] == 2
    assert two.path.name == one.path.name
    assert_close(lambda: make_engine(spec), losses(two), losses(one))
    assert two.validation_loss == pytest.approx(one.validation_loss, abs=1e-4)


def test_more_workers_than_rows_are_not_started(tmp_path: Path) -> None:
    result = train_in(tmp_path, smoke(batch_size=1, steps=2), workers=2)
    assert RunDirectory.open(result.path).record["resolved"]["execution"]["workers"] == 1
