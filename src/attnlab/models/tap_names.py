"""The names of everything that a model computes and that can be read or replaced, with their shapes.

    embedding, position, residual                              what goes in, and what reaches the first block
    blocks.0.attention.in, .query, .key, .value                behind the norm; as projected, before positions turn them
    blocks.0.attention.weights, .heads, .output, .residual     the map; what each head makes; all of them; x + that
    blocks.0.mlp.in, .before, .hidden, .output                 behind the norm; before and after the bend; what is added
    blocks.0.residual                                          what leaves the block
    norm.in, norm.output, logits

A decoder that looks at another sequence has `cross_attention` like `attention`; the encoder that read that sequence has
the same names behind `encoder.`. A name is there only where the variant has such a thing.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from attnlab.attention import AttentionSpec
from attnlab.errors import UnknownNameError

if TYPE_CHECKING:
    from attnlab.models.language_model import LanguageModel
    from attnlab.models.spec import ModelSpec

Shape = tuple[int | str, ...]


def tap_names(model: LanguageModel) -> dict[str, Shape]:
    """Every name with its shape, in the order in which they are computed; what varies from call to call is a word."""
    spec = model.spec
    names: dict[str, Shape] = {}
    if spec.encoder_attention:
        names |= _of_stack(spec, spec.encoder_attention, (), "encoder.", "source")
    names |= _of_stack(spec, spec.attention, spec.cross_attention, "", "tokens")
    return names | {"logits": ("batch", "tokens", spec.vocabulary_size)}


def matching(wanted: str, known: Iterable[str]) -> list[str]:
    """The known names that `wanted` stands for, * being anything."""
    known = list(known)
    found = [name for name in known if fnmatchcase(name, wanted)]
    if not found:
        raise UnknownNameError("activation", wanted, known)
    return found


def _of_stack(
    spec: ModelSpec, attention: tuple[AttentionSpec, ...], cross: tuple[AttentionSpec, ...], prefix: str, tokens: str
) -> dict[str, Shape]:
    stream: Shape = ("batch", tokens, spec.model_width)
    names: dict[str, Shape] = {"embedding": stream}
    if spec.learns_positions:
        names["position"] = (tokens, spec.model_width)
    names["residual"] = stream
    for number, own in enumerate(attention):
        block = _of_attention(own, "attention", tokens, tokens)
        if cross:
            block |= _of_attention(cross[number], "cross_attention", tokens, "source")
        inner: Shape = ("batch", tokens, spec.mlp_width)
        block |= {"mlp.in": stream, "mlp.before": inner, "mlp.hidden": inner, "mlp.output": stream, "residual": stream}
        names |= {f"blocks.{number}.{name}": shape for name, shape in block.items()}
    names |= {"norm.in": stream, "norm.output": stream}
    return {prefix + name: shape for name, shape in names.items()}


def _of_attention(spec: AttentionSpec, name: str, queries: str, keys: str) -> dict[str, Shape]:
    stream: Shape = ("batch", queries, spec.model_width)
    names: dict[str, Shape] = {"in": stream}
    if spec.score.projects_query:
        names["query"] = ("batch", spec.num_heads, queries, spec.key_width)
    if spec.score.projects_key:
        names["key"] = ("batch", spec.num_key_value_heads, keys, spec.key_width)
    names["value"] = ("batch", spec.num_key_value_heads, keys, spec.value_width)
    if spec.has_map:
        names["weights"] = ("batch", spec.num_heads, queries, keys)
    names["heads"] = ("batch", spec.num_heads, queries, spec.value_width)
    names |= {"output": stream, "residual": stream}
    return {f"{name}.{part}": shape for part, shape in names.items()}
