# %% [markdown]
# # Why scores are divided by √D_k
# The wider random queries and keys are, the larger the variance of their dot product. Softmax of such scores puts all
# weight on one key and stops learning; divided by √D_k they have the same variance at any width.
#
# E[q·k] = D_k μ² and Var(q·k) = D_k (σ⁴ + 2μ²σ²), so Var(q·k / √D_k) = 1 for μ = 0, σ = 1

# %%
from __future__ import annotations

import math

import numpy as np
import torch
from pydantic import Field

from attnlab.attention import Softmax, dot_mean, dot_variance, draw_scores, softmax_slope, weight_entropy
from attnlab.exhibits import Parameters, Stage, exhibit, histogram, line, points
from attnlab.statistics import estimate_mean, estimate_variance


class Scaling(Parameters):
    key_width: int = Field(64, ge=1, le=4096, description="D_k, how many numbers a query and a key have")
    mean: float = Field(0.0, ge=-3, le=3, description="μ, the mean of each of them")
    deviation: float = Field(1.0, ge=0.05, le=3, description="σ, their standard deviation")
    samples: int = Field(50_000, ge=2000, le=500_000, description="pairs of a query and a key that are drawn")
    keys: int = Field(64, ge=8, le=1024, description="how many keys a softmax runs over")
    seed: int = Field(0, ge=0, description="of the random numbers")


WIDTHS = (1, 4, 16, 64, 256, 1024)
ROWS = 200  # softmaxes for each width


# %% [markdown]
# First the moments, derived and sampled; then entropy and gradient of softmax against D_k, with and without scaling.


# %%
@exhibit(
    "scaling",
    "Why scores are divided by √D_k",
    chapter="why scale",
    claims=("0.4", "2a", "2b", "2c"),
    equation="E[q·k] = D_k μ²,  Var(q·k) = D_k (σ⁴ + 2μ²σ²),  s = √D_k",
)
def scaling(show: Stage, parameters: Scaling) -> None:
    """Dividing by √D_k keeps the variance of the scores at 1, like a temperature, so that softmax can still learn."""
    generator = torch.Generator().manual_seed(parameters.seed)
    moments(show, parameters, generator)
    sweep(show, parameters, generator)
    temperature(show, parameters, generator)


def moments(show: Stage, parameters: Scaling, generator: torch.Generator) -> None:
    width, mu, sigma = parameters.key_width, parameters.mean, parameters.deviation
    mean, variance = dot_mean(width, mu), dot_variance(width, mu, sigma)
    drawn = draw_scores(parameters.samples, 1, width, mean=mu, deviation=sigma, generator=generator)[:, 0]
    show.sampled("mean of q·k", claim="2a", samples=drawn, derived=mean)
    show.sampled("variance of q·k", claim="2b", samples=estimate_variance(drawn), derived=variance)
    scaled = estimate_variance(drawn / math.sqrt(width))
    show.sampled("variance of q·k / √D_k", claim="2c", samples=scaled, derived=variance / width)
    root = math.sqrt(dot_variance(width))
    show.check("s that makes the variance 1 where μ = 0, σ = 1", claim="2c", found=root, expected=math.sqrt(width))
    reach = 4 * math.sqrt(variance)
    x = np.linspace(mean - reach, mean + reach, 161)
    normal = np.exp(-((x - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    show.plot(
        "Scores before scaling",
        histogram("sampled", drawn, low=mean - reach, high=mean + reach),
        line("normal of the derived mean and variance", x, normal),
        x="q·k (no unit)",
        y="density",
        caption="A sum of D_k products: the wider, the nearer to a normal distribution.",
    )


def sweep(show: Stage, parameters: Scaling, generator: torch.Generator) -> None:
    found: dict[str, list[tuple[float, float, float, float]]] = {"with the root": [], "without": []}
    for width in WIDTHS:
        scores = draw_scores(ROWS, parameters.keys, width, generator=generator)
        for name, divisor in (("with the root", math.sqrt(width)), ("without", 1.0)):
            weights = Softmax().weights(scores / divisor, torch.ones_like(scores, dtype=torch.bool))
            entropy, slope = estimate_mean(weight_entropy(weights)), estimate_mean(softmax_slope(weights))
            found[name].append((entropy.value, 4 * entropy.error, slope.value, 4 * slope.error))
    show.say(f"Softmax over {parameters.keys} keys, the mean of {ROWS} draws at each width, for μ = 0 and σ = 1:")
    for column, (what, unit) in enumerate(
        (("Entropy of the weights", "nats"), ("Gradient Σ ∂p/∂s of softmax", "no unit"))
    ):
        show.plot(
            what,
            *(
                points(name, WIDTHS, [row[2 * column] for row in rows], [row[2 * column + 1] for row in rows])
                for name, rows in found.items()
            ),
            x="key width D_k (numbers)",
            y=f"{what.split(' ')[0].lower()} ({unit})",
            caption="Whiskers are four standard errors.",
            log_x=True,
        )
    (wide, narrow), bare = (found["with the root"][place] for place in (-1, 2)), found["without"][-1]
    steady = "of entropy from D_k = 16 to 1024, with the root"
    show.bound(f"change {steady}", claim="0.4", found=abs(wide[0] - narrow[0]), at_most=0.25)
    show.bound("entropy without, as a share of that with the root", claim="0.4", found=bare[0] / wide[0], at_most=0.4)
    show.bound(
        "gradient without the root, as a share of that with it", claim="0.4", found=bare[2] / wide[2], at_most=0.4
    )


def temperature(show: Stage, parameters: Scaling, generator: torch.Generator) -> None:
    scores = draw_scores(ROWS, parameters.keys, parameters.key_width, generator=generator)
    everything = torch.ones_like(scores, dtype=torch.bool)
    T = math.sqrt(parameters.key_width)
    scaled, plain = (Softmax().weights(scores / divisor, everything) for divisor in (T, 1.0))
    powers = plain ** (1 / T)
    show.formula("softmax(s / T)_j = p_j^(1/T) / Σ p_l^(1/T),  p = softmax(s),  T = √D_k")
    same = powers / powers.sum(-1, keepdim=True)
    show.check("the root is a temperature", claim="0.4", found=scaled, expected=same, within=1e-9)


# %%
if __name__ == "__main__":
    scaling.main()
