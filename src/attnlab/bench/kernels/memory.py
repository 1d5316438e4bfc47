"""The most memory that a call holds at once, beyond what was there before it.

On a CPU, every allocation and release that PyTorch's allocator makes during the call is added up in order, and the
peak is the largest sum: exact to the byte, and the same each time. What a library takes behind the allocator's back is
not seen. Gradients and outputs that the call returns count. What a first call leaves behind for the next ones (such as
masks that are kept) does not: the call is made once before.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch
from torch.profiler import ProfilerActivity, profile

from attnlab.bench.results.timing import Call
from attnlab.errors import UnsupportedError

MEBIBYTE = 2**20


def peak_bytes(call: Call, device: torch.device | str = "cpu") -> int:
    """The peak of what the call allocates and has not yet released."""
    kind = torch.device(device).type
    if kind == "cpu":
        return _peak_on_cpu(call)
    if kind == "cuda":
        return _peak_on_cuda(call, torch.device(device))
    raise UnsupportedError(f"memory is not measured on {kind!r}", hint="measure on the CPU or on CUDA")


def highest_sum(changes: Iterable[int]) -> int:
    """The largest sum of the first changes, and at least 0."""
    held = highest = 0
    for change in changes:
        held += change
        highest = max(highest, held)
    return highest


def _peak_on_cpu(call: Call) -> int:
    # The profiler's library announces each start and stop on stderr, unless told before its first use not to.
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")
    call()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = call()
    del result  # held until here, so that returning it was no release
    events = [event for event in profiler.profiler.kineto_results.events() if event.name() == "[memory]"]
    events.sort(key=lambda event: event.start_ns())
    return highest_sum(event.nbytes() for event in events if event.device_type().name == "CPU")


def _peak_on_cuda(call: Call, device: torch.device) -> int:
    """Not yet run: no machine with CUDA was at hand."""
    call()
    torch.cuda.synchronize(device)
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    result = call()
    torch.cuda.synchronize(device)
    highest = torch.cuda.max_memory_allocated(device)
    del result
    return max(0, highest - before)
