"""Models with attention that Transformers does not have, saved in a folder together with the code that runs them.

    save_own(model, Path("mine"), tokenizer)                          config, weights, tokenizer, modeling_attnlab.py
    AutoModelForCausalLM.from_pretrained("mine", trust_remote_code=True)          needs no attnlab
    load_own(Path("mine")), open_pretrained("mine")                               the same model in attnlab
    push_to_hub(model, "me/my-model", tokenizer)                                  the folder on the Hub

`modeling_attnlab.py` computes attention by its definition. Anything that it does not support is refused by name.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attnlab.attention import AttentionSpec, Mask
from attnlab.attention.layer import projection_shapes
from attnlab.corpora import Tokenizer
from attnlab.corpora.tokenizer import BpeTokenizer
from attnlab.errors import AttnlabError, FileError, UnsupportedError, import_extra
from attnlab.models.hf.folder import CONFIG, open_tensors, read_config, write_folder
from attnlab.models.language_model import LanguageModel
from attnlab.models.pretrained.weights import check_tensors, fill, parameter_shapes
from attnlab.models.spec import ModelSpec

KIND = "attnlab"
MODELLING = "modeling_attnlab.py"
_SCORES = {"scaled-dot", "dot", "biased-dot", "cosine", "qk-norm"}
_NORMALISERS = {
    *("softmax", "softmax-plus-one", "softmax-sink", "softmax-capped", "scalable-softmax"),
    *("sigmoid", "relu", "squared-relu"),
}
_POSITIONS = {"learned", "rope", "rope-linear", "rope-llama3", "decoupled-rope", "none"}
_PLAIN = {"value_map": "factored", "join": "projection", "source": "self", "operator": None, "head_output": None}
_PLAIN_TOO = {"values": None, "layer": None}


def save_own(model: LanguageModel, folder: Path, tokenizer: Tokenizer | None = None) -> None:
    """Write a model into a folder, with its tokenizer if it is a byte-level BPE, and the code that runs it."""
    spec = model.spec
    reasons = list(_why_not(spec))
    if reasons:
        raise UnsupportedError(
            f"{MODELLING} does not know {'; '.join(dict.fromkeys(reasons))}",
            hint="a run of attnlab holds every model, and attnlab runs it",
        )
    tensors = {name: parameter.detach().cpu() for name, parameter in model.named_parameters()}
    write_folder(folder, _config(spec), tensors, KIND)
    shutil.copyfile(Path(__file__).with_name(MODELLING), folder / MODELLING)
    if isinstance(tokenizer, BpeTokenizer):
        tokenizer.save(folder / "tokenizer.json")


def load_own(folder: Path) -> LanguageModel:
    """Return the model of a folder that `save_own` wrote, in float32, ready for use."""
    config = read_config(folder)
    if config.get("model_type") != KIND or not isinstance(config.get("spec"), dict):
        raise FileError(
            f"{folder / CONFIG} describes no model of attnlab", hint="`open_pretrained` opens other folders"
        )
    given = {name: value for name, value in config["spec"].items() if name in ModelSpec.model_fields}
    try:
        spec = ModelSpec.from_plain(given)
    except AttnlabError as error:
        raise FileError(f"{folder / CONFIG} describes no model: {error.message}", hint=error.hint) from None
    with open_tensors(folder) as files:
        found = {name: files.shape(name) for name in files.names}
        check_tensors(parameter_shapes(spec), found, folder, "this model", CONFIG)
        return fill(spec, files.read, folder)


def push_to_hub(
    model: LanguageModel, name: str, tokenizer: Tokenizer | None = None, *, private: bool = False, **options: Any
) -> str:
    """Upload a model with its tokenizer and the code that runs it, and return its address.

    `name` is the repository, such as "me/my-model", which is created, `private` or public, if it does not exist;
    `options` are passed to huggingface_hub's `upload_folder`.
    """
    hub = import_extra("huggingface_hub", "hf")
    with tempfile.TemporaryDirectory(prefix="attnlab-hub-") as folder:
        place = Path(folder) / "model"
        save_own(model, place, tokenizer)
        hub.create_repo(name, private=private, exist_ok=True)
        return str(hub.upload_folder(repo_id=name, folder_path=place, **options))


def _config(spec: ModelSpec) -> dict[str, object]:
    first = spec.attention[0]
    layers = [
        {
            "projections": {name: list(shape) for name, shape in projection_shapes(one).items()},
            "extras": {name: list(each.stored_shape(one.num_heads)) for name, each in one.parameters.items()},
        }
        for one in spec.attention
    ]
    return {
        "architectures": ["AttnlabForCausalLM"],
        "auto_map": {
            "AutoConfig": "modeling_attnlab.AttnlabConfig",
            "AutoModelForCausalLM": "modeling_attnlab.AttnlabForCausalLM",
        },
        "model_type": KIND,
        "vocab_size": spec.vocabulary_size,
        "hidden_size": spec.model_width,
        "num_hidden_layers": spec.num_layers,
        "num_attention_heads": first.num_heads,
        "max_position_embeddings": spec.context_length,
        "tie_word_embeddings": False,  # the modelling file uses the embedding as the head if they are tied
        "use_cache": False,
        "dtype": "float32",
        "spec": {**spec.model_dump(mode="json"), "layers": layers, "learns_positions": spec.learns_positions},
    }


def _why_not(spec: ModelSpec) -> Iterator[str]:
    """Yield each property of a model that the modelling file does not support."""
    if spec.family != "decoder":
        yield f"models of the family {spec.family}"
    for one in spec.attention:
        yield from _why_not_layer(one)


def _why_not_layer(spec: AttentionSpec) -> Iterator[str]:
    for name, plain in {**_PLAIN, **_PLAIN_TOO}.items():
        if getattr(spec, name) != plain:
            yield f"{name} {getattr(spec, name)}"
    for part, known in ((spec.score, _SCORES), (spec.normaliser, _NORMALISERS), (spec.position, _POSITIONS)):
        if part is not None and part.kind not in known:
            yield f"the {part.family} {part.kind}"
    if type(spec.mask) is not Mask or not spec.mask.causal or spec.mask.prefix is not None:
        yield f"the mask {spec.mask}"
    if spec.sharing == "identity":
        yield "attention without projections"
