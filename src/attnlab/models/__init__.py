"""GPT, encoder and encoder–decoder, built from one block; GPT-2's weights in and out."""

from attnlab.corpora import IGNORED
from attnlab.models.architectures import ARCHITECTURES, Architecture, architecture
from attnlab.models.generation import Sampling, generate, stream
from attnlab.models.gpt2_weights import load_gpt2, save_gpt2
from attnlab.models.language_model import LanguageModel, ModelCache, build_model
from attnlab.models.loss import cross_entropy
from attnlab.models.sizes import SIZES, Size, size
from attnlab.models.spec import Family, ModelSpec
from attnlab.models.tap_names import tap_names
from attnlab.models.tapping import Seen

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
