# %% [markdown]
# # Two heads keep the average steady
# Each of two heads asks for a single key, and their outputs are averaged. Whether the key is longer or shorter than
# usual no longer matters, as long as it does not reverse its direction.
#
# q₁ = C μ_a, q₂ = C μ_b, c = ½ (c₁ + c₂); steady while ε_a = k_a·μ_a > 0, and P(ε_a > 0) = Φ(1 / √(½ + α))

# %%
from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import torch
from pydantic import Field

from attnlab.exhibits import Stage, exhibit, histogram, line
from attnlab.exhibits.heads.single_head import SingleHead, shares
from attnlab.statistics import LogitNormal, estimate_share, estimate_variance


class MultiHead(SingleHead):
    strength: float = Field(20.0, ge=5, le=100, description="C, how long the queries are")


# %% [markdown]
# Keys as in `single-head`: around unit vectors, a the first and b the second, with a variance of `length` along μ_a.
# The measure is again how the weight on v_a and v_b is divided between the two.


# %%
@exhibit(
    "multi-head",
    "Two heads keep the average steady",
    chapter="one head against many",
    claims=("d.i", "d.ii"),
    equation="q₁ = C μ_a,  q₂ = C μ_b,  c = ½ (c₁ + c₂)\nsteady while ε_a = k_a·μ_a > 0: P(ε_a > 0) = Φ(1 / √(½ + α))",
    place=2,
)
def multi_head(show: Stage, parameters: MultiHead) -> None:
    """Two heads that ask for a key each keep the average, in about 92 % of draws even where a key's length varies."""
    generator = torch.Generator().manual_seed(parameters.seed)
    each = parameters.strength * parameters.means[:2]  # the two heads' queries
    rows = []
    for claim, length, name in (("d.i", 0.0, "αI"), ("d.ii", 0.5, "αI + ½ μ_a μ_aᵀ")):
        keys = parameters.draw(generator, length=length)
        one, two = shares(keys, parameters.query)[:, 0], shares(keys, each)
        # The share of v_a in ½ (c₁ + c₂), minus ½, from the error of each head, without cancellation.
        off = (two[:, 1, 0] - two[:, 0, 1]) / 2
        alone, together = derived(parameters, length)
        single, double = estimate_variance(one), estimate_variance(off)
        rows.append((name, single.value, alone.variance, double.value, together))
        show.sampled(f"variance with one head, Σ_a = {name}", claim=claim, samples=single, derived=alone.variance)
        show.sampled(f"variance with two heads, Σ_a = {name}", claim=claim, samples=double, derived=together)
        ratio = single.value / double.value
        show.bound(f"variance of one head ÷ that of two, Σ_a = {name}", claim=claim, found=ratio, at_least=4)
    headings = ("Σ_a", "one head, sampled", "derived", "two heads, sampled", "derived ")
    show.table("Variance of the share of v_a in the output", headings, rows)
    lengthened(show, parameters, keys, one, two)


def derived(parameters: MultiHead, length: float) -> tuple[LogitNormal, float]:
    """Return the distribution of v_a's share with one head, and its variance with two, whose noise is independent."""
    C, alpha = parameters.strength, parameters.alpha
    first, second = (LogitNormal(-C, C * math.sqrt(spread + 2 * alpha)) for spread in (length, 0.0))
    return LogitNormal(0.0, C * math.sqrt(length + 4 * alpha)), (first.variance + second.variance) / 4


def lengthened(show: Stage, parameters: MultiHead, keys: torch.Tensor, one: torch.Tensor, two: torch.Tensor) -> None:
    """Show and check the share of v_a with one head and with two, where the length of k_a varies."""
    C, alpha = parameters.strength, parameters.alpha
    first = LogitNormal(C, C * math.sqrt(0.5 + 2 * alpha))  # the first head's share of v_a; the second gives v_b
    balance = (two[:, 0, 0] + two[:, 1, 0]) / 2
    edges = np.linspace(0, 1, 42)
    centres, width = (edges[1:] + edges[:-1]) / 2, edges[1]
    show.plot(
        "The share of v_a in the output, where the length of k_a varies",
        histogram("two heads, sampled", balance, bins=41, low=0, high=1),
        line("two heads, derived", centres, np.diff(first.cumulative(np.minimum(2 * edges, 1))) / width),
        line("one head, derived", centres, derived(parameters, 0.5)[0].density(edges)),
        x="share of v_a (½ is the average)",
        y="density",
        caption="Two heads stay at ½ except where k_a turns round; one head is nearly always at 0 or 1.",
    )
    wrong = LogitNormal(-first.location, first.scale)  # the weight on v_b instead, which is small and so more accurate
    show.distributed("the first head's share of v_b", claim="d.ii", samples=two[:, 0, 1], cumulative=wrong.cumulative)
    upright = NormalDist(1.0, math.sqrt(0.5 + alpha)).cdf(2.0)  # as likely below 2 as above 0
    share = estimate_share(int((keys[:, 0, 0] > 0).sum()), len(keys), upright)
    show.sampled("share of draws with ε_a > 0", claim="d.ii", samples=share, derived=upright)
    near = [f"{float(((shares - 0.5).abs() < 0.05).double().mean()):.1%}" for shares in (balance, one)]
    show.numbers("Draws within 0.05 of the average", {"two heads": near[0], "one head": near[1]})


# %%
if __name__ == "__main__":
    multi_head.main()
