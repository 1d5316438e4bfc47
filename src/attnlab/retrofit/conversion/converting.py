"""Convert a layer to another spec, and a model to one with some of its layers converted."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from attnlab.attention import AttentionSpec, MultiHeadAttention, Rope, make_layer
from attnlab.models import LanguageModel
from attnlab.models.blocks import TransformerBlock
from attnlab.models.language_model import empty_model
from attnlab.retrofit.conversion.fitting import fit_output, fit_scores
from attnlab.retrofit.conversion.heads import HeadMaps, Moments, put_maps
from attnlab.retrofit.conversion.latents import put_latent
from attnlab.retrofit.conversion.sharing import merge_keys, merge_rotated_keys, merge_values, repeat_heads, tie
from attnlab.retrofit.conversion.targets import is_merged, is_rescored

_SHARES = (0.1, 0.25, 0.5, 0.75, 0.9)  # weights of the key error that are tried when tying keys and values


@dataclass(frozen=True)
class ConvertedLayer:
    """A layer with its new weights, and the squared error of its output relative to the output's variance."""

    layer: MultiHeadAttention
    error: float


def convert_layer(original: MultiHeadAttention, target: AttentionSpec, x: Tensor) -> ConvertedLayer:
    """Return a layer of another spec that approximates the original's output on tokens x (rows, tokens, width).

    If the spec does not change, the weights are copied bit for bit.
    """
    source = original.spec
    with torch.no_grad():
        wanted = original(x)
    if target == source:
        return ConvertedLayer(copy.deepcopy(original), 0.0)
    varies = wanted.double().flatten(0, 1).var(0, correction=0).sum() * x[..., 0].numel()
    found = []
    for layer in _candidates(original, target, x):
        if is_rescored(source, target):
            fit_scores(layer, original, x)
        left = fit_output(layer, x, wanted)
        found.append(ConvertedLayer(layer, left / max(float(varies), 1e-30)))
    return min(found, key=lambda one: one.error)


def _candidates(original: MultiHeadAttention, target: AttentionSpec, x: Tensor) -> Iterator[MultiHeadAttention]:
    """Yield layers of a spec with weights made from the original's, of which the best on real tokens is taken."""
    source, rotated = original.spec, isinstance(original.spec.position, Rope)
    if not is_merged(source, target):
        yield _copied(original, target)
        return
    moments, maps = Moments.of(x), HeadMaps.of(original)
    if target.compression is not None:
        layer = _copied(original, target)
        put_latent(layer, maps, moments, x)
        yield layer
        return
    maps = _merged(maps, moments, source, target)
    for share in _SHARES if target.sharing == "key-value" else (None,):
        layer = _copied(original, target)
        around = moments.around(mean=source.bias and not rotated)
        put_maps(layer, maps if share is None else tie(maps, around, share, rotated=rotated))
        yield layer


def _merged(maps: HeadMaps, moments: Moments, source: AttentionSpec, target: AttentionSpec) -> HeadMaps:
    """Return maps with as many key and value heads as the target has, and as wide."""
    count, rotated = target.num_key_value_heads, isinstance(source.position, Rope)
    if count > source.num_key_value_heads:
        maps = repeat_heads(maps, count)
    around = moments.around(mean=source.bias)
    if count < len(maps.key) or target.value_width < source.value_width:
        maps = merge_values(maps, around, count, target.value_width)
    if rotated and count < len(maps.key):
        return merge_rotated_keys(maps, moments.plain, count)
    if count < len(maps.key) or target.key_width < source.key_width:
        maps = merge_keys(maps, around, count, target.key_width)
    return maps


@torch.no_grad()
def _copied(original: MultiHeadAttention, target: AttentionSpec) -> MultiHeadAttention:
    """Return a new layer with the original's weights where it has the same ones; others start as the spec says."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        layer = make_layer(target)
    assert isinstance(layer, MultiHeadAttention)
    known = original.state_dict()
    for name, tensor in layer.state_dict().items():
        if name in known and known[name].shape == tensor.shape:
            tensor.copy_(known[name])
    return layer.eval()


@torch.no_grad()
def convert_layers(
    model: LanguageModel, targets: Mapping[int, AttentionSpec], tokens: Tensor
) -> Iterator[tuple[int, ConvertedLayer]]:
    """Yield each layer that has a target, converted on its input activations for tokens (rows, tokens).

    Every layer is fitted on the activations of the original model, regardless of what happens to earlier layers.
    """
    last = max(targets, default=-1)
    x = begin(model, tokens)
    for number, block in enumerate(blocks_of(model)):
        if number in targets:
            original = block.attention
            assert isinstance(original, MultiHeadAttention)
            with torch.enable_grad():
                made = convert_layer(original, targets[number], block.attention_norm(x).detach())
            yield number, made
        if number == last:
            return
        x = block(x)


def blocks_of(model: LanguageModel) -> list[TransformerBlock]:
    """Return the blocks of a model in their order."""
    return [block for block in model.stack.blocks if isinstance(block, TransformerBlock)]


def begin(model: LanguageModel, tokens: Tensor) -> Tensor:
    """Return what reaches the first block, (rows, tokens, model width)."""
    x: Tensor = model.embedding(tokens)
    return x if model.stack.positions is None else x + model.stack.place(tokens.shape[1])


def with_attention(block: TransformerBlock, layer: MultiHeadAttention) -> TransformerBlock:
    """Return a block that shares all but its attention with another."""
    twin = copy.copy(block)
    twin._modules = {**block._modules, "attention": layer}
    return twin


def with_layers(model: LanguageModel, layers: Mapping[int, MultiHeadAttention]) -> LanguageModel:
    """Return a model with some of its attention layers replaced; it shares all other weights with the original."""
    attention = list(model.spec.attention)
    state = model.state_dict()
    for number, layer in layers.items():
        attention[number] = layer.spec
        prefix = f"stack.blocks.{number}.attention."
        state = {name: tensor for name, tensor in state.items() if not name.startswith(prefix)}
        state |= {prefix + name: tensor for name, tensor in layer.state_dict().items()}
    changed = empty_model(model.spec.replace(attention=tuple(attention)))
    changed.load_state_dict(state, assign=True)
    return changed.eval()


def chosen_targets(targets: tuple[AttentionSpec, ...], layers: Iterable[int]) -> dict[int, AttentionSpec]:
    """Return the targets of some layers by their numbers."""
    return {number: targets[number] for number in layers}
