"""The predicted peak of a training step against PyTorch's allocator, which is exact and the same each time."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from attnlab.bench import peak_bytes
from attnlab.cost import activations, estimate, model_cost, training_memory
from attnlab.errors import SpecError
from attnlab.models import ModelSpec, build_model, loss, mlp
from attnlab.training import OptimizerSpec
from attnlab.training.engine import Optimizer

LIMIT = 1.15


def measured(spec: ModelSpec, batch: int, kind: Any = "adamw", *, checkpointing: bool = False) -> int:
    """What a step allocates at most, beyond weights, gradients and the optimizer's memory."""
    model = build_model(spec)
    if checkpointing:
        for block in model.stack.blocks:
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)
    optimizer = Optimizer(OptimizerSpec(kind=kind), model)
    tokens, targets = torch.randint(0, spec.vocabulary_size, (2, batch, spec.context_length))

    def step() -> None:
        model.loss(tokens, targets).backward()  # type: ignore[no-untyped-call]
        optimizer.step(1.0)

    return peak_bytes(step)


def shape(words: int = 17, **changes: Any) -> ModelSpec:
    usual = {"num_layers": 2, "model_width": 64, "num_heads": 4, "context_length": 128}
    return ModelSpec.build("nano", vocabulary_size=words, **{**usual, **changes})


@pytest.mark.parametrize(
    ("spec", "batch", "kind", "moment"),
    [
        (shape(), 8, "adamw", "mlp"),
        (shape(architecture="fast"), 8, "adamw", "mlp"),
        (shape(activation="gelu"), 8, "adamw", "mlp"),
        (shape(context_length=16), 1, "adamw", "mlp"),
        (shape(variant="tied-kv"), 8, "adamw", "mlp"),
        (shape(variant="squared-relu"), 8, "adamw", "attention"),
        (shape(variant="entmax15"), 8, "adamw", "attention"),
        (shape(variant="entmax"), 8, "adamw", "attention"),
        (shape(variant="softpick"), 8, "adamw", "attention"),
        (shape(variant="linear"), 8, "adamw", "mlp"),
        (shape(variant="mla"), 8, "adamw", "attention"),
        (shape(variant="mqa+squared-relu"), 8, "adamw", "attention"),
        (shape(variant="full-value", context_length=512, num_heads=8), 8, "adamw", "attention"),
        (shape(variant="synthesizer-random", context_length=512), 1, "adamw", "attention"),
        (shape(2000), 8, "adamw", "loss"),
        (shape(2000, tied_embedding=False), 8, "adamw", "loss"),
        (shape(3000, context_length=16), 1, "adamw", "embedding"),
        (shape(3000, context_length=16, tied_embedding=False), 1, "adamw", "head"),
        (shape(context_length=8, architecture="fast"), 1, "muon", "optimizer"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_peak(spec: ModelSpec, batch: int, kind: Any, moment: str) -> None:
    memory = training_memory(model_cost(spec, batch=batch), kind)
    assert moment in memory.moment
    transient = memory.peak - memory.always
    assert 1 / LIMIT < measured(spec, batch, kind) / transient < LIMIT


@pytest.mark.parametrize("batch", [2, 8])
def test_loss_by_chunks(monkeypatch: pytest.MonkeyPatch, batch: int) -> None:
    monkeypatch.setattr(loss, "_CHUNK_BYTES", 150 * 3000 * 4)
    spec = shape(3000)
    memory = training_memory(model_cost(spec, batch=batch))
    assert 1 / LIMIT < measured(spec, batch) / memory.moments[memory.moment] < LIMIT


def test_a_large_perceptron_makes_its_slope_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlp, "_LARGE", 0)
    activations.kept_outside_attention.cache_clear()
    spec = shape(context_length=120)
    memory = training_memory(model_cost(spec, batch=8))
    activations.kept_outside_attention.cache_clear()
    assert 1 / LIMIT < measured(spec, 8) / memory.moments[memory.moment] < LIMIT


@pytest.mark.parametrize("variant", ["softmax", "sigmoid", "gqa"])
def test_activation_checkpointing(variant: str) -> None:
    """Against torch.utils.checkpoint around every block."""
    spec = shape(variant=variant, num_layers=6)
    cost, usual = model_cost(spec, batch=8, checkpointing=True), model_cost(spec, batch=8)
    memory = training_memory(cost)
    assert memory.peak < training_memory(usual).peak
    found = measured(spec, 8, checkpointing=True)
    assert 1 / LIMIT < found / memory.moments[memory.moment] < LIMIT
    blocks = sum(part.forward_flops for part in usual.parts if part.name.startswith("layer"))
    assert cost.training_flops == usual.training_flops + blocks
    assert cost.useful_training_flops == usual.useful_training_flops


def test_mixed_precision_takes_16_bytes_a_parameter() -> None:
    found = estimate("pico", mixed_precision=True)
    memory = found.memory
    assert memory.always == 16 * found.parameters
    assert memory.weights == memory.gradients == 2 * found.parameters
    assert memory.master_weights == 4 * found.parameters
    assert found.serving.weights == 2 * found.parameters
    assert found.memory.activations == estimate("pico", bytes_per_number=2).memory.activations
    with pytest.raises(SpecError, match="2 bytes, not of 4"):
        estimate("pico", mixed_precision=True, bytes_per_number=4)


def test_sums() -> None:
    cost = model_cost(shape(), batch=2)
    memory = training_memory(cost)
    assert memory.always == 4 * cost.weight_bytes
    assert memory.peak == memory.always + max(memory.moments.values())
    assert training_memory(cost, "muon").optimizer < memory.optimizer
