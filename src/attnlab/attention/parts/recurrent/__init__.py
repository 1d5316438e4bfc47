"""Recurrent operators: a state of fixed size, updated token by token, with forget gates.

recurrence     the base: a recurrence, its chunks, and a backward pass that recomputes segments
gated_linear   a gate for each key dimension
gated_delta    one gate for each head, and a write that replaces what was stored under the key
"""

from attnlab.attention.parts.recurrent.gated_delta import GatedDelta
from attnlab.attention.parts.recurrent.gated_linear import GatedLinear
from attnlab.attention.parts.recurrent.recurrence import Recurrence

__all__ = ["GatedDelta", "GatedLinear", "Recurrence"]
