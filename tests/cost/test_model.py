"""The predicted cost of whole models against real ones, over the catalogue and the three families.

As for attention alone, PyTorch's FLOP counter watches the reference, for it sees nothing inside fused attention.
"""

from __future__ import annotations

import functools
import json
from typing import Any
from unittest.mock import ANY

import pytest
import torch
from torch import Tensor

from attnlab.attention import LinearAttention, Mask, MultiHeadAttention, Recurrence, variants
from attnlab.cost import AttentionCall, ModelCost, PartCost, attention_cost, model_cost, training_memory
from attnlab.errors import InputError, SpecError
from attnlab.models import SIZES, LanguageModel, ModelSpec, build_model, loss
from attnlab.models.meta import on_meta
from support.counting import counted, saved_bytes

CONTEXT, VOCABULARY, BATCH, TOKENS, SOURCE = 80, 11, 2, 12, 9
FAMILIES = ("decoder", "encoder", "encoder-decoder")
FAST = ("softmax", "tied-kv", "sigmoid", "window", "identity+relu")
OTHERS: dict[str, dict[str, Any]] = {
    "two layers": {"num_layers": 2},
    "first and last": {"variant": "gqa:2,(linear,window:5),softmax", "num_layers": 4},
    "layers take turns": {"variant": "softmax,tied-kv+gqa,linear", "num_layers": 3},
    "untied": {"tied_embedding": False},
    "no biases": {"bias": False},
    "gelu": {"activation": "gelu", "mlp_width": 24},
    "no positions": {"position": "none"},
}


def tiny(**changes: Any) -> ModelSpec:
    shape = {"num_layers": 1, "model_width": 16, "num_heads": 4, "context_length": CONTEXT}
    return ModelSpec.build("nano", vocabulary_size=VOCABULARY, **{**shape, **changes})


def catalogue() -> dict[str, ModelSpec]:
    """Every variant in every family where it can be, and some other choices."""
    wanted: dict[str, dict[str, Any]] = {v.name: {"variant": v.name} for v in variants()}
    wanted |= {f"fast {name}": {"variant": name, "architecture": "fast", "num_layers": 2} for name in FAST}
    result = {}
    for name, changes in (wanted | OTHERS).items():
        for family in FAMILIES:
            try:
                result[f"{name}, {family}"] = tiny(family=family, **changes)
            except SpecError:
                continue
    return result


SPECS = catalogue()
SOME = {name: spec for name, spec in SPECS.items() if name.startswith(("fast ", *OTHERS))}
ENCODERS = {name: spec for name, spec in SPECS.items() if spec.family == "encoder"}


@pytest.fixture(params=SPECS)
def spec(request: pytest.FixtureRequest) -> ModelSpec:
    return SPECS[request.param]


@functools.cache
def found(spec: ModelSpec, **options: Any) -> ModelCost:
    pair = spec.family == "encoder-decoder"
    return model_cost(spec, batch=BATCH, source_tokens=SOURCE if pair else None, **{"tokens": TOKENS, **options})


@functools.cache
def model_of(spec: ModelSpec) -> LanguageModel:
    return build_model(spec)


def batch_for(spec: ModelSpec, tokens: int = TOKENS) -> dict[str, Tensor]:
    made = {name: torch.randint(VOCABULARY, (BATCH, tokens)) for name in ("tokens", "targets")}
    return made | ({"source": torch.randint(VOCABULARY, (BATCH, SOURCE))} if spec.cross_attention else {})


def bytes_of_loss(model: LanguageModel, batch: dict[str, Tensor]) -> int:
    return saved_bytes(lambda: model.loss(**batch), model)


@pytest.fixture
def by_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention computes what it is defined to be."""
    fast = MultiHeadAttention.forward

    def forward(self: MultiHeadAttention, *args: Any, **options: Any) -> Tensor:
        if self.spec.operator is not None:
            return fast(self, *args, **options)
        return fast(self, *args, **options, return_weights=True)[0]

    monkeypatch.setattr(MultiHeadAttention, "forward", forward)
    for operator in (LinearAttention, Recurrence):
        monkeypatch.setattr(operator, "attend", operator.define)


def shapes_of(spec: ModelSpec) -> LanguageModel:
    with on_meta():
        return LanguageModel(spec)


def test_catalogue_is_there() -> None:
    per_family = [sum(name.endswith(f", {family}") for name in SPECS) for family in FAMILIES]
    assert min(per_family) > len(list(variants())) * 3 // 4


def test_parameters_are_those_of_the_model(spec: ModelSpec) -> None:
    assert found(spec).parameters == shapes_of(spec).num_parameters()


@pytest.mark.parametrize("size", SIZES)
def test_parameters_of_every_size(size: str) -> None:
    spec = ModelSpec.build(size, vocabulary_size=50257)
    published = {"gpt2": 124_439_808, "gpt3": pytest.approx(175e9, rel=0.003)}
    assert model_cost(spec).parameters == shapes_of(spec).num_parameters() == published.get(size, ANY)


def test_parts_hold_their_own_parameters() -> None:
    spec = tiny(family="encoder-decoder", tied_embedding=False, num_layers=2)
    model, cost = shapes_of(spec), found(spec)
    assert model.encoder is not None
    modules = {
        "embedding": model.embedding,
        "head": model.head,
        "encoder: positions": model.encoder.positions,
        "decoder: final norm": model.stack.norm,
        "encoder layer 2: attention": model.encoder.blocks[1].attention,
        "decoder layer 1: cross-attention": model.stack.blocks[0].cross_attention,
        "decoder layer 1: cross-attention norm": model.stack.blocks[0].cross_norm,
        "decoder layer 2: mlp": model.stack.blocks[1].mlp,
    }
    for name, module in modules.items():
        assert cost.part(name).parameters == sum(parameter.numel() for parameter in module.parameters()) > 0


@pytest.mark.usefixtures("by_definition")
@pytest.mark.parametrize("name", [name for name in SPECS if name not in ENCODERS or name in SOME])
def test_flops_are_those_of_the_definition(name: str) -> None:
    spec = SPECS[name]
    model, batch, cost = model_of(spec), batch_for(spec), found(spec)
    assert (cost.forward_flops, cost.backward_flops) == counted(lambda: model.loss(**batch))


def all_blocked(spec: ModelSpec) -> bool:
    calls = [AttentionCall(layer, BATCH, TOKENS, TOKENS, 4) for layer in spec.attention]
    return all(call.kernel == "blocked" and not call.spec.mask.causal for call in calls)


@pytest.mark.parametrize("name", [name for name, spec in ENCODERS.items() if all_blocked(spec)])
def test_training_flops_are_those_of_the_blocked_kernel(name: str) -> None:
    """Where everything is visible, nothing is left out, and what is done again is counted."""
    spec = SPECS[name]
    model, batch, cost = model_of(spec), batch_for(spec), found(spec)
    forward, backward = counted(lambda: model.loss(**batch))
    assert (cost.forward_flops, cost.training_flops) == (forward, forward + backward)
    if spec.attention[0].score.projects_query:
        assert cost.recomputed_flops > 0


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tokens", [7, 70])
def test_training_flops_are_those_of_an_operator(family: str, tokens: int) -> None:
    spec = SPECS[f"linear, {family}"]
    model, batch = model_of(spec), batch_for(spec, tokens)
    forward, backward = counted(lambda: model.loss(**batch))
    cost = found(spec, tokens=tokens, visible_only=True)
    assert (cost.forward_flops, cost.training_flops) == (forward, forward + backward)
    assert cost.recomputed_flops > 0


@pytest.mark.usefixtures("by_definition")
def test_loss_by_chunks_costs_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "_CHUNK_BYTES", 5 * VOCABULARY * 4)
    spec = tiny()
    model, batch = model_of(spec), batch_for(spec)
    cost = model_cost(spec, batch=BATCH, tokens=TOKENS)
    assert cost.forward_flops + cost.backward_flops == sum(counted(lambda: model.loss(**batch)))
    assert cost.recomputed_flops == cost.training_flops - cost.forward_flops - cost.backward_flops > 0


@pytest.mark.parametrize("name", [*SOME, "sigmoid, decoder", "prefix, decoder", "linear, encoder-decoder"])
def test_useful_flops_leave_out_what_is_hidden_or_done_again(name: str) -> None:
    spec = SPECS[name]
    every, visible = found(spec), found(spec, visible_only=True)
    assert every.useful_training_flops == visible.useful_training_flops == 3 * visible.forward_flops
    if not any(layer.operator for layer in (*spec.attention, *spec.cross_attention)):
        assert visible.forward_flops <= every.forward_flops
        assert visible.useful_training_flops == visible.forward_flops + visible.backward_flops
    causal = spec.attention[0].mask.causal and spec.attention[0].mask.prefix is None
    if causal and spec.attention[0].operator is None:
        assert visible.forward_flops < every.forward_flops


def test_useful_flops_of_gpt2_by_hand() -> None:
    cost = model_cost(ModelSpec.build("gpt2", vocabulary_size=50257), batch=3)
    maps = 12 * 12 * 768**2 + 50257 * 768  # of one token: attention has 4 D² and the perceptron 8 D²
    pairs = 1024 * 1025 // 2
    assert cost.useful_training_flops == 6 * 3 * (1024 * maps + 12 * 2 * pairs * 768)


def test_six_flops_for_each_parameter_and_token() -> None:
    cost = model_cost(ModelSpec.build("gpt2", vocabulary_size=50257), batch=8, tokens=64)
    rule = 6 * cost.parameters * 8 * 64
    assert cost.useful_training_flops == pytest.approx(rule, rel=0.02)
    assert cost.training_flops == pytest.approx(rule, rel=0.02)


def test_activations_are_what_autograd_keeps(spec: ModelSpec) -> None:
    assert found(spec).activation_bytes == bytes_of_loss(model_of(spec).train(), batch_for(spec))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("architecture", ["gpt2", "fast"])
def test_activations_with_dropout(architecture: str, family: str) -> None:
    spec = tiny(family=family, architecture=architecture, dropout=0.1)
    assert found(spec).activation_bytes == bytes_of_loss(build_model(spec).train(), batch_for(spec))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize(("dtype", "size"), [(torch.bfloat16, 2), (torch.float64, 8)], ids=str)
def test_activations_in_another_type(family: str, dtype: torch.dtype, size: int) -> None:
    for name, least in (("fast softmax", 0), ("two layers", 2)):
        spec = SPECS[f"{name}, {family}"]
        cost = found(spec, bytes_per_number=size)
        kept = bytes_of_loss(build_model(spec).to(dtype), batch_for(spec))
        # A CPU keeps the mean and the deviation of LayerNorm in half precision, other machines do not.
        norms = {"decoder": 5 * TOKENS, "encoder": 5 * TOKENS, "encoder-decoder": 7 * TOKENS + 5 * SOURCE}[family]
        rounded = least * norms * BATCH * 2 if size == 2 else 0
        assert cost.activation_bytes == kept + rounded


@pytest.mark.parametrize(("rows", "chunked"), [(5, True), (TOKENS * BATCH - 1, True), (TOKENS * BATCH, False)])
def test_activations_of_a_loss_by_chunks(monkeypatch: pytest.MonkeyPatch, rows: int, chunked: bool) -> None:
    spec = tiny()
    whole = model_cost(spec, batch=BATCH, tokens=TOKENS).part("head").activation_bytes
    monkeypatch.setattr(loss, "_CHUNK_BYTES", rows * VOCABULARY * 4)
    cost = model_cost(spec, batch=BATCH, tokens=TOKENS)
    assert (cost.part("head").activation_bytes != whole) is chunked
    assert cost.activation_bytes == bytes_of_loss(build_model(spec), batch_for(spec))


def test_source_is_kept_once() -> None:
    two, four = (found(tiny(family="encoder-decoder", num_layers=layers)) for layers in (2, 4))
    per_layer = two.part("decoder layer 1: cross-attention").activation_bytes
    assert four.part("decoder layer 4: cross-attention").activation_bytes == per_layer
    alone = two.cross_attention[0].activation_bytes
    assert alone - per_layer == BATCH * SOURCE * 16 * 4
    for cost in (two, four):
        kept = cost.part("encoder: final norm").activation_bytes
        assert kept - cost.part("encoder layer 1: mlp norm").activation_bytes == alone - per_layer


def test_costing_leaves_the_random_numbers_alone() -> None:
    before = torch.get_rng_state()
    model_cost(tiny(dropout=0.1, family="encoder-decoder"))
    assert torch.equal(before, torch.get_rng_state())


def generated(spec: ModelSpec, steps: int) -> int:
    """The bytes of the cache after some tokens, one by one."""
    model, batch = model_of(spec).eval(), batch_for(spec, CONTEXT)
    cache, source = model.new_cache(), batch.get("source")
    with torch.no_grad():
        for step in range(steps):
            model(batch["tokens"][:, step : step + 1], source=source if step == 0 else None, cache=cache)
    return cache.nbytes


@pytest.mark.parametrize(
    "name", [name for name in SPECS if name.endswith(", decoder") or name in SOME.keys() - ENCODERS.keys()]
)
def test_cache_bytes_are_those_of_the_cache(name: str) -> None:
    cost = found(SPECS[name])
    assert cost.cache_bytes(3) == generated(SPECS[name], 3) > 0
    assert cost.cache_bytes(0) == 0


def test_cache_grows_until_a_window_is_full_and_an_encoder_has_none() -> None:
    narrow = tiny().replace(attention=tuple(layer.replace(mask=Mask(window=3)) for layer in tiny().attention))
    assert found(narrow).cache_bytes(9) == found(narrow).cache_bytes(3) == generated(narrow, 9)
    assert found(SPECS["softmax, encoder"]).cache_bytes(9) == 0
    grows = [found(SPECS["softmax, decoder"]).cache_bytes(tokens) for tokens in (1, 2, CONTEXT)]
    assert grows == [tokens * 2 * BATCH * 16 * 4 for tokens in (1, 2, CONTEXT)]
    fixed = found(SPECS["linear, decoder"])
    assert fixed.cache_bytes(1) == fixed.cache_bytes(CONTEXT) > 0


@pytest.mark.parametrize(("dtype", "size"), [(torch.float32, 4), (torch.bfloat16, 2)], ids=str)
def test_weights_gradients_and_moments(dtype: torch.dtype, size: int) -> None:
    spec = tiny()
    model = build_model(spec).to(dtype)
    optimizer = torch.optim.AdamW(model.parameters())
    model.loss(**batch_for(spec, CONTEXT)).backward()
    optimizer.step()
    cost = found(spec, bytes_per_number=size)
    assert cost.weight_bytes == sum(parameter.nbytes for parameter in model.parameters())
    memory = training_memory(cost)
    assert memory.gradients == sum(p.grad.nbytes for p in model.parameters() if p.grad is not None)
    states = [state[name] for state in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    assert memory.optimizer == sum(state.nbytes for state in states)
    assert memory.always == 4 * cost.weight_bytes


def test_attention_of_a_layer_is_that_of_attention_cost() -> None:
    spec = SPECS["layers take turns, decoder"]
    cost = found(spec)
    for number, layer in enumerate(spec.attention):
        alone = attention_cost(layer, batch=BATCH, queries=TOKENS)
        assert cost.attention[number] == alone
        part = cost.part(f"layer {number + 1}: attention")
        assert (part.parameters, part.recomputed_flops) == (alone.parameters, alone.recomputed_flops)
        assert part.activation_bytes == alone.activation_bytes
    assert cost.part("layer 1: attention").parameters != cost.part("layer 2: attention").parameters


def test_totals_are_the_sums_of_the_parts_and_of_their_kinds(spec: ModelSpec) -> None:
    cost = found(spec)
    told = json.loads(json.dumps(cost.as_dict()))
    for name in ("parameters", "forward_flops", "backward_flops", "recomputed_flops", "activation_bytes"):
        assert told[name] == getattr(cost, name) == sum(part[name] for part in told["parts"])
        assert told[name] == sum(getattr(kind, name) for kind in cost.by_kind())
    names = [part["name"] for part in told["parts"]]
    assert len(set(names)) == len(names)
    assert cost.training_flops == told["forward_flops"] + told["backward_flops"] + told["recomputed_flops"]


def test_kinds() -> None:
    kinds = [part.name for part in found(tiny(dropout=0.1)).by_kind()]
    assert kinds == [
        "embedding",
        "positions",
        "embedding dropout",
        "attention norm",
        "attention",
        "mlp norm",
        "mlp",
        "final norm",
        "head",
    ]
    assert found(tiny()).part("no such part") == PartCost("no such part")


def test_whole_context_by_default() -> None:
    cost = model_cost(tiny(family="encoder-decoder"))
    assert (cost.call.batch, cost.call.tokens, cost.call.source_tokens) == (1, CONTEXT, CONTEXT)
    assert model_cost(tiny()).call.source_tokens is None


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"batch": 0}, "batch is 0"),
        ({"batch": 2.0}, "batch is 2.0"),
        ({"batch": 2**62}, "too many"),
        ({"tokens": 0}, "tokens is 0"),
        ({"tokens": True}, "tokens is True"),
        ({"tokens": CONTEXT + 1}, f"context of {CONTEXT}"),
        ({"source_tokens": 3}, "family decoder"),
        ({"bytes_per_number": 3}, "3 bytes"),
        ({"family": "encoder-decoder", "source_tokens": 0}, "source_tokens is 0"),
        ({"family": "encoder-decoder", "source_tokens": CONTEXT + 1}, f"context of {CONTEXT}"),
    ],
)
def test_bad_sizes_are_refused(sizes: dict[str, Any], message: str) -> None:
    family = sizes.pop("family", "decoder")
    with pytest.raises(InputError, match=message) as caught:
        model_cost(tiny(family=family), **sizes)
    assert caught.value.hint


@pytest.mark.parametrize(("tokens", "message"), [(-1, "tokens is -1"), (CONTEXT + 1, f"context of {CONTEXT}")])
def test_bad_length_of_a_cache_is_refused(tokens: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        found(tiny()).cache_bytes(tokens)


def test_it_is_the_same_without_gradients() -> None:
    spec = ModelSpec.build("pico", vocabulary_size=50)
    with torch.no_grad():
        found = model_cost(spec, batch=3)  # nothing of this batch is remembered from elsewhere
    assert found == model_cost(spec, batch=3)
    assert found.activation_bytes > 0
