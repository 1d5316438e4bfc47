"""Under torch.compile and under autocast the results are the same, within what the types allow."""

from __future__ import annotations

import shutil
import warnings

import pytest
import torch

from attnlab.attention import Mask, MultiHeadAttention, variant, variants
from support.attention import CONTEXT, HEADS, WIDTH

NAMES = [v.name for v in variants()]


def layer_of(name: str, **changes: object) -> MultiHeadAttention:
    return MultiHeadAttention(variant(name).spec(WIDTH, HEADS, CONTEXT).replace(**changes))


def run(call: object, layer: MultiHeadAttention, tokens: torch.Tensor, **options: object) -> list[torch.Tensor]:
    tokens = tokens.clone().requires_grad_()
    layer.zero_grad()
    output = call(tokens, **options)  # type: ignore[operator]
    output.square().sum().backward()
    return [output.detach(), tokens.grad, *(p.grad.clone() for p in layer.parameters() if p.grad is not None)]


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch._dynamo.reset()


@pytest.mark.parametrize("name", NAMES)
def test_compiled_equals_eager_in_one_graph(name: str) -> None:
    """Traced whole, forward and backward, without a C++ compiler."""
    layer = layer_of(name)
    tokens = torch.randn(2, 70, WIDTH)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for found, true in zip(run(compiled, layer, tokens), run(layer, layer, tokens), strict=True):
        torch.testing.assert_close(found, true, rtol=1e-5, atol=1e-6)


def test_compiled_dropout_is_drawn_anew_at_every_call() -> None:
    layer = layer_of("sigmoid", weight_dropout=0.5)
    tokens = torch.randn(2, 20, WIDTH)
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    assert not torch.equal(compiled(tokens), compiled(tokens))
    torch.manual_seed(4)
    eager = run(layer, layer, tokens)
    torch.manual_seed(4)
    for found, true in zip(run(compiled, layer, tokens), eager, strict=True):
        torch.testing.assert_close(found, true, rtol=1e-5, atol=1e-6)


def test_compiled_with_padding_and_another_length() -> None:
    layer = layer_of("entmax15")
    compiled = torch.compile(layer, backend="aot_eager", fullgraph=True)
    for length in (20, 70, 33):
        tokens, padding = torch.randn(2, length, WIDTH), torch.rand(2, length) < 0.8
        expected = run(layer, layer, tokens, padding=padding)
        for found, true in zip(run(compiled, layer, tokens, padding=padding), expected, strict=True):
            torch.testing.assert_close(found, true, rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(shutil.which("g++") is None, reason="the default compiler of PyTorch needs g++ on the PATH")
@pytest.mark.parametrize(
    "name", ["sigmoid", *(pytest.param(one, marks=pytest.mark.slow) for one in ("softmax", "linear"))]
)
def test_compiled_for_real_equals_eager(name: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    layer = layer_of(name)
    tokens = torch.randn(2, 70, WIDTH)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's own
        compiled = run(torch.compile(layer), layer, tokens)
    for found, true in zip(compiled, run(layer, layer, tokens), strict=True):
        torch.testing.assert_close(found, true, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_autocast_errs_as_its_type_does(name: str) -> None:
    """bfloat16 projections, and no more error than they explain: as near the truth as softmax by the reference is."""
    layer = layer_of(name).train()
    tokens = torch.randn(2, 70, WIDTH)
    truth = run(layer.double(), layer, tokens.double())
    layer.float()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = run(layer, layer, tokens)
    assert found[0].dtype == torch.bfloat16 if layer.output is not None else found[0].dtype.is_floating_point
    largest = max(float(tensor.abs().max()) for tensor in truth[1:])  # a gradient may be 0 because its terms cancel
    for number, (cast, true) in enumerate(zip(found, truth, strict=True)):
        assert bool(cast.isfinite().all())
        scale = float(true.abs().max()) if number == 0 else largest
        assert float((cast.double() - true).abs().max()) <= 0.06 * scale


@pytest.mark.parametrize("name", ["sigmoid", "entmax15", "softpick", "l2", "alibi", "window", "linear"])
def test_autocast_leaves_the_kernels_exact(name: str) -> None:
    """Inside, float32: rounding the inputs to bfloat16 is all the error there is."""
    spec = variant(name).spec(WIDTH, HEADS, CONTEXT)
    if spec.mask.window:
        spec = spec.replace(mask=Mask(window=9))
    from support.attention import by_kernel, by_reference, make_inputs

    inputs = make_inputs(spec, 70, dtype=torch.bfloat16)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = by_kernel(inputs, spec).detach()
    truth = by_reference(inputs.to(torch.float64), spec).detach()
    assert float((found.double() - truth).abs().max()) <= 2**-8 * float(truth.abs().max())
