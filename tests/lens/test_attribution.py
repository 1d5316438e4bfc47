"""The parts add up to the logits, and each is what its weights say."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnlab.errors import InputError, UnknownNameError
from attnlab.lens import Inputs, attribute
from attnlab.models import LanguageModel, ModelSpec, build_model

SYMBOLS, BATCH, TOKENS = 11, 3, 12


def make_model(variant: str = "softmax", **changes: object) -> LanguageModel:
    shape = {"num_layers": 2, "model_width": 16, "num_heads": 4, "context_length": 16, **changes}
    model = build_model(ModelSpec.build("nano", vocabulary_size=SYMBOLS, variant=variant, **shape))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return model


def some_tokens(length: int = TOKENS) -> Tensor:
    return torch.randint(0, SYMBOLS, (BATCH, length))


@pytest.mark.parametrize(
    ("variant", "changes"),
    [
        ("softmax", {}),
        ("softmax", {"architecture": "fast", "dropout": 0.3}),
        ("softmax", {"tied_embedding": False, "architecture": "fast"}),
        ("softmax", {"tied_embedding": False, "norm": "rms"}),
        ("sigmoid,linear", {"bias": False}),
        ("gqa", {"family": "encoder-decoder"}),
        ("averaged-heads", {}),
        ("full-value", {}),
    ],
    ids=str,
)
def test_the_parts_add_up_to_the_logits(variant: str, changes: dict[str, object]) -> None:
    model, tokens = make_model(variant, **changes), some_tokens()
    others = {} if model.encoder is None else {"source": some_tokens(7)}
    parts = attribute(model, Inputs(tokens, **others))
    model.eval()
    with torch.no_grad():
        logits = model(tokens, **others)
    assert len(set(parts.names)) == len(parts.names) == len(parts.written)
    heads = 4 * 2 * (2 if others else 1)
    assert sum(".heads." in name for name in parts.names) == heads
    torch.testing.assert_close(parts.logits().sum(0), logits, rtol=0, atol=1e-4)
    targets = some_tokens()
    torch.testing.assert_close(
        parts.logits(targets).sum(0), logits.gather(2, targets[..., None])[..., 0], rtol=0, atol=1e-4
    )
    torch.testing.assert_close(
        parts.logits(targets),
        parts.logits().gather(-1, targets[None, ..., None].expand(len(parts.names), -1, -1, 1))[..., 0],
        rtol=1e-4,
        atol=1e-5,
    )
    assert not parts.written.requires_grad


def test_each_part_is_what_its_weights_say() -> None:
    """A head whose columns of the output projection are 0 says nothing, and no other part of its layer changes."""
    model, tokens = make_model().eval(), some_tokens()
    before = attribute(model, tokens)
    last = model.stack.blocks[1]
    with torch.no_grad():
        last.attention.output.weight[:, 4:8] = 0
        last.mlp.narrow.weight.zero_()
        last.mlp.narrow.bias.zero_()
    after = attribute(model, tokens)
    assert (after["blocks.1.attention.heads.1"] == 0).all()
    assert (after["blocks.1.mlp"] == 0).all()
    assert (before["blocks.1.attention.heads.1"] != 0).any()
    # The norm's scale is another now, and it is the same for every part.
    ratios = after["blocks.1.attention.heads.0"] / before["blocks.1.attention.heads.0"]
    expected = after["embedding"] / before["embedding"]
    torch.testing.assert_close(ratios, expected, rtol=1e-2, atol=1e-3)
    assert torch.equal(after["norm.bias"], before["norm.bias"])


def test_bad_input() -> None:
    model = make_model()
    parts = attribute(model, some_tokens())
    with pytest.raises(UnknownNameError, match=r"did you mean 'blocks\.0\.mlp'"):
        _ = parts["blocks.0.mpl"]
    with pytest.raises(InputError, match="targets have shape"):
        parts.logits(some_tokens(3))
    with pytest.raises(InputError, match="model knows"):
        attribute(model, some_tokens() + SYMBOLS)
    with pytest.raises(InputError, match="model knows"):
        parts.logits(some_tokens() - SYMBOLS)
