"""Parameters, cache, time and memory, compared with the prediction of `attnlab cost` and with softmax."""

from __future__ import annotations

import time

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from attnlab.attention import AttentionSpec, Cache, Variant, make_layer, variant
from attnlab.conformance.subject import CONTEXT, AnyLayer, Subject, seeded
from attnlab.cost import attention_cost
from attnlab.formats import byte_count, count
from attnlab.processes.machine import using_threads

_TOKENS, _TIMED_WIDTH, _TIMED_HEADS = 512, 192, 3
_REPEATS = 3


def parameters(subject: Subject) -> str | None:
    """Return where the parameters or the cache are not those that the cost model counts."""
    layer = subject.layer()
    cost = attention_cost(subject.spec, batch=2, queries=CONTEXT, bytes_per_number=8)
    real = sum(parameter.numel() for parameter in layer.parameters())
    if real != cost.parameters:
        return f"the layer has {count(real)} parameters, and the cost model counts {count(cost.parameters)}"
    if not subject.spec.mask.causal:
        return None
    cache = Cache()
    with torch.no_grad():
        for start in range(CONTEXT):
            layer(subject.tokens(CONTEXT, batch=2)[:, start : start + 1], cache=cache)
    if cache.nbytes != cost.cache_bytes(CONTEXT):
        told = byte_count(cost.cache_bytes(CONTEXT))
        return f"a cache of {CONTEXT} tokens takes {byte_count(cache.nbytes)}, and the cost model counts {told}"
    return None


def speed(subject: Subject) -> str:
    """Say how long a training step of the layer takes, and what it keeps for the backward pass, against softmax."""
    heads = subject.num_heads(_TIMED_WIDTH, _TIMED_HEADS)
    timed = {"own": subject.variant, "softmax": variant("softmax")}
    layers = {name: _timed_layer(one, heads) for name, one in timed.items()}
    with seeded(0):
        x = torch.randn(1, _TOKENS, _TIMED_WIDTH)
    best = dict.fromkeys(layers, float("inf"))
    with using_threads(1):
        for _ in range(_REPEATS + 1):  # the first round is a warm-up
            for name, layer in layers.items():
                start = time.perf_counter()
                output = layer(x)
                assert isinstance(output, Tensor)
                torch.autograd.backward(output.sum())
                best[name] = min(best[name], time.perf_counter() - start)
    kept = {name: _kept(layer, x) for name, layer in layers.items()}
    return (
        f"{best['own'] / best['softmax']:.2f} times the time of softmax forward and backward and "
        f"{kept['own'] / kept['softmax']:.2f} times the memory that it keeps ({count(_TOKENS)} tokens, width "
        f"{_TIMED_WIDTH}, {heads} heads, one thread)"
    )


def _timed_layer(one: Variant, num_heads: int) -> AnyLayer:
    spec: AttentionSpec = one.spec(_TIMED_WIDTH, num_heads, _TOKENS)
    with seeded(0):
        return make_layer(spec)


def _kept(layer: AnyLayer, x: Tensor) -> int:
    """Return the bytes that autograd keeps, each storage once."""
    storages: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        storages[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        layer(x)
    return sum(storages.values())
