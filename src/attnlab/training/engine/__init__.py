"""What happens between two entries of a run's log.

parameters      all parameters of a model in one piece of memory
optimizers      AdamW, and Muon beside AdamW
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
