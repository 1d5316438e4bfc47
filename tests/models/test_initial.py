"""How weights begin: the same bits for the same seed, shared between variants, as wide as the depth says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab.attention import variants
from attnlab.models import LanguageModel, ModelSpec, build_model
from attnlab.models.meta import on_meta

TINY: dict[str, Any] = {
    "vocabulary_size": 13,
    "num_layers": 2,
    "model_width": 16,
    "num_heads": 2,
    "context_length": 8,
}
OTHERS = [one.name for one in variants() if one.name not in {"softmax", "bidirectional"}]


def weights(seed: int = 0, **changes: Any) -> dict[str, Tensor]:
    return dict(build_model(ModelSpec.build(**{**TINY, **changes}), seed).named_parameters())


def differing(one: dict[str, Tensor], other: dict[str, Tensor]) -> set[str]:
    """The names in both, of one shape, whose bits differ."""
    common = {name for name in one.keys() & other.keys() if one[name].shape == other[name].shape}
    assert common
    return {name for name in common if not torch.equal(one[name], other[name])}


@pytest.mark.parametrize("family", ["decoder", "encoder", "encoder-decoder"])
@pytest.mark.parametrize("style", ["gpt2", "fast"])
def test_the_same_seed_gives_the_same_bits(style: str, family: str) -> None:
    first = weights(5, architecture=style, family=family)
    torch.manual_seed(99)  # nothing that others draw matters
    again = weights(5, architecture=style, family=family)
    assert first.keys() == again.keys()
    assert differing(first, again) == set()
    drawn = {name for name, tensor in first.items() if len(tensor.unique()) > 1}
    assert differing(first, weights(6, architecture=style, family=family)) == drawn


def test_the_bits_are_these() -> None:
    """A change of how weights are drawn would make old runs impossible to repeat."""
    tensor = weights(7)["embedding.weight"]
    expected = torch.Generator().manual_seed(5309662420761774277)
    assert torch.equal(tensor, torch.empty(13, 16).normal_(0, 0.02, generator=expected))


@pytest.mark.parametrize("name", OTHERS)
def test_variants_begin_alike_wherever_shapes_agree(name: str) -> None:
    base, own = weights(3), weights(3, variant=name)
    assert differing(base, own) == set()
    blocks = {n for n in own if ".mlp." in n or "norm." in n} | {"embedding.weight"}
    assert blocks <= base.keys() & own.keys()


def test_no_two_parameters_are_alike() -> None:
    drawn = [tensor for tensor in weights(1, family="encoder-decoder").values() if len(tensor.unique()) > 1]
    starts = {tuple(tensor.flatten()[:16].tolist()) for tensor in drawn}
    assert len(starts) == len(drawn)


@pytest.mark.parametrize("layers", [1, 3, 8])
def test_outputs_are_scaled_by_the_depth(layers: int) -> None:
    found = weights(num_layers=layers, model_width=128, context_length=128, vocabulary_size=100)
    for name, tensor in found.items():
        if name.endswith("bias"):
            assert not tensor.any()
        elif "norm" in name:
            assert (tensor == 1).all()
        else:
            outputs = name.endswith(("attention.output.weight", "mlp.narrow.weight"))
            std = 0.02 / (2 * layers) ** 0.5 if outputs else 0.02
            assert tensor.std().item() == pytest.approx(std, rel=0.05), name
            assert tensor.mean().abs() < 5 * std / tensor.numel() ** 0.5, name


def test_outputs_that_begin_at_zero() -> None:
    found = weights(architecture="fast", family="encoder-decoder")
    zero = {name for name, tensor in found.items() if not tensor.any()}
    assert zero == {name for name in found if name.endswith(("attention.output.weight", "mlp.narrow.weight"))}
    assert len(zero) == 2 * 2 + 2 * 3


def test_a_scores_own_parameters_begin_as_it_says() -> None:
    learned = weights(variant="cosine-learned")["stack.blocks.1.attention.extras.log_temperature"]
    torch.testing.assert_close(learned.exp(), torch.full((2,), 8**-0.5))
    dense = weights(variant="synthesizer-dense")
    assert not dense["stack.blocks.0.attention.extras.place_bias"].any()
    table = weights(variant="synthesizer-random", context_length=64)["stack.blocks.0.attention.extras.table"]
    assert table.std().item() == pytest.approx(0.02, rel=0.05)


def test_a_model_of_another_device_or_type_begins_alike() -> None:
    """Numbers are drawn on the CPU whatever the device: here the one that is always there."""
    spec = ModelSpec.build(**TINY)
    assert differing(dict(build_model(spec, 2, torch.device("cpu")).named_parameters()), weights(2)) == set()


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("gpt2", 124_439_808), ("gpt2-medium", 354_823_168), ("gpt2-large", 774_030_080), ("gpt2-xl", 1_557_611_200)],
)
def test_gpt2_has_as_many_parameters_as_published(name: str, parameters: int) -> None:
    with on_meta():
        model = LanguageModel(ModelSpec.build(name, vocabulary_size=50257))
    assert model.num_parameters() == parameters
    assert {parameter.device.type for parameter in model.parameters()} == {"meta"}
