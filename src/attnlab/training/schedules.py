"""Learning rates as pure functions of the step: a factor between 0 and 1 on the optimizer's own rate.

cosine      a linear rise, then half a cosine down to `end`, which it keeps              GPT-2's recipe
trapezoid   a linear rise, a plateau, and a linear fall over the last `decay` of steps   the NanoGPT speedrun
constant    a linear rise, then 1
"""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from attnlab.errors import as_spec_error

Share = Annotated[float, Field(ge=0, le=1)]


class Schedule(BaseModel):
    """How the learning rate rises and falls over a run."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    kind: Literal["cosine", "trapezoid", "constant"] = "cosine"
    warmup_steps: NonNegativeInt = 100
    decay: Share = 0.4
    end: Share = 0.1

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise as_spec_error(error, "a schedule") from None

    def factor(self, step: int, steps: int) -> float:
        """The factor of step `step` of `steps`; the first is 0."""
        if step < self.warmup_steps:
            return (step + 1) / (self.warmup_steps + 1)
        if self.kind == "cosine":
            done = min(1.0, (step - self.warmup_steps) / max(1, steps - self.warmup_steps))
            return self.end + (1 - self.end) * 0.5 * (1 + math.cos(math.pi * done))
        if self.kind == "trapezoid":
            left = (steps - step) / max(1.0, self.decay * steps)
            return self.end + (1 - self.end) * min(1.0, max(0.0, left))
        return 1.0
