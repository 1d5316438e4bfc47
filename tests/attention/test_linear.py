"""Linear maps: the other ways give what `F.linear` gives, forwards and backwards."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from attnlab.attention import linear as room
from attnlab.attention.linear import Linear, adding_to_gradients, linear, together


@pytest.mark.parametrize("rows", [4, 7, 64, 65])
@pytest.mark.parametrize("shape", [(24,), (1, 24), (1, 1, 24)])
@pytest.mark.parametrize("biased", [True, False])
def test_one_row(rows: int, shape: tuple[int, ...], biased: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_SMALLEST", 0)
    x, weight = torch.randn(shape, dtype=torch.float64), torch.randn(rows, 24, dtype=torch.float64)
    bias = torch.randn(rows, dtype=torch.float64) if biased else None
    with torch.no_grad():
        torch.testing.assert_close(linear(x, weight, bias), F.linear(x, weight, bias))


def test_one_row_is_cut_into_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[int] = []
    whole = room.in_pieces
    monkeypatch.setattr(room, "in_pieces", lambda weight: used.append(len(weight)) or whole(weight))
    module = Linear(256, 256)
    x = torch.randn(1, 256)
    module(x)  # with a gradient to come, it stays whole
    with torch.no_grad():
        module(torch.randn(2, 256))
        assert not used
        module(x)
    assert used == [256]


@pytest.mark.parametrize("biased", [True, False])
def test_together_is_apart(biased: bool) -> None:
    maps = [nn.Linear(6, rows, biased, dtype=torch.float64) for rows in (4, 4, 3)]
    x = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    weights = [torch.randn(2, *shape, dtype=torch.float64) for shape in ((2, 5, 2), (1, 5, 4), (3, 5, 1))]
    wanted = [x, *(parameter for one in maps for parameter in one.parameters())]
    found = []
    apart = tuple(one(x).unflatten(-1, (-1, width)).transpose(1, 2) for one, width in zip(maps, (2, 4, 1), strict=True))
    for outputs in (together(x, maps, (2, 4, 1)), apart):
        loss = sum((output * weight).sum() for output, weight in zip(outputs, weights, strict=True))
        found.append([*outputs, *torch.autograd.grad(loss, wanted)])  # type: ignore[arg-type]
    for mine, plain in zip(*found, strict=True):
        torch.testing.assert_close(mine, plain)


def test_together_where_only_one_is_used() -> None:
    maps = [nn.Linear(6, 4, dtype=torch.float64) for _ in range(2)]
    x = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    together(x, maps, (2, 2))[1].sum().backward()
    assert maps[0].weight.grad is None or not maps[0].weight.grad.any()
    torch.testing.assert_close(x.grad, maps[1].weight.sum(0).expand_as(x))


def test_a_second_derivative_is_refused() -> None:
    maps = [nn.Linear(6, 4, dtype=torch.float64) for _ in range(2)]
    x = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    (gradient,) = torch.autograd.grad(together(x, maps, (2, 2))[0].square().sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="differentiate twice"):
        gradient.sum().backward()


@pytest.mark.parametrize("side_by_side", [True, False])
@pytest.mark.parametrize("worth", [0, 1 << 40])
def test_gradients_are_added_where_they_gather(side_by_side: bool, worth: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_WORTH", worth)
    maps = [nn.Linear(6, width, dtype=torch.float64) for width in (4, 4, 3)]
    x = torch.randn(2, 5, 6, dtype=torch.float64, requires_grad=True)
    before = torch.randn(11, 6, dtype=torch.float64)
    homes = before.clone().split([4, 4, 3])
    for one, home in zip(maps, homes, strict=True):
        one.weight.grad = home if side_by_side else home.clone()
    gathering = [one.weight.grad for one in maps]
    outputs = together(x, maps, (2, 4, 1))
    direction = [torch.randn_like(output) for output in outputs]
    wanted = torch.autograd.grad(outputs, [one.weight for one in maps], direction, retain_graph=True)
    assert torch.equal(torch.cat(list(gathering)), before), "outside, nothing is added"
    with adding_to_gradients():
        torch.autograd.backward(outputs, direction, retain_graph=True)
        torch.autograd.backward(outputs, direction)
    for one, place, start, gradient in zip(maps, gathering, before.split([4, 4, 3]), wanted, strict=True):
        assert one.weight.grad is place
        torch.testing.assert_close(place, start + 2 * gradient)


def test_what_was_added_is_not_given_to_autograd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_WORTH", 0)
    maps = [nn.Linear(6, 4, dtype=torch.float64) for _ in range(2)]
    for one in maps:
        one.weight.grad = torch.zeros_like(one.weight)
    outputs = together(torch.randn(2, 5, 6, dtype=torch.float64), maps, (2, 4))
    with adding_to_gradients():
        found = torch.autograd.grad(
            [output.sum() for output in outputs], [one.weight for one in maps], allow_unused=True
        )
    assert found == (None, None)
    assert all(one.weight.grad.any() for one in maps)


def test_gradients_that_gather_nowhere_or_in_another_type_go_the_usual_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_WORTH", 0)
    weight, grad, x = nn.Parameter(torch.randn(4, 6)), torch.randn(5, 4), torch.randn(5, 6)
    with adding_to_gradients():
        assert torch.equal(room.weight_gradients([weight], grad, x)[0], grad.t() @ x)
        weight.grad = torch.zeros(4, 6)
        assert room.weight_gradients([weight], grad, x) == [None]
        assert room.weight_gradients([weight], grad.double(), x.double())[0].dtype == torch.float64
    assert torch.equal(room.weight_gradients([weight], grad, x)[0], grad.t() @ x)
