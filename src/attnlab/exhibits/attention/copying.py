# %% [markdown]
# # Attention copies, if one score is far enough above the others
# The weight of the best of n keys is at least 1 / (1 + (n − 1) e^−g), where g is the gap between its score and the
# next. This gives the gap needed for any error. The signs of the other scores do not matter: the keys need not oppose
# the query.
#
# g = log((n − 1)(1 − ε) / ε) makes the others' weight at most ε

# %%
from __future__ import annotations

import math

import torch
from pydantic import Field

from attnlab.attention import Dot, one_head
from attnlab.exhibits import Parameters, Stage, exhibit, line, points


class Copying(Parameters):
    keys: int = Field(16, ge=2, le=1024, description="n, how many keys there are")
    error: float = Field(0.01, ge=1e-9, le=0.5, description="ε, the weight that may go elsewhere")
    seed: int = Field(0, ge=0, description="of the random numbers")


# %% [markdown]
# With q = e₁ the score of a key is its first component, so that scores can be chosen freely.


# %%
def weights_for(scores: torch.Tensor) -> torch.Tensor:
    keys = scores[:, None]
    return one_head(torch.ones(1, dtype=scores.dtype), keys, keys, score=Dot())[1]


@exhibit(
    "copying",
    "Attention copies, if one score is far enough above the others",
    chapter="copying and averaging",
    claims=("a",),
    equation="a_i ≥ 1 / (1 + (n − 1) e^−g),  g = min_j (k_i − k_j)·q\nfor an error ε: g = log((n − 1)(1 − ε) / ε)",
    place=1,
)
def copying(show: Stage, parameters: Copying) -> None:
    """Attention copies v_i when k_i·q is far above every other, and how far follows from the error allowed."""
    n, error = parameters.keys, parameters.error
    gap = math.log((n - 1) * (1 - error) / error)
    first = torch.zeros(n, dtype=torch.float64)
    first[0] = 1.0
    show.numbers("Enough", {"keys n": n, "error ε allowed": error, "gap g needed": gap})

    missed = 1 - weights_for(gap * first)[0]
    show.check("weight elsewhere when all others lie g below", found=missed, expected=error, within=1e-12)
    generator = torch.Generator().manual_seed(parameters.seed)
    below = -10 * torch.rand(200, n, dtype=torch.float64, generator=generator) * (1 - first)
    worst = max(float(1 - weights_for(row + gap * first)[0]) for row in below)
    show.bound("the same, at worst, when they lie g or more below", found=worst, at_most=error)

    gaps = [gap * share for share in (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)]
    show.plot(
        "How far is far enough",
        line("derived", gaps, [(n - 1) * math.exp(-g) / (1 + (n - 1) * math.exp(-g)) for g in gaps]),
        points("computed", gaps, [1 - float(weights_for(g * first)[0]) for g in gaps]),
        x="gap g between the best score and the others (nats)",
        y="weight elsewhere (share of 1)",
        caption="Each nat of gap divides the error by e, once it is small.",
        log_y=True,
    )
    opposition(show, n, gap, first)


def opposition(show: Stage, n: int, gap: float, first: torch.Tensor) -> None:
    """Show that the other keys' sign does not matter: all scores may be shifted together."""
    plain = weights_for(gap * first)
    agreeing = weights_for(gap * first + 100)  # every key agrees with the query, and strongly
    faint = weights_for(0.01 * (2 * first - 1))  # every other key opposes it, and weakly
    rows = [
        (f"the others at 0, v₁ at {gap:.3g}", 0.0, float(plain[0])),
        (f"the others at +100, v₁ at {100 + gap:.4g}", 100.0, float(agreeing[0])),
        ("the others at −0.01, v₁ at +0.01", -0.01, float(faint[0])),
    ]
    show.table("Need the others oppose the query?", ("scores", "the others'", "weight on v₁"), rows)
    show.slip(
        says="v_i is copied when k_i points along the query and the others oppose it",
        computed="opposing is not needed: with all others at +100 the copy is the same; only the gap counts, and a "
        f"faint opposition gives {float(faint[0]):.3g}, hardly more than 1/n = {1 / n:.3g}",
    )
    show.check("weight on v₁, the others at +100 or at 0", found=agreeing, expected=plain, within=1e-12)


# %%
if __name__ == "__main__":
    copying.main()
