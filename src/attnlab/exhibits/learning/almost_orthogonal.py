# %% [markdown]
# # Nearly orthogonal directions
# There are only as many perpendicular directions as dimensions, but far more nearly perpendicular ones: however small
# the slack, their number grows exponentially with the dimension, so that a model can hold more ideas than it is wide.
#
# 1 / P(|cos| > c) ≤ N, and P falls by the factor sin θ for each further dimension, with c = cos θ

# %%
from __future__ import annotations

import math
from itertools import pairwise

import torch
from pydantic import Field

from attnlab.errors import SpecError
from attnlab.exhibits import Parameters, Stage, exhibit, line, number_text, points
from attnlab.lens import (
    chance_of_closeness,
    covering_bound,
    expected_sampled,
    johnson_lindenstrauss_bound,
    largest_cosine,
    sampled_directions,
    spread_directions,
    spread_ladder,
    welch_bound,
)
from attnlab.statistics import estimate_share

PAIRS = 20_000  # random pairs, to see how often they are close


class AlmostOrthogonal(Parameters):
    angles: tuple[float, ...] = Field(
        (65.0, 70.0, 80.0), description="least angles between directions, 45 to 89 degrees"
    )
    widths: tuple[int, ...] = Field((4, 8, 16, 32, 64, 128), description="dimensions to sample in, rising, 2 to 512")
    small_widths: tuple[int, ...] = Field((2, 3, 4, 5, 6, 7), description="dimensions to optimise in, rising, 2 to 12")
    tries: int = Field(1500, ge=100, le=10_000, description="random directions that are tried")
    model_width: int = Field(12_288, ge=64, le=10**6, description="the width to say what is certain for, GPT-3's")
    seed: int = Field(0, ge=0, description="of the random directions")

    def check(self) -> None:
        for name, low, high in (("angles", 45, 89), ("widths", 2, 512), ("small_widths", 2, 12)):
            values: tuple[float, ...] = getattr(self, name)
            rising = all(a < b for a, b in pairwise(values))
            if not (values and rising and low <= values[0] and values[-1] <= high):
                raise SpecError(
                    f"{name} = {','.join(map(str, values))} do not rise from {low} or more to {high} or less",
                    hint=f"give some numbers between {low} and {high}, the smallest first",
                )


def cosine(degrees: float) -> float:
    return math.cos(math.radians(degrees))


# %%
@exhibit(
    "almost-orthogonal",
    "Nearly orthogonal directions",
    chapter="geometry",
    claims=("1.15",),
    equation="N ≥ 1 / P(|cos| > c),  P = I(1 − c²; (D − 1)/2, ½),  P(D + 1) / P(D) → sin θ,  c = cos θ",
    place=1,
)
def almost_orthogonal(show: Stage, parameters: AlmostOrthogonal) -> None:
    """The number of nearly perpendicular directions grows exponentially with the dimension."""
    angles, widths, tries, seed = parameters.angles, parameters.widths, parameters.tries, parameters.seed
    show.say("How often are two random directions closer than allowed? Less and less often, the more dimensions.")
    generator = torch.Generator().manual_seed(seed)
    middle = angles[len(angles) // 2]
    for width in sorted({widths[0], widths[len(widths) // 2]}):
        one, other = torch.randn(2, PAIRS, width, generator=generator)
        near = int((torch.cosine_similarity(one, other, dim=-1).abs() > cosine(middle)).sum())
        chance = math.exp(chance_of_closeness(width, cosine(middle)))
        show.sampled(
            f"the share of pairs closer than {middle:g}° in {width} dimensions",
            samples=estimate_share(near, PAIRS, expected=chance),
            derived=chance,
        )

    counts, excess, shortfall = {}, 0.0, math.inf
    for angle in angles:
        for width in widths:
            kept = sampled_directions(width, cosine(angle), tries=tries, seed=seed)
            counts[angle, width] = len(kept)
            excess = max(excess, largest_cosine(kept) - cosine(angle))
            least = expected_sampled(width, cosine(angle), tries)
            shortfall = min(shortfall, (len(kept) - least) / math.sqrt(tries - least + 1))
    show.plot(
        f"Directions found by sampling, of {tries} tried",
        line("perpendicular", widths, widths),
        *(points(f"≥ {angle:g}° apart", widths, [counts[angle, width] for width in widths]) for angle in angles),
        x="width D (dimensions)",
        y="directions",
        log_x=True,
        log_y=True,
        caption=f"The line is straight; the sampled points curve upwards until all {tries} tries are kept.",
    )
    show.check("by how much the largest |cos| of a set breaks its limit", found=excess, expected=0)
    show.bound(
        "kept, less (1 − (1 − P)^tries) / P, which must be expected, in its standard deviations, at worst",
        found=shortfall,
        at_least=-4,
    )

    ladders = {
        width: spread_ladder(width, cosine(angles[0]), seed=seed)
        for width in show.progress(parameters.small_widths, "moving directions apart")
    }
    found = {
        (angle, width): max(count for count, reached in ladder.items() if reached <= cosine(angle))
        for angle in angles
        for width, ladder in ladders.items()
    }
    show.plot(
        "Directions found by descent on the largest |cos|",
        line("perpendicular", parameters.small_widths, parameters.small_widths),
        *(
            points(f"≥ {angle:g}° apart", parameters.small_widths, [found[angle, width] for width in ladders])
            for angle in angles
        ),
        x="width D (dimensions)",
        y="directions",
        log_y=True,
        caption="Moved apart on purpose, they are many more than by sampling, and at most 64 were tried.",
    )
    gain = min(
        found[angle, width] / len(sampled_directions(width, cosine(angle), tries=tries, seed=seed))
        for angle, width in found
    )
    show.bound("descent finds so many times as many as sampling, at least", found=gain, at_least=1)
    over = max(
        math.log(count) - welch_bound(width, cosine(angle)) for (angle, width), count in {**counts, **found}.items()
    )
    show.bound("ln of the largest excess over what is possible (Welch)", found=over, at_most=1e-9)
    show.check(
        "6 directions in 3 dimensions: descent finds the icosahedron's |cos|, 1/√5",
        found=largest_cosine(spread_directions(6, 3, seed=seed)),
        expected=1 / math.sqrt(5),
        within=1e-3,
    )
    certain(show, parameters.model_width)


# %% [markdown]
# Guaranteed bounds, without any search. The Johnson–Lindenstrauss lemma is about distances of any points under a random
# projection; applied to perpendicular vectors, it guarantees nearly perpendicular ones, but fewer than the cap bound.


# %%
def certain(show: Stage, width: int) -> None:
    """Show and check the numbers of directions that the bounds guarantee at the width of a large model."""
    show.say(
        "What is certain without any search? Around each direction lies a cap of others that are too close to it, a "
        "share P of all. When no direction can be added any more, the caps cover everything: there are at least 1 / P. "
        "The lemma of Johnson and Lindenstrauss is about any points, and promises less."
    )
    angles = (60, 70, 80, 85, 88, 89)
    rows = []
    for angle in angles:
        covering, lemma = covering_bound(width, cosine(angle)), johnson_lindenstrauss_bound(width, cosine(angle))
        rows.append((f"{angle}°", power_of_ten(max(lemma, 0.0)), power_of_ten(covering), covering > math.log(width)))
    show.table(
        f"Directions that certainly fit into {width:,} dimensions",
        ("least angle", "Johnson–Lindenstrauss", "caps", f"more than {width:,}"),
        rows,
    )
    widths = [width * step // 8 for step in range(1, 9)]
    show.plot(
        "Directions that certainly fit",
        *(line(f"caps, {a}°", widths, [covering_bound(w, cosine(a)) / math.log(10) for w in widths]) for a in (80, 85)),
        line("JL, 80°", widths, [max(0.0, johnson_lindenstrauss_bound(w, cosine(80))) / math.log(10) for w in widths]),
        x="width D (dimensions)",
        y="log₁₀ of their number",
        caption="The logarithm is a straight line, so the number grows exponentially with the width.",
    )
    gaps = [covering_bound(w, cosine(a)) - johnson_lindenstrauss_bound(w, cosine(a)) for w in widths for a in angles]
    show.bound("ln by which caps promise more than the lemma, at least", found=min(gaps), at_least=0)
    growth = [(covering_bound(10 * width, cosine(a)) - covering_bound(9 * width, cosine(a))) / width for a in angles]
    show.check(
        "ln of the factor for each further dimension: −ln sin θ, so the growth is exponential",
        found=growth,
        expected=[-math.log(math.sin(math.radians(a))) for a in angles],
        within=1 / width,
    )
    show.say(
        f"The slack must not be too small, though. Growth sets in where D cos² θ is well above 1; for 89° it is "
        f"{number_text(width * cosine(89) ** 2, 2)} here, and {power_of_ten(covering_bound(width, cosine(89)))} "
        f"directions are certain, besides the {width:,} that are perpendicular anyway."
    )


def power_of_ten(logarithm: float) -> str:
    """Return the text of a number given by its natural logarithm: a power of ten from 10⁵ on."""
    tens = logarithm / math.log(10)
    return f"{math.exp(logarithm):,.0f}" if tens < 5 else f"10^{tens:,.0f}"


# %%
if __name__ == "__main__":
    almost_orthogonal.main()
