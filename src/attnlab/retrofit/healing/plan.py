"""The plan of healing: tokens, batches and learning rates; the same tokens for every method, over paired seeds."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt

from attnlab.errors import SpecError
from attnlab.models import ModelSpec
from attnlab.specification import Specification
from attnlab.training import Execution, OptimizerSpec, ResolvedRun, Schedule

Method = Literal["distil", "finetune"]
METHODS: dict[Method, str] = {
    "distil": "layer-wise distillation from the original, then finetuning",
    "finetune": "finetuning alone",
}
_EVALUATIONS = 8
_VALIDATION_TOKENS = 32_768


class HealingPlan(Specification):
    """Tokens, batches and learning rates of healing; with 0 tokens nothing is trained."""

    what = "healing"

    tokens: NonNegativeInt = 0
    seeds: Annotated[int, Field(ge=1, le=1000)] = 4
    batch_size: PositiveInt = 16
    learning_rate: PositiveFloat = 3e-4  # of finetuning
    distil_learning_rate: PositiveFloat = 1e-3
    distil_share: Annotated[float, Field(gt=0, lt=1)] = 0.3  # of the tokens, for distillation
    within: Annotated[float, Field(gt=0, lt=1)] = 0.01  # of the original's perplexity

    def steps(self, length: int) -> int:
        """Return the steps that the tokens suffice for at this length of texts."""
        found = self.tokens // (self.batch_size * length)
        if self.tokens and found < 2:
            raise SpecError(
                f"{self.tokens} tokens do not suffice for two steps of {self.batch_size} texts of {length} tokens",
                hint=f"use `tokens={2 * self.batch_size * length}` or more, or a smaller `batch_size`",
            )
        return found

    def distil_steps(self, length: int) -> int:
        """Return the steps of distillation, at least one, and never all."""
        steps = self.steps(length)
        return min(steps - 1, max(1, round(self.distil_share * steps)))

    def evaluate_every(self, length: int) -> int:
        """Return after how many steps the loss is measured, in both stages."""
        return max(1, self.steps(length) // _EVALUATIONS)

    def validation_rows(self, length: int) -> int:
        """Return how many held-out texts the loss is measured on: no more tokens than are trained on."""
        return max(2, min(_VALIDATION_TOKENS, self.tokens) // length)

    def warmup_steps(self, steps: int) -> int:
        """Return over how many of so many steps the learning rate rises."""
        return min(100, steps // 10)

    def finetuning(self, model: ModelSpec, steps: int, seed: int, execution: Execution, length: int) -> ResolvedRun:
        """Return the finetuning of a model for so many steps, measured on held-out texts of this length."""
        return ResolvedRun(
            model=model,
            optimizer=OptimizerSpec(learning_rate=self.learning_rate, betas=(0.9, 0.99)),
            schedule=Schedule(kind="cosine", warmup_steps=self.warmup_steps(steps), end=0.1),
            clip=1.0,
            steps=steps,
            batch_size=self.batch_size,
            seed=seed,
            evaluate_every=min(steps, self.evaluate_every(length)),
            validation_rows=self.validation_rows(length),
            execution=execution,
        )
