"""Parts that learn: their parameters belong to the layer, and every kernel differentiates them."""

from __future__ import annotations

import copy
from typing import ClassVar

import pytest
import torch
from torch import Tensor, nn

from attnlab.attention import (
    AttentionSpec,
    HeadOutput,
    Mask,
    Matched,
    MultiHeadAttention,
    Normaliser,
    Operator,
    Parameter,
    Part,
    Position,
    Projection,
    RandomSynthesizer,
    Score,
    Variant,
    Visibility,
)
from attnlab.attention.cache import Cache
from attnlab.attention.names import catalogue
from attnlab.attention.spec import borrowed
from attnlab.errors import InputError, SpecError
from attnlab.models import ModelSpec, build_model
from attnlab.models.spec import attention_layers
from support.attention import assert_conforms, make_inputs


class SoftmaxPower(Normaliser):
    kind = "test-softmax-power"
    equation = "e^s_j / (Σ e^s_l)^γ"
    learned: ClassVar = {"gamma": Parameter(initial=1.0)}

    def weights(self, scores: Tensor, visible: Tensor, gamma: Tensor) -> Tensor:
        scores = scores.masked_fill(~visible, -1e30)
        return torch.exp(scores - gamma * scores.logsumexp(-1, keepdim=True)) * visible


class LayerPower(SoftmaxPower):
    kind = "test-layer-power"
    learned: ClassVar = {"gamma": Parameter(initial=1.0, per="layer")}


class ModelPower(SoftmaxPower):
    kind = "test-model-power"
    learned: ClassVar = {"gamma": Parameter(initial=1.0, per="model")}


class Gain(Score):
    """A product in which every number of the key has a gain, and every head a shift."""

    kind = "test-gain"
    equation = "Σ g q k + b"

    def parameters(self, spec: AttentionSpec) -> dict[str, Parameter]:
        return {"gain": Parameter(initial=1.0, std=0.1, shape=(spec.key_width,)), "shift": Parameter()}

    def define(self, given: Matched, gain: Tensor, shift: Tensor) -> Tensor:
        query, key = given.vectors
        return (query * gain) @ key.mT + shift


class Salience(Score):
    """A product, and how much a key draws attention by itself, which the cache keeps."""

    kind = "test-salience"
    equation = "q·k + x_j·w"
    projected: ClassVar = {"salience": Projection(width=1, of="key")}

    def define(self, given: Matched, salience: Tensor) -> Tensor:
        query, key = given.vectors
        return query @ key.mT + salience.mT


class Slopes(Position):
    kind = "test-slopes"
    equation = "−e^a |i − j|"
    learned: ClassVar = {"logarithm": Parameter(initial=-1.0)}

    def bias(self, queries: Tensor, keys: Tensor, num_heads: int, logarithm: Tensor) -> Tensor:
        del num_heads
        return -logarithm.exp() * (queries[:, None] - keys).abs()


class Span(Mask):
    """A soft window whose width each head learns (arXiv 1905.07799)."""

    kind = "test-span"
    equation = "log m(i − j)"
    learned: ClassVar = {"span": Parameter(initial=4.0)}

    def bias(self, queries: Tensor, keys: Tensor, num_heads: int, span: Tensor) -> Tensor:
        del num_heads
        distance = (queries[:, None] - keys).abs()
        return torch.log(((span + 8 - distance) / 8).clamp(1e-6, 1))


class Decay(Operator):
    """A running sum that forgets, by its definition alone."""

    kind = "test-decay"
    equation = "Σ σ(a)^(i − j) q·k_j v_j"
    learned: ClassVar = {"rate": Parameter(initial=2.0)}

    def define(self, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility, rate: Tensor) -> Tensor:
        queries = torch.arange(visibility.num_queries, device=query.device) + visibility.query_start
        distance = queries[:, None] - torch.arange(visibility.num_keys, device=query.device)
        factor = torch.exp(distance.clamp(min=0) * nn.functional.logsigmoid(rate))
        return ((query @ key.mT) * factor * visibility.grid(query.device)) @ value


class Mixing(HeadOutput):
    """A gate from the token, and a mixture of the heads that the layer learns."""

    kind = "test-mixing"
    equation = "M σ(x w) o"
    projected: ClassVar = {"gate": Projection(width=1)}

    def parameters(self, spec: AttentionSpec) -> dict[str, Parameter]:
        return {"mix": Parameter(std=0.5, shape=(spec.num_heads, spec.num_heads), per="layer", decay=False)}

    def apply(self, heads: Tensor, gate: Tensor, mix: Tensor) -> Tensor:
        return torch.einsum("hg,bgtd->bhtd", mix, heads * torch.sigmoid(gate))


LEARNED: dict[str, Part] = {
    part.kind: part
    for part in (SoftmaxPower(), LayerPower(), ModelPower(), Gain(), Salience(), Slopes(), Span(), Decay(), Mixing())
}


def spec_with(part: Part, **fields: object) -> AttentionSpec:
    field = part.family.replace(" ", "_")
    return AttentionSpec(**{"model_width": 12, "num_heads": 3, field: part, **fields})


@pytest.mark.parametrize("kind", LEARNED)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_kernel_differentiates_what_a_part_learns(kind: str, dtype: torch.dtype) -> None:
    spec = spec_with(LEARNED[kind])
    assert spec.parameters or spec.projections
    assert_conforms(make_inputs(spec, 70), spec, dtype)


@pytest.mark.parametrize("kind", [kind for kind in LEARNED if kind not in ("test-decay", "test-span")])
def test_masks_padding_and_groups(kind: str) -> None:
    spec = spec_with(LEARNED[kind], num_heads=6, num_key_value_heads=3, mask=Mask(window=5))
    padding = torch.ones(2, 20, dtype=torch.bool)
    padding[1, :6] = False
    assert_conforms(make_inputs(spec, 20), spec, torch.float64, padding=padding)


@pytest.mark.parametrize("kind", LEARNED)
def test_training_moves_what_a_part_learns(kind: str) -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(spec_with(LEARNED[kind]))
    learned = ("extras.", "token_maps.")
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items() if name.startswith(learned)}
    assert {name.removeprefix("extras.") for name in before if name.startswith("extras.")} == set(layer.spec.parameters)
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    with torch.no_grad():
        for map_ in layer.projections.values():
            map_.weight.mul_(20)  # away from attention that hardly looks
    x = torch.randn(2, 9, 12)
    layer(x).square().sum().backward()
    optimizer.step()
    assert [name for name in before if torch.equal(layer.state_dict()[name], before[name])] == []


@pytest.mark.parametrize("kind", LEARNED)
def test_decoding_equals_the_whole(kind: str) -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(spec_with(LEARNED[kind])).double()
    x = torch.randn(2, 9, 12, dtype=torch.float64)
    with torch.no_grad():
        whole, cache = layer(x), Cache()
        pieces = [layer(x[:, start : start + 2], cache=cache) for start in range(0, 9, 2)]
    torch.testing.assert_close(torch.cat(pieces, 1), whole)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor")  # PyTorch's own, where a graph breaks
@pytest.mark.parametrize("kind", ["test-softmax-power", "test-slopes", "test-mixing"])
def test_compiled_equals_eager(kind: str) -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(spec_with(LEARNED[kind]))
    x = torch.randn(2, 9, 12)
    compiled = torch.compile(layer, backend="aot_eager")
    found = []
    for run in (layer, compiled):
        layer.zero_grad()
        run(x).square().sum().backward()
        found.append({name: parameter.grad.clone() for name, parameter in layer.named_parameters()})
    torch.testing.assert_close(found[0], found[1])


def test_a_parameter_of_the_model_is_one_tensor() -> None:
    spec = ModelSpec.build("nano", vocabulary_size=16, num_layers=3, model_width=12, num_heads=3)
    layers = tuple(one.replace(normaliser=ModelPower()) for one in spec.attention)
    assert borrowed(layers) == [frozenset(), {"normaliser_gamma"}, {"normaliser_gamma"}]
    model = build_model(spec.replace(attention=layers))
    names = [name for name, _ in model.named_parameters() if "gamma" in name]
    assert names == ["stack.blocks.0.attention.extras.normaliser_gamma"]
    assert names == [name for name in model.state_dict() if "gamma" in name]
    twin = copy.deepcopy(model)
    for one in (model, twin):
        found = [block.attention.learned(torch.zeros(1, 1, 12))["normaliser_gamma"] for block in one.stack.blocks]
        assert all(tensor is one.get_parameter(names[0]) for tensor in found)
    assert twin.stack.blocks[1].attention.lenders["normaliser_gamma"] is twin.stack.blocks[0].attention


OUTSIDE = nn.Parameter(torch.ones(3, 1, 1))


class Undeclared(SoftmaxPower):
    kind = "test-undeclared"
    learned: ClassVar = {}

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return super().weights(scores, visible, OUTSIDE)


class Detached(SoftmaxPower):
    kind = "test-detached"

    def weights(self, scores: Tensor, visible: Tensor, gamma: Tensor) -> Tensor:
        return super().weights(scores, visible, gamma.detach())


class Unnamed(SoftmaxPower):
    kind = "test-unnamed"

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return super().weights(scores, visible, torch.ones(()))


class Misshapen(Normaliser):
    kind = "test-misshapen"
    equation = "Σ s"

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return (scores * visible).sum(-1)


@pytest.mark.parametrize(
    ("part", "reason"),
    [
        (Undeclared(), "uses a tensor that requires a gradient and that it does not declare"),
        (Detached(), "declares 'gamma', and its equation gives it no gradient"),
        (Unnamed(), "unexpected keyword argument 'gamma'"),
        (Misshapen(), r"gave \(1, 3, 3\), not \(1, 3, 3, 3\)"),
    ],
    ids=lambda value: value.kind if isinstance(value, Part) else None,
)
def test_what_would_not_be_learned_is_refused(part: Part, reason: str) -> None:
    with pytest.raises(SpecError, match=reason):
        MultiHeadAttention(spec_with(part))


def test_another_sequence_is_projected_once_and_kept() -> None:
    torch.manual_seed(0)
    layer = MultiHeadAttention(spec_with(Salience(), source="cross", mask=Mask(causal=False))).double()
    x, source = torch.randn(2, 4, 12, dtype=torch.float64), torch.randn(2, 7, 12, dtype=torch.float64)
    with torch.no_grad():
        whole, cache = layer(x, source), Cache()
        pieces = [layer(x[:, :1], source, cache=cache), *(layer(x[:, i : i + 1], cache=cache) for i in range(1, 4))]
    torch.testing.assert_close(torch.cat(pieces, 1), whole)


class OwnTable(RandomSynthesizer):
    kind = "test-table"
    variants = ()


def test_a_short_context_is_long_enough_to_be_built() -> None:
    layer = MultiHeadAttention(spec_with(OwnTable(), context_length=2))
    assert layer(torch.randn(1, 2, 12)).shape == (1, 2, 12)


def test_an_encoder_keeps_the_kind_of_its_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalogue._known, "test-soft", Variant("test-soft", "A soft window.", {"mask": Span()}))
    base = ModelSpec.build("nano", vocabulary_size=16, num_layers=2, model_width=12, num_heads=3)
    wide = attention_layers("test-soft", 2, 8, base.attention[0].replace(mask=Mask(causal=False)), base.position)
    assert all(isinstance(spec.mask, Span) and not spec.mask.causal for spec in wide)


def test_a_missing_parameter_is_named() -> None:
    spec = spec_with(SoftmaxPower())
    inputs = make_inputs(spec, 4)
    inputs.extras.clear()
    with pytest.raises(InputError, match="needs its 'gamma', and it is missing"):
        assert_conforms(inputs, spec, torch.float64)
