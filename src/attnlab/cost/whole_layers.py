"""The cost of a custom layer: counted by running it, because nothing else is known about it.

The module runs on tensors that have a shape and no values (PyTorch's meta device), forward and backward, under
PyTorch's FLOP counter. A module whose operations depend on the values cannot run like that: it runs on the CPU with one
sequence, and the result is multiplied by the batch. Tensors kept for the backward pass are added up as for other
layers; the temporary memory of its kernels is unknown, so the memory is an estimate.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from attnlab.attention import AttentionSpec, Cache, WholeLayer
from attnlab.cost.call import AttentionCall
from attnlab.cost.ledger import Kept, Ledger
from attnlab.errors import AttnlabError
from attnlab.models.meta import on_meta

Result = TypeVar("Result")


@dataclass(frozen=True)
class CountedFlops:
    """The FLOPs of one call, by PyTorch's counter."""

    forward: int
    backward: int


@functools.lru_cache(maxsize=512)
def layer_tensors(spec: AttentionSpec) -> tuple[tuple[str, tuple[int, ...]], ...]:
    """Return the parameters of a layer by name, with their shapes."""
    with on_meta():
        return tuple((name, tuple(one.shape)) for name, one in WholeLayer(spec).named_parameters())


@functools.lru_cache(maxsize=512)
def layer_flops(call: AttentionCall) -> CountedFlops:
    """Return the FLOPs of a call; decoding has no backward pass."""

    def count(given: AttentionCall, device: str) -> CountedFlops:
        layer, (x, source) = _layer(given, device), _inputs(given, device)
        cache = _filled(layer, given, device) if given.decodes else None
        with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(cache is None):
            output = layer(x, source, cache=cache)
            forward = int(counter.get_total_flops())
            if cache is None:
                torch.autograd.backward(output.sum())
        return CountedFlops(forward, int(counter.get_total_flops()) - forward)

    def scale(found: CountedFlops, times: int) -> CountedFlops:
        return CountedFlops(times * found.forward, times * found.backward)

    return run_module(call, count, scale)


@functools.lru_cache(maxsize=512)
def layer_cache_bytes(call: AttentionCall, tokens: int) -> int:
    """Return the cache of a batch after so many tokens; in cross-attention, of so many keys."""
    spec = call.spec
    if tokens == 0:
        return 0
    if spec.source == "cross" or spec.layer is None or "cache" not in spec.layer.takes:
        return call.batch * tokens * spec.model_width * call.bytes_per_number

    def count(given: AttentionCall, device: str) -> int:
        return _filled(_layer(given, device), given, device).nbytes

    filled = replace(call, queries=1, keys=tokens + 1)  # the cache holds all tokens but the query
    return run_module(filled, count, lambda found, times: times * found)


def run_module(
    call: AttentionCall, count: Callable[[AttentionCall, str], Result], scale: Callable[[Result, int], Result]
) -> Result:
    """Count a call on the meta device, or, if the module needs values, on the CPU with one sequence."""
    try:
        return count(call, "meta")
    except (AttnlabError, RuntimeError, NotImplementedError):
        with torch.random.fork_rng(devices=[]):
            return scale(count(replace(call, batch=1), "cpu"), call.batch)


def _layer(call: AttentionCall, device: str) -> WholeLayer:
    with torch.random.fork_rng(devices=[]), torch.device(device):
        return WholeLayer(call.spec).to(call.dtype)


def _inputs(call: AttentionCall, device: str) -> tuple[Tensor, Tensor | None]:
    """Return tokens, and those of the other sequence in cross-attention."""
    x = _tokens(call, call.queries, device)
    return x, _tokens(call, call.keys, device) if call.spec.source == "cross" else None


def _tokens(call: AttentionCall, count: int, device: str) -> Tensor:
    shape = call.batch, count, call.spec.model_width
    return torch.ones(shape, dtype=call.dtype, device=device, requires_grad=True)


@torch.no_grad()
def _filled(layer: WholeLayer, call: AttentionCall, device: str) -> Cache:
    """Return a cache that holds all tokens before the queries."""
    cache = Cache()
    layer(_tokens(call, call.keys - call.queries, device), cache=cache)
    return cache


def kept_by_module(call: AttentionCall, device: str) -> Kept:
    """Return the bytes that a custom layer keeps for the backward pass, as recorded by autograd."""
    with torch.random.fork_rng(devices=[]), torch.device(device), torch.enable_grad():
        layer = WholeLayer(call.spec).to(call.dtype)
        ledger = Ledger(layer)
        counts = {"input": call.queries, **({"source": call.keys} if call.spec.source == "cross" else {})}
        given = []
        for name, count in counts.items():
            shape = call.batch, count, call.spec.model_width
            given.append(torch.ones(shape, dtype=call.dtype, requires_grad=True))
            ledger.made(name, given[-1])
        with ledger.watch("layer"):
            layer(*given)
    return Kept(ledger.bytes_by_part(), 0)
