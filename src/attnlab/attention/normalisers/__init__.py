"""Normalisers: from scores to weights."""

from attnlab.attention.normalisers.base import Normaliser
from attnlab.attention.normalisers.exponential import Softmax, SoftmaxPlusOne, Softpick
from attnlab.attention.normalisers.pointwise import Relu, Sigmoid, SquaredRelu
from attnlab.attention.normalisers.sparse import Entmax, Entmax15, Sparsemax

__all__ = [
    "Entmax",
    "Entmax15",
    "Normaliser",
    "Relu",
    "Sigmoid",
    "Softmax",
    "SoftmaxPlusOne",
    "Softpick",
    "Sparsemax",
    "SquaredRelu",
]
