"""Modules without numbers."""

from __future__ import annotations

import subprocess
import sys

import torch
from torch import nn

from attnlab.models.meta import on_meta


def test_modules_have_shapes_and_no_numbers() -> None:
    with on_meta():
        modules = [nn.Embedding(3, 4), nn.Linear(4, 5)]
    assert [tuple(module.weight.shape) for module in modules] == [(3, 4), (5, 4)]
    assert all(module.weight.is_meta for module in modules)
    assert not torch.empty(1).is_meta


def test_the_compiler_is_not_imported() -> None:
    code = (
        "import sys; from attnlab.models.meta import on_meta; from attnlab.models import LanguageModel, ModelSpec\n"
        "with on_meta(): LanguageModel(ModelSpec.build('gpt2', vocabulary_size=50257))\n"
        "sys.exit('torch._dynamo' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
