"""Cross-entropy in chunks: the same number and gradients as from all logits at once, which it never holds."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from attnlab.models import IGNORED, cross_entropy, loss

TOKENS, WIDTH, VOCABULARY = 29, 7, 41


def inputs(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    hidden = torch.randn(TOKENS, WIDTH, dtype=dtype).requires_grad_()
    weight = torch.randn(VOCABULARY, WIDTH, dtype=dtype).requires_grad_()
    return hidden, weight, torch.randint(VOCABULARY, (TOKENS,))


def chunk_into(rows: int, monkeypatch: pytest.MonkeyPatch, size: int = 4) -> None:
    monkeypatch.setattr(loss, "_CHUNK_BYTES", rows * VOCABULARY * size)


def at_once(hidden: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    return F.cross_entropy(hidden @ weight.t(), targets, ignore_index=IGNORED)


def with_gradients(function: Any, hidden: Tensor, weight: Tensor, targets: Tensor, scale: float = 1.0) -> list[Tensor]:
    value = function(hidden, weight, targets)
    return [value.detach(), *torch.autograd.grad(value * scale, (hidden, weight))]


@pytest.mark.parametrize("ignored", [[], [0], [TOKENS - 1], list(range(10)), list(range(1, TOKENS))], ids=len)
@pytest.mark.parametrize("rows", [1, 2, 7, TOKENS - 1, TOKENS, 10_000])
def test_equal_to_all_logits_at_once(rows: int, ignored: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    chunk_into(rows, monkeypatch)
    hidden, weight, targets = inputs()
    targets[ignored] = IGNORED
    found = with_gradients(cross_entropy, hidden, weight, targets, 3.0)
    wanted = with_gradients(at_once, hidden, weight, targets, 3.0)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    with torch.no_grad():
        torch.testing.assert_close(cross_entropy(hidden, weight, targets), wanted[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", [4, 10_000])
def test_without_any_target(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of nothing is not a number, as in PyTorch, and pulls at nothing."""
    chunk_into(rows, monkeypatch)
    hidden, weight, targets = inputs()
    value, *gradients = with_gradients(cross_entropy, hidden, weight, targets.fill_(IGNORED))
    assert value.isnan()
    assert not any(gradient.any() for gradient in gradients)
    with torch.no_grad():
        assert cross_entropy(hidden, weight, targets).isnan()


@pytest.mark.parametrize("rows", [4, 10_000])
def test_precision_does_not_depend_on_the_chunks(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    chunk_into(rows, monkeypatch, size=8)
    hidden, weight, targets = inputs(torch.float64)
    assert torch.autograd.gradcheck(lambda h, w: cross_entropy(h, w, targets), (hidden, weight))
    chunk_into(rows, monkeypatch, size=2)
    assert cross_entropy(hidden.bfloat16(), weight.bfloat16(), targets).dtype == torch.float32


def test_a_vocabulary_too_large_for_a_chunk_goes_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "_CHUNK_BYTES", 1)
    given = inputs()
    for one, other in zip(with_gradients(cross_entropy, *given), with_gradients(at_once, *given), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_scores_far_from_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    chunk_into(4, monkeypatch)
    hidden, weight, targets = inputs()
    hidden = (hidden.detach() * 1e3).requires_grad_()
    found, wanted = (with_gradients(f, hidden, weight, targets) for f in (cross_entropy, at_once))
    for one, other in zip(found, wanted, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


def test_only_one_of_the_two_wants_a_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    chunk_into(4, monkeypatch)
    hidden, weight, targets = inputs()
    (found,) = torch.autograd.grad(cross_entropy(hidden, weight.detach(), targets), hidden)
    (wanted,) = torch.autograd.grad(at_once(hidden, weight.detach(), targets), hidden)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)
    (found,) = torch.autograd.grad(cross_entropy(hidden.detach(), weight, targets), weight)
    (wanted,) = torch.autograd.grad(at_once(hidden.detach(), weight, targets), weight)
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-6)


class Largest(TorchDispatchMode):
    """Remembers the most elements that any tensor had that an operation made."""

    def __init__(self) -> None:
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = function(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(made) if isinstance(leaf, Tensor)]
        self.elements = max([self.elements, *sizes])
        return made


@pytest.mark.parametrize("gradients", [True, False])
def test_it_never_holds_all_logits(gradients: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = 8
    chunk_into(rows, monkeypatch)
    hidden, weight, targets = inputs()
    with torch.set_grad_enabled(gradients), Largest() as watch:
        value = cross_entropy(hidden, weight, targets)
        if gradients:
            value.backward()
    assert rows * VOCABULARY <= watch.elements < 2 * rows * VOCABULARY  # rows begin at round addresses
    with torch.set_grad_enabled(gradients), Largest() as watch:
        at_once(hidden, weight, targets)
    assert watch.elements == TOKENS * VOCABULARY, "the watch would not have told"


def test_a_target_out_of_range_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    for rows in (4, 10_000):
        chunk_into(rows, monkeypatch)
        hidden, weight, targets = inputs()
        targets[3] = VOCABULARY
        with pytest.raises((IndexError, RuntimeError), match="out of"):
            cross_entropy(hidden, weight, targets)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("tokens", "words"), [(1, 1), (8, 40), (100, 100)])
def test_the_losses_of_tokens(tokens: int, words: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "_TOKENS", tokens)
    monkeypatch.setattr(loss, "_WORDS", words)
    hidden, weight, targets = inputs(dtype)
    hidden = hidden * 20  # so that exp overflows unless the highest is taken off
    targets[::5] = IGNORED
    found = loss.token_losses(hidden, weight, targets)
    wanted = F.cross_entropy((hidden @ weight.t()).float(), targets, ignore_index=IGNORED, reduction="none")
    near = 1e-4 if dtype == torch.float32 else 1.0  # bfloat16 rounds logits of a hundred to a half
    torch.testing.assert_close(found, wanted, rtol=1e-5, atol=near)
    assert found.dtype == torch.float32
    assert not found.requires_grad
