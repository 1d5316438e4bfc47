# %% [markdown]
# # Without projections a token mostly sees itself
# Three tokens are sums of orthogonal vectors of the same length, and query, key and value are the token itself. Then
# the output of the second token is nearly itself, and adding any multiples of u_c and u_d to it never gives u_b.
#
# q = k = v = x;  x₁ = u_d + u_b,  x₂ = u_a,  x₃ = u_c + u_b;  x₂·x₂ = β² and x₂·x₁ = x₂·x₃ = 0

# %%
from __future__ import annotations

import math

import torch
from pydantic import Field

from attnlab.attention import Dot, one_head
from attnlab.exhibits import Parameters, Stage, exhibit


class IdentityAttention(Parameters):
    length: float = Field(4.0, ge=2, le=25, description="β, the length of each u")
    width: int = Field(8, ge=4, le=256, description="how many numbers a token has")
    reach: float = Field(3.0, gt=0, le=10, description="the largest multiple of u_c and u_d that is added")
    seed: int = Field(0, ge=0, description="of the random directions")


# %%
@exhibit(
    "identity-attention",
    "Without projections a token mostly sees itself",
    chapter="one head against many",
    claims=("e.i",),
    equation="q = k = v = x;  x₁ = u_d + u_b,  x₂ = u_a,  x₃ = u_c + u_b,  u orthogonal of length β",
    place=3,
)
def identity_attention(show: Stage, parameters: IdentityAttention) -> None:
    """With q = k = v = x the second token gets u_a back, and adding u_c or u_d to it cannot give u_b."""
    generator = torch.Generator().manual_seed(parameters.seed)
    square = torch.randn(parameters.width, parameters.width, dtype=torch.float64, generator=generator)
    u_a, u_b, u_c, u_d = parameters.length * torch.linalg.qr(square)[0].T[:4]

    def second(c: float, d: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Return the output at x₂ = u_a + c u_c + d u_d, the weights, and x₂."""
        X = torch.stack([u_d + u_b, u_a + c * u_c + d * u_d, u_c + u_b])
        output, weights = one_head(X, X, X, score=Dot())
        return output[1], weights[1], X[1]

    got, weights, _ = second(0, 0)
    beta = parameters.length
    show.table("Weights of x₂ on", ("x₁", "x₂", "x₃"), [weights.tolist()])
    elsewhere = 2 / (math.exp(beta**2) + 2)
    away = weights[0] + weights[2]
    show.check("weight that x₂ gives elsewhere", found=away, expected=elsewhere, within=1e-12)
    # c₂ − u_a = a₁ (u_d + u_b) + a₃ (u_c + u_b) − 2 a₁ u_a with a₁ = a₃, which has length a₁ β √(1 + 1 + 4 + 4)
    distance = float((got - u_a).norm()) / beta
    derived = elsewhere / 2 * math.sqrt(10)
    show.check("|c₂ − u_a| / β", found=distance, expected=derived, within=1e-12)

    steps = [parameters.reach * (place - 3) / 3 for place in range(7)]
    cells = [[float((second(c, d)[0] - u_b).norm()) / beta for d in steps] for c in steps]
    names = [f"{step:.3g}" for step in steps]
    show.heatmap(
        "How far c₂ stays from u_b",
        cells,
        rows=names,
        x="multiple of u_d in x₂",
        y="multiple of u_c in x₂",
        unit="|c₂ − u_b| / β",
        caption="Nowhere near 0.",
    )
    show.say(
        "What carries u_b also carries u_c or u_d, and whatever is added makes x₂ more like itself: its score with "
        "itself is (1 + c² + d²) β², that with x₁ is d β² and that with x₃ is c β², which are at least ¾ β² less."
    )
    least = 1 / (1 + 2 * math.exp(-0.75 * beta**2))
    own = min(float(second(c, d)[1][1]) for c in steps for d in steps)
    show.bound("weight of x₂ on itself, at least", found=own, at_least=least)
    # Only x₂ contains u_a, so that its coefficient in c₂ is that weight.
    show.bound("|c₂ − u_b| / β at best", found=min(map(min, cells)), at_least=least)


# %%
if __name__ == "__main__":
    identity_attention.main()
