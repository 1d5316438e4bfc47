"""Other people's GPT-2 to measure against, in the loop of nanoGPT's train.py.

nanoGPT        its model and its optimizer, imported from the folder of a clone; none of it is part of this project
Transformers   GPT-2 of the installed package
"""

from __future__ import annotations

import importlib.util
import sys
from abc import abstractmethod
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlab.bench.races.contenders import Contender, random_tokens
from attnlab.bench.races.entries import NANOGPT_HINT, check_nanogpt
from attnlab.bench.results.timing import seconds_of
from attnlab.errors import FileError

_RATE, _BETAS, _DECAY, _CLIP = 1e-3, (0.9, 0.99), 0.1, 1.0


class PeerLoop(Contender):
    """A peer: a module, an optimizer, and the loop of nanoGPT's train.py."""

    loss: Callable[[Tensor, Tensor], Tensor]
    model: Any  # a torch module with methods of its own
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
        from transformers import GPT2Config, GPT2LMHeadModel  # an extra, which need not be installed

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
