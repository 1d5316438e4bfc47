"""The checks on whole layers: sound ones pass, and each planted mistake is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnlab.attention import add_layer
from attnlab.conformance import check_variant, require_sound
from attnlab.conformance.suite import CHECKS
from attnlab.errors import UnsupportedError
from support.layers import ConvGate, FadingMean, MemoryAttention, sound_layers


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with sound_layers():
        yield


@pytest.mark.parametrize("name", ["conv-gate:2", "fading-mean", "memory"])
def test_sound_layers_pass(name: str) -> None:
    report = check_variant(name)
    assert report.failures == ()
    found = {one.check: one for one in report.findings}
    assert found.keys() == {check.name for check in CHECKS} | {"speed"}
    reasons = {check: one.detail for check, one in found.items() if one.outcome == "not applicable"}
    masked = name == "memory"
    assert reasons.keys() == {"visible tokens", "kernel"} | (set() if masked else {"padding", "patterns"})
    assert all(reasons.values())


class LookingAhead(ConvGate):
    """A convolution that sees the next token."""

    def forward(self, x: Tensor) -> Tensor:
        around = F.pad(x.transpose(1, 2), (1, 1))
        result: Tensor = self.output(torch.sigmoid(self.gate(x)) * self.mix(around).transpose(1, 2))
        return result


class MaskIgnored(MemoryAttention):
    """Takes the mask and forgets it."""

    def forward(self, x: Tensor, mask: Tensor, source: Tensor | None = None) -> Tensor:
        return super().forward(x, torch.ones_like(mask), source)


class PaddingCounted(MemoryAttention):
    """Adds the share of visible keys, padding included."""

    def forward(self, x: Tensor, mask: Tensor, source: Tensor | None = None) -> Tensor:
        return super().forward(x, mask, source) * (1 + mask.shape[-1])


class Remembering(ConvGate):
    """Keeps the mean of its last input."""

    last: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        before = 0.0 if self.last is None else self.last.to(x.dtype)
        self.last = x.detach().mean()
        return super().forward(x) + before


class Counting(ConvGate):
    """Counts its calls in a buffer, which changes no output."""

    def __init__(self, model_width: int) -> None:
        super().__init__(model_width)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return super().forward(x)


class Noisy(ConvGate):
    """Adds noise, also where there is no dropout."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1e-3 * torch.randn_like(x)


class Detached(ConvGate):
    """Uses its gate without a gradient."""

    def forward(self, x: Tensor) -> Tensor:
        past = F.pad(x.transpose(1, 2), (self.mix.kernel_size[0] - 1, 0))
        gate = torch.sigmoid(F.linear(x, self.gate.weight.detach(), self.gate.bias))
        result: Tensor = self.output(gate * self.mix(past).transpose(1, 2))
        return result


class Idle(ConvGate):
    """Has a parameter that it does not use."""

    def __init__(self, model_width: int) -> None:
        super().__init__(model_width)
        self.idle = nn.Parameter(torch.zeros(3))


class Forgetful(FadingMean):
    """Forgets part of its state from call to call."""

    def forward(self, x: Tensor, cache: dict[str, Tensor] | None = None) -> Tensor:
        result = super().forward(x, cache)
        if cache is not None:
            cache["state"] = 0.9 * cache["state"]
        return result


class HalfExact(ConvGate):
    """Gives float32, whatever it gets."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).float()


class Unstable(ConvGate):
    """Overflows on large tokens."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) / torch.exp(x.square().mean(-1, keepdim=True)).clamp(max=1e30).log()


class DrawnElsewhere(ConvGate):
    """Draws first weights that no seed decides."""

    def __init__(self, model_width: int) -> None:
        super().__init__(model_width)
        generator = torch.Generator()
        generator.seed()
        self.shift = nn.Parameter(torch.randn(model_width, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + self.shift


MISTAKES: dict[str, tuple[type[nn.Module], str, bool]] = {
    "a convolution that sees the next token": (LookingAhead, "hidden tokens", True),
    "a mask that is ignored": (MaskIgnored, "hidden tokens", True),
    "hidden keys counted": (PaddingCounted, "cut sequences", True),
    "state kept between calls": (Remembering, "determinism", True),
    "a buffer that changes": (Counting, "determinism", True),
    "noise": (Noisy, "determinism", True),
    "weights that no seed decides": (DrawnElsewhere, "determinism", True),
    "a detached parameter": (Detached, "gradients", True),
    "a parameter without effect": (Idle, "gradients", True),
    "a cache that forgets": (Forgetful, "decoding", False),
    "another type": (HalfExact, "shapes and types", False),
    "zero divided by zero": (Unstable, "corner cases", False),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_each_planted_mistake_is_found(mistake: str) -> None:
    module, check, quick = MISTAKES[mistake]
    add_layer("planted", module)
    report = check_variant("planted", quick=quick)
    assert check in {finding.check for finding in report.failures}, report.findings
    if not quick:
        return
    with pytest.raises(UnsupportedError, match="'planted' fails the check of"):
        require_sound(["softmax,(planted),softmax"])
