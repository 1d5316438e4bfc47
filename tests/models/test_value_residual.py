"""The values of the first layer in later layers: in the model, in decoding, in mixtures and under the lens."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnlab.attention import AttentionSpec, MultiHeadAttention
from attnlab.corpora import Batch
from attnlab.errors import SpecError
from attnlab.lens.heads.ablation import ablate
from attnlab.models import LanguageModel, ModelSpec, build_model

VOCABULARY, TOKENS, LAYERS = 13, 7, 3
CLOSE = {"rtol": 1e-9, "atol": 1e-11}


def make_model(variant: str = "value-residual", **changes: object) -> LanguageModel:
    spec = ModelSpec.build(
        "nano",
        vocabulary_size=VOCABULARY,
        variant=variant,
        num_layers=LAYERS,
        model_width=16,
        num_heads=4,
        context_length=TOKENS,
        **changes,
    )
    model = build_model(spec, seed=1).double().eval()
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return model


def draw(seed: int = 0) -> Tensor:
    return torch.randint(VOCABULARY, (2, TOKENS), generator=torch.Generator().manual_seed(seed))


def test_every_layer_gets_the_values_of_the_first() -> None:
    model = make_model()
    values = [f"blocks.{number}.attention.value" for number in range(LAYERS)]
    weights = [f"blocks.{number}.attention.weights" for number in range(LAYERS)]
    heads = [f"blocks.{number}.attention.heads" for number in range(LAYERS)]
    with torch.no_grad(), model.tap(*values, *weights, *heads) as seen:
        model(draw())
    for number in range(LAYERS):
        extras = model.stack.blocks[number].attention.extras
        mixed = extras["values_first_share"] * seen[values[0]] + extras["values_own_share"] * seen[values[number]]
        torch.testing.assert_close(seen[heads[number]], seen[weights[number]] @ mixed, **CLOSE)


def test_a_change_of_the_first_values_reaches_every_layer() -> None:
    model = make_model()
    names = [f"blocks.{number}.attention.heads" for number in range(LAYERS)]
    kept = {f"blocks.{number}.attention.in": torch.ones_like for number in range(1, LAYERS)}
    found = []
    for factor in (1, 2):
        replaced = {"blocks.0.attention.value": lambda value, factor=factor: factor * value}
        with torch.no_grad(), model.tap(*names, kept, replaced) as seen:
            model(draw())
        found.append([seen[name] for name in names])
    assert all(not torch.allclose(one, other) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize(
    "variant",
    [
        "value-residual",
        "softmax,value-residual,value-residual",
        "value-residual+gqa:2,value-residual,value-residual+gqa:2",
        "value-residual+linear,value-residual+window:3,value-residual",
    ],
)
def test_decoding_equals_the_whole(variant: str) -> None:
    model, tokens = make_model(variant), draw()
    cache = model.new_cache()
    with torch.no_grad():
        whole = model(tokens)
        parts = [model(tokens[:, place : place + 1], cache=cache) for place in range(TOKENS)]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, **CLOSE)


def test_the_first_layer_is_the_first_that_mixes_and_has_such_values() -> None:
    """Layers of another shape, and layers that do not mix, lend nothing."""
    with torch.no_grad():
        model, tokens = make_model("value-residual+gqa:2,value-residual,value-residual+gqa:2"), draw()
        names = [f"blocks.*.attention.{what}" for what in ("value", "heads", "weights")]
        with model.tap(*names) as seen:
            model(tokens)
        for number, lender in ((1, 1), (2, 0)):
            extras = model.stack.blocks[number].attention.extras
            path = f"blocks.{number}.attention"
            first, own = seen[f"blocks.{lender}.attention.value"], seen[f"{path}.value"]
            mixed = extras["values_first_share"] * first + extras["values_own_share"] * own
            mixed = mixed.repeat_interleave(4 // mixed.shape[1], 1)
            torch.testing.assert_close(seen[f"{path}.heads"], seen[f"{path}.weights"] @ mixed, **CLOSE)


def test_the_shares_of_every_layer_learn() -> None:
    model = make_model()
    torch.autograd.backward(model.loss(draw(), draw(1)))
    for block in model.stack.blocks:
        assert all(bool(block.attention.extras[name].grad) for name in ("values_first_share", "values_own_share"))


def test_an_encoder_and_a_decoder_have_first_layers_of_their_own() -> None:
    model = make_model(family="encoder-decoder")
    assert model.encoder is not None
    cache = model.new_cache()
    with torch.no_grad():
        whole = model(draw(), source=draw(1))
        parts = [
            model(draw()[:, place : place + 1], source=draw(1) if place == 0 else None, cache=cache)
            for place in range(TOKENS)
        ]
    torch.testing.assert_close(torch.cat(parts, dim=1), whole, **CLOSE)


def test_ablation_runs_later_layers_with_the_first_values() -> None:
    """Without a head as the taps compute it, and as `ablate` does."""
    model, tokens, targets = make_model(), draw(), draw(1)
    batch = Batch(tokens, targets)
    found = ablate(model, [batch])
    name = "blocks.1.attention.output"
    with torch.no_grad():
        with model.tap(name) as seen:
            model(tokens)
        mean = seen[name].mean((0, 1))
        with model.tap({name: lambda made: mean.expand_as(made)}):
            loss = model.loss(tokens, targets)
        plain = model.loss(tokens, targets)
    torch.testing.assert_close(found["blocks.1.attention"].importance.mean, float(loss - plain), rtol=1e-8, atol=1e-10)


def test_a_layer_alone_is_its_own_first() -> None:
    spec = AttentionSpec(model_width=8, num_heads=2, values="residual")
    layer = MultiHeadAttention(spec)
    plain = MultiHeadAttention(spec.replace(values=None))
    plain.load_state_dict({name: one for name, one in layer.state_dict().items() if not name.startswith("extras")})
    x = torch.randn(1, 5, 8)
    torch.testing.assert_close(layer(x), plain(x))
    assert spec.to_json().count("residual") == 1
    assert "values" not in plain.spec.to_json()


def test_a_value_that_is_the_key_cannot_be_mixed() -> None:
    with pytest.raises(SpecError, match="makes the key also the value") as caught:
        AttentionSpec(model_width=8, num_heads=2, values="residual", sharing="key-value")
    assert caught.value.nearest.values is None
