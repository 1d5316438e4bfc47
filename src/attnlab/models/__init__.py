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
hf                Transformers: variants inside its models, folders of GPT-2 and Llama
pretrained        models that were trained elsewhere: published shapes, GGUF files, opening by place
"""

from attnlab.corpora import IGNORED
from attnlab.models.generation import Sampling, generate, stream
from attnlab.models.hf.gpt2 import load_gpt2, save_gpt2
from attnlab.models.hf.llama import load_llama, save_llama
from attnlab.models.language_model import LanguageModel, ModelCache, build_model
from attnlab.models.loss import cross_entropy
from attnlab.models.pretrained.opening import Pretrained, open_pretrained
from attnlab.models.pretrained.published import PUBLISHED, published
from attnlab.models.sizes import SIZES, Size, size
from attnlab.models.spec import ARCHITECTURES, Architecture, Family, ModelSpec, architecture
from attnlab.models.taps import Seen, tap_names

__all__ = [
    "ARCHITECTURES",
    "IGNORED",
    "PUBLISHED",
    "SIZES",
    "Architecture",
    "Family",
    "LanguageModel",
    "ModelCache",
    "ModelSpec",
    "Pretrained",
    "Sampling",
    "Seen",
    "Size",
    "architecture",
    "build_model",
    "cross_entropy",
    "generate",
    "load_gpt2",
    "load_llama",
    "open_pretrained",
    "published",
    "save_gpt2",
    "save_llama",
    "size",
    "stream",
    "tap_names",
]
