# %% [markdown]
# # With K, Q and V a token gets what it asks for
# The same three tokens as in `identity-attention`. Are there matrices with which the output of the second token is u_b
# and that of the first is u_b − u_c? Two rank-one terms in Q choose the token to attend to, two in V what to read from
# it.
#
# V = (u_b u_bᵀ − u_c u_cᵀ) / β²,  K = I,  Q = s (u_d u_aᵀ + u_c u_dᵀ) / β²

# %%
from __future__ import annotations

import math

import torch
from pydantic import Field

from attnlab.attention import Dot, one_head
from attnlab.exhibits import Parameters, Stage, exhibit, line, points


class KqvConstruction(Parameters):
    length: float = Field(4.0, ge=0.5, le=10, description="β, the length of each u")
    width: int = Field(8, ge=4, le=256, description="how many numbers a token has")
    sharpness: float = Field(1.0, ge=0.1, le=5, description="s, how strongly Q asks")
    seed: int = Field(0, ge=0, description="of the random directions")


# %% [markdown]
# Why it works: v₁ = V (u_d + u_b) = u_b, v₂ = V u_a = 0, v₃ = V (u_c + u_b) = u_b − u_c. And q₂ = Q u_a = s u_d matches
# only x₁, q₁ = Q (u_d + u_b) = s u_c only x₃, each with a score of s β².


# %%
@exhibit(
    "kqv-construction",
    "With K, Q and V a token gets what it asks for",
    chapter="one head against many",
    claims=("e.ii",),
    equation="V = (u_b u_bᵀ − u_c u_cᵀ) / β²,  K = I,  Q = s (u_d u_aᵀ + u_c u_dᵀ) / β²",
    place=4,
)
def kqv_construction(show: Stage, parameters: KqvConstruction) -> None:
    """Matrices K, Q, V exist with which c₂ ≈ u_b and c₁ ≈ u_b − u_c: here they are."""
    generator = torch.Generator().manual_seed(parameters.seed)
    square = torch.randn(parameters.width, parameters.width, dtype=torch.float64, generator=generator)
    beta, s = parameters.length, parameters.sharpness
    u_a, u_b, u_c, u_d = beta * torch.linalg.qr(square)[0].T[:4]
    X = torch.stack([u_d + u_b, u_a, u_c + u_b])

    V = (torch.outer(u_b, u_b) - torch.outer(u_c, u_c)) / beta**2
    K = torch.eye(parameters.width, dtype=torch.float64)
    Q = s * (torch.outer(u_d, u_a) + torch.outer(u_c, u_d)) / beta**2

    def attend(strength: float) -> tuple[torch.Tensor, torch.Tensor]:
        """Return outputs and weights, with Q scaled such that the wanted score, s β², is `strength`."""
        return one_head(strength / (s * beta**2) * X @ Q.T, X @ K.T, X @ V.T, score=Dot())

    C, A = attend(s * beta**2)
    names = ["x₁", "x₂", "x₃"]
    show.heatmap("The weights", A, rows=names, x="key", y="query", unit="weight")
    show.say("x₂ looks at x₁ and takes u_b; x₁ looks at x₃ and takes u_b − u_c; x₃ asks for nothing and averages.")
    values = torch.stack([u_b, 0 * u_b, u_b - u_c])
    show.check("the values are u_b, 0 and u_b − u_c", found=X @ V.T, expected=values, within=1e-9)
    ranks = [int(torch.linalg.matrix_rank(M)) for M in (Q, V)]
    show.check("the ranks of Q and V", found=ranks, expected=[2, 2])

    def misses(output: torch.Tensor) -> list[float]:
        return [float(miss) for miss in (output[:2] - torch.stack([u_b - u_c, u_b])).norm(dim=-1) / beta]

    def derived(strength: float) -> list[float]:
        """Return |2r u_c − r u_b| / β for c₁ and |r (u_b + u_c)| / β for c₂; each unwanted token has the weight r."""
        r = 1 / (math.exp(strength) + 2)
        return [r * math.sqrt(5), r * math.sqrt(2)]

    missed = misses(C)
    show.check("|c₁ − (u_b − u_c)| / β and |c₂ − u_b| / β", found=missed, expected=derived(s * beta**2), within=1e-9)
    strengths = [0.0, 2.0, 4.0, 8.0, 12.0, 16.0, 20.0]
    found = [misses(attend(strength)[0]) for strength in strengths]
    show.plot(
        "How near they come",
        line("c₁, derived", strengths, [derived(strength)[0] for strength in strengths]),
        line("c₂, derived", strengths, [derived(strength)[1] for strength in strengths]),
        points("c₁ to u_b − u_c", strengths, [one for one, _ in found]),
        points("c₂ to u_b", strengths, [two for _, two in found]),
        x="s β², the score of what is wanted (nats)",
        y="distance ÷ β",
        caption="As near as one likes: the distance falls as e^(−s β²).",
        log_y=True,
    )
    show.bound("the larger distance ÷ β at s β² = 20", found=max(found[-1]), at_most=1e-8)


# %%
if __name__ == "__main__":
    kqv_construction.main()
