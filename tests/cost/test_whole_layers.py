"""The cost of whole layers of one's own: parameters and cache exactly, FLOPs as PyTorch counts them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from attnlab.attention import add_layer, variant
from attnlab.cost import Question, attention_cost, estimate, model_cost, named_tensors, per_head, tabulate
from attnlab.errors import UnsupportedError
from attnlab.models import ModelSpec, build_model
from support.layers import ConvGate, sound_layers


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with sound_layers():
        yield


def spec(name: str) -> ModelSpec:
    shape = {"num_layers": 2, "model_width": 16, "num_heads": 2, "context_length": 8}
    return ModelSpec.build("nano", vocabulary_size=11, variant=name, **shape)


@pytest.mark.parametrize("name", ["conv-gate", "softmax,fading-mean", "memory"])
def test_parameters_are_those_of_the_model(name: str) -> None:
    model = build_model(spec(name))
    real = [(key, tuple(one.shape)) for key, one in model.named_parameters()]
    assert [(one.name, one.shape) for one in named_tensors(spec(name))] == real
    assert model_cost(spec(name)).parameters == model.num_parameters()


def test_flops_are_counted() -> None:
    width, tokens, kernel = 16, 8, 3
    cost = attention_cost(variant("conv-gate").spec(width, 2), batch=2, queries=tokens)
    assert cost.kernel == "module"
    assert cost.forward_flops == 2 * 2 * tokens * (2 * width**2 + width * kernel)
    assert cost.backward_flops >= 2 * 2 * 2 * tokens * 2 * width**2
    assert cost.part("layer").activation_bytes > 0
    decoding = attention_cost(variant("conv-gate").spec(width, 2), queries=1, keys=tokens)
    assert decoding.forward_flops == cost.forward_flops // 2  # all tokens again
    stepping = attention_cost(variant("fading-mean").spec(width, 2), queries=1, keys=tokens)
    assert stepping.forward_flops == 2 * width**2


def test_the_cache_is_that_of_the_layer() -> None:
    for name, growing in (("conv-gate", True), ("fading-mean", False)):
        cost = attention_cost(variant(name).spec(16, 2), batch=3, queries=8)
        assert cost.cache_bytes(0) == 0
        assert cost.cache_bytes(8) == 3 * 16 * 4 * (8 if growing else 1)
        assert cost.cache_bytes_per_token == (16 * 4 if growing else 0)


class OnNumbers(ConvGate):
    """A convolution whose steps depend on the numbers."""

    def forward(self, x: Tensor) -> Tensor:
        made = super().forward(x)
        return made if float(x.detach().abs().max()) > -1 else torch.zeros_like(made)


def test_a_layer_that_needs_numbers_gets_some() -> None:
    add_layer("on-numbers", OnNumbers)
    costs = [attention_cost(variant(name).spec(16, 2), batch=5, queries=8) for name in ("conv-gate", "on-numbers")]
    assert costs[1].forward_flops == costs[0].forward_flops
    assert costs[1].activation_bytes == costs[0].activation_bytes


def test_a_change_of_the_layer_is_the_variant() -> None:
    changed = Question(size="nano", layer={"kind": "conv-gate", "kernel": 5}).model()
    assert changed.attention == Question(size="nano", variant="conv-gate:5").model().attention


def test_the_whole_estimate_and_its_words() -> None:
    found = estimate("nano", variant="softmax,conv-gate", vocabulary_size=11, batch_size=2)
    assert found.memory.peak > found.memory.activations > 0
    assert found.decoding is not None
    assert found.decoding.flops > 0
    assert found.as_dict()["kernels"] == ["fused", "module"]
    text = str(tabulate(["nano"], ["conv-gate"], sweep="context"))
    assert "The FLOPs of conv-gate(kernel=3) are counted by running the module; its memory is estimated." in text
    assert "Decoding computes all tokens again in conv-gate(kernel=3)." in text
    with pytest.raises(UnsupportedError, match="has no heads whose maps can be told apart"):
        per_head(estimate("nano", variant="conv-gate"))
