"""A folder that looks like a clone of nanoGPT: the same interface, nothing of its code."""

from __future__ import annotations

from pathlib import Path

MODEL = """
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class GPTConfig:
    block_size: int
    vocab_size: int
    n_layer: int
    n_head: int
    n_embd: int
    dropout: float
    bias: bool


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        print("printed where answers must not be")
        self.embedding = nn.Embedding(config.vocab_size, config.n_embd)
        self.head = nn.Linear(config.n_embd, config.vocab_size)

    def configure_optimizers(self, weight_decay, learning_rate, betas, device_type):
        assert device_type == "cpu"
        return torch.optim.AdamW(self.parameters(), learning_rate, betas, weight_decay=weight_decay)

    def forward(self, tokens, targets):
        logits = self.head(self.embedding(tokens))
        return logits, nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    def generate(self, tokens, max_new_tokens):
        return torch.cat([tokens, tokens.new_zeros(1, max_new_tokens)], dim=1)
"""

TRAIN = """
import pickle
import sys
from pathlib import Path

import model

with open("data/shakespeare_char/meta.pkl", "rb") as file:
    size = pickle.load(file)["vocab_size"]
assert size == 4 and "--device=cpu" in sys.argv, sys.argv
Path("was-here").touch()
print("step 0: train loss 4.0000, val loss 4.1000")
print("iter 0: loss 4.0, time 1.00ms, mfu 1.00%")
print("step 1000: train loss 1.9000, val loss 1.8700")
print("step 2000: train loss 1.8000, val loss 1.8900")
"""


def write_nanogpt(folder: Path, *, model: str = MODEL, train: str = TRAIN) -> Path:
    """The stand-in below `folder`."""
    (folder / "config").mkdir(parents=True)
    (folder / "model.py").write_text(model)
    (folder / "train.py").write_text(train)
    (folder / "configurator.py").write_text("")
    (folder / "config" / "train_shakespeare_char.py").write_text("")
    return folder
