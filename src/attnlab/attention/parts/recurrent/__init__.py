"""Operators that read a sequence token by token into a state of fixed size, and forget.

recurrence     the base: a recurrence, its chunks, and a backward pass that computes segments again
gated_linear   a gate for each number of the key
gated_delta    one gate for each head, and a write that replaces what was stored under the key
"""

from attnlab.attention.parts.recurrent.gated_delta import GatedDelta
from attnlab.attention.parts.recurrent.gated_linear import GatedLinear
from attnlab.attention.parts.recurrent.recurrence import Recurrence

__all__ = ["GatedDelta", "GatedLinear", "Recurrence"]
