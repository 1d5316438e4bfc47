"""GPT, encoder and encoder–decoder, built from one block; GPT-2's weights in and out.

sizes             sizes by name or by a number of parameters
spec              a model as a value, and the two architectures
mlp               the perceptron of a block, and its activations
blocks            the one block
loss              cross-entropy without holding all logits
taps              reading and replacing results by name
initial           how weights begin
meta              modules without numbers
language_model    the models
decoding          one token at a time, the fast path
generation        sampling from a model
hf                Transformers: variants inside its models, GPT-2's folder
"""

from attnlab.corpora import IGNORED
from attnlab.models.generation import Sampling, generate, stream
from attnlab.models.hf.gpt2 import load_gpt2, save_gpt2
from attnlab.models.language_model import LanguageModel, ModelCache, build_model
from attnlab.models.loss import cross_entropy
from attnlab.models.sizes import SIZES, Size, size
from attnlab.models.spec import ARCHITECTURES, Architecture, Family, ModelSpec, architecture
from attnlab.models.taps import Seen, tap_names

__all__ = [
    "ARCHITECTURES",
    "IGNORED",
    "SIZES",
    "Architecture",
    "Family",
    "LanguageModel",
    "ModelCache",
    "ModelSpec",
    "Sampling",
    "Seen",
    "Size",
    "architecture",
    "build_model",
    "cross_entropy",
    "generate",
    "load_gpt2",
    "save_gpt2",
    "size",
    "stream",
    "tap_names",
]
