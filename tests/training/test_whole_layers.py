"""Whole layers of one's own in training: they learn, resume exactly, and are loaded with their own file only."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab.attention import load_variants
from attnlab.errors import FileError
from attnlab.training import load_run
from support.layers import SHIFT, forgetting, sound_layers
from support.training import At, ending, make_engine, smoke, take_steps, train_in


@pytest.fixture
def _known() -> Iterator[None]:
    with sound_layers():
        yield


@pytest.mark.usefixtures("_known")
@pytest.mark.parametrize(
    ("variant", "changes"),
    [
        ("conv-gate", {}),
        ("softmax,fading-mean", {"num_layers": 2}),
        ("memory", {"dropout": 0.1}),
        ("conv-gate", {"recipe": "fast", "position": "learned"}),
    ],
)
def test_every_parameter_moves(variant: str, changes: dict[str, Any]) -> None:
    engine = make_engine(smoke(variant=variant, warmup_steps=0, **changes))
    before = engine.optimizer.flat.values.clone()
    assert all(step.is_finite for step in take_steps(engine, 3))
    assert math.isfinite(engine.evaluate())
    moved = engine.optimizer.flat.named(engine.optimizer.flat.values != before)
    assert [name for name, share in moved.items() if not share.any()] == []


@pytest.mark.usefixtures("_known")
@pytest.mark.parametrize("variant", ["softmax,conv-gate", "fading-mean"])
def test_it_resumes_where_it_stopped(tmp_path: Path, variant: str) -> None:
    spec = smoke(variant=variant, num_layers=2)
    train_in(tmp_path, spec, reporter=At(2, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    assert ending(train_in(tmp_path, spec)) == ending(train_in(tmp_path / "whole", spec))


def test_a_run_is_loaded_with_its_own_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(SHIFT)
    with forgetting():
        load_variants(path)
        result = train_in(tmp_path, smoke(variant="shift"))
        assert load_run(result.path).model.spec.attention[0].layer is not None
        path.write_text(SHIFT.replace("self.output(nn", "2 * self.output(nn"))
        load_variants(path)
        with pytest.raises(FileError, match="has changed since the run"):
            load_run(result.path)
    with forgetting(), pytest.raises(FileError, match="there is no layer called 'shift' here") as caught:
        load_run(result.path)
    assert "variants_from=FILE" in (caught.value.hint or "")
