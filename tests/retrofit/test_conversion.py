"""Conversion without training: exact where it can be, better than guessing elsewhere, or refused."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from attnlab.attention import AttentionSpec, BiasedDot, MultiHeadAttention, Rope, Sigmoid
from attnlab.errors import AttnlabError
from attnlab.models import LanguageModel, ModelSpec, build_model
from attnlab.retrofit.conversion.converting import blocks_of, convert_layer, convert_layers, with_layers
from attnlab.retrofit.conversion.targets import target_layers

TOKENS = torch.randint(96, (16, 32), generator=torch.Generator().manual_seed(2))


def small(architecture: str, **changes: int | str | float) -> LanguageModel:
    shape: dict[str, object] = {"num_heads": 4, "model_width": 32, "context_length": 32, "initial_std": 0.3}
    spec = ModelSpec.build("pico", vocabulary_size=96, architecture=architecture, **{**shape, **changes})
    model = build_model(spec).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(0.0, 0.3, generator=torch.Generator().manual_seed(len(name)))
    return model


def converted(model: LanguageModel, name: str) -> LanguageModel:
    targets = dict(enumerate(target_layers(model.spec, name)))
    return with_layers(model, {number: one.layer for number, one in convert_layers(model, targets, TOKENS)})


def error(model: LanguageModel, name: str) -> float:
    """Return the largest error of a layer's output, relative to its variance."""
    targets = dict(enumerate(target_layers(model.spec, name)))
    return max(one.error for _, one in convert_layers(model, targets, TOKENS))


@torch.no_grad()
def assert_equal(one: LanguageModel, other: LanguageModel, tolerance: float) -> None:
    wanted = one(TOKENS)
    assert (other(TOKENS) - wanted).abs().max() <= tolerance * wanted.std()


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
def test_changing_nothing_keeps_every_bit(architecture: str) -> None:
    model = small(architecture)
    same = converted(model, "softmax")
    assert same.spec == model.spec
    for (name, mine), theirs in zip(model.state_dict().items(), same.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs), name
    assert torch.equal(model(TOKENS), same(TOKENS))


@torch.no_grad()
def share(model: LanguageModel, what: str) -> LanguageModel:
    """Give all heads the same keys and values, or each head its key as its value."""
    for block in model.stack.blocks:
        maps, spec = block.attention.projections, block.attention.spec
        for part in ("weight", "bias")[: 1 + spec.bias]:
            if what == "heads":
                for name in ("key", "value"):
                    tensor = getattr(maps[name], part).view(4, 8, -1)
                    tensor.copy_(tensor[:1].clone().expand_as(tensor))
            else:
                getattr(maps["value"], part).copy_(getattr(maps["key"], part))
    return model


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
@pytest.mark.parametrize(("what", "name"), [("heads", "mqa"), ("heads", "gqa:2"), ("tied", "tied-kv")])
def test_what_was_tied_before_is_merged_within_rounding(architecture: str, what: str, name: str) -> None:
    model = share(small(architecture), what)
    merged = converted(model, name)
    assert merged.num_parameters() < model.num_parameters()
    assert_equal(model, merged, 2e-5)


def test_more_key_heads_are_the_same_layer() -> None:
    model = small("llama", variant="gqa:2")
    assert_equal(model, converted(model, "gqa:4"), 1e-5)


def test_a_window_as_long_as_the_text_changes_nothing() -> None:
    model = small("gpt2", context_length=33)
    assert_equal(model, converted(model, "window:32"), 1e-5)


@torch.no_grad()
def mean_pooled(layer: MultiHeadAttention, target: AttentionSpec) -> MultiHeadAttention:
    """Merge heads by their mean, as Ainslie et al. 2023 start from."""
    found, width = MultiHeadAttention(target), layer.spec.key_width
    state = found.state_dict()
    for name, tensor in layer.state_dict().items():
        if state[name].shape == tensor.shape:
            state[name].copy_(tensor)
        else:
            heads = tensor.view(target.num_key_value_heads, -1, width, *tensor.shape[1:])
            state[name].copy_(heads.mean(1).reshape(state[name].shape))
    return found


def relative(made: Tensor, wanted: Tensor) -> float:
    return float((made - wanted).square().mean() / wanted.flatten(0, 1).var(0, correction=0).mean())


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
def test_least_squares_beats_the_mean_of_heads(architecture: str) -> None:
    model = small(architecture)
    layer = model.stack.blocks[0].attention
    target = target_layers(model.spec, "gqa:2")[0]
    x = torch.randn(16, 32, 32, generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        guessed = relative(mean_pooled(layer, target)(x), layer(x))
    assert convert_layer(layer, target, x).error < 0.7 * guessed


@pytest.mark.parametrize(
    ("architecture", "name", "most"),
    [
        ("gpt2", "tied-kv", 0.5),
        ("llama", "tied-kv", 0.5),
        ("gpt2", "gqa:2+tied-kv", 0.7),
        ("gpt2", "mla:32", 0.4),
        ("llama", "mla:48", 0.7),
        ("llama", "low-rank-value:6", 0.3),
        ("gpt2", "low-rank-key:6", 0.3),
        ("llama", "sigmoid", 0.6),
        ("gpt2", "softmax-sink", 0.05),
        ("gpt2", "linear", 0.9),
    ],
)
def test_what_is_lost_is_bounded(architecture: str, name: str, most: float) -> None:
    assert 0 < error(small(architecture), name) < most


def test_shared_heads_are_converted_too() -> None:
    model = small("llama", variant="gqa:2")
    for name in ("tied-kv", "mqa", "mla:24", "sigmoid", "window:8"):
        assert 0 < error(model, name) < 0.8, name


def test_a_wider_latent_loses_less() -> None:
    model = small("gpt2")
    assert error(model, "mla:48") < error(model, "mla:24") < error(model, "mla:8")


def test_another_normaliser_gets_a_temperature_and_a_bias() -> None:
    model = small("gpt2")
    layer = model.stack.blocks[0].attention
    target = target_layers(model.spec, "sigmoid")[0]
    assert (target.normaliser, target.score) == (Sigmoid(), BiasedDot())
    x = torch.randn(8, 32, 32, generator=torch.Generator().manual_seed(3))
    found = convert_layer(layer, target, x)
    plain = copy.deepcopy(found.layer)
    with torch.no_grad():
        plain.load_state_dict(layer.state_dict() | {"extras.bias": torch.zeros(4)})
        assert found.layer.extras["bias"].abs().min() > 0
        ratio = found.layer.projections["query"].weight / layer.projections["query"].weight
        assert torch.allclose(ratio.view(4, -1), ratio.view(4, -1)[:, :1], rtol=1e-4)
        assert found.error < 0.8 * relative(plain(x), layer(x))


def test_a_converted_model_generates_as_it_reads() -> None:
    """Caches of converted layers hold what the whole sequence gives."""
    for name in ("tied-kv", "mla:32", "sigmoid"):
        model = converted(small("llama"), name)
        cache = model.new_cache()
        with torch.no_grad():
            pieces = [model(TOKENS[:2, :20], cache=cache), model(TOKENS[:2, 20:], cache=cache)]
            assert (torch.cat(pieces, 1) - model(TOKENS[:2])).abs().max() < 2e-4


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("window:32", "hides nothing in a context of 32"),
        ("alibi", "changes the position"),
        ("bidirectional", "come later"),
        ("tied-qk", "no weights for tied-qk"),
        ("full-value", "no weights for full-value"),
        ("single-head", "no weights for single-head"),
        ("mla:64", "saves nothing"),
        ("mla+sigmoid", "changes more"),
        ("gqa:4", "changes nothing"),
        ("tied-kw", "no variant called"),
    ],
)
def test_what_cannot_be_converted_is_refused(name: str, words: str) -> None:
    with pytest.raises(AttnlabError, match=words) as refused:
        target_layers(small("gpt2").spec, name)
    assert refused.value.hint


@pytest.mark.parametrize("variant", ["cosine", "output-gate", "qk-norm"])
def test_keys_that_do_not_enter_linearly_are_not_merged(variant: str) -> None:
    spec = small("gpt2", variant=variant).spec
    with pytest.raises(AttnlabError, match="no weights for tied-kv"):
        target_layers(spec, "tied-kv")


def test_tied_heads_are_merged_into_fewer_tied_heads() -> None:
    model = small("gpt2", variant="tied-kv")
    assert 0 < error(model, "gqa:2") < 0.7
    assert all(spec.sharing == "key-value" for spec in converted(model, "gqa:2").spec.attention)


def test_rotated_keys_are_not_narrowed() -> None:
    spec = small("llama").spec
    assert isinstance(spec.attention[0].position, Rope)
    with pytest.raises(AttnlabError, match="rotated keys"):
        target_layers(spec, "low-rank-key:4")


@pytest.mark.parametrize("name", ["tied-kv", "mqa", "window:8", "sigmoid"])
def test_the_error_is_that_of_the_converted_layer(name: str) -> None:
    model = small("gpt2")
    x = torch.randn(16, 32, 32, generator=torch.Generator().manual_seed(3))
    original = blocks_of(model)[0].attention
    assert isinstance(original, MultiHeadAttention)
    made = convert_layer(original, target_layers(model.spec, name)[0], x)
    with torch.no_grad():
        wanted = original(x).double()
        left = (made.layer(x).double() - wanted).square().mean()
    assert made.error == pytest.approx(float(left / wanted.flatten(0, 1).var(0, correction=0).mean()), rel=1e-3)
    assert made.error > 0
