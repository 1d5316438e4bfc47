"""What is recorded about the default comparison: learning rates that were searched for, and its noise.

The rates were chosen by `attnlab scale --rates-only` with seeds that no comparison uses. docs/log.md has the commands
and the figures.
"""

from __future__ import annotations

from dataclasses import dataclass

from attnlab.experiments.request import Request

EVALUATIONS = 4  # of a run, unless it says otherwise
VALIDATION_TOKENS = 65_536


@dataclass(frozen=True)
class Setting:
    """The recorded rates by size and arm, and the noise at the largest size."""

    rates: dict[str, dict[str, float]]
    noise: float  # standard deviation of a paired difference, nats
    degrees: int  # of freedom of the noise


DEFAULT = Setting(
    rates={
        "14k": {
            "softmax": 0.009743,
            "tied-kv": 0.009743,
            "cosine": 0.01378,
            "cosine-learned": 0.01378,
            "sigmoid": 0.009741,
        },
        "25k": {
            "softmax": 0.009529,
            "tied-kv": 0.009529,
            "cosine": 0.01123,
            "cosine-learned": 0.008699,
            "sigmoid": 0.0123,
        },
    },
    noise=0.012,
    degrees=16,
)

_SAME = (
    "recipe",
    "size",
    "rungs",
    "tokens_per_parameter",
    "least_tokens",
    "steps",
    "corpus",
    "corpus_options",
    "tokenizer",
    "vocabulary_size",
    "changes",
)  # fields of a request that the recorded numbers depend on


def setting_of(request: Request) -> Setting | None:
    """Return the recorded setting if the request keeps to it, else None."""
    usual = Request()
    kept = all(getattr(request, name) == getattr(usual, name) for name in _SAME)
    return DEFAULT if kept else None
