"""Bad input: one sentence that says what is wrong, and a hint."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from attnlab.attention import AttentionSpec, Cache, Mask, MultiHeadAttention, attend, variant
from attnlab.errors import AttnlabError, InputError, UnsupportedError

SPEC = AttentionSpec(model_width=8, num_heads=2)
DENSE = variant("synthesizer-dense").spec(8, 2, context_length=6)
CROSS = SPEC.replace(source="cross", mask=Mask(causal=False))
LINEAR = variant("linear").spec(8, 2)


def q(*shape: int) -> torch.Tensor:
    return torch.randn(*(shape or (1, 2, 5, 4)))


def layer(spec: AttentionSpec = SPEC) -> MultiHeadAttention:
    return MultiHeadAttention(spec)


def decode_operator_with(*paddings: list[bool] | None) -> None:
    """Three tokens, and one more for each further padding."""
    module, cache = layer(LINEAR), Cache()
    with torch.no_grad():
        for number, padding in enumerate(paddings):
            given = None if padding is None else torch.tensor([padding])
            module(q(1, 1 if number else 3, 8), padding=given, cache=cache)


def decode_other_batch() -> None:
    cache = Cache()
    with torch.no_grad():
        layer()(q(2, 3, 8), cache=cache)
        layer()(q(1, 3, 8), cache=cache)


BAD: dict[str, tuple[Callable[[], object], str]] = {
    "three dimensions": (lambda: attend(q(2, 5, 4), q(), q(), SPEC), "query has shape (2, 5, 4)"),
    "too many heads": (
        lambda: attend(q(1, 3, 5, 4), q(), q(), SPEC),
        "not (batch, 2 heads, tokens, width 4)",
    ),
    "another key width": (lambda: attend(q(), q(1, 2, 5, 3), q(), SPEC), "key has shape (1, 2, 5, 3)"),
    "another value width": (lambda: attend(q(), q(), q(1, 2, 5, 5), SPEC), "value has shape (1, 2, 5, 5)"),
    "fewer values than keys": (lambda: attend(q(), q(), q(1, 2, 4, 4), SPEC), "5 keys and 4 values"),
    "another batch": (lambda: attend(q(3, 2, 5, 4), q(), q(), SPEC), "query holds 3 sequences and value 1"),
    "whole numbers": (lambda: attend(q().long(), q(), q(), SPEC), "query is of type torch.int64, not floating"),
    "no query": (lambda: attend(None, q(), q(), SPEC), "scaled-dot needs a query"),
    "no key": (lambda: attend(q(), None, q(), SPEC), "scaled-dot needs a key"),
    "no number of queries": (
        lambda: attend(None, None, q(), variant("synthesizer-random").spec(8, 2, context_length=6)),
        "without queries, their number is unknown",
    ),
    "no parameters": (lambda: attend(q(), None, q(), DENSE), "needs its 'places', and it is missing"),
    "beyond the context": (lambda: layer(DENSE)(q(1, 7, 8)), "a sequence of 7 tokens is longer than the context of 6"),
    "padding of another length": (
        lambda: attend(q(), q(), q(), SPEC, padding=torch.ones(1, 4, dtype=torch.bool)),
        "padding has shape (1, 4), but there are 1 sequences of 5 keys",
    ),
    "padding of numbers": (lambda: attend(q(), q(), q(), SPEC, padding=torch.ones(1, 5)), "padding is of type"),
    "pattern of another size": (
        lambda: attend(q(), q(), q(), SPEC, visible=torch.ones(1, 1, 5, 4, dtype=torch.bool)),
        "visible has shape (1, 1, 5, 4)",
    ),
    "pattern of two dimensions": (
        lambda: attend(q(), q(), q(), SPEC, visible=torch.ones(5, 5, dtype=torch.bool)),
        "visible has shape (5, 5)",
    ),
    "pattern of numbers": (lambda: attend(q(), q(), q(), SPEC, visible=torch.ones(1, 1, 5, 5)), "visible is of type"),
    "pattern for an operator": (
        lambda: attend(q(), q(), q(), LINEAR, visible=torch.ones(1, 1, 5, 5, dtype=torch.bool)),
        "does not accept your own mask",
    ),
    "weights of an operator": (lambda: layer(LINEAR)(q(1, 5, 8), return_weights=True), "no attention weights"),
    "tokens of another width": (
        lambda: layer()(q(1, 5, 9)),
        "not (batch, tokens, model width 8)",
    ),
    "tokens without a batch": (lambda: layer()(q(5, 8)), "x has shape (5, 8)"),
    "tokens as numbers": (lambda: layer()(torch.zeros(1, 5, 8, dtype=torch.long)), "x is of type torch.int64"),
    "a source for self-attention": (lambda: layer()(q(1, 5, 8), q(1, 5, 8)), "takes no source"),
    "no source for cross-attention": (lambda: layer(CROSS)(q(1, 5, 8)), "cross-attention needs the other sequence"),
    "a source of another batch": (lambda: layer(CROSS)(q(1, 5, 8), q(2, 5, 8)), "source has shape (2, 5, 8)"),
    "a token left out of an operator's state later": (
        lambda: decode_operator_with(None, [False, True, True, True]),
        "padding of the first 3 tokens differs",
    ),
    "a token added to an operator's state later": (
        lambda: decode_operator_with([False, True, True], [True, True, True, True]),
        "padding of the first 3 tokens differs",
    ),
    "padding of an operator's state not given again": (
        lambda: decode_operator_with([False, True, True], None),
        "padding of the first 3 tokens differs",
    ),
    "padding of the new token alone for an operator": (
        lambda: decode_operator_with([True, True, True], [True]),
        "padding has shape (1, 1), but there are 1 sequences of 4 keys",
    ),
    "a cache of another batch": (decode_other_batch, "the cache holds another batch"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_explained(case: str) -> None:
    call, message = BAD[case]
    with pytest.raises(AttnlabError) as caught:
        call()
    assert isinstance(caught.value, InputError | UnsupportedError)
    assert message in caught.value.message
    assert "\n" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("name", ["softmax", "sigmoid", "sparsemax", "linear"])
def test_nothing_in_gives_nothing_out(name: str) -> None:
    spec = variant(name).spec(8, 2)
    empty = torch.zeros(1, 0, 8, requires_grad=True)
    output = layer(spec)(empty)
    assert output.shape == (1, 0, 8)
    assert layer(spec)(torch.zeros(0, 5, 8)).shape == (0, 5, 8)


@pytest.mark.parametrize("name", ["window", "sigmoid", "relu", "softpick", "sparsemax", "linear"])
def test_not_a_number_is_not_hidden(name: str) -> None:
    """A NaN in what a query sees comes out as NaN. (PyTorch's own fused softmax gives zeros there.)"""
    query = q()
    query[0, 0, 2] = float("nan")
    output = attend(query, q(), q(), variant(name).spec(8, 2))
    assert bool(output[0, 0, 2].isnan().all())
    assert bool(output[0, 1].isfinite().all())
