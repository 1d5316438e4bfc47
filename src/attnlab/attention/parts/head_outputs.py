"""Changes of the head outputs before they are joined.

    gate         o_h ⊙ σ(x W_h)                     a gate from the token scales the output of each head
                                                    (arXiv 2505.06708)
    norm         c g ⊙ o_h / rms(o_h)               each head separately, with a gain g that the heads share
                                                    (arXiv 2410.05258)
    gated-norm   g ⊙ o_h / rms(o_h) ⊙ SiLU(x W_h)   a size that does not depend on the state of a recurrence, and a gate
                                                    (arXiv 2307.08621, 2312.06635, 2412.06464)
    exclusive    o_h − (o_h·v) v / |v|²             no component along the token's own value v (arXiv 2603.09078)

A user-defined head output only needs `apply`, and may scale, normalise or mix heads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from pydantic import PositiveFloat
from torch import Tensor

from attnlab.attention.gradients import exclude, head_norm
from attnlab.attention.parts.part import Declared, Parameter, Part, Projection

if TYPE_CHECKING:
    from attnlab.attention.spec import AttentionSpec


class HeadOutput(Part):
    """The base class of all head outputs."""

    family: ClassVar[str] = "head output"
    equation: ClassVar[str]
    takes_value: ClassVar[bool] = False  # whether `apply` gets the value of the query's token, as `value`

    def formula(self) -> str:
        """Return the equation with its numbers."""
        return self.equation

    def apply(self, heads: Tensor, *args: Any, **own: Any) -> Tensor:
        """Return (batch, heads, tokens, value width) from the same; parameters are passed by name."""
        raise NotImplementedError


class OutputGate(HeadOutput):
    """A gate between 0 and 1 on the output of each head, computed from the query's token.

    With `per="number"` each number of a head's output has its own gate, which the paper finds best; with `per="head"`
    all numbers of a head share one gate.
    """

    kind: ClassVar[str] = "gate"
    equation: ClassVar[str] = "o ⊙ σ(x W_G)"
    variants = (
        Declared(
            "output-gate",
            "A gate made from the token scales every number of a head's output.",
            "Qiu et al. 2025, arXiv 2505.06708",
            "0.11: let a head say nothing",
        ),
        Declared(
            "head-gate",
            "A gate made from the token scales the output of each head.",
            "Qiu et al. 2025, arXiv 2505.06708",
            "0.11: let a head say nothing",
            {"per": "head"},
        ),
    )

    per: Literal["number", "head"] = "number"

    def formula(self) -> str:
        return self.equation if self.per == "number" else "o σ(x·w_G)"

    def projections(self, spec: AttentionSpec) -> dict[str, Projection]:
        return {"gate": Projection(spec.value_width if self.per == "number" else 1)}

    def apply(self, heads: Tensor, gate: Tensor) -> Tensor:
        return heads * torch.sigmoid(gate)


class GatedNorm(HeadOutput):
    """RMSNorm of each head's output, times a gate from the token. The scale g is one vector for all heads."""

    kind: ClassVar[str] = "gated-norm"
    equation: ClassVar[str] = "g ⊙ o / rms(o) ⊙ SiLU(x W_G)"

    def parameters(self, spec: AttentionSpec) -> dict[str, Parameter]:
        return {"scale": Parameter(1.0, shape=(spec.value_width,), per="layer")}

    def projections(self, spec: AttentionSpec) -> dict[str, Projection]:
        return {"gate": Projection(spec.value_width)}

    def apply(self, heads: Tensor, gate: Tensor, scale: Tensor) -> Tensor:
        return head_norm(heads, scale, gate, epsilon=1e-5)


class HeadNorm(HeadOutput):
    """RMSNorm of each head's output, times a fixed factor, as in differential attention."""

    kind: ClassVar[str] = "norm"
    equation: ClassVar[str] = "c g ⊙ o / rms(o)"

    factor: PositiveFloat = 1.0

    def formula(self) -> str:
        return f"{self.equation}, c = {self.factor:g}"

    def parameters(self, spec: AttentionSpec) -> dict[str, Parameter]:
        return {"gain": Parameter(initial=1.0, shape=(spec.value_width,), per="layer")}

    def apply(self, heads: Tensor, gain: Tensor) -> Tensor:
        return head_norm(heads, gain * self.factor, epsilon=1e-5)


class Exclusive(HeadOutput):
    """Removes the component along the token's own value, which the residual path already has, from each head's output.

    The first token, which sees only itself, thus gets a zero output.
    """

    kind: ClassVar[str] = "exclusive"
    equation: ClassVar[str] = "o − (o·v_i) v_i / |v_i|²"
    takes_value: ClassVar[bool] = True
    variants = (
        Declared(
            "exclusive",
            "What lies along the token's own value is taken out of each head's output.",
            "Zhai 2026, arXiv 2603.09078",
            "0.3: what draws attention",
        ),
    )

    def apply(self, heads: Tensor, value: Tensor) -> Tensor:
        return exclude(heads, value)
