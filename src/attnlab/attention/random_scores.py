"""What the scores of random queries and keys look like, derived and drawn.

With q_i, k_i independent and normal, of mean μ and standard deviation σ, and D_k of each:

    E[q·k] = D_k μ²,   Var(q·k) = D_k (σ⁴ + 2 μ² σ²)
"""

from __future__ import annotations

import torch
from torch import Tensor

from attnlab.errors import InputError

_NUMBERS = 1 << 22  # drawn at a time


def dot_mean(key_width: int, mean: float = 0.0) -> float:
    """E[q·k]."""
    return key_width * mean**2


def dot_variance(key_width: int, mean: float = 0.0, deviation: float = 1.0) -> float:
    """Var(q·k)."""
    return key_width * (deviation**4 + 2 * mean**2 * deviation**2)


def draw_scores(
    rows: int,
    keys: int,
    key_width: int,
    *,
    mean: float = 0.0,
    deviation: float = 1.0,
    generator: torch.Generator | None = None,
) -> Tensor:
    """q·k of one new query and `keys` new keys in each row, (rows, keys), in float64."""
    if min(rows, keys, key_width) < 1:
        raise InputError(f"{rows} rows of {keys} keys of width {key_width} are none", hint="use 1 or more of each")
    found = []
    step = max(1, _NUMBERS // ((keys + 1) * key_width))
    for start in range(0, rows, step):
        shape = min(step, rows - start), keys + 1, key_width
        drawn = mean + deviation * torch.randn(shape, dtype=torch.float64, generator=generator)
        found.append((drawn[:, 1:] @ drawn[:, 0, :, None])[..., 0])
    return torch.cat(found)
