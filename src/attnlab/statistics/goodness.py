"""Whether samples come from a derived distribution: Kolmogorov's largest distance of the two cumulative shares.

D = sup |F_n(x) − F(x)|,   P(D > t / √n) → 2 Σ (−1)^(j−1) e^(−2 j² t²)    whatever F is, as long as it has no steps
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special  # type: ignore[import-untyped,unused-ignore]

from attnlab.statistics.checking import check_count, check_share, check_values


def kolmogorov_distance(samples: Any, cumulative: Callable[[NDArray[np.float64]], Any]) -> float:
    """The largest distance between the share of samples up to x and its derived chance."""
    if hasattr(samples, "detach"):
        samples = samples.detach().cpu()
    values = np.sort(check_values(np.asarray(samples, dtype=np.float64).reshape(-1)))  # type: ignore[arg-type]
    chances = np.asarray(cumulative(values), dtype=np.float64)
    after = np.arange(1, values.size + 1) / values.size
    return float(max(np.abs(after - chances).max(), np.abs(after - 1 / values.size - chances).max()))


def kolmogorov_limit(count: int, alpha: float) -> float:
    """The distance that so many samples of the derived distribution exceed with the chance `alpha`."""
    check_count(count)
    check_share("alpha", alpha)
    return float(special.kolmogi(alpha)) / math.sqrt(count)
