"""The whole catalogue against the reference: every variant × mask × self and cross × type."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from attnlab.attention import AttentionSpec, Mask, MultiHeadAttention, reference, variant, variants
from attnlab.errors import SpecError
from support.attention import (
    CONTEXT,
    HEADS,
    WIDTH,
    assert_conforms,
    by_kernel,
    make_inputs,
    matched,
    weights_by_kernel,
    weights_of,
    with_gradients,
)

MASKS = {
    "causal": Mask(),
    "bidirectional": Mask(causal=False),
    "window": Mask(window=5),
    "centred-window": Mask(causal=False, window=6),
    "prefix": Mask(prefix=9),
}
TYPES = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
NAMES = [v.name for v in variants()]
WITH_MAP = [name for name in NAMES if variant(name).spec().has_map]
TOKENS = 70  # one block of queries and a bit


def small(name: str, **fields: object) -> AttentionSpec:
    return variant(name).spec(WIDTH, HEADS, CONTEXT, **fields)


def possible(name: str, mask: str) -> bool:
    """Whether the variant takes this mask."""
    try:
        small(name).replace(mask=MASKS[mask])
    except SpecError:
        return False
    return True


def by_place(spec: AttentionSpec) -> bool:
    """Whether it matters where a key stands, besides what the mask shows."""
    own_value = spec.head_output is not None and spec.head_output.takes_value
    relative = spec.position is not None and spec.position.relative
    middle = (spec.score, spec.normaliser) if spec.operator is None else (spec.operator,)
    return spec.score.needs_context or any(part.looks_back for part in middle) or relative or own_value


SELF = [(name, mask) for name in NAMES for mask in MASKS if possible(name, mask)]
CROSS = [name for name in NAMES if not by_place(variant(name).spec())]


def padding_for(batch: int, tokens: int) -> torch.Tensor:
    """The first sequence lacks its end, the second its beginning."""
    padding = torch.ones(batch, tokens, dtype=torch.bool)
    padding[0, tokens * 2 // 3 :] = False
    padding[1, :3] = False
    return padding


def test_operators_take_plain_masks_and_looking_back_takes_causal_ones() -> None:
    refused = {name: {mask for mask in MASKS if not possible(name, mask)} for name in NAMES}
    operators = {name for name in NAMES if not variant(name).spec().has_map}
    assert {name for name in NAMES if refused[name]} == operators | {"stick-breaking", "forgetting"}
    assert refused["stick-breaking"] == refused["forgetting"] == MASKS.keys() - {"causal", "window"}
    assert refused["gated-linear"] == refused["gated-delta"] == MASKS.keys() - {"causal"}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("name", "mask"), SELF)
def test_kernel_equals_reference(name: str, mask: str, dtype: str) -> None:
    spec = small(name).replace(mask=MASKS[mask])
    assert_conforms(make_inputs(spec, TOKENS), spec, TYPES[dtype])


@pytest.mark.parametrize(("name", "mask"), SELF)
def test_kernel_equals_reference_with_padding(name: str, mask: str) -> None:
    spec = small(name).replace(mask=MASKS[mask])
    assert_conforms(make_inputs(spec, TOKENS), spec, torch.float32, padding=padding_for(2, TOKENS))


@pytest.mark.parametrize("name", [name for name in WITH_MAP if not variant(name).spec().score.looks_back])
@pytest.mark.parametrize(("own_batch", "own_heads"), [(True, True), (False, True), (True, False), (False, False)])
def test_kernel_equals_reference_with_a_pattern(name: str, own_batch: bool, own_heads: bool) -> None:
    spec = small(name)
    shape = 2 if own_batch else 1, spec.num_heads if own_heads else 1
    pattern = torch.rand(*shape, TOKENS, TOKENS) < 0.6
    assert_conforms(make_inputs(spec, TOKENS), spec, torch.float32, visible=pattern)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("name", CROSS)
def test_kernel_equals_reference_across_sequences(name: str, dtype: str) -> None:
    spec = small(name).replace(source="cross", mask=Mask(causal=False))
    assert_conforms(make_inputs(spec, queries=30, keys=TOKENS), spec, TYPES[dtype])
    assert_conforms(make_inputs(spec, queries=TOKENS, keys=11), spec, TYPES[dtype])


@pytest.mark.parametrize("name", WITH_MAP)
def test_kernel_equals_reference_with_weight_dropout(name: str) -> None:
    spec = small(name).replace(weight_dropout=0.3)
    inputs = make_inputs(spec, TOKENS)
    torch.manual_seed(5)
    kernel = with_gradients(by_kernel, inputs, spec, training=True)
    torch.manual_seed(5)
    reference = with_gradients(
        lambda i, s, **o: by_kernel(i, s, return_weights=True, **o)[0], inputs, spec, training=True
    )
    for found, true in zip(kernel, reference, strict=True):
        torch.testing.assert_close(found, true, rtol=1e-10, atol=1e-10)
    assert not torch.equal(kernel[0], by_kernel(inputs, spec))


@pytest.mark.parametrize(("name", "mask"), [(n, m) for n, m in SELF if n in WITH_MAP])
def test_masked_weights_are_exactly_zero(name: str, mask: str) -> None:
    spec = small(name).replace(mask=MASKS[mask])
    if spec.value_map == "full" or spec.sharing != "none":
        spec = spec.replace(value_map="factored", sharing="none", value_width=spec.key_width)
    inputs = make_inputs(spec, TOKENS)
    padding = padding_for(2, TOKENS)
    weights = weights_of(inputs, spec, padding=padding)
    rows = torch.arange(TOKENS)[:, None]
    columns = torch.arange(TOKENS)
    shown = {
        "causal": columns <= rows,
        "bidirectional": columns >= 0,
        "window": (columns <= rows) & (columns > rows - 5),
        "centred-window": (columns >= rows - 3) & (columns <= rows + 2),
        "prefix": (columns <= rows) | (columns < 9),
    }[mask] & padding[:, None, None, :]
    for found in (weights, weights_by_kernel(inputs, spec, padding=padding)):
        assert bool((found[~shown.expand_as(found)] == 0).all())
        assert bool(found.isfinite().all())
        if spec.normaliser.sums_to_one:
            some = shown.any(-1).expand(found.shape[:-1])
            torch.testing.assert_close(found.sum(-1), some.double())


@pytest.mark.parametrize("window", [1, 2, 5, 64, 65, 70, 200])
@pytest.mark.parametrize("causal", [True, False])
def test_a_window_has_its_width(window: int, causal: bool) -> None:
    spec = small("softmax").replace(mask=Mask(window=window, causal=causal))
    seen = (weights_by_kernel(make_inputs(spec, TOKENS), spec) > 0).sum(-1)
    ahead = 0 if causal else (window - 1) // 2
    behind = window - 1 - ahead
    tokens = torch.arange(TOKENS)
    expected = (tokens + ahead).clamp(max=TOKENS - 1) - (tokens - behind).clamp(min=0) + 1
    assert bool((seen == expected).all())
    assert int(seen.max()) == min(window, TOKENS)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("position", ["learned", "rope", "alibi"])
def test_the_future_moves_nothing(name: str, position: str) -> None:
    try:
        spec = small(name, position=position) if "position" not in variant(name).changes else small(name)
    except SpecError:
        spec = small(name)
    if not spec.mask.causal:
        spec = spec.replace(mask=Mask())
    first = spec.mask.prefix or 0
    layer = MultiHeadAttention(spec).eval()
    torch.nn.init.normal_(layer.projections["value"].weight) if "value" in layer.projections else None
    tokens = torch.randn(2, TOKENS, WIDTH)
    for moment in (moment for moment in (1, 40, 64, 69) if moment >= first):
        changed = tokens.clone()
        changed[:, moment:] = torch.randn(2, TOKENS - moment, WIDTH) * 10
        before, after = layer(tokens), layer(changed)
        assert torch.equal(before[:, :moment], after[:, :moment])
        assert not torch.equal(before[:, moment:], after[:, moment:])


@pytest.mark.parametrize("name", NAMES)
def test_rows_with_nothing_visible_are_zero(name: str) -> None:
    spec = small(name)
    padding = torch.ones(2, TOKENS, dtype=torch.bool)
    padding[0] = False
    padding[1, :5] = False
    for dtype in TYPES.values():
        inputs = make_inputs(spec, TOKENS, dtype=dtype)
        output, *gradients = with_gradients(by_kernel, inputs, spec, padding=padding)
        assert bool((output[0] == 0).all())
        if spec.mask.causal and spec.mask.prefix is None:
            assert bool((output[1, :, :5] == 0).all())
        assert all(bool(tensor.isfinite().all()) for tensor in (output, *gradients))
        assert bool((gradients[-1 - len(inputs.extras)][0] == 0).all())  # of the values that nobody sees


@pytest.mark.parametrize("name", NAMES)
def test_padding_equals_cutting(name: str) -> None:
    spec = small(name)
    inputs = make_inputs(spec, TOKENS)
    padding = torch.ones(2, TOKENS, dtype=torch.bool)
    padding[:, 50:] = False
    whole = by_kernel(inputs, spec, padding=padding)[:, :, :50]

    def cut(tensor: torch.Tensor | None) -> torch.Tensor | None:
        return None if tensor is None else tensor[:, :, :50]

    extras = {name: cut(tensor) if name in spec.projections else tensor for name, tensor in inputs.extras.items()}
    short = type(inputs)(cut(inputs.query), cut(inputs.key), cut(inputs.value), extras, cut(inputs.gradient))
    torch.testing.assert_close(whole, by_kernel(short, spec), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", CROSS)
def test_the_order_of_keys_does_not_matter(name: str) -> None:
    spec = small(name).replace(mask=Mask(causal=False))
    inputs = make_inputs(spec, TOKENS)
    order = torch.randperm(TOKENS)
    mixed = type(inputs)(
        inputs.query, inputs.key[:, :, order], inputs.value[:, :, order], inputs.extras, inputs.gradient
    )
    torch.testing.assert_close(by_kernel(inputs, spec), by_kernel(mixed, spec), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", NAMES)
def test_huge_scores(name: str) -> None:
    """Scores in the ten thousands: no overflow, and no more error than their rounding brings."""
    spec = small(name)
    inputs = make_inputs(spec, TOKENS)
    if inputs.query is not None:
        inputs = replace(inputs, query=inputs.query * 400)
    if inputs.key is not None:
        inputs = replace(inputs, key=inputs.key * 25)
    largest = (
        1.0
        if spec.operator is not None
        else float(reference.scores(matched(inputs, spec), spec, inputs.value).abs().max())
    )
    if spec.score.kind in {"scaled-dot", "dot", "l2"} and spec.operator is None:
        assert largest > 1e4
    assert_conforms(inputs, spec, torch.float32, largest_score=max(1.0, largest))


LAYOUTS = {
    "equal": torch.zeros_like,
    "strided": lambda t: torch.stack([t, t + 1], dim=-1)[..., 0],
    "transposed": lambda t: t.transpose(0, -1).contiguous().transpose(0, -1),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", NAMES)
def test_equal_scores_and_scattered_tensors(name: str, layout: str) -> None:
    spec = small(name)
    assert_conforms(make_inputs(spec, TOKENS).mapped(LAYOUTS[layout]), spec, torch.float32)


@pytest.mark.parametrize("tokens", [1, 2, 63, 64, 65, 129])
@pytest.mark.parametrize("name", NAMES)
def test_awkward_lengths(name: str, tokens: int) -> None:
    spec = small(name)
    assert_conforms(make_inputs(spec, tokens, batch=1), spec, torch.float32)
    if name in CROSS:
        spec = spec.replace(source="cross", mask=Mask(causal=False))
        assert_conforms(make_inputs(spec, queries=tokens, keys=1, batch=1), spec, torch.float32)
