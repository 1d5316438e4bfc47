"""Run directories as training leaves them, in every state."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from attnlab.runs.directory import RunDirectory
from attnlab.runs.verification import seal
from attnlab.storage.tensors import write_tensors

RECORD = {
    "spec": {"steps": 10, "seed": 3, "recipe": "gpt2", "size": "tiny", "variant": "cosine"},
    "versions": {"attnlab": "0.1.0", "torch": "2.13.0"},
    "machine": {"cores": 2},
    "corpus": {"name": "pydoc", "hash": "abc123"},
    "started": "2026-01-02T03:04:05+00:00",
}


def make_run(path: Path, *, steps: int = 4, finished: bool = False, outcome: str = "finished") -> RunDirectory:
    """A run that logged every step and saved every second, and perhaps ended."""
    run = RunDirectory.create(path, RECORD)
    for step in range(1, steps + 1):
        run.log({"step": step, "training_loss": 5 - step / 10})
        if step % 2 == 0:
            run.log({"step": step, "validation_loss": 6 - step / 10})
            run.checkpoints.save(step, {"model": {"weight": torch.full((100,), float(step))}}, {"step": step})
    if finished:
        write_tensors(path / "model.safetensors", {"weight": torch.ones(100)})
        run.finish({"outcome": outcome, "validation_loss": 5.5})
    return run


def leave_behind(folder: Path, label: str, process: int = 2**22 + 1) -> Path:
    """What a process that is dead, as there is none with such a number, did not come to remove."""
    path = folder / f".tmp-{label}-{process}-0123abcd"
    path.mkdir(parents=True)
    (path / "half").write_bytes(b"x" * 1000)
    return path


def change_record(path: Path, **changes: Any) -> None:
    """Change run.json as if it had been written so: with the hash of its new content."""
    record = RunDirectory.open(path).record
    (path / "run.json").write_text(json.dumps(seal({**record, **changes})))
