# %% [markdown]
# # Go up once
# A full value matrix, D × D, is too large; so it is the product of a down-projection into the head's small space and an
# up-projection. The weighted sum can then be taken in the small space: it is linear, so that a single up-projection at
# the end gives the same result.
#
# Σᵢ pᵢ · W↑(W↓ Eᵢ) = W↑(Σᵢ pᵢ · W↓ Eᵢ)

# %%
from __future__ import annotations

from collections.abc import Callable

import torch
from pydantic import Field
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from attnlab.attention import AttentionSpec, MultiHeadAttention
from attnlab.cost import attention_cost
from attnlab.errors import SpecError
from attnlab.exhibits import Parameters, Stage, exhibit, line, number_text
from attnlab.models import size

MARGIN = 1e-10  # for the outputs, which are of order 1


class LowRankValue(Parameters):
    model_width: int = Field(384, ge=2, le=2048, description="the width D of the model")
    value_width: int = Field(32, ge=1, le=2048, description="the width r of a head's values, below the model's")
    tokens: int = Field(96, ge=1, le=1024, description="the number N of tokens")
    seed: int = Field(0, ge=0, description="of the random numbers")

    def check(self) -> None:
        if self.value_width >= self.model_width:
            raise SpecError(
                f"a value width of {self.value_width} is not below the model's {self.model_width}",
                hint="use a smaller value_width",
            )


# %%
@exhibit(
    "low-rank-value",
    "Go up once",
    chapter="values and their rank",
    claims=("1.9",),
    equation="Σ_i p_i · W↑(W↓ E_i) = W↑(Σ_i p_i · W↓ E_i)",
    place=2,
)
def low_rank_value(show: Stage, parameters: LowRankValue) -> None:
    """Weighting in the small space and going up once equals going up for each token, and costs far less."""
    D, r, N = parameters.model_width, parameters.value_width, parameters.tokens
    generator = torch.Generator().manual_seed(parameters.seed)
    down, up = (torch.randn(D, r, dtype=torch.float64, generator=generator) / D**0.5 for _ in range(2))
    E = torch.randn(N, D, dtype=torch.float64, generator=generator)
    P = torch.softmax(torch.randn(N, N, dtype=torch.float64, generator=generator), dim=-1)
    full = down @ up.T  # (D, D), of rank r
    ways: dict[str, tuple[Callable[[], Tensor], int, int]] = {
        "a full value matrix": (lambda: P @ (E @ full), D * D, 2 * N * D * D + 2 * N * N * D),
        "down and up for each token": (lambda: P @ ((E @ down) @ up.T), 2 * D * r, 4 * N * D * r + 2 * N * N * D),
        "up once, after weighting": (lambda: (P @ (E @ down)) @ up.T, 2 * D * r, 4 * N * D * r + 2 * N * N * r),
    }
    outputs, counted = {}, {}
    for name, (way, _, _) in ways.items():
        with FlopCounterMode(display=False) as counter:
            outputs[name] = way()
        counted[name] = counter.get_total_flops()
    first, *_, last = ways
    show.table(
        f"One head, {N} tokens of width {D}, values of width {r}",
        ("way", "parameters", "FLOPs counted", "of the first"),
        [
            (name, parameters_of, counted[name], f"{counted[name] / counted[first]:.1%}")
            for name, (_, parameters_of, _) in ways.items()
        ],
    )
    for name in list(ways)[1:]:
        show.check(f"{name}: the output", found=outputs[name], expected=outputs[first], within=MARGIN)
    show.check(
        "FLOPs by PyTorch's counter: 2ND² + 2N²D, 4NDr + 2N²D, 4NDr + 2N²r",
        found=list(counted.values()),
        expected=[flops for _, _, flops in ways.values()],
    )
    show.require(
        "going up once saves FLOPs against going up for each token",
        holds=counted[last] < counted["down and up for each token"],
        figure=f"{counted[last]:,} < {counted['down and up for each token']:,}",
    )

    show.say("The same with two whole layers of 2 heads, one with a full value map for each head, one with W↓ and W↑:")
    narrow = MultiHeadAttention(AttentionSpec(model_width=D, num_heads=2, key_width=r, value_width=r, bias=False))
    wide = MultiHeadAttention(narrow.spec.replace(value_map="full"))
    narrow, wide = narrow.double().eval(), wide.double().eval()
    weights = narrow.state_dict()
    rises, falls = weights.pop("output.weight").split(r, dim=1), weights["projections.value.weight"].split(r)
    full_maps = torch.cat([rise @ fall for rise, fall in zip(rises, falls, strict=True)])
    wide.load_state_dict({**weights, "projections.value.weight": full_maps})
    with torch.no_grad():
        both = wide(E[None]), narrow(E[None])
    show.check("full value maps W↑W↓: the layer's output", found=both[0], expected=both[1], within=MARGIN)

    show.say("At GPT-3's size the choice is not one of taste:")
    shape = size("gpt3")
    whole = AttentionSpec(model_width=shape.model_width, num_heads=shape.num_heads, bias=False)
    contexts = [2**k for k in range(7, 18)]
    flops = {
        name: [attention_cost(spec, queries=n).forward_flops for n in contexts]
        for name, spec in (("full value map", whole.replace(value_map="full")), ("down, weight, up once", whole))
    }
    show.plot(
        "FLOPs of one of GPT-3's attention layers",
        *(line(name, contexts, numbers) for name, numbers in flops.items()),
        x="context N (tokens)",
        y="forward FLOPs of a layer",
        log_x=True,
        log_y=True,
        caption=f"{shape.num_heads} heads of width {whole.value_width}, model width {shape.model_width:,}.",
    )
    ratios = [a / b for a, b in zip(*flops.values(), strict=True)]
    show.bound(
        "times as many FLOPs with full value maps, at GPT-3's context of 2048",
        found=ratios[contexts.index(2048)],
        at_least=10,
    )
    show.say(f"The factor lies between {number_text(min(ratios), 3)} and {number_text(max(ratios), 3)} over the plot.")


# %%
if __name__ == "__main__":
    low_rank_value.main()
