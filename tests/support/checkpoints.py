"""Small checkpoints that tests save and recognise."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlab.runs.checkpoints import Checkpoint, Checkpoints, digest

SHARD = 64  # bytes, so that the model takes two files


def tensors(step: int) -> dict[str, dict[str, Tensor]]:
    return {
        "model": {"first.weight": torch.full((4, 3), float(step)), "second.weight": torch.arange(6.0) + step},
        "optimizer": {"0.step": torch.tensor(float(step)), "0.exp_avg": torch.full((4, 3), -float(step))},
        "random": {"cpu": torch.arange(8, dtype=torch.uint8) + step},
    }


def make(folder: Path, **options: Any) -> Checkpoints:
    return Checkpoints(folder / "checkpoints", shard_bytes=SHARD, **options)


def save(checkpoints: Checkpoints, step: int) -> Path:
    return checkpoints.save(step, tensors(step), {"step": step, "order": [3, 1, 2]})


def assert_is(found: Checkpoint | None, step: int) -> None:
    """That a checkpoint is all of what was saved for this step."""
    assert found is not None
    assert (found.step, found.state) == (step, {"step": step, "order": [3, 1, 2]})
    for group, expected in tensors(step).items():
        read = found.tensors(group)
        assert read.keys() == expected.keys()
        assert all(torch.equal(read[name], expected[name]) for name in expected)
    assert digest(found.tensors("model")) == digest(tensors(step)["model"])


def flip(path: Path) -> None:
    """Change one bit of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def cut(path: Path) -> None:
    """Lose the second half of a file."""
    os.truncate(path, path.stat().st_size // 2)
