"""The processes that train one model together.

Every process computes the gradient of its rows of the batch; the sum is the gradient of the whole batch. So neither the
samples nor, except for rounding, the losses depend on the number of processes.

SingleProcess       one process
LocalProcesses      worker processes on this machine. Parameters, gradients and the optimizer's state are in shared
                    memory, so that nothing is sent: each process sums its shard of the gradients and updates its shard
                    of the parameters. On a CPU this is faster than one process with many threads, which would
                    synchronise several times in every operation.
TorchrunProcesses   processes started by `torchrun`, on one machine or many, which sum the gradients by
                    `torch.distributed`
"""

from __future__ import annotations

import ctypes
import mmap
import os
import select
import signal
import socket
import sys
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NoReturn, Protocol

import numpy as np
import torch
import torch.distributed
from torch import Tensor

from attnlab.errors import AttnlabError, UnsupportedError
from attnlab.processes.machine import has_total_store_order
from attnlab.training.engine.optimizers import Optimizer, clip_factor
from attnlab.training.engine.parameters import WHOLE, Shard
from attnlab.training.execution import under_torchrun

_SPIN_SECONDS = 0.002  # of busy waiting, before sleeping between checks
_NAP = 0.0001
_LIFE_CHECK = 0.1  # seconds between two checks that the other processes are alive, where a process sleeps
_PR_SET_PDEATHSIG = 1


class LostWorkerError(AttnlabError):
    """A process that trained together with this one has died."""


class ProcessGroup(ABC):
    """The operations of a training step that involve the other processes."""

    shard: Shard = WHOLE

    @property
    def leads(self) -> bool:
        """Return whether this process writes the run's directory."""
        return self.shard.rank == 0

    def allocate(self, like: Tensor) -> Tensor:
        """Return zeros that all processes share."""
        return torch.zeros_like(like)

    def start(self, optimizer: Optimizer) -> None:  # noqa: B027 (nothing to do is the usual case)
        """Start the processes, if there are others. Call it once everything is in place, before the first step."""

    @abstractmethod
    def sum(self, numbers: list[float]) -> list[float]:
        """Return the sum over all processes of each number."""

    @abstractmethod
    def update(self, optimizer: Optimizer, clip: float, factor: float) -> float:
        """Sum the gradients, clip them, take the optimizer's step and clear them; return the norm before clipping."""

    def stop(self) -> None:  # noqa: B027
        """Stop the processes, if there are others. Call it at the end, also after an error."""


class SingleProcess(ProcessGroup):
    """One process."""

    def sum(self, numbers: list[float]) -> list[float]:
        return numbers

    def update(self, optimizer: Optimizer, clip: float, factor: float) -> float:
        norm: float = torch.linalg.vector_norm(optimizer.flat.gradients).item()
        optimizer.step(factor, scale=clip_factor(norm, clip))
        return norm


class TorchrunProcesses(ProcessGroup):
    """The processes of `torchrun`."""

    def __init__(self, device: str) -> None:
        if device.startswith("cuda"):
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))  # the device that "cuda" denotes from now on
        self.device = device
        torch.distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo")
        self.shard = Shard(torch.distributed.get_rank(), torch.distributed.get_world_size())

    def sum(self, numbers: list[float]) -> list[float]:
        together = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        _all_reduce(together)
        return together.tolist()

    def update(self, optimizer: Optimizer, clip: float, factor: float) -> float:
        _all_reduce(optimizer.flat.gradients)
        return SingleProcess().update(optimizer, clip, factor)

    def stop(self) -> None:
        torch.distributed.destroy_process_group()


class LocalProcesses(ProcessGroup):
    """Processes on this machine that share memory. `start` forks them; from then on, all of them run the same code."""

    def __init__(self, size: int) -> None:
        if not hasattr(os, "fork"):
            raise UnsupportedError("several workers need a system that can fork", hint="use `workers=1`")
        self.shard = Shard(0, size)
        self._barrier: _Barrier = _SpinBarrier(size) if has_total_store_order() else _SocketBarrier(size)
        self._numbers = np.frombuffer(mmap.mmap(-1, size * 8 * 64), dtype=np.float64).reshape(size, 64)
        self._leader = os.getpid()
        self._children: list[int] = []
        self._gradients: list[Tensor] = []  # of each process, once they are started

    def allocate(self, like: Tensor) -> Tensor:
        size = max(1, like.numel()) * like.element_size()
        shared = torch.frombuffer(mmap.mmap(-1, size), dtype=like.dtype)  # anonymous: freed when the last process ends
        return shared[: like.numel()].view(like.shape)

    def start(self, optimizer: Optimizer) -> None:
        own = optimizer.flat.gradients
        self._gradients = [own, *(self.allocate(own) for _ in range(self.shard.size - 1))]
        sys.stdout.flush()
        sys.stderr.flush()
        for rank in range(1, self.shard.size):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # about threads, which the child does not use
                child = os.fork()
            if child == 0:
                self._children = []
                self.shard = Shard(rank, self.shard.size)
                optimizer.flat.collect_in(self._gradients[rank])
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # the leader handles it
                _die_with_parent()
                return
            self._children.append(child)

    def sum(self, numbers: list[float]) -> list[float]:
        if not self._gradients:
            return numbers  # the others are not started yet
        count = len(numbers)
        self._numbers[self.shard.rank, :count] = numbers
        self._meet()
        total = [float(column) for column in self._numbers[:, :count].sum(axis=0)]
        self._meet()  # no process may write again before all have read
        return total

    def update(self, optimizer: Optimizer, clip: float, factor: float) -> float:
        self._meet()
        part = self.shard.of(len(optimizer.flat.values))
        total = self._gradients[0][part]
        for other in self._gradients[1:]:
            total.add_(other[part])
        square = torch.linalg.vector_norm(total).item() ** 2
        norm: float = self.sum([square])[0] ** 0.5
        optimizer.flat.gradients, own = self._gradients[0], optimizer.flat.gradients
        optimizer.step(factor, self.shard, clip_factor(norm, clip), also_clear=self._gradients[1:])
        optimizer.flat.gradients = own
        self._meet()  # no process may use parameters, or add to gradients, that others are still changing
        return norm

    def _meet(self) -> None:
        """Wait until all processes are here; what each wrote to shared memory before is then visible to all."""
        self._barrier.wait(self.shard.rank, self._check_lives)

    def _check_lives(self) -> None:
        """Raise if a worker is gone; a worker whose leader is gone ends."""
        if self.shard.rank and os.getppid() != self._leader:
            os._exit(1)
        for child in self._children:
            if os.waitpid(child, os.WNOHANG)[0]:
                self._children.remove(child)
                raise LostWorkerError(
                    f"the worker process {child} of this run is gone",
                    hint="its last output stands above; train again to resume from the last checkpoint",
                )

    def stop(self) -> None:
        if self.shard.rank:
            os._exit(0)
        for child in self._children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        self._children = []
        self._barrier.close()

    def run_worker(self, work: Callable[[], object]) -> NoReturn:
        """Do `work` in a forked process, and end without ever returning to what the leader was doing."""
        try:
            work()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)


class _Barrier(Protocol):
    def wait(self, rank: int, check_lives: Callable[[], None]) -> None:
        """Return once all processes have called it as often as this one."""

    def close(self) -> None: ...


class _SpinBarrier:
    """A barrier with a counter for each process in shared memory, which the others poll.

    Memory ordering: a process writes its results with plain stores, and then its counter with one aligned 8-byte store.
    Another process that reads the new counter must then also read those results. x86 guarantees that (total store
    order: stores become visible in program order, and loads are not reordered with other loads). Weaker architectures,
    such as ARM, do not, and Python has no fence to order them; `_SocketBarrier` is for them.
    """

    def __init__(self, size: int) -> None:
        self._arrived = np.frombuffer(mmap.mmap(-1, size * 64), dtype=np.int64).reshape(size, 8)[:, 0]
        self._phase = 0

    def wait(self, rank: int, check_lives: Callable[[], None]) -> None:
        self._phase += 1
        self._arrived[rank] = self._phase
        begin = time.perf_counter()
        while self._arrived.min() < self._phase:
            if time.perf_counter() - begin > _SPIN_SECONDS:
                check_lives()
                time.sleep(_NAP)

    def close(self) -> None:
        return


class _SocketBarrier:
    """A barrier of messages: the leader receives one from every worker and answers each. A message orders memory on
    every architecture, because the kernel takes and releases locks to deliver it. It costs two system calls each."""

    def __init__(self, size: int) -> None:
        self._pairs = [socket.socketpair() for _ in range(size - 1)]

    def wait(self, rank: int, check_lives: Callable[[], None]) -> None:
        if rank:
            own = self._pairs[rank - 1][1]
            own.send(b".")
            _hear(own, check_lives)
            return
        for leader, _ in self._pairs:
            _hear(leader, check_lives)
        for leader, _ in self._pairs:
            leader.send(b".")

    def close(self) -> None:
        for pair in self._pairs:
            for end in pair:
                end.close()


def _hear(end: socket.socket, check_lives: Callable[[], None]) -> None:
    while not select.select([end], [], [], _LIFE_CHECK)[0]:
        check_lives()
    end.recv(1)


def _all_reduce(tensor: Tensor) -> None:
    """Sum over all processes of `torchrun`, in place."""
    try:
        torch.distributed.all_reduce(tensor)
    except RuntimeError as error:
        raise LostWorkerError(
            f"another process of this run is gone: {str(error).splitlines()[0]}",
            hint="train again to resume from the last checkpoint",
        ) from error


def _die_with_parent() -> None:
    """Have the system kill this process when its parent ends."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def make_process_group(workers: int, device: str) -> ProcessGroup:
    """Return the processes that train together: those of `torchrun` if this process is one of them."""
    if under_torchrun():
        return TorchrunProcesses(device)
    return LocalProcesses(workers) if workers > 1 else SingleProcess()
