"""Check sizes against this machine before anything is built.

A lower bound that takes no time is checked first; if it is near the limit, the prediction of the cost package follows.
"""

from __future__ import annotations

from attnlab.cost import model_cost, training_memory
from attnlab.errors import SpecError
from attnlab.processes.machine import available_cores, check_memory, memory_bytes
from attnlab.training.spec import ResolvedRun

_STATES = 4  # numbers per weight: itself, its gradient, and two for the optimizer
_NUMBER = 4  # bytes
_TOKEN = 8  # bytes
_NEAR = 0.05  # share of the memory from which on the prediction is computed
_KEPT = 40  # numbers that a step keeps per token, layer and unit of width, roughly
_FASTEST = 4e11  # floating-point operations per second and core, which no CPU exceeds
_YEAR = 365 * 24 * 3600.0


def check_least(run: ResolvedRun) -> int:
    """Refuse a run whose weights and batch exceed memory, or that could not end within a year; return their bytes."""
    least = _STATES * _NUMBER * weights(run) + _batch_bytes(run)
    if run.execution.device == "cpu":
        check_memory("this run", least)
        _check_time(run)
    return least


def check_run(run: ResolvedRun) -> None:
    """Refuse a run that does not fit into memory as it takes its rows, or that could not end within a year."""
    least = check_least(run)
    model, execution = run.model, run.execution
    rows = execution.micro_batch_size or -(-run.batch_size // execution.workers)
    kept = _KEPT * _NUMBER * rows * model.context_length * model.num_layers * model.model_width
    if (
        execution.device != "cpu"
        or (memory := memory_bytes()) is None
        or least + execution.workers * kept < _NEAR * memory
    ):
        return
    peak = training_memory(model_cost(model, batch=rows), run.optimizer.kind).peak
    check_memory("this run", execution.workers * peak + _batch_bytes(run))


def _batch_bytes(run: ResolvedRun) -> int:
    return run.batch_size * (run.model.context_length + 1) * _TOKEN


def weights(run: ResolvedRun) -> int:
    """Return a lower bound on the number of weights: those of MLPs and embeddings."""
    model = run.model
    return 2 * model.num_layers * model.model_width * model.mlp_width + model.vocabulary_size * model.model_width


def _check_time(run: ResolvedRun) -> None:
    seconds = 6 * weights(run) * run.tokens_per_step * run.steps / (_FASTEST * available_cores())
    if seconds > _YEAR:
        raise SpecError(
            f"this run takes {seconds / _YEAR:.2g} years on this machine at the least",
            hint="use fewer `steps`, a smaller `batch_size` or a smaller model",
        )
