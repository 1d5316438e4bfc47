"""What `attnlab compare` does unless it is told otherwise, and how that was chosen.

The rates are the best of those that were tried for each variant, with seeds that no comparison uses; the noise is that
of a first comparison of seven of them over ten seeds. docs/log.md has the commands and the figures.
"""

from __future__ import annotations

from dataclasses import dataclass

from attnlab.experiments.request import Request


@dataclass(frozen=True)
class Setting:
    """A default that was searched for: how long it trains, at which rates, and how noisy it is."""

    steps: int
    batch_size: int
    warmup_steps: int
    evaluations: int
    validation_tokens: int
    rates: dict[str, float]
    noise: float  # standard deviation of a paired difference, nats
    degrees: int  # of freedom of the noise


PICO = Setting(
    steps=400,
    batch_size=16,
    warmup_steps=40,
    evaluations=8,
    validation_tokens=8_192,
    rates={
        "softmax": 4e-3,
        "tied-kv": 4e-3,
        "cosine": 4e-3,
        "cosine-learned": 4e-3,
        "softmax-plus-one": 4e-3,
        "sigmoid": 2e-3,
        "relu": 2e-3,
        "sparsemax": 2e-3,
        "entmax15": 4e-3,
    },
    noise=0.036,
    degrees=63,
)


def setting_of(request: Request) -> Setting | None:
    """The searched default that a request keeps to, if it does."""
    usual = Request()
    same = ("recipe", "size", "corpus", "corpus_options", "tokenizer", "vocabulary_size", "changes")
    kept = all(getattr(request, name) == getattr(usual, name) for name in same)
    return PICO if kept and request.steps in {None, PICO.steps} else None
