"""Attention: specifications, their definition, fast kernels, a layer, and a catalogue of variants.

parts          scores, normalisers, masks, positions, operators, values, head outputs, with equations and variants
spec           a variant as a value
rules          which fields cannot be combined, and the nearest valid spec
reference      attention by its definition
kernels        fast kernels with the same result
functional     attention as a function of queries, keys and values
linear         linear layers for training and decoding
groups         key and value heads shared by groups of query heads
gradients      hand-written backward passes
cache          the cache for decoding
layers         user-defined layers
observer       observers of a forward pass, which can replace its tensors
declarations   check that user-defined parts declare their parameters
latent         multi-head latent attention: keys and values computed from a latent
layer          multi-head attention
names          variants by name, mixtures over layers, and variants from files
blackboard     one head on plain matrices, and a layer step by step
"""

from attnlab.attention.blackboard import (
    dot_mean,
    dot_variance,
    draw_scores,
    one_head,
    softmax_slope,
    weight_entropy,
)
from attnlab.attention.cache import Cache
from attnlab.attention.functional import attend
from attnlab.attention.kernels import kernel_for
from attnlab.attention.layer import MultiHeadAttention
from attnlab.attention.layers.adding import add_layer
from attnlab.attention.layers.own import OwnLayer
from attnlab.attention.layers.whole import WholeLayer, make_layer
from attnlab.attention.names.catalogue import Variant, add_variant, equations, variant, variants
from attnlab.attention.names.files import load_variants
from attnlab.attention.names.mixtures import Mixture, mixture
from attnlab.attention.parts.compression import Latent
from attnlab.attention.parts.forgetting import Forgetting
from attnlab.attention.parts.head_outputs import Exclusive, GatedNorm, HeadNorm, HeadOutput, OutputGate
from attnlab.attention.parts.masks import Block, Mask, Visibility
from attnlab.attention.parts.normalisers import (
    Differential,
    Normaliser,
    ScalableSoftmax,
    Softmax,
    SoftmaxCapped,
    SoftmaxPlusOne,
    SoftmaxSink,
)
from attnlab.attention.parts.operators import LinearAttention, Operator
from attnlab.attention.parts.part import Number, Parameter, Part, Projection
from attnlab.attention.parts.pointwise import Relu, Sigmoid, SquaredRelu
from attnlab.attention.parts.positions import Alibi, DecoupledRope, Learned, NoPosition, Position, Rope
from attnlab.attention.parts.recurrent import GatedDelta, GatedLinear, Recurrence
from attnlab.attention.parts.scores import (
    BiasedDot,
    Cosine,
    DenseSynthesizer,
    Dot,
    InnerProduct,
    Matched,
    QueryKeyNorm,
    RandomSynthesizer,
    ScaledDot,
    Score,
    SquaredDistance,
    Table,
)
from attnlab.attention.parts.sparse import Entmax, Entmax15, Softpick, Sparsemax
from attnlab.attention.parts.stick_breaking import StickBreaking
from attnlab.attention.parts.values import ValueResidual, Values
from attnlab.attention.spec import AttentionSpec

__all__ = [
    "Alibi",
    "AttentionSpec",
    "BiasedDot",
    "Block",
    "Cache",
    "Cosine",
    "DecoupledRope",
    "DenseSynthesizer",
    "Differential",
    "Dot",
    "Entmax",
    "Entmax15",
    "Exclusive",
    "Forgetting",
    "GatedDelta",
    "GatedLinear",
    "GatedNorm",
    "HeadNorm",
    "HeadOutput",
    "InnerProduct",
    "Latent",
    "Learned",
    "LinearAttention",
    "Mask",
    "Matched",
    "Mixture",
    "MultiHeadAttention",
    "NoPosition",
    "Normaliser",
    "Number",
    "Operator",
    "OutputGate",
    "OwnLayer",
    "Parameter",
    "Part",
    "Position",
    "Projection",
    "QueryKeyNorm",
    "RandomSynthesizer",
    "Recurrence",
    "Relu",
    "Rope",
    "ScalableSoftmax",
    "ScaledDot",
    "Score",
    "Sigmoid",
    "Softmax",
    "SoftmaxCapped",
    "SoftmaxPlusOne",
    "SoftmaxSink",
    "Softpick",
    "Sparsemax",
    "SquaredDistance",
    "SquaredRelu",
    "StickBreaking",
    "Table",
    "ValueResidual",
    "Values",
    "Variant",
    "Visibility",
    "WholeLayer",
    "add_layer",
    "add_variant",
    "attend",
    "dot_mean",
    "dot_variance",
    "draw_scores",
    "equations",
    "kernel_for",
    "load_variants",
    "make_layer",
    "mixture",
    "one_head",
    "softmax_slope",
    "variant",
    "variants",
    "weight_entropy",
]
