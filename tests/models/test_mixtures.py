"""Models whose layers differ: specs, caches, generation, and what only some of the layers share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from attnlab.attention import Mask, Normaliser, Parameter, Variant, add_variant
from attnlab.attention.names import catalogue
from attnlab.attention.parts import Part
from attnlab.attention.spec import borrowed
from attnlab.cost import model_cost
from attnlab.errors import SpecError
from attnlab.models import LanguageModel, ModelSpec, Sampling, build_model, generate

CONTEXT, LAYERS = 12, 5
MIXED = [
    "window:3*2,softmax",
    "softmax,(linear),softmax",
    "gqa:2,linear,window:4+gqa:1",
    "softmax,(tied-kv,cosine-learned),low-rank-value:2",
    "linear,(window:3,synthesizer-dense,output-gate)",
]


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    names, parts = dict(catalogue._known), dict(Part._known)
    yield
    for known, before in ((catalogue._known, names), (Part._known, parts)):
        known.clear()
        known.update(before)


def spec_of(variant: str, **changes: Any) -> ModelSpec:
    shape = {"num_layers": LAYERS, "model_width": 16, "num_heads": 4, "context_length": CONTEXT, **changes}
    return ModelSpec.build("nano", vocabulary_size=23, variant=variant, **shape)


def model_of(spec: ModelSpec) -> LanguageModel:
    """Return a model in float64 in which no choice of a token is close."""
    model = build_model(spec, seed=3).double().eval()
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.3)
    return model


def test_each_layer_has_its_variant() -> None:
    spec = spec_of("softmax,(window:3,linear),gqa:2")
    assert [one.mask.window for one in spec.attention] == [None, 3, None, 3, None]
    assert [one.operator is not None for one in spec.attention] == [False, False, True, False, False]
    assert [one.num_key_value_heads for one in spec.attention] == [4, 4, 4, 4, 2]
    assert ModelSpec.model_validate_json(spec.model_dump_json()) == spec
    encoder = spec_of("softmax,(window:3),gqa:2", family="encoder")
    assert encoder.attention[1].mask == Mask(causal=False, window=3)


def test_what_the_model_cannot_have_is_refused() -> None:
    with pytest.raises(SpecError, match="lists 3 layers, and the model has 2"):
        spec_of("window*2,softmax", num_layers=2)
    with pytest.raises(SpecError, match="4 query heads cannot share 3 key and value heads evenly") as caught:
        spec_of("softmax*2,gqa:3")
    assert "num_key_value_heads=2" in str(caught.value.hint)


@pytest.mark.parametrize("name", MIXED)
@torch.no_grad()
def test_decoding_with_a_cache_equals_the_whole(name: str) -> None:
    model = model_of(spec_of(name))
    tokens = torch.randint(23, (2, CONTEXT), generator=torch.Generator().manual_seed(1))
    whole, cache, start = model(tokens), model.new_cache(), 0
    for length in (4, 1, 1, 3, 1, 2):
        found = model(tokens[:, start : start + length], cache=cache)
        torch.testing.assert_close(found, whole[:, start : start + length], rtol=1e-9, atol=1e-9)
        start += length


@pytest.mark.parametrize("name", MIXED)
def test_the_cache_of_each_layer_is_what_is_counted(name: str) -> None:
    spec = spec_of(name)
    model, cost = model_of(spec), model_cost(spec, batch=2, bytes_per_number=8)
    cache = model.new_cache()
    with torch.no_grad():
        for place in range(9):
            model(torch.full((2, 1), place), cache=cache)
    found = [layer.own.nbytes for layer in cache.layers]
    assert found == [layer.cache_bytes(9) for layer in cost.attention]
    assert sum(found) == cost.cache_bytes(9)
    windows = [(one.mask.window, layer) for one, layer in zip(spec.attention, cache.layers, strict=True)]
    held = [(window, tensor.shape[2]) for window, layer in windows for tensor in layer.own.held.values()]
    assert all(tokens == (window or 9) for window, tokens in held)


@pytest.mark.parametrize("name", MIXED)
@torch.no_grad()
def test_generation_equals_reading_everything_again(name: str) -> None:
    model = model_of(spec_of(name))
    text = [1, 2, 3]
    for _ in range(CONTEXT - 3):
        text.append(int(model(torch.tensor([text]))[0, -1].argmax()))
    assert generate(model, [[1, 2, 3]], CONTEXT - 3, Sampling(temperature=0)) == [text[3:]]


class OnePower(Normaliser):
    """A softmax whose exponent all layers share."""

    kind = "test-one-power"
    equation = "e^s_j / (Σ e^s_l)^γ"
    learned: ClassVar = {"gamma": Parameter(initial=1.0, per="model")}

    def weights(self, scores: Tensor, visible: Tensor, gamma: Tensor) -> Tensor:
        scores = scores.masked_fill(~visible, -1e30)
        return torch.exp(scores - gamma * scores.logsumexp(-1, keepdim=True)) * visible


class OtherPower(OnePower):
    kind = "test-other-power"


def test_what_belongs_to_the_model_is_shared_by_the_layers_that_have_it() -> None:
    for part in (OnePower, OtherPower):
        Part._known.setdefault((part.family, part.kind), part)
        add_variant(Variant(part.kind, "An exponent for the model.", {"normaliser": part.kind}))
    spec = spec_of("softmax,(test-one-power,test-other-power)", num_layers=6)
    name = "normaliser_gamma"
    assert borrowed(spec.attention) == [set(), set(), set(), {name}, {name}, {name}]
    model = build_model(spec)
    own = [layer for layer, block in enumerate(model.stack.blocks) if name in block.attention.extras]
    assert own == [1, 2], "each kind of part has one of its own, in the first layer that has it"
    used = [block.attention.learned(torch.zeros(1, 1, 16)).get(name) for block in model.stack.blocks]
    assert used[0] is None
    assert used[1] is used[3] is used[5]
    assert used[2] is used[4]
    assert used[1] is not used[2]
    assert model_cost(spec).parameters == model.num_parameters()
    model.loss(torch.ones(1, 8, dtype=torch.long), torch.ones(1, 8, dtype=torch.long)).backward()
    assert all(tensor is not None and tensor.grad is not None for tensor in used[1:3])
