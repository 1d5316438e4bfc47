"""How sharp weights are, and how much they can still move.

H(p) = −Σ p_j log p_j          entropy in nats: log n for n equal weights, 0 for one alone
S(p) = Σ ∂p_j / ∂s_j           slope of a softmax: Σ p_j (1 − p_j), 0 once it is saturated
"""

from __future__ import annotations

import torch
from torch import Tensor


def weight_entropy(weights: Tensor) -> Tensor:
    """H of weights (…, keys) that sum to 1; 0 log 0 is 0."""
    entropy: Tensor = -torch.special.xlogy(weights, weights).sum(-1)
    return entropy


def softmax_slope(weights: Tensor) -> Tensor:
    """S of the weights (…, keys) of a softmax."""
    return (weights * (1 - weights)).sum(-1)
