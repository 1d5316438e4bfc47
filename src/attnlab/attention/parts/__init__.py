"""The parts of a specification: each a class that states its equation, its kernel's share, and its variants.

part           the base: a value with a kind, and the registry of kinds
masks          which keys a query sees
scores         how well a query and a key match
forgetting     score with a forget gate on every token
normalisers    from scores to weights: the base, and softmax with its kin
pointwise      normalisers that look at one score at a time
sparse         normalisers that give exact zeros
stick_breaking normaliser that looks back key by key
positions      how attention learns where a token stands
operators      what does not factor into a score and a normaliser
recurrent      operators that read a sequence into a state, and forget
values         what happens to the values before they are weighted
head_outputs   what happens to the outputs of the heads
compression    keys and values made from a small vector that all heads share
"""

from attnlab.attention.parts import (
    compression,
    forgetting,
    head_outputs,
    masks,
    normalisers,
    operators,
    pointwise,
    positions,
    recurrent,
    scores,
    sparse,
    stick_breaking,
    values,
)
from attnlab.attention.parts.part import Part

__all__ = [
    "Part",
    "compression",
    "forgetting",
    "head_outputs",
    "masks",
    "normalisers",
    "operators",
    "pointwise",
    "positions",
    "recurrent",
    "scores",
    "sparse",
    "stick_breaking",
    "values",
]
