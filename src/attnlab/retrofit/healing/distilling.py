"""Layer-wise distillation: every converted layer learns to match the original's output for the same input.

    loss = mean over converted layers of |layer(x) − original(x)|² / Var(original(x))

x is the layer's input in the original model, so that errors of other layers do not matter, and one forward pass of the
original trains all layers at once. Only the attention of converted layers is trained.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn

from attnlab.attention import MultiHeadAttention
from attnlab.attention.linear import adding_to_gradients
from attnlab.corpora import Corpus
from attnlab.models import LanguageModel
from attnlab.retrofit.conversion.converting import begin, blocks_of
from attnlab.retrofit.healing.plan import HealingPlan
from attnlab.runs import Checkpoints
from attnlab.training import OptimizerSpec, Schedule
from attnlab.training.engine import Optimizer, SingleProcess

_CLIP = 1.0
_SAVE_SECONDS = 60.0
_SEEDS_APART = 1_000_000  # so that distillation and finetuning do not read the same texts in the same order

Curve = list[tuple[int, float]]  # steps, and the loss after them


class Student(nn.Module):
    """The converted layers of a model, by index."""

    def __init__(self, layers: dict[int, MultiHeadAttention]) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({str(number): layer for number, layer in layers.items()})

    def loss(self, original: LanguageModel, tokens: Tensor) -> Tensor:
        """Return how far the layers are from the original's on tokens (rows, tokens), relative to its variance."""
        errors = []
        with torch.no_grad():
            x = begin(original, tokens)
        last = max(map(int, self.layers))
        for number, block in enumerate(blocks_of(original)):
            with torch.no_grad():
                read = block.attention_norm(x)
                wanted = block.attention(read)
            if str(number) in self.layers:
                made = self.layers[str(number)](read)
                varies = wanted.flatten(0, 1).var(0, correction=0).mean().clamp(min=1e-12)
                errors.append((made - wanted).square().mean() / varies)
            if number == last:
                break
            with torch.no_grad():
                x = x + wanted
                x = x + block.mlp(block.mlp_norm(x))
        return torch.stack(errors).mean()


def distil(
    original: LanguageModel,
    student: Student,
    corpus: Corpus,
    plan: HealingPlan,
    length: int,
    seed: int,
    folder: Path,
    evaluate: Callable[[], float],
) -> Curve:
    """Train the layers of a student, or resume, and return the validation loss during training.

    `evaluate` returns the loss of the model with the student's current layers. Progress is saved in checkpoints in the
    folder, and the same request reads them from there.
    """
    steps, every = plan.distil_steps(length), plan.evaluate_every(length)
    optimizer = Optimizer(OptimizerSpec(learning_rate=plan.distil_learning_rate, weight_decay=0.0), student)
    schedule = Schedule(kind="cosine", warmup_steps=plan.warmup_steps(steps), end=0.1)
    saved = Checkpoints(folder)
    found = saved.latest()
    done, curve = 0, Curve()
    if found is not None:
        student.load_state_dict(found.tensors("model"))
        optimizer.load_state(found.tensors("optimizer"))
        done, curve = found.step, [(int(step), float(loss)) for step, loss in found.state["curve"]]
    since = time.perf_counter()
    student.train()
    while done < steps:
        batch = corpus.batch(seed=seed + _SEEDS_APART, step=done, batch_size=plan.batch_size, context_length=length)
        with adding_to_gradients():
            student.loss(original, batch.inputs).backward()  # type: ignore[no-untyped-call]
        SingleProcess().update(optimizer, _CLIP, schedule.factor(done, steps))
        done += 1
        if done % every == 0 or done == steps:
            student.eval()
            curve.append((done, evaluate()))
            student.train()
        if done == steps or time.perf_counter() - since > _SAVE_SECONDS:
            saved.save(done, {"model": student.state_dict(), "optimizer": optimizer.state()}, {"curve": curve})
            since = time.perf_counter()
    student.eval()
    return curve
