"""Gradients of the kernels by finite differences in float64, over a pairwise cover of the dimensions."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from typing import Any

import pytest
import torch

from attnlab.attention import AttentionSpec, Entmax, Mask, kernel_for
from attnlab.errors import SpecError, UnsupportedError
from support.attention import Inputs, by_kernel, make_inputs

DIMENSIONS: dict[str, list[Any]] = {
    "score": [
        "scaled-dot",
        "dot",
        "cosine",
        {"kind": "cosine", "temperature": "learned"},
        "qk-norm",
        "l2",
        "forgetting",
        "synthesizer-dense",
        "synthesizer-random",
    ],
    "normaliser": [
        "softmax",
        "softmax-plus-one",
        "softmax-sink",
        {"kind": "softmax-capped", "cap": 2.0},
        {"kind": "softmax-capped", "cap": 65.0},
        "scalable-softmax",
        "sigmoid",
        "relu",
        "squared-relu",
        "sparsemax",
        "entmax15",
        "entmax",
        {"kind": "entmax", "alpha": 1.0},
        {"kind": "entmax", "alpha": 1.37},
        {"kind": "entmax", "alpha": 1.8},
        "softpick",
        "stick-breaking",
        "differential",
    ],
    "mask": [Mask(), Mask(causal=False), Mask(window=2), Mask(prefix=3), Mask(causal=False, window=3)],
    "position": ["none", "alibi"],
    "weight_dropout": [0.0, 0.4],
    "value_width": [2, 3],
    "num_key_value_heads": [1, 2],
    "padded": [False, True],
}


def pairwise_cover() -> list[dict[str, Any]]:
    """Few points such that every two choices of two dimensions meet in one of them."""
    names = list(DIMENSIONS)
    wanted = {
        ((a, i), (b, j))
        for a, b in itertools.combinations(names, 2)
        for i in range(len(DIMENSIONS[a]))
        for j in range(len(DIMENSIONS[b]))
    }
    chance = random.Random(0)
    points = []

    def gain(point: dict[str, int]) -> set[tuple[tuple[str, int], tuple[str, int]]]:
        return {pair for pair in itertools.combinations(point.items(), 2) if pair in wanted}

    while wanted:
        (a, i), (b, j) = min(wanted)
        tries = [{n: chance.randrange(len(DIMENSIONS[n])) for n in names} | {a: i, b: j} for _ in range(40)]
        best = max(tries, key=lambda point: len(gain(point)))
        wanted -= gain(best)
        points.append({name: DIMENSIONS[name][index] for name, index in best.items()})
    return points


def buildable(point: dict[str, Any]) -> tuple[AttentionSpec, bool] | None:
    """The spec of a point, and whether it is padded; None for a pair that no spec can have."""
    fields = {name: value for name, value in point.items() if name != "padded"}
    if "synthesizer" in str(point["score"]):
        fields["context_length"] = 5
    try:
        return AttentionSpec(model_width=4, num_heads=2, key_width=2, **fields), point["padded"]
    except SpecError:
        return None


CASES = [case for case in map(buildable, pairwise_cover()) if case is not None]


def assert_gradients(inputs: Inputs, spec: AttentionSpec, fast_mode: bool = False, **options: Any) -> None:
    names = [n for n in ("query", "key", "value") if getattr(inputs, n) is not None]

    def run(*tensors: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(3)  # the same weights are dropped each time
        parts = dict(zip([*names, *inputs.extras], tensors, strict=True))
        extras = {name: parts[name] for name in inputs.extras}
        moved = Inputs(parts.get("query"), parts.get("key"), parts["value"], extras, inputs.gradient)
        return by_kernel(moved, spec, training=True, **options)

    assert torch.autograd.gradcheck(run, inputs.tensors(), fast_mode=fast_mode)


def test_the_cover_is_small_and_mostly_possible() -> None:
    assert len(DIMENSIONS["score"]) * len(DIMENSIONS["normaliser"]) <= len(pairwise_cover()) <= 175
    assert len(CASES) >= 70


@pytest.mark.parametrize(
    ("spec", "padded"), CASES, ids=lambda c: f"{c.score}-{c.normaliser}" if hasattr(c, "score") else ""
)
def test_gradients(spec: AttentionSpec, padded: bool) -> None:
    inputs = make_inputs(spec, 5, batch=1)
    padding = torch.tensor([[False, True, True, True, False]]) if padded else None
    assert_gradients(inputs, spec, padding=padding)


@pytest.mark.parametrize("causal", [True, False])
def test_gradients_of_linear_attention(causal: bool) -> None:
    spec = AttentionSpec(model_width=4, num_heads=2, operator="linear", mask=Mask(causal=causal))
    assert_gradients(make_inputs(spec, 66, batch=1), spec, fast_mode=True)
    assert_gradients(make_inputs(spec, 5), spec)


def test_gradient_is_zero_off_the_support() -> None:
    spec = AttentionSpec(model_width=4, num_heads=1, normaliser=Entmax(alpha=1.4), mask=Mask(causal=False))
    inputs = make_inputs(spec, 6, batch=1)
    inputs = replace(inputs, query=(inputs.query * 4).detach().requires_grad_())
    weights = by_kernel(inputs, spec, return_weights=True)[1]
    off = (weights == 0).all(dim=2)[0, 0]  # keys that no query looks at
    assert bool(off.any())
    (gradient,) = torch.autograd.grad(by_kernel(inputs, spec), inputs.key, inputs.gradient)
    assert bool((gradient[0, 0, off] == 0).all())
    assert bool((gradient[0, 0, ~off] != 0).any())


def test_a_second_derivative_is_refused_with_a_reason() -> None:
    spec = AttentionSpec(model_width=4, num_heads=2, normaliser="sigmoid")
    assert kernel_for(spec) == "blocked"
    inputs = make_inputs(spec, 5)
    (first,) = torch.autograd.grad(by_kernel(inputs, spec), inputs.query, inputs.gradient, create_graph=True)
    with pytest.raises(UnsupportedError, match="no second derivative") as caught:
        torch.autograd.grad(first.sum(), inputs.query)
    assert "reference" in str(caught.value.hint)
    (first,) = torch.autograd.grad(
        by_kernel(inputs, spec, return_weights=True)[0], inputs.query, inputs.gradient, create_graph=True
    )
    assert torch.autograd.grad(first.sum(), inputs.query)[0].isfinite().all()
