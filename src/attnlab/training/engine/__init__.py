"""The training step.

parameters      all parameters of a model in one flat tensor
optimizers      AdamW, and Muon combined with AdamW
process_group   the processes that train one model together
step            one training step, and one evaluation
"""

from attnlab.training.engine.optimizers import Optimizer
from attnlab.training.engine.process_group import (
    LocalProcesses,
    LostWorkerError,
    ProcessGroup,
    SingleProcess,
    make_process_group,
)
from attnlab.training.engine.step import Engine, Step

__all__ = [
    "Engine",
    "LocalProcesses",
    "LostWorkerError",
    "Optimizer",
    "ProcessGroup",
    "SingleProcess",
    "Step",
    "make_process_group",
]
