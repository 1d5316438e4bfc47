# %% [markdown]
# # Five features in two dimensions
# A toy model must compress n features into m < n numbers and reconstruct them. If the features are always active, it
# keeps m of them and gives up the rest. If each is rarely active, it keeps more than m: their directions share the
# space, and for five features in a plane they are the corners of a pentagon.
#
# x̂ = ReLU(WᵀWx + b), W of shape (m, n); each xᵢ is active with probability p, and then uniform in [0, 1]

# %%
from __future__ import annotations

from itertools import pairwise

import torch
from pydantic import Field
from torch import Tensor

from attnlab.errors import SpecError
from attnlab.exhibits import Parameters, Stage, exhibit, line, number_text, points
from attnlab.lens import feature_dimensions, learn_superposition

CORNERS = 5


class Superposition(Parameters):
    densities: tuple[float, ...] = Field(
        (1.0, 0.3, 0.05), description="chances p that a feature is there, falling from 1 to 0.1 or less, at least 0.01"
    )
    features: int = Field(12, ge=4, le=40, description="features n of the larger toys")
    dimensions: tuple[int, ...] = Field((2, 4, 6, 8), description="dimensions m of the larger toys, at most 2n/3")
    steps: int = Field(1000, ge=600, le=20_000, description="training steps of each toy")
    seed: int = Field(0, ge=0, description="of weights and samples")

    def check(self) -> None:
        chances = self.densities
        falling = all(a > b for a, b in pairwise(chances))
        if len(chances) < 2 or not falling or chances[0] != 1 or not 0.01 <= chances[-1] <= 0.1:
            raise SpecError(
                f"densities = {','.join(map(str, chances))} do not fall from 1 to something between 0.1 and 0.01",
                hint="use some such as 1,0.3,0.05",
            )
        if not self.dimensions or min(self.dimensions) < 1 or 3 * max(self.dimensions) > 2 * self.features:
            raise SpecError(
                f"dimensions = {','.join(map(str, self.dimensions))} are not between 1 and two thirds of "
                f"{self.features} features",
                hint="use fewer dimensions, or more features",
            )


# %%
def turns(weights: Tensor) -> Tensor:
    """Return the angles, in degrees, from each column of (2, features) to the next one around the origin."""
    angles = torch.rad2deg(torch.atan2(weights[1], weights[0])).sort().values
    return torch.diff(angles, append=angles[:1] + 360)


def around(weights: Tensor) -> tuple[Tensor, Tensor]:
    """Return the two coordinates of the columns in the order of their angles, back to the first."""
    order = torch.atan2(weights[1], weights[0]).argsort()
    closed = weights[:, [*order, order[0]]]
    return closed[0], closed[1]


# %%
@exhibit(
    "superposition",
    "Five features in two dimensions",
    chapter="geometry",
    claims=("1.15",),
    equation="x̂ = ReLU(WᵀWx + b),  W (m, n), m < n\nfeatures learned = Σ min(1, |W_i|²)",
    place=2,
    trains=True,
    smoke={"steps": 600, "dimensions": (2, 4)},
)
def superposition(show: Stage, parameters: Superposition) -> None:
    """Features that are seldom there at once share dimensions: five of them become a pentagon in a plane."""
    found = learn_superposition(
        CORNERS,
        2,
        parameters.densities,
        steps=parameters.steps,
        seed=parameters.seed,
        watched=lambda steps: show.progress(steps, "5 features in 2 dimensions"),
    )
    show.plot(
        "Where the features lie",
        line(f"around p = {found[-1].density:g}", *around(found[-1].weights)),
        *(points(f"p = {one.density:g}", one.weights[0], one.weights[1]) for one in found),
        x="first dimension",
        y="second dimension",
        caption="Each point is a feature, a column of W. Seldom there, they are a pentagon around (0, 0).",
        equal=True,
    )
    show.table(
        "Five features in two dimensions",
        ("p", "features learned", "dimensions of each", "loss"),
        [
            (
                one.density,
                one.features_learned,
                ", ".join(f"{share:.2f}" for share in feature_dimensions(one.weights).tolist()),
                one.loss,
            )
            for one in found
        ],
    )
    dense, sparse = found[0], found[-1]
    show.check(
        "always there: features learned, as many as dimensions", found=dense.features_learned, expected=2, within=0.15
    )
    show.check(
        f"p = {sparse.density:g}: degrees from each feature to the next, a pentagon's 72",
        found=turns(sparse.weights),
        expected=360 / CORNERS,
        within=4,
    )
    show.check(
        "its features have 2/5 of a dimension each",
        found=feature_dimensions(sparse.weights),
        expected=2 / CORNERS,
        within=0.02,
    )
    without = (CORNERS - 2) * (1 / 3 - sparse.density / 4)  # two features exactly, and only the mean of the others
    show.bound(
        f"its loss, against {number_text(without, 3)} without superposition", found=sparse.loss, at_most=without / 2
    )
    larger(show, parameters)


# %% [markdown]
# More features, more dimensions: how many of n features a toy model learns in m dimensions.


# %%
def larger(show: Stage, parameters: Superposition) -> None:
    n = parameters.features
    learned = torch.tensor(
        [
            [
                one.features_learned
                for one in learn_superposition(
                    n, m, parameters.densities, beginnings=3, steps=parameters.steps, seed=parameters.seed
                )
            ]
            for m in show.progress(parameters.dimensions, f"{n} features")
        ]
    )  # (dimensions, densities)
    show.plot(
        f"How many of {n} features are learned",
        line("one a dimension", parameters.dimensions, parameters.dimensions),
        *(
            points(f"p = {density:g}", parameters.dimensions, learned[:, place])
            for place, density in enumerate(parameters.densities)
        ),
        x="dimensions m",
        y="features learned",
        caption="What is always there gets one dimension each; the rarer features are, the more of them fit.",
    )
    show.check(
        "always there: features learned per dimension",
        found=learned[:, 0] / torch.tensor(parameters.dimensions),
        expected=1,
        within=0.15,
    )
    ratio = learned[:, -1] / learned[:, 0]
    show.bound(
        f"p = {parameters.densities[-1]:g}: times as many features as when they are always there, at least",
        found=float(ratio.min()),
        at_least=1.2,
    )


# %%
if __name__ == "__main__":
    superposition.main()
