"""The processes that train one model together.

Every process computes the gradient of its rows of the batch; the sum is the gradient of the whole batch, so that
neither the samples nor, but for rounding, the losses depend on how many there are.

Alone         one process
LocalTeam     processes of one thread on this machine. Parameters, gradients and the optimizer's memory lie in memory
              that all of them see, so that nothing is sent: each adds up its part of the gradients and moves its part
              of the parameters. On a CPU this is faster than one process of many threads, which would wait for each
              other several times in every operation.
TorchTeam     processes started by `torchrun`, on one machine or many, which sum the gradients by `torch.distributed`
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import sys
import time
import traceback
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NoReturn

import numpy as np
import torch
import torch.distributed
from torch import Tensor

from attnlab.errors import AttnlabError, UnsupportedError
from attnlab.training.execution import under_torchrun
from attnlab.training.flat import WHOLE, Part
from attnlab.training.optimizers import Optimizer, shortening

_PATIENCE = 0.002  # seconds of asking again and again, before sleeping in between
_NAP = 0.0001
_PR_SET_PDEATHSIG = 1


class LostWorkerError(AttnlabError):
    """A process that trained with this one is gone."""


class Team(ABC):
    """What a training step needs from the other processes."""

    part: Part = WHOLE

    @property
    def leads(self) -> bool:
        """Whether this process writes the run's directory."""
        return self.part.rank == 0

    def allocate(self, like: Tensor) -> Tensor:
        """Zeros for what belongs to all."""
        return torch.zeros_like(like)

    def start(self, optimizer: Optimizer) -> None:  # noqa: B027 (nothing to do is the usual case)
        """Called once, when everything is in place and before the first step."""

    @abstractmethod
    def add_up(self, numbers: list[float]) -> list[float]:
        """The sum over all processes of each number."""

    @abstractmethod
    def move(self, optimizer: Optimizer, clip: float, factor: float) -> float:
        """Sum the gradients, shorten them to `clip`, take the optimizer's step, clear them; returns their length."""

    def stop(self) -> None:  # noqa: B027
        """Called at the end, whatever that is."""


class Alone(Team):
    """One process."""

    def add_up(self, numbers: list[float]) -> list[float]:
        return numbers

    def move(self, optimizer: Optimizer, clip: float, factor: float) -> float:
        norm: float = torch.linalg.vector_norm(optimizer.flat.gradients).item()
        optimizer.step(factor, shorten=shortening(norm, clip))
        return norm


class TorchTeam(Team):
    """The processes of `torchrun`."""

    def __init__(self, device: str) -> None:
        if device.startswith("cuda"):
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))  # what "cuda" means from here on
        self.device = device
        torch.distributed.init_process_group("nccl" if device.startswith("cuda") else "gloo")
        self.part = Part(torch.distributed.get_rank(), torch.distributed.get_world_size())

    def add_up(self, numbers: list[float]) -> list[float]:
        together = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        _sum(together)
        return together.tolist()

    def move(self, optimizer: Optimizer, clip: float, factor: float) -> float:
        _sum(optimizer.flat.gradients)
        return Alone().move(optimizer, clip, factor)

    def stop(self) -> None:
        torch.distributed.destroy_process_group()


class LocalTeam(Team):
    """Processes of this machine that share memory. `start` forks them: from there on, all of them run what follows."""

    def __init__(self, size: int) -> None:
        if not hasattr(os, "fork"):
            raise UnsupportedError("several workers need a system that can fork", hint="train with one worker")
        self.part = Part(0, size)
        self._arrived = np.frombuffer(mmap.mmap(-1, size * 64), dtype=np.int64).reshape(size, 8)[:, 0]
        self._numbers = np.frombuffer(mmap.mmap(-1, size * 8 * 64), dtype=np.float64).reshape(size, 64)
        self._phase = 0
        self._leader = os.getpid()
        self._children: list[int] = []
        self._gradients: list[Tensor] = []  # of each process, once they are there

    def allocate(self, like: Tensor) -> Tensor:
        """Zeros that all processes see and any may change."""
        size = max(1, like.numel()) * like.element_size()
        shared = torch.frombuffer(mmap.mmap(-1, size), dtype=like.dtype)  # anonymous: gone with the last process
        return shared[: like.numel()].view(like.shape)

    def start(self, optimizer: Optimizer) -> None:
        own = optimizer.flat.gradients
        self._gradients = [own, *(self.allocate(own) for _ in range(self.part.size - 1))]
        sys.stdout.flush()
        sys.stderr.flush()
        for rank in range(1, self.part.size):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which the child does not use
                child = os.fork()
            if child == 0:
                self._children = []
                self.part = Part(rank, self.part.size)
                optimizer.flat.collect_in(self._gradients[rank])
                signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process decides
                _die_with_parent()
                return
            self._children.append(child)

    def add_up(self, numbers: list[float]) -> list[float]:
        if not self._gradients:
            return numbers  # the others are not there yet
        count = len(numbers)
        self._numbers[self.part.rank, :count] = numbers
        self._meet()
        total = [float(column) for column in self._numbers[:, :count].sum(axis=0)]
        self._meet()  # nobody writes again before all have read
        return total

    def move(self, optimizer: Optimizer, clip: float, factor: float) -> float:
        self._meet()
        part = self.part.of(len(optimizer.flat.values))
        total = self._gradients[0][part]
        for other in self._gradients[1:]:
            total.add_(other[part])
        square = torch.linalg.vector_norm(total).item() ** 2
        norm: float = self.add_up([square])[0] ** 0.5
        optimizer.flat.gradients, own = self._gradients[0], optimizer.flat.gradients
        optimizer.step(factor, self.part, shortening(norm, clip), spent=self._gradients[1:])
        optimizer.flat.gradients = own
        self._meet()  # nobody uses parameters, or adds to gradients, that others still change
        return norm

    def _meet(self) -> None:
        """Wait until all processes are here."""
        self._phase += 1
        self._arrived[self.part.rank] = self._phase
        begin = time.perf_counter()
        while self._arrived.min() < self._phase:
            if time.perf_counter() - begin > _PATIENCE:
                self._look_around()
                time.sleep(_NAP)

    def _look_around(self) -> None:
        """Notice that somebody is gone."""
        if self.part.rank and os.getppid() != self._leader:
            os._exit(1)
        for child in self._children:
            if os.waitpid(child, os.WNOHANG)[0]:
                self._children.remove(child)
                raise LostWorkerError(
                    f"the worker process {child} of this run is gone",
                    hint="what it said stands above; run the same command again to go on from the last checkpoint",
                )

    def stop(self) -> None:
        if self.part.rank:
            os._exit(0)
        for child in self._children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        self._children = []

    def abandon(self, work: Callable[[], object]) -> NoReturn:
        """In a forked process: do `work`, and end without ever returning to what the first process was doing."""
        try:
            work()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)


def _sum(tensor: Tensor) -> None:
    """Over all processes of `torchrun`, in place."""
    try:
        torch.distributed.all_reduce(tensor)
    except RuntimeError as error:
        raise LostWorkerError(
            f"another process of this run is gone: {str(error).splitlines()[0]}",
            hint="run the same command again to go on from the last checkpoint",
        ) from error


def _die_with_parent() -> None:
    """So that killing the first process leaves nobody behind."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def make_team(workers: int, device: str) -> Team:
    """The processes that train together: those of `torchrun` if this process is one of them."""
    if under_torchrun():
        return TorchTeam(device)
    return LocalTeam(workers) if workers > 1 else Alone()
