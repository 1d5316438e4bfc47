"""The contenders, each in its own process: they take training steps, or generate text.

All train on the same data: windows of one stream of random tokens, in float32, with AdamW and gradients clipped at norm
1.

attnlab           trains as `attnlab train` does
nanoGPT           its model and its optimizer, imported from the folder of a clone; none of it is part of this project
Transformers      GPT-2 of the installed package, in the loop of nanoGPT's train.py
matrix products   only matrix products, as the limit of the machine
"""

from __future__ import annotations

import importlib.util
import os
import struct
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlab.bench.races.race import NANOGPT_HINT, RaceEntry, Shape, check_nanogpt
from attnlab.bench.timing import seconds_of
from attnlab.corpora import Batch, Corpus, CorpusSpec
from attnlab.cost import model_cost
from attnlab.errors import FileError
from attnlab.models import LanguageModel, build_model
from attnlab.models.generation import generate
from attnlab.processes.memory import keep_memory
from attnlab.training import Execution, RunSpec, choose_execution
from attnlab.training.engine import Engine, LocalProcesses, ProcessGroup, make_process_group
from attnlab.training.fitting import fitted

_STREAM = 1 << 20  # random tokens
_STEPS = 1_000_000  # more than are ever taken
_RATE, _BETAS, _DECAY, _CLIP = 1e-3, (0.9, 0.99), 0.1, 1.0  # settings of the peers


class Contender(ABC):
    """An implementation that does a requested amount of work and is timed."""

    def __init__(self, entry: RaceEntry) -> None:
        self.entry = entry
        self.shape = entry.shape

    @abstractmethod
    def train(self, steps: int) -> float:
        """Return the seconds of so many training steps."""

    def write(self, tokens: int) -> float:
        """Return the seconds of generating so many tokens after one."""
        raise NotImplementedError(f"{self.entry.name} does not generate")


class RandomTokens(Corpus):
    """An endless stream of random tokens."""

    def __init__(self, shape: Shape) -> None:
        self.spec = CorpusSpec(name="./random-tokens")
        self.hash = "random tokens"
        self._shape = shape
        self._stream = random_tokens(shape.vocabulary_size)

    @property
    def vocabulary_size(self) -> int:
        return self._shape.vocabulary_size

    @property
    def training_tokens(self) -> int:
        return len(self._stream)

    @property
    def validation_tokens(self) -> int:
        return 0

    def batch(self, *, seed: int, step: int, batch_size: int, context_length: int, rows: slice = slice(None)) -> Batch:
        starts = np.random.default_rng((seed, step)).integers(0, len(self._stream) - context_length, batch_size)[rows]
        windows = torch.from_numpy(self._stream[starts[:, None] + np.arange(context_length + 1)].astype(np.int64))
        return Batch(windows[:, :-1].contiguous(), windows[:, 1:].contiguous())

    def validation_batches(self, *, batch_size: int, context_length: int, limit: int | None = None) -> Iterator[Batch]:
        del batch_size, context_length, limit
        return iter(())


def random_tokens(vocabulary_size: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    return np.random.default_rng(0).integers(0, vocabulary_size, _STREAM, dtype=np.uint16)


class Ours(Contender):
    """attnlab, with its own worker processes: they wait for the first one on a pipe, which uses no CPU time."""

    def __init__(self, entry: RaceEntry) -> None:
        super().__init__(entry)
        self._engine: Engine | None = None
        self._model: LanguageModel | None = None
        self._done = 0
        self._pipes: list[int] = []

    def train(self, steps: int) -> float:
        engine = self._engine or self._begin()
        begin = time.perf_counter()
        for pipe in self._pipes:
            os.write(pipe, struct.pack("q", steps))
        self._take(engine, steps)
        return time.perf_counter() - begin

    def write(self, tokens: int) -> float:
        if self._model is None:
            torch.set_num_threads(self.entry.threads)
            self._model = build_model(self.shape.model())
        model = self._model
        return seconds_of(lambda: generate(model, [[0]], tokens))

    def _take(self, engine: Engine, steps: int) -> None:
        for _ in range(steps):
            engine.step(self._done)
            self._done += 1

    def _begin(self) -> Engine:
        keep_memory()
        execution = choose_execution(
            self.shape.batch_size,
            threads=self.entry.threads,
            workers=self.entry.workers,
            precision="float32",
        )
        torch.set_num_threads(execution.threads)
        group = make_process_group(execution.workers, execution.device)
        self._engine = engine = make_engine(self.shape, execution, group)
        pipes = [os.pipe() for _ in range(execution.workers - 1)]
        group.start(engine.optimizer)
        if isinstance(group, LocalProcesses) and not group.leads:
            group.run_worker(lambda: self._follow(pipes[group.shard.rank - 1][0]))
        self._pipes = [writer for _, writer in pipes]
        return engine

    def _follow(self, pipe: int) -> None:
        """Take, in the other processes, as many steps as the first one says, until it is gone."""
        assert self._engine is not None
        while word := os.read(pipe, 8):
            self._take(self._engine, struct.unpack("q", word)[0])


def make_engine(
    shape: Shape, execution: Execution, group: ProcessGroup | None = None, variant: str = "softmax"
) -> Engine:
    """Return the engine that takes the steps of a run of the recipe `gpt2`."""
    corpus = RandomTokens(shape)
    spec = RunSpec(recipe="gpt2", variant=variant, steps=_STEPS, batch_size=shape.batch_size, **shape.dimensions)
    return Engine.build(fitted(spec.resolve(corpus, execution)), corpus, group)


class Matmul(Contender):
    """Products of square matrices with as many multiply–adds as training needs.

    Its seconds are those that a training step would take at the best sustained rate of several matrix sizes, so that a
    ratio to it is a share of the machine's peak.
    """

    sizes: tuple[int, ...] = (384, 768, 1024, 1536, 2048, 3072)
    while_timed = 0.15  # seconds for each size

    def __init__(self, entry: RaceEntry) -> None:
        super().__init__(entry)
        if entry.shape.model_width < 32:  # a smoke run
            self.sizes, self.while_timed = (16,), 0.0

    def train(self, steps: int) -> float:
        torch.set_num_threads(self.entry.threads)
        flops = model_cost(self.shape.model(), batch=self.shape.batch_size).useful_training_flops
        return steps * flops / max(self._rate(size) for size in self.sizes)

    def _rate(self, size: int) -> float:
        """Return the floating-point operations per second."""
        a, b, product = torch.ones(size, size), torch.ones(size, size), torch.empty(size, size)
        torch.mm(a, b, out=product)
        begin, done = time.perf_counter(), 0
        while time.perf_counter() - begin < self.while_timed or not done:
            torch.mm(a, b, out=product)
            done += 1
        return done * 2 * size**3 / (time.perf_counter() - begin)


class PeerLoop(Contender):
    """A peer: a module, an optimizer, and the loop of nanoGPT's train.py."""

    loss: Callable[[Tensor, Tensor], Tensor]
    model: Any  # a torch module with custom methods
    optimizer: torch.optim.Optimizer

    def train(self, steps: int) -> float:
        if not hasattr(self, "model"):
            torch.set_num_threads(self.entry.threads)
            torch.manual_seed(0)
            self._stream = random_tokens(self.shape.vocabulary_size)
            self.model = self.build()
            self.prepare()
            self._next = self._batch()
        return seconds_of(lambda: self._take(steps))

    def write(self, tokens: int) -> float:
        if not hasattr(self, "model"):
            torch.set_num_threads(self.entry.threads)
            self.model = self.build().eval()
        return seconds_of(lambda: self.generate(torch.zeros(1, 1, dtype=torch.long), tokens))

    @abstractmethod
    def build(self) -> torch.nn.Module:
        """Return the model at the shape of the race."""

    @abstractmethod
    def prepare(self) -> None:
        """Set the optimizer and the loss of the model."""

    @abstractmethod
    def generate(self, start: Tensor, tokens: int) -> None:
        """Generate so many tokens after `start`."""

    def _take(self, steps: int) -> None:
        for _ in range(steps):
            loss = self.loss(*self._next)
            self._next = self._batch()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), _CLIP)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)

    def _batch(self) -> tuple[Tensor, Tensor]:
        length = self.shape.context_length
        starts = torch.randint(len(self._stream) - length, (self.shape.batch_size,)).tolist()
        windows = [torch.from_numpy(self._stream[start : start + length + 1].astype(np.int64)) for start in starts]
        return torch.stack([window[:-1] for window in windows]), torch.stack([window[1:] for window in windows])


class NanoGpt(PeerLoop):
    """nanoGPT, eager or compiled."""

    def build(self) -> torch.nn.Module:
        assert self.entry.folder is not None
        nanogpt, shape = load_nanogpt(Path(self.entry.folder)), self.shape
        config = nanogpt.GPTConfig(
            block_size=shape.context_length,
            vocab_size=shape.vocabulary_size,
            n_layer=shape.num_layers,
            n_head=shape.num_heads,
            n_embd=shape.model_width,
            dropout=0.0,
            bias=True,
        )
        model: torch.nn.Module = nanogpt.GPT(config)
        return model

    def prepare(self) -> None:
        self.optimizer = self.model.configure_optimizers(_DECAY, _RATE, _BETAS, "cpu")
        called: Any = torch.compile(self.model) if self.entry.compile else self.model
        self.loss = lambda tokens, targets: called(tokens, targets)[1]

    def generate(self, start: Tensor, tokens: int) -> None:
        self.model.generate(start, tokens)


def load_nanogpt(folder: Path) -> ModuleType:
    """Import nanoGPT's model.py from its folder."""
    check_nanogpt(folder)
    path = folder / "model.py"
    spec = importlib.util.spec_from_file_location("nanogpt_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise FileError(f"{path} cannot be imported: {type(error).__name__}: {error}", hint=NANOGPT_HINT) from error
    for name in ("GPT", "GPTConfig"):
        if not hasattr(module, name):
            raise FileError(f"{path} has no {name}", hint=NANOGPT_HINT)
    return module


class Transformers(PeerLoop):
    """GPT-2 of the Transformers package."""

    def build(self) -> torch.nn.Module:
        from transformers import GPT2Config, GPT2LMHeadModel  # an optional dependency

        shape = self.shape
        config = GPT2Config(
            vocab_size=shape.vocabulary_size,
            n_positions=shape.context_length,
            n_embd=shape.model_width,
            n_layer=shape.num_layers,
            n_head=shape.num_heads,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=None,
            eos_token_id=None,
        )
        model: torch.nn.Module = GPT2LMHeadModel(config).train()  # type: ignore[no-untyped-call]
        return model

    def prepare(self) -> None:
        self.optimizer = torch.optim.AdamW(self.model.parameters(), _RATE, _BETAS, weight_decay=_DECAY)

        def loss(tokens: Tensor, targets: Tensor) -> Tensor:
            logits = self.model(input_ids=tokens, use_cache=False).logits
            return torch.nn.functional.cross_entropy(logits.view(-1, self.shape.vocabulary_size), targets.view(-1))

        self.loss = loss

    def generate(self, start: Tensor, tokens: int) -> None:
        options = {"attention_mask": torch.ones_like(start), "do_sample": True, "top_k": 0, "pad_token_id": 0}
        self.model.generate(start, min_new_tokens=tokens, max_new_tokens=tokens, **options)
