"""Read and write models of the Llama family, in the folder format of Transformers.

    model = load_llama(Path("SmolLM2-135M"))      a folder with config.json and safetensors, in one file or in shards
    save_llama(model, Path("mine"))               LlamaForCausalLM.from_pretrained("mine") opens it

Both libraries compute the same logits. A model that one of them cannot represent is refused with the reason. Dropout,
which matters only in training, is not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attnlab.attention import AttentionSpec, Rope
from attnlab.attention.parts.positions import LinearRope, Llama3Rope, Position
from attnlab.errors import FileError, SpecError, UnsupportedError
from attnlab.models.hf.fields import ConfigFields
from attnlab.models.hf.folder import CONFIG, open_tensors, read_config, ties_head, write_folder
from attnlab.models.language_model import LanguageModel
from attnlab.models.pretrained.llama import Names, llama_model
from attnlab.models.pretrained.weights import check_tensors, fill, parameter_shapes
from attnlab.models.spec import ModelSpec

_MOST_LAYERS = 1 << 16
_BUFFERS = re.compile(r".*\.rotary_emb\.inv_freq")  # angles, which old versions stored with the weights
NAMES = Names(
    layers="model.layers",
    inside={
        "attention_norm": "input_layernorm",
        "attention.projections.query": "self_attn.q_proj",
        "attention.projections.key": "self_attn.k_proj",
        "attention.projections.value": "self_attn.v_proj",
        "attention.output": "self_attn.o_proj",
        "mlp_norm": "post_attention_layernorm",
        "mlp.gate": "mlp.gate_proj",
        "mlp.widen": "mlp.up_proj",
        "mlp.narrow": "mlp.down_proj",
    },
    embedding="model.embed_tokens.weight",
    norm="model.norm.weight",
    head="lm_head.weight",
)


def load_llama(folder: Path) -> LanguageModel:
    """Return the model of a Llama folder, in float32, ready for use."""
    fields = ConfigFields(folder / CONFIG, read_config(folder))
    if fields.values.get("model_type") != "llama":
        raise UnsupportedError(
            f"{fields.path} describes a model of type {fields.values.get('model_type')!r}, not llama",
            hint="`attnlab.models.open_pretrained` opens every folder that attnlab can load",
        )
    spec = llama_spec(fields)
    with open_tensors(folder) as files:
        names = {name: name for name in files.names if not _BUFFERS.fullmatch(name)}
        if spec.num_layers > len(names):
            raise fields.odd("num_hidden_layers", spec.num_layers, f"a number that {len(names)} tensors can have")
        if spec.tied_embedding and not ties_head(files, names, NAMES.head, NAMES.embedding):
            spec = spec.replace(tied_embedding=False)
        found = {name: files.shape(stored) for name, stored in names.items()}
        wanted = {NAMES.of(name): shape for name, shape in parameter_shapes(spec).items()}
        check_tensors(wanted, found, folder, "a Llama", CONFIG)
        return fill(spec, lambda name: files.read(names[NAMES.of(name)]), folder)


def save_llama(model: LanguageModel, folder: Path) -> None:
    """Write the model to a folder that Transformers opens as LlamaForCausalLM.

    The folder may be new, or hold a Llama model: then its weights and config.json are replaced together, and all other
    files are kept.
    """
    config = _config_of(model.spec)
    reasons = list(_why_not(model.spec, config))
    if reasons:
        raise UnsupportedError(
            f"Llama's files cannot hold this model: {'; '.join(reasons)}",
            hint="a checkpoint of attnlab's own holds every model",
        )
    tensors = {NAMES.of(name): tensor.detach().cpu() for name, tensor in model.named_parameters()}
    kind = {"dtype": str(model.embedding.weight.dtype).removeprefix("torch.")}
    write_folder(folder, config | kind, tensors, "llama")


# config.json


def llama_spec(fields: ConfigFields) -> ModelSpec:
    """Return the model that the config.json of a Llama describes."""
    width, layers = fields.whole("hidden_size"), fields.whole("num_hidden_layers")
    if layers > _MOST_LAYERS:
        raise fields.odd("num_hidden_layers", layers, f"at most {_MOST_LAYERS}")
    heads = fields.whole("num_attention_heads")
    fields.require("hidden_act", "silu", ("silu", "swish"))
    try:
        return llama_model(
            vocabulary_size=fields.whole("vocab_size"),
            context_length=fields.whole("max_position_embeddings"),
            num_layers=layers,
            model_width=width,
            mlp_width=fields.whole("intermediate_size"),
            num_heads=heads,
            num_key_value_heads=fields.whole("num_key_value_heads", default=heads),
            head_width=None if fields.values.get("head_dim") is None else fields.whole("head_dim"),
            position=_position(fields),
            norm_epsilon=fields.positive("rms_norm_eps", 1e-6),
            attention_bias=fields.truth("attention_bias", False),
            mlp_bias=fields.truth("mlp_bias", False),
            tied_embedding=fields.truth("tie_word_embeddings", False),
        )
    except SpecError as error:
        raise FileError(f"{fields.path} describes no model: {error.message}", hint=error.hint) from None


def _position(fields: ConfigFields) -> Position:
    """Return the rotation; Transformers 5 writes base and scaling together, older versions apart."""
    found = fields.values.get("rope_parameters") or fields.values.get("rope_scaling") or {}
    if not isinstance(found, dict):
        raise fields.odd("rope_parameters", found, "an object")
    rope = ConfigFields(fields.path, {**fields.values, **found})
    base = {"base": rope.positive("rope_theta", 10_000.0)}
    kind = found.get("rope_type", found.get("type", "default"))
    if kind == "default":
        return Rope(**base)
    if kind == "linear":
        return LinearRope(**base, factor=rope.positive("factor"))
    if kind == "llama3":
        return Llama3Rope(
            **base,
            factor=rope.positive("factor"),
            low_rotations=rope.positive("low_freq_factor"),
            high_rotations=rope.positive("high_freq_factor"),
            original_context_length=rope.whole("original_max_position_embeddings"),
        )
    raise UnsupportedError(
        f"{fields.path} scales its rotary positions by {kind!r}", hint="the supported kinds are default, linear, llama3"
    )


def _config_of(spec: ModelSpec) -> dict[str, Any]:
    first = spec.attention[0]
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": spec.vocabulary_size,
        "hidden_size": spec.model_width,
        "intermediate_size": spec.mlp_width,
        "num_hidden_layers": spec.num_layers,
        "num_attention_heads": first.num_heads,
        "num_key_value_heads": first.num_key_value_heads,
        "head_dim": first.key_width,
        "hidden_act": "silu",
        "max_position_embeddings": spec.context_length,
        "rms_norm_eps": spec.norm_epsilon,
        "attention_bias": first.bias,
        "mlp_bias": spec.bias,
        "tie_word_embeddings": spec.tied_embedding,
        "rope_parameters": _rope_parameters(first.position),
        **dict.fromkeys(("bos_token_id", "eos_token_id")),
    }


def _rope_parameters(position: Position | None) -> dict[str, object]:
    match position:
        case LinearRope():
            own: dict[str, object] = {"rope_type": "linear", "factor": position.factor}
        case Llama3Rope():
            own = {
                "rope_type": "llama3",
                "factor": position.factor,
                "low_freq_factor": position.low_rotations,
                "high_freq_factor": position.high_rotations,
                "original_max_position_embeddings": position.original_context_length,
            }
        case _:
            own = {"rope_type": "default"}
    return {**own, "rope_theta": position.base} if isinstance(position, Rope) else own


# Fields that files do not store, because they matter only in training.
_LOST = {"zero_outputs": False, "initial_std": ModelSpec.model_fields["initial_std"].default, "dropout": 0.0}
_LOST_OF_ATTENTION = {"weight_dropout": 0.0, "output_dropout": 0.0}


def _why_not(spec: ModelSpec, config: dict[str, Any]) -> Iterator[str]:
    """Yield each field of a model that its config.json, read again, would give another value."""
    read = llama_spec(ConfigFields(Path(CONFIG), config))
    kept = spec.replace(**_LOST, attention=tuple(one.replace(**_LOST_OF_ATTENTION) for one in spec.attention))
    for name in ModelSpec.model_fields:
        if name != "attention" and (own := getattr(kept, name)) != (theirs := getattr(read, name)):
            yield f"{name} is {own}, and Llama has {theirs}"
    for name in AttentionSpec.model_fields:
        theirs = getattr(read.attention[0], name)
        others = [own for one in kept.attention if (own := getattr(one, name)) != theirs]
        if others:
            yield f"{name} of attention is {others[0]}, and Llama has {theirs} in this model"
