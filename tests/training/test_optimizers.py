"""AdamW and Muon on flat memory, against PyTorch's AdamW and the singular value decomposition."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from attnlab.errors import SpecError
from attnlab.models import LanguageModel, ModelSpec, build_model
from attnlab.training import OPTIMIZERS, OptimizerSpec
from attnlab.training.engine import optimizers
from attnlab.training.engine.optimizers import Optimizer, clip_factor, orthogonal
from attnlab.training.engine.parameters import WHOLE, FlatParameters, Shard

SHAPE = {"num_layers": 2, "model_width": 16, "num_heads": 2, "context_length": 8}


def make(kind: str, **changes: object) -> tuple[LanguageModel, Optimizer]:
    architecture = "fast" if kind == "muon" else "gpt2"
    model = build_model(ModelSpec.build("nano", vocabulary_size=19, architecture=architecture, **SHAPE), seed=1)
    return model, Optimizer(OptimizerSpec(**{**OPTIMIZERS[kind].model_dump(), **changes}), model)


def draw_gradients(optimizer: Optimizer, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    for name, gradient in optimizer.flat.named(optimizer.flat.gradients).items():
        gradient.normal_(generator=generator)
        del name


def test_parameters_and_gradients_are_views_of_one_piece() -> None:
    model = build_model(ModelSpec.build("nano", vocabulary_size=19, **SHAPE), seed=1)
    before = {name: parameter.detach().clone() for name, parameter in model.named_parameters()}
    flat = FlatParameters(model, lambda *_: "any")
    assert all(torch.equal(parameter, before[name]) for name, parameter in model.named_parameters())
    model.loss(torch.ones(1, 8, dtype=torch.long), torch.ones(1, 8, dtype=torch.long)).backward()
    norms = [parameter.grad.norm() ** 2 for parameter in model.parameters()]
    assert torch.linalg.vector_norm(flat.gradients) ** 2 == pytest.approx(float(sum(norms)), rel=1e-5)
    flat.values.zero_()
    assert not any(parameter.any() for parameter in model.parameters())


def test_matrices_of_one_shape_lie_side_by_side() -> None:
    model, optimizer = make("muon")
    groups = [group for group in optimizer.flat.groups if group.kind == "matrix"]
    assert len({group.shape for group in groups}) == len(groups)
    matrices = [name for group in groups for name in group.names]
    expected = [name for name, p in model.named_parameters() if ".blocks." in name and p.dim() == 2]
    assert sorted(matrices) == sorted(expected)
    for group in groups:
        batch = optimizer.flat.values[group.start :][: len(group.names) * group.shape[0] * group.shape[1]]
        for name, matrix in zip(group.names, batch.view(-1, *group.shape), strict=True):
            assert torch.equal(matrix, dict(model.named_parameters())[name])


def test_adamw_is_pytorchs() -> None:
    model, optimizer = make("adamw")
    twin = copy.deepcopy(model)  # with parameters of its own
    for parameter, own in zip(twin.parameters(), model.parameters(), strict=True):
        parameter.data = own.detach().clone()
    plain = [p for p in twin.parameters() if p.dim() < 2]
    matrices = [p for p in twin.parameters() if p.dim() >= 2]
    spec = optimizer.spec
    witness = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": spec.weight_decay}, {"params": plain, "weight_decay": 0.0}],
        lr=spec.learning_rate,
        betas=spec.betas,
        eps=spec.epsilon,
        fused=True,
    )
    for step in range(5):
        draw_gradients(optimizer, step)
        for parameter, own in zip(twin.parameters(), model.parameters(), strict=True):
            parameter.grad = own.grad.clone()
        for group in witness.param_groups:
            group["lr"] = spec.learning_rate * (step + 1) / 5
        witness.step()
        optimizer.step((step + 1) / 5)
        for own, other in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(own, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", ["attention.output", "mlp.widen", "mlp.narrow"])  # square, tall and wide
def test_muon_is_its_equation(name: str) -> None:
    name = f"stack.blocks.1.{name}.weight"
    model, optimizer = make("muon", weight_decay=0.1)
    parameter, spec = dict(model.named_parameters())[name], optimizer.spec
    weight, momentum = parameter.detach().clone(), torch.zeros_like(parameter)
    for step in range(3):
        draw_gradients(optimizer, step)
        gradient = parameter.grad.clone()
        momentum = spec.momentum * momentum + gradient
        update = orthogonal((gradient + spec.momentum * momentum)[None], spec.iterations)[0]
        rate = spec.matrix_learning_rate * 0.5
        rows, columns = weight.shape
        weight = weight * (1 - rate * spec.weight_decay) - rate * max(1, rows / columns) ** 0.5 * update
        optimizer.step(0.5)
        torch.testing.assert_close(parameter.detach(), weight, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(8, 8), (8, 24), (24, 8), (1, 5)])
def test_orthogonal_keeps_directions_and_levels_singular_values(shape: tuple[int, int]) -> None:
    matrix = torch.randn(1, *shape)
    u, s, v = torch.linalg.svd(matrix[0], full_matrices=False)
    result = orthogonal(matrix)[0]
    core = u.T @ result @ v.T  # diagonal, if the directions are kept
    values = core.diagonal()
    assert torch.allclose(core, torch.diag(values), atol=2e-5)
    # The quintic maps [0.08, 1] into this band after five steps; what begins smaller, relative to the length, lags.
    large = s / s.norm() > 0.01
    assert ((values[large] > 0.6) & (values[large] < 1.25)).all()
    assert (values > 0).all()


def test_orthogonal_is_the_quintic_on_the_singular_values() -> None:
    matrix = torch.randn(6, 10, dtype=torch.float64)
    u, s, v = torch.linalg.svd(matrix, full_matrices=False)
    s = s / s.norm()
    for _ in range(5):
        s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
    expected = u @ torch.diag(s) @ v
    torch.testing.assert_close(orthogonal(matrix[None], 5, torch.float64)[0], expected, rtol=1e-5, atol=1e-5)


def test_orthogonal_together_is_one_by_one() -> None:
    matrices = torch.randn(5, 12, 20)
    together = orthogonal(matrices)
    alone = torch.cat([orthogonal(matrix[None]) for matrix in matrices])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-6)
    assert orthogonal(matrices, precision=torch.bfloat16).dtype == torch.float32


def test_orthogonal_of_nothing_is_nothing() -> None:
    assert torch.equal(orthogonal(torch.zeros(1, 4, 6)), torch.zeros(1, 4, 6))


@pytest.mark.parametrize("kind", ["adamw", "muon"])
@pytest.mark.parametrize("size", [2, 3])
def test_parts_together_are_the_whole(kind: str, size: int) -> None:
    (_, whole), (_, parted) = make(kind), make(kind)
    for step in range(3):
        draw_gradients(whole, step)
        draw_gradients(parted, step)
        spent = torch.ones_like(parted.flat.gradients)
        whole.step(0.7, WHOLE, 0.1)
        count = parted.count.clone()
        for rank in range(size):
            parted.count.copy_(count)  # each process has its own
            parted.step(0.7, Shard(rank, size), 0.1, [spent])
        assert not whole.flat.gradients.any()
        assert not parted.flat.gradients.any()
        assert not any(gradient.any() for gradient in parted.flat.named(spent).values())
    # Equal but for batches of another length, which matrix products may add up in another order.
    torch.testing.assert_close(parted.flat.values, whole.flat.values, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(parted.first, whole.first, rtol=1e-6, atol=1e-7)
    assert parted.count == whole.count == 3


@pytest.mark.parametrize("size", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [0, 1, 5, 12])
def test_parts_cover_everything_once(size: int, count: int) -> None:
    places = [place for rank in range(size) for place in range(count)[Shard(rank, size).of(count)]]
    assert places == list(range(count))


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_what_it_remembers_comes_back(kind: str) -> None:
    (_, first), (_, second) = make(kind), make(kind)
    for step in range(2):
        draw_gradients(first, step)
        first.step(1.0)
    state = {name: tensor.clone() for name, tensor in first.state().items()}
    assert state["count"] == 2
    second.flat.values.copy_(first.flat.values)
    second.load_state(state)
    for optimizer in (first, second):
        draw_gradients(optimizer, 9)
        optimizer.step(1.0)
    assert torch.equal(first.flat.values, second.flat.values)
    assert all(torch.equal(tensor, second.state()[name]) for name, tensor in first.state().items())
    assert {name for name in state if name.startswith("first.")} == {
        f"first.{name}" for name in first.flat.parameters
    }, "every parameter has a first moment by its name"


@pytest.mark.parametrize("kind", ["adamw", "muon"])
@pytest.mark.parametrize("piece", [1, 100, 10_000])
def test_pieces_are_the_whole(kind: str, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (_, whole), (_, pieces) = make(kind), make(kind)
    for optimizer, size in ((whole, 1 << 40), (pieces, piece)):
        monkeypatch.setattr(optimizers, "_PIECE", size)
        draw_gradients(optimizer, 0)
        optimizer.step(0.7)
    torch.testing.assert_close(pieces.flat.values, whole.flat.values, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_a_scaled_gradient_is_a_shorter_gradient(kind: str) -> None:
    (_, one), (_, other) = make(kind), make(kind)
    draw_gradients(one, 0)
    draw_gradients(other, 0)
    other.flat.gradients.mul_(0.25)
    one.step(1.0, scale=0.25)
    other.step(1.0)
    assert torch.equal(one.first, other.first)
    assert torch.equal(one.flat.values, other.flat.values)


def test_a_gradient_is_clipped_only_if_it_is_longer() -> None:
    assert clip_factor(2.0, 0.5) == 0.25
    assert clip_factor(0.5, 0.5) == clip_factor(0.0, 0.5) == 1.0
    assert clip_factor(float("nan"), 0.5) == 1.0  # the run ends, and says why


def test_decay_is_for_matrices_alone() -> None:
    model, optimizer = make("adamw", weight_decay=0.5)
    nn.init.ones_(model.stack.blocks[0].mlp_norm.bias)
    optimizer.step(1.0)  # with a gradient of 0
    assert (model.stack.blocks[0].mlp_norm.weight == 1).all()
    assert (model.stack.blocks[0].mlp_norm.bias == 1).all()
    fresh = build_model(model.spec, seed=1)
    torch.testing.assert_close(model.embedding.weight, fresh.embedding.weight * (1 - 0.5 * 1e-3))


@pytest.mark.parametrize("bad", [{"kind": "sgd"}, {"learning_rate": 0}, {"betas": (0.9, 1.0)}, {"momentum": -0.1}])
def test_what_is_no_optimizer(bad: dict[str, object]) -> None:
    with pytest.raises(SpecError, match="an optimizer"):
        OptimizerSpec(**bad)
