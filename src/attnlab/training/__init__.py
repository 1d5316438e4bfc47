"""Training: a run from its spec to its result, on disk so that nothing that happens on the way loses it."""

from attnlab.training.execution import Execution, choose_execution
from attnlab.training.learner import DivergedError, Learner
from attnlab.training.loading import LoadedRun, load_run
from attnlab.training.optimizers import OptimizerSpec
from attnlab.training.progress import ConsoleReporter, Reporter
from attnlab.training.recipes import OPTIMIZERS, RECIPES, Recipe
from attnlab.training.run import RunResult, Saving, resume, train
from attnlab.training.schedules import Schedule
from attnlab.training.spec import ResolvedRun, RunSpec
from attnlab.training.team import LostWorkerError
from attnlab.training.tracking import TensorBoard, Tracker
from attnlab.training.treatments import Treatment, treatment

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
