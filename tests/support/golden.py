"""Golden losses: the first steps of every recipe, written once and compared ever after.

    cd tests && python -m support.golden        write them anew, after a change that is meant to change them

The bits of a loss depend on the machine: on the order in which its matrix products add up. So a file tells on which
machine it was written. There the losses must be equal; elsewhere they may differ by what rounding explains, which is
measured when the file is written: `spread` is how far each loss moves when every weight moves by one unit in the last
place, the largest of several tries. Another instruction set adds in another order, which moves an intermediate sum by
up to about as many such units as it has terms in a row, here the 32 of the model's width, and as much again for what
a step passes on: `FACTOR`. It is not wide: a learning rate that is 1 % higher is found.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from attnlab.processes.machine import describe_machine
from attnlab.training import RECIPES, RunSpec
from attnlab.training.engine import Engine
from support.training import make_engine, rounding, take_steps

FOLDER = Path(__file__).parents[1] / "training" / "golden"
STEPS = 20
FACTOR = 64


def golden_spec(recipe: str) -> RunSpec:
    """What is trained: generated text and nothing that differs between releases of Python."""
    corpus = {"name": "mqar", "vocabulary_size": 32, "options": {"pairs": 3, "validation_examples": 8}}
    shape = {"num_layers": 2, "model_width": 32, "num_heads": 2, "context_length": 16, "batch_size": 4}
    return RunSpec(recipe=recipe, corpus=corpus, steps=STEPS, warmup_steps=4, **shape)


def engine(recipe: str, dtype: torch.dtype = torch.float32, **changes: Any) -> Engine:
    return make_engine(golden_spec(recipe).replace(**changes), dtype)


def losses_of(made: Engine) -> list[float]:
    return [step.loss for step in take_steps(made, STEPS)]


def this_machine() -> dict[str, Any]:
    """What the bits depend on."""
    machine = describe_machine()
    return {
        "processor": machine.processor,
        "capability": torch.backends.cpu.get_cpu_capability(),
        "torch": machine.torch,
        "threads": torch.get_num_threads(),
        "workers": 1,
    }


def read(recipe: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{recipe}.json").read_text(encoding="utf-8"))
    return found


def write() -> None:
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    for recipe in RECIPES:
        content = {
            "machine": this_machine(),
            "losses": losses_of(engine(recipe)),
            "spread": rounding(lambda recipe=recipe: engine(recipe), STEPS, tries=10),  # type: ignore[misc]
        }
        (FOLDER / f"{recipe}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
