"""The predicted cost of every variant against real tensors, and against PyTorch's own FLOP counter.

That counter sees nothing inside fused attention on a CPU, so it watches the reference: the layer with its weights asked
for. An operator has no weights; there its definition takes the place of its kernel.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from attnlab import cost
from attnlab.attention import (
    AttentionSpec,
    Cache,
    InnerProduct,
    LinearAttention,
    Mask,
    Matched,
    MultiHeadAttention,
    Operator,
    Recurrence,
    Rope,
    Score,
    Visibility,
    variant,
    variants,
)
from attnlab.attention.groups import repeated
from attnlab.attention.parts import Part
from attnlab.cost import PartCost, attention_cost
from attnlab.errors import InputError, SpecError
from support.counting import counted, saved_bytes

WIDTH, HEADS, CONTEXT = 16, 4, 160
NAMES = [v.name for v in variants()]
SHAPES = [(2, 70), (3, 64), (1, 7)]  # batch and tokens
JOINED = [
    "tied-kv+gqa+rope",
    "identity+cosine",
    "identity+softmax-plus-one",
    "softmax-plus-one+bidirectional",
    "single-head+rope",
    "single-head+softmax-plus-one",
    "full-value+averaged-heads",
    "cosine-learned+softmax-plus-one+tied-kv",
    "linear+mqa",
    "linear+bidirectional",
]


class TwoProducts(Score):
    """A score of the user's own: q·k + q²·k²."""

    kind: ClassVar[str] = "test-two-products"
    equation: ClassVar[str] = "q·k + q²·k²"

    def multiply_adds(self, spec: AttentionSpec) -> int:
        return 2 * spec.key_width

    def define(self, given: Matched) -> Tensor:
        query, key = given.vectors
        return query @ key.mT + query.square() @ key.square().mT

    def logits(self, given: Matched) -> InnerProduct:
        query, key = (torch.cat([x, x.square()], dim=-1) for x in given.vectors)
        return InnerProduct(query, key)


class Silent(Operator):
    """An operator by its definition alone, which does not say what it costs."""

    kind: ClassVar[str] = "test-silent"
    equation: ClassVar[str] = "Σ q·k_j v_j"

    def define(self, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
        return ((query @ key.mT) * visibility.grid(query.device)) @ value


for own in (TwoProducts, Silent):
    del Part._known[own.family, own.kind]  # other tests list all kinds


def small(name: str, **fields: Any) -> AttentionSpec:
    return variant(name).spec(WIDTH, HEADS, CONTEXT, **fields)


def crossing(name: str) -> AttentionSpec | None:
    """The variant looking at another sequence, if it can."""
    try:
        return small(name).replace(source="cross", mask=Mask(causal=False))
    except SpecError:
        return None


SPECS = {name: small(name) for name in NAMES + JOINED}
SPECS |= {f"{name} across": spec for name in NAMES + JOINED if (spec := crossing(name)) is not None}
SPECS["one's own score"] = SPECS["softmax"].replace(score=TwoProducts())
SPECS["one's own score on shared keys"] = SPECS["mqa"].replace(score=TwoProducts())


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest) -> AttentionSpec:
    return SPECS[request.param]


@pytest.fixture
def by_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operators compute what they are defined to be."""

    def attend(self: LinearAttention, query: Tensor, key: Tensor, value: Tensor, visibility: Visibility) -> Tensor:
        key, value = (repeated(vectors, query.shape[1]) for vectors in (key, value))
        return self.define(query, key, value, visibility)

    monkeypatch.setattr(LinearAttention, "attend", attend)
    monkeypatch.setattr(Recurrence, "attend", Recurrence.define)


def inputs(spec: AttentionSpec, batch: int, queries: int, keys: int) -> list[Tensor]:
    lengths = [queries] if spec.source == "self" else [queries, keys]
    return [torch.randn(batch, length, spec.model_width, requires_grad=True) for length in lengths]


def test_parameters_are_those_of_the_layer(spec: AttentionSpec) -> None:
    for changed in (spec, spec.replace(bias=False)):
        layer = MultiHeadAttention(changed)
        found = attention_cost(changed, queries=8)
        assert found.parameters == sum(parameter.numel() for parameter in layer.parameters())
        for name, projection in layer.projections.items():
            own = sum(parameter.numel() for parameter in projection.parameters())
            assert found.part(f"{name} projection").parameters == own


@pytest.mark.usefixtures("by_definition")
def test_flops_are_those_of_the_reference(spec: AttentionSpec) -> None:
    layer = MultiHeadAttention(spec)
    for batch, queries, keys in ((2, 70, 33), (1, 5, 9)):
        tokens = inputs(spec, batch, queries, keys)
        found = attention_cost(spec, batch=batch, queries=queries, keys=tokens[-1].shape[1])
        forward, backward = counted(lambda t=tokens: layer(*t) if spec.operator else layer(*t, return_weights=True)[0])
        assert (found.forward_flops, found.backward_flops) == (forward, backward)


@pytest.mark.parametrize(
    "name", ["linear", "linear+bidirectional", "linear+mqa", "linear across", "gated-linear", "gated-delta"]
)
@pytest.mark.parametrize("tokens", [7, 70, 128])
def test_visible_flops_of_an_operator_are_those_of_its_kernel(name: str, tokens: int) -> None:
    spec = SPECS[name]
    layer, x = MultiHeadAttention(spec), inputs(spec, 2, tokens, 33)
    found = attention_cost(spec, batch=2, queries=tokens, keys=x[-1].shape[1], visible_only=True)
    assert (found.forward_flops, found.backward_flops + found.recomputed_flops) == counted(lambda: layer(*x))
    assert found.recomputed_flops == found.part("operator").forward_flops


@pytest.mark.parametrize("score", ["scaled-dot", "l2", "cosine", TwoProducts()])
def test_blocked_kernel_makes_one_product_again(score: str | Score) -> None:
    """Where everything is visible, the kernel's FLOPs are those of the reference, and the recomputed ones."""
    spec = small("sigmoid+bidirectional").replace(score=score)
    layer, x = MultiHeadAttention(spec), inputs(spec, 2, 70, 70)
    found = attention_cost(spec, batch=2, queries=70)
    forward, backward = counted(lambda: layer(*x))
    assert found.kernel == "blocked"
    assert found.recomputed_flops == found.part("scores").forward_flops > 0
    assert (found.forward_flops, found.backward_flops + found.recomputed_flops) == (forward, backward)


@pytest.mark.parametrize("mask", [Mask(), Mask(window=9), Mask(causal=False, window=20), Mask(prefix=80)], ids=str)
def test_blocked_kernel_does_what_is_visible_and_little_more(mask: Mask) -> None:
    spec = small("sigmoid").replace(mask=mask)
    layer, x = MultiHeadAttention(spec), inputs(spec, 1, 160, 160)
    least, most = (attention_cost(spec, queries=160, visible_only=only) for only in (True, False))
    forward, backward = counted(lambda: layer(*x))
    assert least.forward_flops < forward < most.forward_flops
    whole = (cost.backward_flops + cost.recomputed_flops for cost in (least, most))
    assert next(whole) < backward < next(whole)


@pytest.mark.parametrize(
    "mask", [Mask(), Mask(causal=False), Mask(window=9), Mask(causal=False, window=6), Mask(prefix=30)], ids=str
)
def test_visible_pairs_are_those_of_the_mask(mask: Mask) -> None:
    spec = small("softmax").replace(mask=mask)
    every, visible = (attention_cost(spec, batch=2, queries=70, visible_only=only) for only in (False, True))
    pairs = int(Visibility(mask, 70, 70).grid().sum())
    for name in ("scores", "weighted sum"):
        assert visible.part(name).forward_flops == 2 * 2 * HEADS * pairs * spec.key_width
        assert visible.part(name).forward_flops * 70 * 70 == every.part(name).forward_flops * pairs
    assert visible.part("output projection") == every.part("output projection")


def test_parts_that_share_a_projection_are_computed_apart() -> None:
    found = attention_cost(SPECS["tied-qk across"], queries=8)
    assert found.part("key projection").parameters == 0
    assert found.part("key projection").forward_flops == found.part("query projection").forward_flops > 0
    assert found.part("position") == PartCost("position")


@pytest.mark.parametrize("dropout", [0.0, 0.1], ids=["no dropout", "dropout"])
@pytest.mark.parametrize(("batch", "queries"), SHAPES, ids=str)
def test_activations_are_what_autograd_keeps(spec: AttentionSpec, batch: int, queries: int, dropout: float) -> None:
    changed = spec.replace(weight_dropout=0.0 if spec.operator else dropout, output_dropout=dropout)
    layer, tokens = MultiHeadAttention(changed).train(), inputs(spec, batch, queries, 33)
    found = attention_cost(changed, batch=batch, queries=queries, keys=tokens[-1].shape[1])
    assert found.activation_bytes == saved_bytes(lambda: layer(*tokens), layer)


@pytest.mark.parametrize(("dtype", "size"), [(torch.bfloat16, 2), (torch.float64, 8)], ids=str)
def test_activations_in_another_type(spec: AttentionSpec, dtype: torch.dtype, size: int) -> None:
    layer = MultiHeadAttention(spec).to(dtype)
    tokens = [x.detach().to(dtype).requires_grad_() for x in inputs(spec, 2, 70, 33)]
    found = attention_cost(spec, batch=2, queries=70, keys=tokens[-1].shape[1], bytes_per_number=size)
    assert found.activation_bytes == saved_bytes(lambda: layer(*tokens), layer)


def test_costing_leaves_the_random_numbers_alone(spec: AttentionSpec) -> None:
    before = torch.get_rng_state()
    attention_cost(spec.replace(output_dropout=0.1), queries=8)
    assert torch.equal(before, torch.get_rng_state())


def test_activations_grow_with_tokens_and_not_with_pairs() -> None:
    short, long = (attention_cost(SPECS["sigmoid"], queries=n).activation_bytes for n in (2**16, 2**17))
    assert long == 2 * short


def decoded(spec: AttentionSpec, steps: list[int], dtype: torch.dtype = torch.float32) -> Cache:
    """The cache after some steps of so many tokens each."""
    layer, cache = MultiHeadAttention(spec).to(dtype).eval(), Cache()
    with torch.no_grad():
        for step in steps:
            layer(*(x.to(dtype) for x in inputs(spec, 2, step, 33)), cache=cache)
    return cache


def decodes(spec: AttentionSpec) -> bool:
    return spec.mask.causal or spec.operator is None or spec.source == "cross"


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 4), (torch.bfloat16, 2)], ids=str)
def test_cache_bytes_are_those_of_the_cache(spec: AttentionSpec, dtype: torch.dtype, size: int) -> None:
    if not decodes(spec):
        assert attention_cost(spec, queries=1).cache_bytes(9) == 0
        return
    cache = decoded(spec, [1] * 3, dtype)
    found = attention_cost(spec, batch=2, queries=1, bytes_per_number=size)
    assert found.cache_bytes(3 if spec.source == "self" else 33) == cache.nbytes
    assert found.cache_bytes(0) == 0


@pytest.mark.parametrize("tokens", [1, 4, 5, 6, 20])
def test_cache_of_a_window_stops_growing(tokens: int) -> None:
    spec = small("tied-kv").replace(mask=Mask(window=5))
    found = attention_cost(spec, batch=2, queries=1)
    assert found.cache_bytes(tokens) == decoded(spec, [1] * tokens).nbytes
    assert found.cache_bytes(tokens) == 2 * min(tokens, 5) * found.cache_bytes_per_token


DECODED = {name: spec for name, spec in SPECS.items() if spec.source == "self" and decodes(spec)}
DECODED |= {
    f"{name}, window": DECODED[name].replace(mask=Mask(window=5)) for name in ("softmax", "tied-kv", "relu", "l2")
}
DECODED["centred window"] = SPECS["softmax"].replace(mask=Mask(causal=False, window=6))


@pytest.mark.parametrize(("cached", "new"), [(20, 1), (3, 4), (70, 70)], ids=str)
@pytest.mark.parametrize("name", DECODED)
def test_flops_of_decoding(name: str, cached: int, new: int) -> None:
    spec = DECODED[name]
    layer, cache = MultiHeadAttention(spec).eval(), Cache()
    with torch.no_grad():
        layer(*inputs(spec, 2, cached, cached), cache=cache)
        with FlopCounterMode(display=False) as counter:
            layer(*inputs(spec, 2, new, new), cache=cache, return_weights=spec.has_map)
    found = attention_cost(spec, batch=2, queries=new, keys=cached + new)
    assert found.forward_flops == counter.get_total_flops()
    assert (found.backward_flops, found.recomputed_flops, found.activation_bytes) == (0, 0, 0)


@pytest.mark.parametrize("mask", [Mask(), Mask(window=9), Mask(causal=False, window=6), Mask(prefix=30)], ids=str)
def test_visible_pairs_of_decoding_are_the_last_rows_of_the_mask(mask: Mask) -> None:
    spec = small("softmax").replace(mask=mask)
    found = attention_cost(spec, queries=3, keys=40, visible_only=True)
    pairs = int(Visibility(mask, 40, 40).grid()[0, 0, -3:].sum())
    assert found.part("scores").forward_flops == 2 * HEADS * pairs * spec.key_width


def test_one_vector_for_key_and_value_halves_the_cache() -> None:
    apart, tied = (attention_cost(small(name), queries=1).cache_bytes_per_token for name in ("softmax", "tied-kv"))
    assert apart == 2 * HEADS * (WIDTH // HEADS) * 4
    assert 2 * tied == apart


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_shared_heads_divide_the_cache(groups: int) -> None:
    whole, shared = SPECS["softmax"], SPECS["softmax"].replace(num_key_value_heads=groups)
    costs = [attention_cost(spec, queries=8) for spec in (whole, shared)]
    assert costs[1].cache_bytes_per_token * HEADS == costs[0].cache_bytes_per_token * groups
    assert costs[1].part("key projection").parameters * HEADS == costs[0].part("key projection").parameters * groups
    assert costs[1].part("scores").forward_flops == costs[0].part("scores").forward_flops


def test_operator_has_a_state_in_place_of_a_cache() -> None:
    found = attention_cost(SPECS["linear"], batch=3, queries=1)
    assert found.cache_bytes_per_token == 0
    assert found.state_bytes == 3 * HEADS * (WIDTH // HEADS) * (WIDTH // HEADS + 1) * 4
    assert found.cache_bytes(10) == found.cache_bytes(10_000) == found.state_bytes
    assert attention_cost(SPECS["linear across"], queries=1).cache_bytes_per_token > 0


@pytest.mark.parametrize("name", ["gated-linear", "gated-delta"])
def test_a_recurrence_keeps_a_state_for_each_segment(name: str) -> None:
    layer, tokens = MultiHeadAttention(SPECS[name]), inputs(SPECS[name], 2, 300, 300)
    found = attention_cost(SPECS[name], batch=2, queries=300)
    assert found.activation_bytes == saved_bytes(lambda: layer(*tokens), layer)
    state = found.state_bytes
    assert state == 2 * HEADS * (WIDTH // HEADS) ** 2 * 4
    assert found.part("operator").activation_bytes == 2 * state + 2 * 300 * WIDTH * 4  # and the output of the heads


def test_gpt3() -> None:
    """The published widths: 12 288, and 96 heads of 128. Claims 1.3, 1.8 and 1.13."""
    spec = AttentionSpec(model_width=12_288, num_heads=96, key_width=128, bias=False)
    found = attention_cost(spec, queries=2048)
    per_head = {part.name: part.parameters / 96 for part in found.parts if part.parameters}
    assert per_head == dict.fromkeys([f"{name} projection" for name in ("query", "key", "value", "output")], 1_572_864)
    assert found.parameters / 96 == 6_291_456
    assert 96 * found.parameters == 57_982_058_496
    full = attention_cost(variant("full-value").change(spec), queries=2048)
    assert full.part("value projection").parameters / 96 == 12_288**2 == 150_994_944
    assert full.part("output projection").parameters == 0


def test_totals_are_the_sums_of_the_parts(spec: AttentionSpec) -> None:
    found = attention_cost(spec, queries=8)
    told = json.loads(json.dumps(found.as_dict()))
    for name in ("parameters", "forward_flops", "backward_flops", "recomputed_flops", "activation_bytes"):
        assert told[name] == getattr(found, name) == sum(part[name] for part in told["parts"])
    names = [part["name"] for part in told["parts"]]
    assert len(set(names)) == len(names)
    assert (told["queries"], told["keys"], told["kernel"]) == (8, 8, found.kernel)
    assert told["cache_bytes_per_token"] == found.cache_bytes_per_token


def test_parts_of_rope_and_shared_heads_state_their_own() -> None:
    rope = attention_cost(SPECS["softmax"].replace(position=Rope()), queries=8)
    assert rope.part("position").activation_bytes > 2 * 8 * WIDTH * 4  # queries, keys, and the angles
    assert rope.part("query projection").activation_bytes == 0  # only what has been turned is kept
    shared = attention_cost(SPECS["mqa"], queries=8)
    assert shared.part("key projection").activation_bytes == 8 * WIDTH // HEADS * 4
    assert shared.part("repeated heads") == PartCost("repeated heads")
    own = attention_cost(SPECS["mqa"].replace(score=TwoProducts()), queries=8)
    assert own.part("repeated heads").activation_bytes == 8 * WIDTH * 4  # the keys, for their squares


@pytest.mark.parametrize(
    ("name", "sizes", "message"),
    [
        ("softmax", {"queries": 0}, "queries is 0"),
        ("softmax", {"queries": -3}, "queries is -3"),
        ("softmax", {"queries": 8.0}, "queries is 8.0"),
        ("softmax", {"queries": True}, "queries is True"),
        ("softmax", {"queries": 8, "batch": 0}, "batch is 0"),
        ("softmax across", {"queries": 8, "keys": 0}, "keys is 0"),
        ("softmax", {"queries": 8, "keys": 7}, "only 7 keys"),
        ("bidirectional", {"queries": 8, "keys": 7}, "only 7 keys"),
        ("softmax", {"queries": 8, "bytes_per_number": 3}, "3 bytes"),
        ("synthesizer-random", {"queries": CONTEXT + 1}, f"context of {CONTEXT}"),
        ("synthesizer-dense", {"queries": 1, "keys": CONTEXT + 1}, f"context of {CONTEXT}"),
        ("linear+bidirectional", {"queries": 1, "keys": 2}, "decodes only if it is causal"),
    ],
)
def test_bad_sizes_are_refused(name: str, sizes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        attention_cost(SPECS[name], **sizes)
    assert caught.value.hint


def test_bad_number_of_cached_tokens_is_refused() -> None:
    with pytest.raises(InputError, match="tokens is -1"):
        attention_cost(SPECS["softmax"], queries=1).cache_bytes(-1)


def test_operator_that_does_not_state_its_cost() -> None:
    """PyTorch counts it: a product for the scores and one for the output."""
    found = attention_cost(SPECS["softmax"].replace(operator=Silent()), batch=2, queries=8)
    pairs = 2 * HEADS * 8 * 8
    assert found.part("operator").forward_flops == 2 * pairs * (found.call.spec.key_width + found.call.spec.value_width)
    assert found.cache_bytes_per_token == attention_cost(SPECS["softmax"], queries=8).cache_bytes_per_token


def test_public_names() -> None:
    assert cost.__all__ == [
        "AttentionCall",
        "AttentionCost",
        "Capacity",
        "Cost",
        "CostEstimate",
        "CostTable",
        "Crossover",
        "Fit",
        "InferencePass",
        "MachineRates",
        "MeasuredCost",
        "ModelCall",
        "ModelCost",
        "NamedTensor",
        "PartCost",
        "PerHead",
        "Question",
        "ServingMemory",
        "Sweep",
        "TrainingMemory",
        "attention_cost",
        "capacities_beside",
        "capacity",
        "estimate",
        "inference_pass",
        "model_cost",
        "named_tensors",
        "per_head",
        "serving_memory",
        "tabulate",
        "training_memory",
    ]
    assert all(hasattr(cost, name) for name in cost.__all__)
