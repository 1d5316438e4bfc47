"""A window that also shows the first tokens: its pattern, its kernels, its cache; and the biased dot product."""

from __future__ import annotations

import pytest
import torch

from attnlab.attention import AttentionSpec, BiasedDot, Mask, MultiHeadAttention, Rope, Sigmoid, Visibility, attend
from attnlab.attention.cache import Cache
from attnlab.errors import SpecError

MASK = Mask(window=3, first=2)


def test_every_query_sees_its_window_and_the_first_tokens() -> None:
    grid = Visibility(MASK, 7, 7).grid()[0, 0].int().tolist()
    assert grid == [
        [1, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 0, 0],
        [1, 1, 1, 0, 0, 0, 0],
        [1, 1, 1, 1, 0, 0, 0],
        [1, 1, 1, 1, 1, 0, 0],
        [1, 1, 0, 1, 1, 1, 0],
        [1, 1, 0, 0, 1, 1, 1],
    ]


@pytest.mark.parametrize("tokens", [1, 2, 5, 70, 200])
def test_counts_agree_with_the_pattern(tokens: int) -> None:
    mask = Mask(window=9, first=4)
    structure = Visibility(mask, tokens, tokens).structure
    pattern = structure.between(0, tokens, 0, tokens)
    assert torch.equal(structure.counts(), pattern.sum(1))
    assert structure.num_visible() == int(pattern.sum())


@pytest.mark.parametrize("normaliser", ["softmax", "sigmoid", "softmax-sink"])
def test_the_kernel_is_the_definition(normaliser: str) -> None:
    spec = AttentionSpec(model_width=16, num_heads=2, normaliser=normaliser, mask=Mask(window=9, first=4))
    query, key, value = (torch.randn(2, 2, 150, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    extras = {"normaliser_sink": torch.zeros(2, dtype=torch.float64)} if normaliser == "softmax-sink" else {}
    fast = attend(query, key, value, spec, extras=extras)
    slow, _ = attend(query, key, value, spec, extras=extras, return_weights=True)
    torch.testing.assert_close(fast, slow)
    direction = torch.randn_like(fast)
    found = torch.autograd.grad(fast, (query, key, value), direction)
    torch.testing.assert_close(found, torch.autograd.grad(slow, (query, key, value), direction))


@pytest.mark.parametrize("sharing", ["none", "key-value"])
@pytest.mark.parametrize("pieces", [[1] * 24, [10, 1, 1, 5, 7], [24]])
def test_decoding_forgets_what_is_not_seen(sharing: str, pieces: list[int]) -> None:
    spec = AttentionSpec(
        model_width=16, num_heads=4, num_key_value_heads=2, sharing=sharing, mask=MASK, position=Rope()
    )
    layer, cache = MultiHeadAttention(spec).eval(), Cache()
    x = torch.randn(2, 24, 16)
    padding = torch.ones(2, 24, dtype=torch.bool)
    padding[0, :3] = False
    with torch.no_grad():
        layer.reset_parameters(0.5)
        wanted = layer(x, padding=padding)
        found, start = [], 0
        for size in pieces:
            stop = start + size
            found.append(layer(x[:, start:stop], padding=padding[:, :stop], cache=cache))
            start = stop
    torch.testing.assert_close(torch.cat(found, 1), wanted, atol=1e-5, rtol=1e-4)
    held = next(iter(cache.held.values())).shape[2]
    assert held == (24 if pieces == [24] else 2 + 2 + pieces[-1])


def test_what_counts_distances_is_refused() -> None:
    for fields in ({"position": "alibi"}, {"normaliser": "stick-breaking"}, {"score": "forgetting"}):
        with pytest.raises(SpecError, match="distances"):
            AttentionSpec(model_width=16, num_heads=2, mask=MASK, **fields)
    for mask in ({"first": 2}, {"first": 2, "window": 3, "causal": False}):
        with pytest.raises(SpecError, match="besides a causal window"):
            Mask(**mask)


def test_the_bias_of_a_head_is_added_to_all_its_scores() -> None:
    spec = AttentionSpec(model_width=16, num_heads=2, score=BiasedDot(), normaliser=Sigmoid())
    query, key, value = (torch.randn(2, 2, 70, 8, dtype=torch.float64, requires_grad=True) for _ in range(3))
    bias = torch.tensor([0.5, -1.0], dtype=torch.float64, requires_grad=True)
    fast = attend(query, key, value, spec, extras={"bias": bias})
    slow, weights = attend(query, key, value, spec, extras={"bias": bias}, return_weights=True)
    torch.testing.assert_close(fast, slow)
    inputs, direction = (query, key, value, bias), torch.randn_like(fast)
    torch.testing.assert_close(
        torch.autograd.grad(fast, inputs, direction, retain_graph=True),
        torch.autograd.grad(slow, inputs, direction, retain_graph=True),
    )
    first = (query[0, 0, 0] @ key[0, 0, 0]) / 8**0.5 + 0.5
    assert weights[0, 0, 0, 0].item() == pytest.approx(torch.sigmoid(first).item())
