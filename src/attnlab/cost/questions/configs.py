"""Models from a config.json of Hugging Face, in place of a named size: GPT-2 and the Llama family.

Shape, vocabulary, heads, biases, tied embeddings and positions are the file's. Its dropout is not counted: the named
sizes have none either.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.attention import AttentionSpec, Learned, Rope
from attnlab.cost.block import LlamaSpec
from attnlab.errors import FileError, SpecError, UnsupportedError
from attnlab.models import ModelSpec
from attnlab.models.hf.folder import CONFIG, read_json
from attnlab.models.hf.gpt2 import ACTIVATIONS
from attnlab.models.sizes import SIZES, parameter_count


def is_config(size: str) -> bool:
    """Return whether a size is given as a configuration: a JSON file, or a folder."""
    if size in SIZES or parameter_count(size) is not None:
        return False
    return size.endswith(".json") or "/" in size or os.sep in size or Path(size).is_dir()


def model_of_config(place: str) -> ModelSpec:
    """Return the model that a config.json, or the one in a folder, describes."""
    path = Path(place)
    if path.is_dir():
        path = path / CONFIG
    if not path.is_file():
        raise FileError(f"there is no file {path}", hint=f"name a {CONFIG} of Hugging Face, or a folder that holds one")
    fields = _Fields(path, read_json(path))
    kind = fields.values.get("model_type")
    if not isinstance(kind, str) or kind not in _READERS:
        raise UnsupportedError(
            f"{path} describes a model of type {kind!r}", hint=f"the supported types are {', '.join(_READERS)}"
        )
    try:
        return _READERS[kind](fields)
    except SpecError as error:
        raise FileError(f"{path} describes no model: {error.message}", hint=error.hint) from None


@dataclass(frozen=True)
class _Fields:
    """The fields of a config.json, each checked when it is read."""

    path: Path
    values: Mapping[str, Any]

    def whole(self, *names: str, default: int | None = None) -> int:
        """Return a whole number from 1 on; the names after the first are other spellings of it."""
        value = next((self.values[name] for name in names if self.values.get(name) is not None), default)
        if value is None:
            raise FileError(f"{self.path} has no {names[0]}", hint=f'add "{names[0]}" to it, or fetch it again')
        if type(value) is not int or value < 1:
            raise self._odd(names[0], value, "a whole number from 1 on")
        return value

    def positive(self, name: str, default: float) -> float:
        value = self.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise self._odd(name, value, "a number above 0")
        return float(value)

    def truth(self, name: str, default: bool) -> bool:
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            raise self._odd(name, value, "true or false")
        return value

    def _odd(self, name: str, value: object, wanted: str) -> FileError:
        return FileError(f"{name} of {self.path} is {value!r}, not {wanted}", hint=f"correct {name}, or fetch it again")


def _gpt2(fields: _Fields) -> ModelSpec:
    width, layers = fields.whole("n_embd", "hidden_size"), fields.whole("n_layer", "num_hidden_layers")
    activation = fields.values.get("activation_function", "gelu_new")
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        raise UnsupportedError(
            f"activation_function of {fields.path} is {activation!r}", hint=f"it may be {', '.join(ACTIVATIONS)}"
        )
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


def _llama(fields: _Fields) -> ModelSpec:
    width, layers = fields.whole("hidden_size"), fields.whole("num_hidden_layers")
    heads = fields.whole("num_attention_heads")
    scaling = fields.values.get("rope_parameters")  # where Transformers 5 writes the base
    rope = fields if not isinstance(scaling, dict) else _Fields(fields.path, {**fields.values, **scaling})
    position = Rope(base=rope.positive("rope_theta", 10_000.0))
    head_width = fields.values.get("head_dim")
    attention = AttentionSpec(
        model_width=width,
        num_heads=heads,
        num_key_value_heads=fields.whole("num_key_value_heads", default=heads),
        key_width=None if head_width is None else fields.whole("head_dim"),
        bias=fields.truth("attention_bias", False),
        position=position,
    )
    return LlamaSpec(
        vocabulary_size=fields.whole("vocab_size"),
        context_length=fields.whole("max_position_embeddings"),
        num_layers=layers,
        model_width=width,
        mlp_width=fields.whole("intermediate_size"),
        attention=(attention,) * layers,
        norm="rms",
        norm_epsilon=fields.positive("rms_norm_eps", 1e-6),
        bias=fields.truth("mlp_bias", False),
        tied_embedding=fields.truth("tie_word_embeddings", False),
        position=position,
    )


_READERS = {"gpt2": _gpt2, "llama": _llama}
