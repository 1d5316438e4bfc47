"""The gains of a retrofit: parameters, KV cache, and generation speed."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

from attnlab.cost import model_cost
from attnlab.models import LanguageModel, Sampling, generate

_WRITTEN = 24  # generated tokens
_ROUNDS = 3


@dataclass(frozen=True)
class Gains:
    """A model compared with its original: parameters, bytes of the KV cache after `tokens`, and the speed ratio."""

    parameters: int
    original_parameters: int
    cache_bytes: int
    original_cache_bytes: int
    tokens: int
    speed: float  # tokens per second, relative to the original's

    @property
    def cache_ratio(self) -> float:
        return self.cache_bytes / self.original_cache_bytes


def measure_gains(original: LanguageModel, changed: LanguageModel, prompt: list[int]) -> Gains:
    """Return what a changed model gains, with both generating the same number of tokens in turn behind a prompt."""
    tokens = original.spec.context_length
    return Gains(
        changed.num_parameters(),
        original.num_parameters(),
        model_cost(changed.spec).cache_bytes(tokens),
        model_cost(original.spec).cache_bytes(tokens),
        tokens,
        _speed(original, changed, prompt),
    )


def _speed(original: LanguageModel, changed: LanguageModel, prompt: list[int]) -> float:
    """Return how many times as fast the changed model generates: the median of rounds, after one to warm up."""
    count = min(_WRITTEN, original.spec.context_length // 2)
    prompt = prompt[: original.spec.context_length - count]
    ratios = []
    for _ in range(_ROUNDS + 1):
        seconds = []
        for model in (original, changed):
            begin = time.perf_counter()
            generate(model, [prompt], count, Sampling(temperature=0))
            seconds.append(time.perf_counter() - begin)
        ratios.append(seconds[0] / seconds[1])
    return statistics.median(ratios[1:])
