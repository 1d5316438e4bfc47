"""Models instead of a named size: from a Hugging Face config.json, a GGUF file, or a published model by its name.

Shape, vocabulary, heads, biases, tied embeddings and positions come from the file. Its dropout is not counted, as for
the named sizes, which have none.
"""

from __future__ import annotations

import os
from pathlib import Path

from attnlab.attention import AttentionSpec, Learned
from attnlab.errors import FileError, SpecError, UnsupportedError
from attnlab.models import PUBLISHED, ModelSpec, published
from attnlab.models.hf.fields import ConfigFields
from attnlab.models.hf.folder import CONFIG, read_json
from attnlab.models.hf.gpt2 import ACTIVATIONS
from attnlab.models.hf.llama import llama_spec
from attnlab.models.pretrained.gguf import gguf_spec
from attnlab.models.pretrained.gguf_header import read_header
from attnlab.models.pretrained.opening import GGUF, INSTALLED, locate_pretrained
from attnlab.models.sizes import SIZES, parameter_count


def is_config(size: str) -> bool:
    """Return whether a size is given as a configuration: a published model, a JSON or GGUF file, or a folder."""
    if size in PUBLISHED or size in INSTALLED or size.endswith(GGUF):
        return True
    if size in SIZES or parameter_count(size) is not None:
        return False
    return size.endswith(".json") or "/" in size or os.sep in size or Path(size).is_dir()


def model_of_config(place: str) -> ModelSpec:
    """Return the model of this name, or the one that a config.json, also in a folder, or a GGUF file describes."""
    if place in PUBLISHED:
        return published(place)
    path = locate_pretrained(place) or Path(place)
    if path.suffix == GGUF:
        return gguf_spec(read_header(path))
    if path.is_dir():
        path = path / CONFIG
    if not path.is_file():
        raise FileError(f"there is no file {path}", hint=f"name a {CONFIG} of Hugging Face, or a folder that holds one")
    fields = ConfigFields(path, read_json(path))
    kind = fields.values.get("model_type")
    if not isinstance(kind, str) or kind not in _READERS:
        raise UnsupportedError(
            f"{path} describes a model of type {kind!r}", hint=f"the supported types are {', '.join(_READERS)}"
        )
    try:
        return _READERS[kind](fields)
    except SpecError as error:
        raise FileError(f"{path} describes no model: {error.message}", hint=error.hint) from None


def _gpt2(fields: ConfigFields) -> ModelSpec:
    width, layers = fields.whole("n_embd", "hidden_size"), fields.whole("n_layer", "num_hidden_layers")
    activation = fields.require("activation_function", "gelu_new", ACTIVATIONS)
    if fields.truth("add_cross_attention", False):
        raise UnsupportedError(
            f"{fields.path} describes a GPT-2 with cross-attention", hint="set add_cross_attention to false"
        )
    heads = fields.whole("n_head", "num_attention_heads")
    attention = AttentionSpec(model_width=width, num_heads=heads, position=Learned())
    return ModelSpec(
        vocabulary_size=fields.whole("vocab_size"),
        context_length=fields.whole("n_positions", "max_position_embeddings"),
        num_layers=layers,
        model_width=width,
        mlp_width=fields.whole("n_inner", default=4 * width),
        attention=(attention,) * layers,
        norm_epsilon=fields.positive("layer_norm_epsilon", 1e-5),
        activation=ACTIVATIONS[activation],
        tied_embedding=fields.truth("tie_word_embeddings", True),
    )


_READERS = {"gpt2": _gpt2, "llama": llama_spec}
