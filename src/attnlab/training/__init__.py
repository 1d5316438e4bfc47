"""Training: a run from its spec to its result, saved on disk so that an interrupted run can resume.

recipes      optimizers, schedules and recipes by name
execution    threads, processes and precision on this machine
starting     finetuning: starting from the weights of another run
spec         the specification of a run, and named changes to it
engine/      one training step: parameters, optimizers, process group
limits       sizes that this machine cannot train
fitting      micro-batches that fit into memory, and steps that fit into the given time
progress     reporters and trackers
loop         the training loop, from the last checkpoint to the end
run          train, resume
loading      the model of a run
replaying    repeating steps of a run, and evaluating its final weights again
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
