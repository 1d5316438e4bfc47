"""Read and write GPT-2 weights, in the folder format of Transformers.

    model = load_gpt2(Path("gpt2"))          a folder with config.json and model.safetensors
    save_gpt2(model, Path("mine"))           GPT2LMHeadModel.from_pretrained("mine") opens it

Both libraries compute the same logits. GPT-2 stores its linear layers transposed (`Conv1D`), with query, key and value
concatenated in one of them. A model that one of the two libraries cannot represent is refused with the reason.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlab.attention import AttentionSpec, Dot, Learned, ScaledDot
from attnlab.errors import FileError, SpecError, UnsupportedError
from attnlab.models.hf.folder import CONFIG, TensorFiles, open_tensors, read_config, ties_head, write_folder
from attnlab.models.language_model import LanguageModel
from attnlab.models.meta import on_meta
from attnlab.models.pretrained.weights import check_tensors, check_weights_fit
from attnlab.models.spec import ModelSpec

# The defaults of Transformers for fields missing from config.json.
_DEFAULTS: dict[str, Any] = {
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_inner": None,
    "activation_function": "gelu_new",
    "resid_pdrop": 0.1,
    "embd_pdrop": 0.1,
    "attn_pdrop": 0.1,
    "layer_norm_epsilon": 1e-5,
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
_ALIASES = {
    "n_embd": "hidden_size",
    "n_positions": "max_position_embeddings",
    "n_head": "num_attention_heads",
    "n_layer": "num_hidden_layers",
}
ACTIVATIONS = {"gelu_new": "gelu-tanh", "gelu_pytorch_tanh": "gelu-tanh", "gelu": "gelu"}
_BUFFERS = re.compile(r"h\.\d+\.attn\.(masked_)?bias")  # the causal mask, which some versions stored with the weights
_HEAD, _EMBEDDING = "lm_head.weight", "wte.weight"

# Fields that may have any value; every other field must be as in GPT-2.
_FREE_IN_MODEL = {
    *("vocabulary_size", "context_length", "num_layers", "model_width", "mlp_width", "attention", "norm_epsilon"),
    *("activation", "bias", "tied_embedding", "zero_outputs", "dropout", "position"),
}
_FREE_IN_ATTENTION = {"model_width", "num_heads", "score", "bias", "weight_dropout"}


@dataclass(frozen=True)
class _Entry:
    """A GPT-2 tensor: its shape, and the attnlab parameters that are its columns or the tensor itself."""

    shape: tuple[int, ...]
    parameters: tuple[str, ...]


def load_gpt2(folder: Path) -> LanguageModel:
    """Return the model of a GPT-2 folder, in float32, ready for use (dropout is off until `train()`)."""
    config = read_config(folder)
    with open_tensors(folder) as files:
        names = _plain_names(files, folder)
        spec = _spec_of(config, folder / CONFIG, len(names))
        if spec.tied_embedding and not ties_head(files, names, _HEAD, _EMBEDDING):
            spec = spec.replace(tied_embedding=False)
        entries = dict(_entries(spec))
        found = {name: files.shape(stored) for name, stored in names.items()}
        check_tensors({name: entry.shape for name, entry in entries.items()}, found, folder, "a GPT-2", CONFIG, names)
        with on_meta():
            model = LanguageModel(spec)
        check_weights_fit(model, folder)
        model = model.to_empty(device="cpu").eval()
        parameters = dict(model.named_parameters())
        for name, entry in entries.items():
            for parameter, part in zip(entry.parameters, _parts(name, entry, files.read(names[name])), strict=True):
                parameters[parameter].data.copy_(part)
    return model


def save_gpt2(model: LanguageModel, folder: Path) -> None:
    """Write a folder that Transformers opens as GPT2LMHeadModel. Biases that the model lacks are written as zeros.

    The folder may be new, or hold a GPT-2 model: then its weights and config.json are replaced together, and all other
    files are kept.
    """
    reasons = list(_why_not(model.spec))
    if reasons:
        raise UnsupportedError(
            f"GPT-2's files cannot hold this model: {'; '.join(reasons)}",
            hint="a checkpoint of attnlab's own holds every model",
        )
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    like = model.embedding.weight.detach()
    tensors = {}
    for name, entry in _entries(model.spec):
        zeros = like.new_zeros(entry.shape[-1] // len(entry.parameters))
        lacks_bias = name.endswith("bias") and entry.parameters[0] not in parameters
        whole = torch.cat([zeros if lacks_bias else parameters[parameter] for parameter in entry.parameters])
        prefix = "" if name == _HEAD else "transformer."
        tensors[prefix + name] = (whole.t() if _is_transposed(name) else whole).contiguous().cpu()
    config = _config_of(model.spec) | {"dtype": str(like.dtype).removeprefix("torch.")}
    write_folder(folder, config, tensors, "gpt2")


def _parts(name: str, entry: _Entry, tensor: Tensor) -> tuple[Tensor, ...]:
    """Split a tensor of GPT-2 into attnlab's parameters."""
    if not tensor.is_floating_point():
        raise FileError(f"{name} is of type {tensor.dtype}, not floating", hint="give weights that are not quantised")
    return (tensor.t() if _is_transposed(name) else tensor).chunk(len(entry.parameters))


def _is_transposed(name: str) -> bool:
    return re.search(r"\.c_\w+\.weight$", name) is not None


def _entries(spec: ModelSpec) -> Iterator[tuple[str, _Entry]]:
    """Yield every tensor of a GPT-2, by its name without the prefix `transformer.`."""
    width, inner = spec.model_width, spec.mlp_width
    yield _EMBEDDING, _Entry((spec.vocabulary_size, width), ("embedding.weight",))
    yield "wpe.weight", _Entry((spec.context_length, width), ("stack.positions.weight",))
    projections = tuple(f"attention.projections.{name}" for name in ("query", "key", "value"))
    linear = {
        "attn.c_attn": ((width, 3 * width), projections),
        "attn.c_proj": ((width, width), ("attention.output",)),
        "mlp.c_fc": ((width, inner), ("mlp.widen",)),
        "mlp.c_proj": ((inner, width), ("mlp.narrow",)),
        "ln_1": ((width,), ("attention_norm",)),
        "ln_2": ((width,), ("mlp_norm",)),
    }
    for layer in range(spec.num_layers):
        for name, (shape, modules) in linear.items():
            for kind, size in (("weight", shape), ("bias", shape[-1:])):
                yield (
                    f"h.{layer}.{name}.{kind}",
                    _Entry(size, tuple(f"stack.blocks.{layer}.{m}.{kind}" for m in modules)),
                )
    for kind in ("weight", "bias"):
        yield f"ln_f.{kind}", _Entry((width,), (f"stack.norm.{kind}",))
    if not spec.tied_embedding:
        yield _HEAD, _Entry((spec.vocabulary_size, width), ("head.weight",))


def _plain_names(files: TensorFiles, folder: Path) -> dict[str, str]:
    """Map names without the prefix to names in the files, for all tensors but old buffers."""
    names: dict[str, str] = {}
    for stored in files.names:
        name = stored.removeprefix("transformer.")
        if _BUFFERS.fullmatch(name):
            continue
        if name in names:
            raise FileError(f"{folder} is damaged: it holds both {names[name]} and {stored}", hint="remove one of them")
        names[name] = stored
    return names


def _spec_of(config: Mapping[str, Any], path: Path, num_tensors: int) -> ModelSpec:
    """Return the spec of the model that config.json describes."""
    if config.get("model_type") != "gpt2":
        raise UnsupportedError(
            f"{path} describes a model of type {config.get('model_type')!r}, not gpt2",
            hint="only GPT-2 can be loaded; `attnlab.models.hf` brings variants into other models of Transformers",
        )
    values = {name: config.get(_ALIASES.get(name, name), value) for name, value in _DEFAULTS.items()}
    values |= {name: config[name] for name in _DEFAULTS if name in config}
    _refuse_other_gpt2(values, path)
    layers = values["n_layer"]
    if type(layers) is not int or not 0 < layers <= num_tensors:
        raise FileError(f"{path} says n_layer={layers!r}, and there are {num_tensors} tensors", hint="fetch it again")
    try:
        attention = AttentionSpec(
            model_width=values["n_embd"],
            num_heads=values["n_head"],
            score=ScaledDot() if values["scale_attn_weights"] else Dot(),
            position=Learned(),
            weight_dropout=values["attn_pdrop"],
            output_dropout=values["resid_pdrop"],
        )
        return ModelSpec(
            vocabulary_size=values["vocab_size"],
            context_length=values["n_positions"],
            num_layers=layers,
            model_width=values["n_embd"],
            mlp_width=4 * attention.model_width if values["n_inner"] is None else values["n_inner"],
            attention=(attention,) * layers,
            norm_epsilon=values["layer_norm_epsilon"],
            activation=ACTIVATIONS[values["activation_function"]],
            tied_embedding=values["tie_word_embeddings"],
            dropout=values["embd_pdrop"],
        )
    except SpecError as error:
        raise FileError(f"{path} describes no model: {error.message}", hint=error.hint or "fetch it again") from None


def _refuse_other_gpt2(values: Mapping[str, Any], path: Path) -> None:
    """Refuse options of Transformers' GPT-2 that attnlab does not support."""
    activation, embedding, residual = (values[n] for n in ("activation_function", "embd_pdrop", "resid_pdrop"))
    hint = "load another GPT-2"
    if not isinstance(activation, str) or activation not in ACTIVATIONS:
        reason = f"activation_function={activation!r} is not one of {', '.join(ACTIVATIONS)}"
    elif values["scale_attn_by_inverse_layer_idx"]:
        reason = "scale_attn_by_inverse_layer_idx divides the scores of each layer by its number"
    elif values["add_cross_attention"]:
        reason = "add_cross_attention makes it the decoder of another model"
    elif embedding != residual:
        reason = f"embd_pdrop={embedding} and resid_pdrop={residual} are one number here"
        hint = f"set both to the same number in {CONFIG}: they matter in training only"
    else:
        return
    raise UnsupportedError(f"{path} describes a GPT-2 that attnlab cannot express: {reason}", hint=hint)


def _config_of(spec: ModelSpec) -> dict[str, object]:
    first = spec.attention[0]
    # GPT-2's own vocabulary ends with the token that separates texts; for other vocabularies it is not known here.
    end = spec.vocabulary_size - 1 if spec.vocabulary_size == _DEFAULTS["vocab_size"] else None
    return {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        **_DEFAULTS,
        "vocab_size": spec.vocabulary_size,
        "n_positions": spec.context_length,
        "n_embd": spec.model_width,
        "n_layer": spec.num_layers,
        "n_head": first.num_heads,
        "n_inner": spec.mlp_width,
        "activation_function": next(name for name, ours in ACTIVATIONS.items() if ours == spec.activation),
        "resid_pdrop": spec.dropout,
        "embd_pdrop": spec.dropout,
        "attn_pdrop": first.weight_dropout,
        "layer_norm_epsilon": spec.norm_epsilon,
        "scale_attn_weights": first.score == ScaledDot(),
        "tie_word_embeddings": spec.tied_embedding,
        **dict.fromkeys(("bos_token_id", "eos_token_id"), end),
    }


def _why_not(spec: ModelSpec) -> Iterator[str]:
    """Yield each difference of a model from GPT-2: the field, its value, and the value that GPT-2 has."""
    for name, field in ModelSpec.model_fields.items():
        if name not in _FREE_IN_MODEL and getattr(spec, name) != field.default:
            yield f"{name} is {_shown(getattr(spec, name))}, and GPT-2 has {_shown(field.default)}"
    if spec.activation not in ACTIVATIONS.values():
        yield f"activation is {spec.activation}, and GPT-2 has {' or '.join(dict.fromkeys(ACTIVATIONS.values()))}"
    first = spec.attention[0]
    unlike = [n for n in AttentionSpec.model_fields if any(getattr(s, n) != getattr(first, n) for s in spec.attention)]
    if unlike:
        yield f"its layers differ in {', '.join(unlike)}, and GPT-2's are alike"
    each = spec.model_width / first.num_heads
    wanted = {
        "position": Learned(),
        "num_key_value_heads": first.num_heads,
        "key_width": each,
        "value_width": each,
        "output_dropout": spec.dropout,
    }
    for name, field in AttentionSpec.model_fields.items():
        plain, own = wanted.get(name, field.default), getattr(first, name)
        if name not in _FREE_IN_ATTENTION and own != plain:
            yield f"{name} of attention is {_shown(own)}, and GPT-2 has {_shown(plain)}"
    if first.score not in (ScaledDot(), Dot()):
        yield f"score of attention is {first.score}, and GPT-2 has scaled-dot or dot"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return f"{len(value)} specs" if value else "none"
    return f"{value:g}" if isinstance(value, float) else str(value).lower()
