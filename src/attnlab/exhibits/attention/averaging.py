# %% [markdown]
# # A query between two keys averages their values
# For orthonormal keys, q = C (k_a + k_b) has the score C with both and 0 with all others. As C grows, the output
# approaches the average of v_a and v_b, and its error is known exactly.
#
# a_a = a_b = 1 / (2 + (n − 2) e^−C),  a_j = e^−C / (2 + (n − 2) e^−C)

# %%
from __future__ import annotations

import math

import torch
from pydantic import Field

from attnlab.attention import Dot, one_head
from attnlab.errors import SpecError
from attnlab.exhibits import Parameters, Stage, exhibit, line, points, vector_text


class Averaging(Parameters):
    keys: int = Field(8, ge=3, le=256, description="n, how many keys there are")
    width: int = Field(16, ge=3, le=512, description="how many numbers a key and a value have, at least n")
    strength: float = Field(10.0, ge=0, le=300, description="C, how long the query is")
    seed: int = Field(0, ge=0, description="of the random keys and values")

    def check(self) -> None:
        if self.keys > self.width:
            raise SpecError(
                f"{self.keys} keys of width {self.width} cannot be orthonormal",
                hint=f"set width to {self.keys} or more",
            )


# %%
@exhibit(
    "averaging",
    "A query between two keys averages their values",
    chapter="copying and averaging",
    claims=("b",),
    equation="q = C (k_a + k_b):  a_a = a_b = 1 / (2 + (n − 2) e^−C),  the others e^−C / (2 + (n − 2) e^−C)",
    place=2,
)
def averaging(show: Stage, parameters: Averaging) -> None:
    """q = C (k_a + k_b) with a large C gives the average of v_a and v_b for orthonormal keys."""
    generator = torch.Generator().manual_seed(parameters.seed)
    shape = parameters.width, parameters.keys
    K = torch.linalg.qr(torch.randn(shape, dtype=torch.float64, generator=generator))[0].T  # rows are orthonormal
    V = torch.randn(parameters.keys, parameters.width, dtype=torch.float64, generator=generator)
    average = (V[0] + V[1]) / 2
    others = V[2:].mean(0)
    n, C = parameters.keys, parameters.strength

    def output(strength: float) -> tuple[torch.Tensor, torch.Tensor]:
        return one_head(strength * (K[0] + K[1]), K, V, score=Dot())

    got, weights = output(C)
    show.numbers(
        f"C = {C:g}", {"weight on v_a and v_b": vector_text(weights[:2]), "weight on each other": float(weights[2])}
    )
    denominator = 2 + (n - 2) * math.exp(-C)
    derived = torch.tensor([1.0, 1.0] + [math.exp(-C)] * (n - 2), dtype=torch.float64) / denominator
    show.check("the weights, by the closed form", found=weights, expected=derived, within=1e-12)

    def closed(strength: float) -> float:
        """Return the distance from the average: the others' share of the way to their mean."""
        share = (n - 2) * math.exp(-strength) / (2 + (n - 2) * math.exp(-strength))
        return share * float((others - average).norm())

    error = float((got - average).norm())
    show.check("|c − (v_a + v_b)/2|, by the closed form", found=error, expected=closed(C), within=1e-12)
    strengths = [0.0, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]
    errors = [float((output(strength)[0] - average).norm()) for strength in strengths]
    show.plot(
        "The average is reached as C grows",
        line("derived", strengths, [closed(strength) for strength in strengths]),
        points("computed", strengths, errors),
        x="C, the query's length (no unit)",
        y="|c − (v_a + v_b)/2| (units of v)",
        caption="The error falls as e^−C.",
        log_y=True,
    )
    show.bound("error at C = 14, as a share of that at C = 0", found=errors[-1] / errors[0], at_most=1e-3)


# %%
if __name__ == "__main__":
    averaging.main()
