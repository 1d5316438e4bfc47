"""The maps are those of the reference for every variant, and looking at a model leaves no trace on it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnlab.attention import DecoupledRope, Matched, MultiHeadAttention, Rope, Visibility, reference, variants
from attnlab.attention.functional import by_maps, combined
from attnlab.errors import InputError, UnsupportedError
from attnlab.lens import MEASURES, Inputs, LayerMaps, attention_maps, look, places
from attnlab.models import LanguageModel, ModelSpec, build_model

NAMES = [variant.name for variant in variants()]
MIXED = ["window:3*2,softmax", "gqa:2,(linear,window:3),softmax"]
SYMBOLS, TOKENS, CONTEXT = 11, 20, 24


def make_model(variant: str = "softmax", **changes: object) -> LanguageModel:
    """A small model with weights so large that its attention is far from even."""
    shape = {"num_layers": 2, "model_width": 16, "num_heads": 4, "context_length": CONTEXT, **changes}
    family = "encoder" if variant == "bidirectional" else "decoder"
    spec = ModelSpec.build("nano", vocabulary_size=SYMBOLS, variant=variant, **{"family": family, **shape})
    model = build_model(spec)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return model.eval()


def some_tokens(batch: int = 3, length: int = TOKENS) -> Tensor:
    return torch.randint(0, SYMBOLS, (batch, length))


@torch.no_grad()
def layer_inputs(model: LanguageModel, tokens: Tensor) -> list[tuple[MultiHeadAttention, Tensor]]:
    """Each attention layer with what goes into it, by the definition of the block."""
    x = model.embedding(tokens)
    if model.stack.positions is not None:
        x = x + model.stack.positions.weight[: tokens.shape[1]]
    found = []
    for block in model.stack.blocks:
        found.append((block.attention, block.attention_norm(x)))
        x = block(x)
    return found


@pytest.mark.parametrize("name", [*NAMES, *MIXED])
def test_weights_follow_from_the_keys_by_the_reference(name: str) -> None:
    model, tokens = make_model(name, num_layers=5 if name in MIXED else 2), some_tokens()
    maps = attention_maps(model, tokens)
    assert len(maps) == model.spec.num_layers
    for (layer, x), found in zip(layer_inputs(model, tokens), maps, strict=True):
        spec = layer.spec
        visibility = Visibility(spec.mask, TOKENS, TOKENS)
        assert torch.equal(found.visible, visibility.grid()[0, 0])
        assert (found.keys is not None) == spec.score.projects_key
        if not spec.has_map:
            assert found.weights is None
            continue
        assert found.weights is not None
        query = None
        if spec.score.projects_query:
            query = x if spec.sharing == "identity" else layer.projections["query"](x)
            query = query.view(3, TOKENS, spec.num_heads, spec.key_width).transpose(1, 2)
        keys = found.keys
        if isinstance(spec.position, Rope):
            query, keys = spec.position.rotate(query, 0), spec.position.rotate(keys, 0)
        if isinstance(spec.position, DecoupledRope):  # whose shared key is rotated as it is made
            query = spec.position.rotate(query, 0)
        given = Matched(query, keys, TOKENS, TOKENS, 0, layer.learned(x))
        maps = [reference.weights(one, spec.one_map, visibility, x) for one in by_maps(given, spec)]
        wanted = combined(maps, spec, given.extras).expand(3, -1, -1, -1)
        assert found.weights.shape == (3, spec.num_heads, TOKENS, TOKENS)
        torch.testing.assert_close(found.weights, wanted, rtol=1e-5, atol=1e-6)
        assert not found.weights.requires_grad
        # They are no accident of even weights, and what is masked is exactly 0.
        assert found.weights[..., -1, -8:].std() > 1e-4 or name == "synthesizer-random"
        assert (found.weights[..., ~found.visible] == 0).all()


@pytest.mark.parametrize("name", ["softmax", "sigmoid", "rope", "gqa", "low-rank-value", "window", "prefix"])
def test_weights_make_the_output(name: str) -> None:
    """The kernel that the model really uses gives what the map says, through the layer's own values."""
    model, tokens = make_model(name), some_tokens()
    for (layer, x), found in zip(layer_inputs(model, tokens), attention_maps(model, tokens), strict=True):
        spec = layer.spec
        value = layer.projections["value"](x).view(3, TOKENS, spec.num_key_value_heads, spec.value_width)
        value = value.transpose(1, 2).repeat_interleave(spec.group_size, 1)
        joined = (found.map @ value).transpose(1, 2).flatten(2)
        torch.testing.assert_close(layer.output(joined), layer(x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["softmax", "sigmoid", "linear", "tied-kv", "synthesizer-random"])
def test_looking_changes_nothing(name: str) -> None:
    model, tokens = make_model(name, dropout=0.2 if name == "softmax" else 0.0), some_tokens()
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    logits = model(tokens)
    random_state = torch.get_rng_state()
    during: list[Tensor] = []
    handle = model.stack.register_forward_hook(lambda _, __, output: during.append(output))
    model.train()
    model.stack.blocks[1].mlp.eval()
    flags = [module.training for module in model.modules()]
    maps = attention_maps(model, tokens)
    assert [module.training for module in model.modules()] == flags
    assert torch.equal(torch.get_rng_state(), random_state)
    assert not any(module._forward_hooks for block in model.stack.blocks for module in block.modules())
    handle.remove()
    model.eval()
    assert torch.equal(during[0], model.hidden(tokens)), "what the model computes while it is looked at"
    assert torch.equal(model(tokens), logits)
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state_dict().items())
    again = attention_maps(model, tokens)  # set to evaluate already: the same, so dropout had no part
    for one, other in zip(maps, again, strict=True):
        assert (one.weights is None and other.weights is None) or torch.equal(one.map, other.map)
    assert torch.is_grad_enabled()


def test_a_failure_leaves_nothing_behind() -> None:
    model = make_model().train()

    def fail(_: int, __: LayerMaps) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        look(model, some_tokens(), fail)
    assert not any(module._forward_hooks for module in model.modules())
    assert all(module.training for module in model.modules())
    assert torch.is_grad_enabled()


def test_layers_may_differ() -> None:
    first, second = attention_maps(make_model("single-head,linear"), some_tokens())
    assert first.map.shape == (3, 1, TOKENS, TOKENS)
    assert second.weights is None
    with pytest.raises(UnsupportedError, match="no attention map"):
        _ = second.shares


def test_padding_equals_cutting() -> None:
    model, tokens = make_model("sigmoid"), some_tokens()
    padding = torch.ones_like(tokens, dtype=torch.bool)
    padding[:, 15:] = False
    for padded, cut in zip(
        attention_maps(model, Inputs(tokens, padding)), attention_maps(model, tokens[:, :15]), strict=True
    ):
        torch.testing.assert_close(padded.map[..., :15, :15], cut.map, rtol=1e-5, atol=1e-6)
        assert (padded.map[..., 15:] == 0).all()
        assert torch.equal(padded.pairs[:, :, :15, :15], cut.pairs.expand(3, 1, 15, 15))
        assert (padded.num_visible[..., 15:] == 0).all(), "what is padding looks at nothing"


def test_an_encoder_decoder_shows_the_decoder() -> None:
    model, tokens = make_model(family="encoder-decoder"), some_tokens(2, 6)
    source = some_tokens(2, 9)
    inputs = Inputs(tokens, source=source, source_padding=torch.ones_like(source, dtype=torch.bool))
    maps = attention_maps(model, inputs)
    assert [layer.map.shape for layer in maps] == [(2, 4, 6, 6)] * 2
    with pytest.raises(InputError, match="other sequence"):
        attention_maps(model, tokens)


@torch.no_grad()
def test_an_encoder_decoder_shows_all_three_places() -> None:
    model, tokens, source = make_model(family="encoder-decoder"), some_tokens(2, 6), some_tokens(2, 9)
    padding = torch.ones_like(source, dtype=torch.bool)
    padding[1, 5:] = False
    inputs = Inputs(tokens, source=source, source_padding=padding)
    assert places(model) == ("encoder", "self", "cross")
    assert places(make_model()) == ("self",)
    encoder, cross = (attention_maps(model, inputs, of=place) for place in ("encoder", "cross"))
    assert [layer.map.shape for layer in encoder] == [(2, 4, 9, 9)] * 2
    assert [layer.map.shape for layer in cross] == [(2, 4, 6, 9)] * 2
    assert all((layer.map[1, ..., 5:] == 0).all() for layer in (*encoder, *cross))
    assert cross[0].num_visible.tolist() == [[[9] * 6], [[5] * 6]], "every query sees what is real of the source"
    assert encoder[0].num_visible.tolist() == [[[9] * 9], [[5] * 5 + [0] * 4]]
    assert MEASURES["row mass"](cross[0]).tolist() == pytest.approx([1] * 4)
    # By the definition of the block: the first layer's look at the encoder's result.
    memory, block = model.encoder(model.embedding(source), padding=padding), model.stack.blocks[0]
    x = model.embedding(tokens) + model.stack.positions.weight[:6]
    x = x + block.attention(block.attention_norm(x))
    layer = block.cross_attention
    query = layer.projections["query"](block.cross_norm(x)).view(2, 6, 4, 4).transpose(1, 2)
    key = layer.projections["key"](memory).view(2, 9, 4, 4).transpose(1, 2)
    scores = (query @ key.transpose(-1, -2) / 2).masked_fill(~padding[:, None, None], -torch.inf)
    torch.testing.assert_close(cross[0].map, scores.softmax(-1), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(cross[0].keys, key)
    assert not any(module._forward_hooks for module in model.modules())


def test_a_place_that_is_not_there() -> None:
    with pytest.raises(InputError, match="no attention called 'cross'"):
        attention_maps(make_model(), some_tokens(), of="cross")


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (torch.zeros(2, 0, dtype=torch.long), "hold none"),
        (torch.full((1, 4), SYMBOLS), f"between {SYMBOLS} and {SYMBOLS}"),
        (torch.full((1, 4), -1), "between -1 and -1"),
        (torch.zeros(4, dtype=torch.long), "not integers"),
        (torch.zeros(1, CONTEXT + 1, dtype=torch.long), "do not fit"),
    ],
)
def test_bad_tokens(tokens: Tensor, message: str) -> None:
    model = make_model()
    with pytest.raises(InputError, match=message) as caught:
        attention_maps(model, tokens)
    assert caught.value.hint
    assert not any(module._forward_hooks for module in model.modules())
