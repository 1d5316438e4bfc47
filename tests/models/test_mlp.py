"""The perceptron: its backward pass by hand equals autograd's, and keeps less."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.attention import linear
from attnlab.models import ModelSpec, mlp
from attnlab.models.mlp import ACTIVATIONS, MLP

BENT: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "gelu-tanh": lambda x: F.gelu(x, approximate="tanh"),
    "relu-squared": lambda x: F.relu(x) ** 2,
}
every_activation = pytest.mark.parametrize("activation", BENT)
with_and_without_bias = pytest.mark.parametrize("bias", [True, False])


def mlp_of(activation: str, bias: bool, width: int = 4, inner: int = 6, **changes: Any) -> MLP:
    spec = ModelSpec.build(
        vocabulary_size=5,
        num_layers=1,
        model_width=width,
        num_heads=1,
        mlp_width=inner,
        activation=activation,
        bias=bias,
        **changes,
    )
    module = MLP(spec).double()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.7)
    return module


def plain(module: MLP, x: Tensor) -> Tensor:
    """The equation, left to autograd."""
    return module.narrow(BENT[module.activation](module.widen(x)))


@every_activation
def test_the_activation_is_what_it_says(activation: str) -> None:
    x = torch.linspace(-4, 4, 101, dtype=torch.float64)
    before = x.clone()
    torch.testing.assert_close(ACTIVATIONS[activation].apply(x), BENT[activation](x))
    with torch.no_grad():
        torch.testing.assert_close(ACTIVATIONS[activation].apply(x), BENT[activation](x))
    assert torch.equal(x, before)


@pytest.mark.parametrize("piece", [1, 7, 1000])
def test_value_and_slope_in_pieces(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mlp, "_PIECE", piece)
    x = torch.cat([torch.linspace(-4, 4, 101), torch.tensor([-1e4, -30.0, 0.0, 30.0, 1e4])]).double().requires_grad_()
    wanted = BENT["gelu-tanh"](x)
    (slope,) = torch.autograd.grad(wanted.sum(), x)
    before = x.detach().clone()
    torch.testing.assert_close(ACTIVATIONS["gelu-tanh"].back(torch.full_like(before, 2.0), before), 2 * slope)
    assert torch.equal(before, x)
    both = ACTIVATIONS["gelu-tanh"].with_derivative(before)
    assert both is not None
    torch.testing.assert_close(both[0], wanted.detach())
    torch.testing.assert_close(both[1], slope)


@every_activation
@with_and_without_bias
def test_the_backward_pass_by_hand(activation: str, bias: bool) -> None:
    module = mlp_of(activation, bias)
    names = [name for name, _ in module.named_parameters()]
    assert len(names) == (4 if bias else 2)

    def call(x: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), (x,))

    x = torch.randn(2, 3, 4, dtype=torch.float64, requires_grad=True)
    parameters = [parameter.detach().clone().requires_grad_() for parameter in module.parameters()]
    assert torch.autograd.gradcheck(call, (x, *parameters))


@every_activation
@with_and_without_bias
@pytest.mark.parametrize("shape", [(5, 4), (2, 3, 4), (1, 1, 4), (2, 0, 4)], ids=str)
def test_equal_to_autograd(shape: tuple[int, ...], activation: str, bias: bool) -> None:
    module = mlp_of(activation, bias)
    x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
    wanted, found = plain(module, x), module(x)
    direction = torch.randn(shape, dtype=torch.float64)
    kept = direction.clone()
    everything = (x, *module.parameters())
    for one, other in zip(
        (found, *torch.autograd.grad(found, everything, direction)),
        (wanted, *torch.autograd.grad(wanted, everything, direction)),
        strict=True,
    ):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)
    assert torch.equal(direction, kept), "a gradient that belongs to others was overwritten"
    with torch.no_grad():
        torch.testing.assert_close(module(x), wanted, rtol=1e-12, atol=1e-12)


@every_activation
def test_going_back_twice_gives_the_same(activation: str) -> None:
    module = mlp_of(activation, bias=True)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    y = module(x).sum()
    first, second = (torch.autograd.grad(y, (x, *module.parameters()), retain_graph=True) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def kept_elements(run: Callable[[], Tensor], parameters: list[Tensor]) -> int:
    """How many numbers autograd keeps for the way back, weights apart."""
    known = {parameter.data_ptr() for parameter in parameters}
    kept: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.data_ptr() not in known:
            kept[tensor.data_ptr()] = tensor.numel()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = run()
    assert result.requires_grad
    return sum(kept.values())


@every_activation
def test_it_keeps_its_input_and_its_pre_activation(activation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = mlp_of(activation, True, width=8, inner=32)
    x = torch.randn(50, 8, dtype=torch.float64, requires_grad=True)
    parameters = list(module.parameters())
    monkeypatch.setattr(mlp, "_LARGE", 0)
    assert kept_elements(lambda: module(x), parameters) == 50 * 8 + 50 * 32
    assert kept_elements(lambda: plain(module, x), parameters) >= 50 * 8 + 2 * 50 * 32


def test_it_keeps_the_slope_where_that_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    module = mlp_of("gelu-tanh", True, width=8, inner=32)
    x = torch.randn(50, 8, dtype=torch.float64, requires_grad=True)
    size = 50 * 32 * 8
    for limit, slopes in ((size, 1), (size - 1, 0)):
        monkeypatch.setattr(mlp, "_LARGE", limit)
        assert kept_elements(lambda: module(x), list(module.parameters())) == 50 * 8 + (1 + slopes) * 50 * 32


def test_dropout_in_training_only() -> None:
    module = mlp_of("gelu", True, dropout=0.5)
    x = torch.randn(20, 4, dtype=torch.float64)
    dropped = (module.train()(x) == 0).double().mean()
    assert 0.2 < dropped < 0.8
    torch.testing.assert_close(module.eval()(x), plain(module, x))


@every_activation
@with_and_without_bias
def test_gradients_added_where_they_gather(activation: str, bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(linear, "_WORTH", 0)
    module = mlp_of(activation, bias)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    parameters = list(module.parameters())
    wanted = torch.autograd.grad(plain(module, x).sum(), (x, *parameters))
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    with linear.adding_to_gradients():
        module(x).sum().backward()
    torch.testing.assert_close(x.grad, wanted[0])
    for parameter, gradient in zip(parameters, wanted[1:], strict=True):
        torch.testing.assert_close(parameter.grad, 1 + gradient)
