# %% [markdown]
# # Long keys draw attention
# The dot product of q and 2q is twice that of q and q, although they point in the same direction. So a long key gets
# more weight than a short one in the same direction; the cosine gives both the same.
#
# cos(q, k) = q·k / (|q| |k|) ∈ [−1, 1];  a_long / a_short = e^((c − 1) q·k) for keys k and c k

# %%
from __future__ import annotations

import math

import torch
from pydantic import Field

from attnlab.attention import Cosine, Dot, Matched, ScaledDot, one_head
from attnlab.exhibits import Parameters, Stage, exhibit, line, points
from attnlab.statistics import estimate_mean


class Magnitude(Parameters):
    key_width: int = Field(16, ge=2, le=512, description="D_k, how many numbers a query and a key have")
    keys: int = Field(32, ge=8, le=256, description="how many keys a query chooses from")
    stretch: float = Field(3.0, ge=2, le=6, description="how many times longer one key is made")
    samples: int = Field(4000, ge=1000, le=20_000, description="draws of a query and its keys")
    seed: int = Field(0, ge=0, description="of the random numbers")


# %%
@exhibit(
    "magnitude",
    "Long keys draw attention",
    chapter="magnitude",
    claims=("0.2", "0.3"),
    equation="cos(q, k) = q·k / (|q| |k|);  a_long / a_short = e^((c − 1) q·k) for the keys k and c k",
    place=1,
)
def magnitude(show: Stage, parameters: Magnitude) -> None:
    """Without normalisation long vectors draw attention by their length and not by their direction."""
    generator = torch.Generator().manual_seed(parameters.seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, parameters.key_width, dtype=torch.float64, generator=generator)

    queries, keys = draw(parameters.samples, 1), draw(parameters.samples, parameters.keys)
    cosines = Cosine().define(Matched(queries[:, None], keys[:, None], 1, parameters.keys))
    show.bound("largest |cos(q, k)|", claim="0.2", found=float(cosines.abs().max()), at_most=1 + 1e-12)
    q = queries[0]
    twice = Matched(q[None, None], torch.cat([q, 2 * q])[None, None], 1, 2)
    dots, same = Dot().define(twice).flatten(), Cosine().define(twice).flatten()
    show.check("(q·2q) / (q·q)", claim="0.2", found=dots[1] / dots[0], expected=2.0, within=1e-12)
    show.check("cos(q, 2q) and cos(q, q)", claim="0.2", found=same, expected=1.0, within=1e-12)
    one_direction(show, parameters, q[0])
    by_length(show, parameters, queries, keys)


def one_direction(show: Stage, parameters: Magnitude, q: torch.Tensor) -> None:
    show.say(f"Two keys of the query's own direction, one {parameters.stretch:g} times as long as the other:")
    short = q / q.norm()
    pair = torch.stack([short, parameters.stretch * short])
    rows = []
    for score in (Dot(), Cosine()):
        weights = one_head(q, pair, pair, score=score)[1]
        rows.append((score.kind, weights[0], weights[1], weights[1] / weights[0]))
    show.table("Weights", ("score", "short key", "long key", "ratio"), rows)
    gap = (parameters.stretch - 1) * float(q @ short)
    show.check("log of the ratio, dot", claim="0.3", found=math.log(rows[0][3]), expected=gap, within=1e-9)
    show.check("ratio, cosine", claim="0.3", found=rows[1][3], expected=1.0, within=1e-12)


def by_length(show: Stage, parameters: Magnitude, queries: torch.Tensor, keys: torch.Tensor) -> None:
    """Measure and show the mean weight of a key against its length, among keys of random directions."""
    fair = 1 / parameters.keys
    lengths = [parameters.stretch**power for power in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    found = {}
    for score in (ScaledDot(), Cosine()):
        estimates = []
        for length in lengths:
            scale = torch.ones(parameters.keys, 1, dtype=keys.dtype)
            scale[0] = length
            estimates.append(estimate_mean(one_head(queries, keys * scale, keys, score=score)[1][:, 0, 0]))
        found[score.kind] = estimates
    show.plot(
        "What the lengthened key receives",
        *(points(name, lengths, [e.value for e in got], [4 * e.error for e in got]) for name, got in found.items()),
        line("a fair share, 1/n", lengths, [fair] * len(lengths)),
        x="length of the key (times the others')",
        y="mean weight (share of 1)",
        caption="Whiskers are four standard errors. Directions are random: nothing but the length differs.",
        log_x=True,
    )
    long, even = found["scaled-dot"][-1], found["cosine"][-1]
    show.sampled("mean weight of the long key, cosine", claim="0.3", samples=even, derived=fair)
    share = long.value / fair
    show.bound("mean weight of the long key, in fair shares, scaled-dot", claim="0.3", found=share, at_least=1.1)


# %%
if __name__ == "__main__":
    magnitude.main()
