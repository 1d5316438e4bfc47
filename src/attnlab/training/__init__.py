"""Training: a run from its spec to its result, on disk so that no interruption loses it.

recipes      optimizers, schedules and recipes by name
execution    threads, processes and precision on this machine
starting     another run whose weights a run begins with
spec         a run as a value, and named changes of it
engine/      one training step: parameters, optimizers, process group
limits       sizes that this machine cannot train
fitting      rows that fit into memory, and steps that fit into the time
progress     reporters and trackers
loop         the steps of a run, from the last checkpoint to the end
run          train, resume
loading      the model of a run
replaying    steps of a run taken again, and its final weights evaluated again
learner      training in memory, without a directory
"""

from attnlab.runs.directory import RunResult
from attnlab.training.engine import LostWorkerError
from attnlab.training.execution import Execution, choose_execution
from attnlab.training.learner import DivergedError, Learner
from attnlab.training.loading import LoadedRun, load_run
from attnlab.training.loop import Saving
from attnlab.training.progress import ConsoleReporter, Reporter, TensorBoard, Tracker
from attnlab.training.recipes import OPTIMIZERS, RECIPES, OptimizerSpec, Recipe, Schedule
from attnlab.training.run import resume, train
from attnlab.training.spec import ResolvedRun, RunSpec, Treatment, treatment

__all__ = [
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
