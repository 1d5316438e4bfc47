"""The process in which one model is measured: `python -m attnlab.bench.products.cost_process QUESTION THREADS`.

Asked for its memory, it returns the increase of its peak memory during two training steps: in the second, the optimizer
has allocated all of its memory. The C library is set to return freed blocks at once, so that resident memory equals
memory in use. (Training itself keeps freed blocks for the next step, which is faster and takes up to a quarter more.)
Asked for its times, it returns the fastest of a few training steps, of a few prefills of the whole context, and of a
few tokens generated at the end of the context.
"""

from __future__ import annotations

import ctypes
import gc
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from attnlab.bench.processes import own_bytes
from attnlab.bench.races.contenders import RandomTokens
from attnlab.bench.races.race import Shape
from attnlab.bench.timing import seconds_of
from attnlab.cost import Question
from attnlab.models import LanguageModel
from attnlab.processes.child import serve
from attnlab.processes.memory import keep_memory
from attnlab.training import Execution
from attnlab.training.engine import Engine
from attnlab.training.recipes import recipe
from attnlab.training.spec import ResolvedRun

_MMAP_THRESHOLD = -3
_SMALL = 1 << 16  # bytes; the C library allocates larger blocks with mmap
_TINY = {
    "num_layers": 1,
    "model_width": 16,
    "num_heads": 2,
    "context_length": 16,
    "head_width": None,
    "mlp_width": None,
    "num_key_value_heads": None,
    "key_width": None,
    "value_width": None,
    "batch_size": 1,
    "vocabulary_size": 17,
}
_SECONDS, _FEWEST, _MOST = 3.0, 2, 9
_WRITTEN = 6  # generated tokens
_MOST_TOKENS = 2**16 - 1  # different tokens that are drawn; of a larger vocabulary some never occur


class CostAnswers:
    """Answers questions about the memory or the times of one model."""

    def __init__(self, question: Question, threads: int) -> None:
        torch.set_num_threads(threads)
        self._question = question
        self._threads = threads

    def __call__(self, asked: Mapping[str, Any]) -> Mapping[str, float | None]:
        if asked["do"] == "memory":
            return {"bytes": self._memory()}
        keep_memory()
        return self._times()

    def _memory(self) -> int:
        return_freed_blocks()
        warm = self._engine(self._question.replace(**_TINY))
        for step in range(2):
            warm.step(step)  # warm-up: allocations that libraries make once
        del warm
        gc.collect()
        _forget_peak()
        before = own_bytes()
        engine = self._engine(self._question)
        for step in range(2):
            engine.step(step)
        return own_bytes(peak=True) - before

    def _times(self) -> dict[str, float | None]:
        engine = self._engine(self._question)
        numbers = iter(range(10**9))
        step = fastest(lambda: engine.step(next(numbers)))
        model = engine.model.eval()
        with torch.no_grad():
            reading = fastest(lambda: self._read(model, self._question.shape.context_length))
            writing = self._write(model)
        return {"step": step, "prefill": reading, "decoding": writing}

    def _read(self, model: LanguageModel, tokens: int) -> Any:
        cache = None if model.spec.family == "encoder" else model.new_cache()
        model(self._tokens(model, tokens), cache=cache, last_only=cache is not None)
        return cache

    def _write(self, model: LanguageModel) -> float | None:
        """Return the seconds of the fastest of the last tokens of the context; None if there is nothing to decode."""
        context = model.spec.context_length
        if model.spec.family == "encoder" or context < 2:
            return None
        written = min(_WRITTEN, context - 1)
        cache = self._read(model, context - written)
        token = self._tokens(model, 1)
        return min(seconds_of(lambda: model(token, cache=cache)) for _ in range(written))

    def _tokens(self, model: LanguageModel, count: int) -> torch.Tensor:
        return torch.randint(0, model.spec.vocabulary_size, (self._question.batch_size, count))

    def _engine(self, question: Question) -> Engine:
        """Return the engine that takes the steps of a run, all rows at once."""
        model_spec, usual = question.model(), recipe(question.recipe)
        batch, words = question.batch_size, min(model_spec.vocabulary_size, _MOST_TOKENS)
        shape = Shape("measured", 1, 1, 1, model_spec.context_length, batch, words)
        run = ResolvedRun(
            model=model_spec,
            optimizer=usual.optimizer,
            schedule=usual.schedule,
            clip=usual.clip,
            steps=10**9,
            batch_size=batch,
            seed=0,
            evaluate_every=10**9,
            validation_rows=1,
            execution=Execution(threads=self._threads, micro_batch_size=batch),
        )
        return Engine.build(run, RandomTokens(shape))


def return_freed_blocks() -> None:
    """Let what is freed be gone from the process at once."""
    if sys.platform.startswith("linux"):
        try:
            ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, _SMALL)
        except (OSError, AttributeError):
            return  # another C library, which does not have this setting


def _forget_peak() -> None:
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return  # a peak below that of the warm-up is then not seen, but the warm-up is tiny


def fastest(work: Callable[[], object]) -> float:
    """Return the seconds of the fastest of a few calls, after one that is not counted."""
    work()
    taken: list[float] = []
    while len(taken) < _FEWEST or (sum(taken) < _SECONDS and len(taken) < _MOST):
        taken.append(seconds_of(work))
    return min(taken)


if __name__ == "__main__":
    serve(CostAnswers(Question.model_validate_json(sys.argv[1]), int(sys.argv[2])))
