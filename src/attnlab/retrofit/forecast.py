"""Estimate the time and memory of a retrofit in advance: memory from the model's shape, time from a forward pass."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch

from attnlab.cost import model_cost
from attnlab.models import LanguageModel
from attnlab.retrofit.request import RetrofitRequest
from attnlab.retrofit.study import MODELS_AT_ONCE

_ROUNDS = 2
_FITTING = 3.0  # forward passes of each text that a conversion takes
_TRAINING = 3.0  # time of a forward and backward pass ÷ that of a forward pass
_STATE = 4  # values per parameter in training: the parameter, its gradient and two moments
_KEPT = 512 << 20  # bytes of activations at once, at most


@dataclass(frozen=True)
class RetrofitForecast:
    """The estimated seconds of conversion and costs, the seconds of healing, and the bytes of memory."""

    converting: float
    healing: float
    memory: int


def forecast(model: LanguageModel, request: RetrofitRequest) -> RetrofitForecast:
    """Return what a request on a model takes on this machine, with the threads that PyTorch has now."""
    spec, plan = model.spec, request.healing
    length, layers = request.text_length(spec), len(request.chosen_layers(spec.num_layers))
    reading = _seconds(model, length)
    # With one layer converted, only the layers after it are recomputed: half of them on average.
    readings = request.texts * (layers * 0.5 + 1) + request.fitting_texts * _FITTING
    trained = plan.steps(length) * plan.batch_size * _TRAINING
    measured = plan.validation_rows(length) * (plan.steps(length) // plan.evaluate_every(length) + 1)
    parameters = model.num_parameters()
    memory = 4 * MODELS_AT_ONCE * parameters + _KEPT
    if plan.tokens:
        memory += 4 * _STATE * parameters + min(_KEPT, plan.batch_size * model_cost(spec).activation_bytes)
    return RetrofitForecast(
        len(request.variants) * readings * reading, request.healing_runs * (trained + measured) * reading, memory
    )


@torch.no_grad()
def _seconds(model: LanguageModel, length: int) -> float:
    """Return the seconds in which a text is read: the faster of two times."""
    tokens = torch.arange(length)[None] % model.spec.vocabulary_size
    found = []
    for _ in range(_ROUNDS):
        begin = time.perf_counter()
        model.hidden(tokens)
        found.append(time.perf_counter() - begin)
    return min(found)
