"""Published results on attention as claims that a comparison can judge. This file imports nothing heavy."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Sequence
from importlib import resources
from typing import Self

from pydantic import BaseModel, ConfigDict, model_validator


class Claim(BaseModel):
    """One published result; see claims.toml."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    statement: str
    arm: str
    against: str = "softmax"
    measure: str | None = None
    low: float = -math.inf
    high: float = math.inf
    published: str
    setting: str
    source: str

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if not self.low < self.high or (math.isinf(self.low) and math.isinf(self.high)):
            raise ValueError(f"the claim {self.id} leaves nothing in, or nothing out")
        return self

    @property
    def range(self) -> str:
        """What is claimed, in a few signs."""
        unit = "" if self.measure else " %"
        if math.isinf(self.low):
            return f"below {self.high:+g}{unit}"
        if math.isinf(self.high):
            return f"above {self.low:+g}{unit}"
        return f"{self.low:+g} … {self.high:+g}{unit}"


def published_claims() -> tuple[Claim, ...]:
    """All claims, in the order of the file."""
    text = resources.files("attnlab.experiments.judging").joinpath("claims.toml").read_text("utf-8")
    return tuple(Claim(**card) for card in tomllib.loads(text)["claim"])


def arms_of(cards: Sequence[Claim], baseline: str) -> tuple[str, ...]:
    """What has to be trained to judge them, besides the baseline."""
    names = [name for card in cards for name in (card.arm, card.against)]
    return tuple(dict.fromkeys(name for name in names if name != baseline))
