"""How many rows a process takes at a time.

A batch whose activations are large is taken in pieces, whose gradients add up: as few rows at a time as keep the matrix
products at full speed. On a CPU this costs no time and saves most of the memory.
"""

from __future__ import annotations

from attnlab.cost import model_cost
from attnlab.training.spec import ResolvedRun

_LARGE = 512 << 20  # bytes of activations that are kept at once without a thought
_ENOUGH = 1024  # tokens, from which on products have their full speed


def fitted(run: ResolvedRun) -> ResolvedRun:
    """The run with its rows at a time, where nobody said how many."""
    execution = run.execution
    if execution.micro_batch_size is not None or execution.device != "cpu":
        return run
    rows = -(-run.batch_size // execution.workers)
    least = -(-_ENOUGH // run.model.context_length)
    if least >= rows:
        return run  # without the cost, which takes seconds the first time
    size = max(least, _LARGE // max(1, model_cost(run.model).activation_bytes))
    if size >= rows:
        return run
    size = -(-rows // -(-rows // size))  # about the same number each time
    return run.model_copy(update={"execution": execution.model_copy(update={"micro_batch_size": size})})
