# %% [markdown]
# # One head swings when a key's length varies
# Keys are drawn around orthonormal means, and one query asks for two of them. As long as the noise is small, the head
# returns the average of their values. If the length of one key varies, the output swings between the two values from
# draw to draw.
#
# q = C (μ_a + μ_b):  w = a_a / (a_a + a_b) = 1 / (1 + e^((ε_b − ε_a) C)),  ε_i = k_i·(μ_a + μ_b)

# %%
from __future__ import annotations

import math

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from attnlab.attention import Dot, one_head
from attnlab.errors import SpecError
from attnlab.exhibits import Parameters, Stage, exhibit, histogram, line, number_text, points
from attnlab.statistics import LogitNormal, estimate_mean, estimate_share, estimate_variance


class SingleHead(Parameters):
    keys: int = Field(6, ge=2, le=64, description="how many keys there are, as many as each is wide")
    strength: float = Field(20.0, ge=5, le=200, description="C, how long the query is")
    alpha: float = Field(1e-6, ge=1e-12, le=1e-4, description="α, the variance of the noise in each direction")
    samples: int = Field(20_000, ge=2000, le=100_000, description="draws of all keys")
    seed: int = Field(0, ge=0, description="of the random numbers")

    def check(self) -> None:
        noise = self.strength * math.sqrt(self.alpha)
        if noise > 0.2:
            raise SpecError(
                f"C√α = {noise:.3g} is not small, and the claim is for C√α ≪ 1",
                hint="choose strength and alpha such that it is at most 0.2",
            )

    @property
    def means(self) -> Tensor:
        """The means μ, which are the unit vectors; a is the first of them and b the second."""
        return torch.eye(self.keys, dtype=torch.float64)

    @property
    def query(self) -> Tensor:
        """The query C (μ_a + μ_b)."""
        return self.strength * self.means[:2].sum(0)

    def draw(self, generator: torch.Generator, *, alpha: float | None = None, length: float | None = None) -> Tensor:
        """Return keys (samples, keys, width) with noise of variance α, and of `length` besides for k_a along μ_a."""
        n, alpha = self.keys, self.alpha if alpha is None else alpha
        noise = torch.randn(self.samples, n, n, dtype=torch.float64, generator=generator)
        keys = self.means + math.sqrt(alpha) * noise
        if length is not None:
            keys[:, 0, 0] += math.sqrt(length) * torch.randn(self.samples, dtype=torch.float64, generator=generator)
        return keys


# %% [markdown]
# The means are the unit vectors, a is the first and b the second, and every component has noise of variance α. In the
# second half k_a ~ N(μ_a, αI + ½ μ_a μ_aᵀ): its own direction gets an additional variance of ½.


# %%
def shares(keys: Tensor, queries: Tensor) -> Tensor:
    """Return w and 1 − w for each draw (and query): how the weight on v_a and v_b is divided between the two."""
    weights = one_head(queries, keys, torch.eye(keys.shape[-1], dtype=torch.float64), score=Dot())[1][..., :2]
    return weights / weights.sum(-1, keepdim=True)


# %%
@exhibit(
    "single-head",
    "One head swings when a key's length varies",
    chapter="one head against many",
    claims=("c.i", "c.ii"),
    equation="w = a_a / (a_a + a_b) = 1 / (1 + e^((ε_b − ε_a) C)),  ε_i = k_i·(μ_a + μ_b),  so logit w is normal",
    place=1,
)
def single_head(show: Stage, parameters: SingleHead) -> None:
    """One query for two keys averages their values while C√α ≪ 1, and swings between them if a key's length varies."""
    generator = torch.Generator().manual_seed(parameters.seed)
    C, alpha = parameters.strength, parameters.alpha
    small = shares(parameters.draw(generator), parameters.query)[:, 0]
    derived = LogitNormal(0.0, 2 * C * math.sqrt(alpha))  # ε_a − ε_b has the variance 4α
    show.say(f"Small noise, C√α = {number_text(C * math.sqrt(alpha), 3)}: the head gives the average, w = ½.")
    show.sampled("mean of w", claim="c.i", samples=small, derived=0.5)
    variance = estimate_variance(small)
    show.sampled("variance of w", claim="c.i", samples=variance, derived=derived.variance)
    show.distributed("the whole distribution of w", claim="c.i", samples=small, cumulative=derived.cumulative)
    beyond(show, parameters, generator)
    swinging(show, parameters, generator)


def beyond(show: Stage, parameters: SingleHead, generator: torch.Generator) -> None:
    """Show and check the spread of w where C√α is no longer small."""
    C = parameters.strength
    noises = [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
    fewer = parameters.model_copy(update={"samples": 2000})
    found = [shares(fewer.draw(generator, alpha=(noise / C) ** 2), fewer.query)[:, 0] for noise in noises]
    spread = [math.sqrt(LogitNormal(0.0, 2 * noise).variance) for noise in noises]
    show.plot(
        "Beyond small noise",
        line("derived", noises, spread),
        points("sampled", noises, [float(one.std()) for one in found]),
        x="C√α (no unit)",
        y="standard deviation of w",
        caption="At C√α = 1 the average is gone; a coin that falls on v_a or v_b has 0.5.",
        log_x=True,
    )
    last = estimate_variance(found[-1])
    show.sampled("variance of w at C√α = 10", claim="c.i", samples=last, derived=spread[-1] ** 2)


def swinging(show: Stage, parameters: SingleHead, generator: torch.Generator) -> None:
    """Show and check that w swings between 0 and 1 for Σ_a = αI + ½ μ_a μ_aᵀ."""
    C, alpha = parameters.strength, parameters.alpha
    keys = parameters.draw(generator, length=0.5)
    both = shares(keys, parameters.query)
    swings = both[:, 0]
    derived = LogitNormal(0.0, C * math.sqrt(0.5 + 4 * alpha))
    edges = np.linspace(0, 1, 41)
    show.plot(
        "The length of k_a varies",
        histogram("sampled", swings, low=0, high=1),
        line("derived", (edges[1:] + edges[:-1]) / 2, derived.density(edges)),
        x="w, the share of v_a (0 is v_b alone)",
        y="density",
        caption="Almost every draw gives one of the two values, and not their average.",
    )
    # The smaller of w and 1 − w, because small numbers are more accurate; each is equally likely to be the smaller.
    smaller = both.min(-1).values
    show.distributed("the smaller share", claim="c.ii", samples=smaller, cumulative=lambda x: 2 * derived.cumulative(x))
    middle = float(np.diff(derived.cumulative([0.1, 0.9]))[0])
    share = estimate_share(int(((swings > 0.1) & (swings < 0.9)).sum()), len(swings), middle)
    show.sampled("share of draws with 0.1 < w < 0.9", claim="c.ii", samples=share, derived=middle)
    lengths = keys[:, :2, :2].sum(-1)  # ε_a and ε_b
    slip(show, parameters, lengths, swings)


def slip(show: Stage, parameters: SingleHead, lengths: Tensor, swings: Tensor) -> None:
    C, alpha = parameters.strength, parameters.alpha
    gap = (lengths[:, 1] - lengths[:, 0]) * C
    total = torch.exp(gap[0]) + torch.exp(-gap[0])
    show.slip(
        claim="c.ii",
        says="the weight on v_a is 1 / exp((ε_a − ε_b) C), and that on v_b 1 / exp((ε_b − ε_a) C)",
        computed=f"in the first draw these sum to {number_text(float(total), 4)}; a softmax gives "
        "1 / (1 + exp((ε_b − ε_a) C))",
    )
    show.check(
        "w is 1 / (1 + exp((ε_b − ε_a) C))", claim="c.ii", found=swings, expected=torch.sigmoid(-gap), within=1e-9
    )
    show.slip(
        claim="c.ii",
        says="ε_a and ε_b both have the variance ½",
        computed=f"only k_a varies in length: ε_b is {number_text(float(estimate_mean(lengths[:, 1]).value), 6)} "
        f"± {number_text(float(lengths[:, 1].std()), 2)}",
    )
    for name, column, variance in (("ε_a", 0, 0.5 + 2 * alpha), ("ε_b", 1, 2 * alpha)):
        estimate = estimate_variance(lengths[:, column])
        show.sampled(f"variance of {name}", claim="c.ii", samples=estimate, derived=variance)


# %%
if __name__ == "__main__":
    single_head.main()
