"""GPT, encoder and encoder–decoder models built from one block; reading and writing GPT-2 weights.

sizes             sizes by name or by a number of parameters
spec              the specification of a model, and the architectures
mlp               the MLP of a block, and its activations
blocks            the transformer block
loss              cross-entropy without storing all logits
taps              reading and replacing activations by name
initial           weight initialisation
meta              modules on the meta device, without storage
language_model    the models
decoding          the fast path for decoding one token at a time
generation        sampling from a model
hf                Hugging Face Transformers: variants inside its models, GPT-2 and Llama folders
pretrained        models trained elsewhere: published shapes, GGUF files, opening a model by name or path
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
