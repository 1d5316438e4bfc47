"""The parts of a specification. Each class states its equation, its kernel functions, and its variants.

part           the base: a value with a kind, and the registry of kinds
masks          which keys a query sees
scores         how well a query and a key match
forgetting     score with a forget gate on every token
normalisers    from scores to weights: the base, and softmax variants
pointwise      normalisers that act on one score at a time
sparse         normalisers that give exact zeros
stick_breaking normaliser that goes back from key to key
positions      positional encodings
operators      attention that does not factor into a score and a normaliser
recurrent      operators with a recurrent state and forget gates
values         changes of the values before they are weighted
head_outputs   changes of the head outputs before they are joined
compression    keys and values computed from a latent that all heads share
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
