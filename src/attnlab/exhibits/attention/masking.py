# %% [markdown]
# # Masked means zero
# A model that predicts the next token must not see it. So the scores of later tokens are set to −∞ before the softmax,
# and their weights are 0: not small, but 0. An encoder, which reads a whole text at once, has no such mask.
#
# zᵢⱼ = −∞ for j > i; aᵢ = softmax(zᵢ); aᵢⱼ = e^zᵢⱼ / Σₗ e^zᵢₗ = 0 for j > i

# %%
from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor

from attnlab.attention import Mask, one_head
from attnlab.exhibits import Parameters, Stage, exhibit
from attnlab.models import Family, ModelSpec, build_model

VOCABULARY = 50


class Masking(Parameters):
    tokens: int = Field(6, ge=2, le=24, description="how long the text is, in tokens")
    key_width: int = Field(8, ge=1, le=1024, description="the width of queries and keys")
    seed: int = Field(0, ge=0, description="of the random vectors and weights")


# %% [markdown]
# The outputs of a whole model for a text, and how much each output changes when one of the tokens is replaced.


# %%
def moved_outputs(family: Family, tokens: int, seed: int) -> Tensor:
    """Return (tokens, tokens): row t has the largest change of each output when token t is replaced."""
    spec = ModelSpec.build("pico", vocabulary_size=VOCABULARY, family=family)
    model = build_model(spec, seed).double().eval()
    text = torch.randint(VOCABULARY, (1, tokens), generator=torch.Generator().manual_seed(seed))
    others = text.repeat(tokens, 1)
    others.diagonal().add_(1).remainder_(VOCABULARY)
    with torch.no_grad():
        # One text at a time: with another batch size the same sums could be rounded differently.
        return torch.cat([(model(other[None]) - model(text)).abs().amax(-1) for other in others])


# %%
@exhibit(
    "masking",
    "Masked means zero",
    chapter="masks and shapes",
    claims=("1.5",),
    equation="z_ij = −∞ for j > i  ⇒  a_ij = e^(−∞) / Σ_l e^(z_il) = 0",
    place=1,
)
def masking(show: Stage, parameters: Masking) -> None:
    """A score of −∞ before the softmax is a weight of exactly 0 after it, so no token can hear of a later one."""
    count, width = parameters.tokens, parameters.key_width
    generator = torch.Generator().manual_seed(parameters.seed)
    Q, K, V = torch.randn(3, count, width, dtype=torch.float64, generator=generator)
    future = torch.ones(count, count, dtype=torch.bool).triu(1)
    Z = (Q @ K.T / math.sqrt(width)).masked_fill(future, -math.inf)
    A = torch.softmax(Z, dim=-1)
    names = [str(i + 1) for i in range(count)]
    show.heatmap(
        "Weights under the causal mask",
        A,
        rows=names,
        x="key: the token that is looked at",
        y="query: the token that looks",
        unit="weight",
        caption="Above the diagonal all is 0, and what is left of a row sums to 1.",
    )
    show.check("weights of later tokens, by −∞ before the softmax", found=A[future], expected=0)
    by_library = one_head(Q, K, V, mask=Mask(causal=True))[1]
    show.check("the same weights by the library's mask", found=by_library, expected=A, within=1e-12)
    alone = torch.zeros_like(A)
    for i in range(count):
        alone[i, : i + 1] = one_head(Q[i], K[: i + 1], V[: i + 1])[1]
    show.check("masking later tokens equals cutting them off", found=A, expected=alone, within=1e-12)

    show.say(
        "To put 0 after the softmax instead is another thing: the row no longer sums to 1, as the later tokens have "
        "already taken their share."
    )
    late = torch.softmax(Q @ K.T / math.sqrt(width), dim=-1).masked_fill(future, 0)
    show.bound("what the first row then sums to", found=float(late[0].sum()), at_most=1 - 1e-9)
    again = late / late.sum(-1, keepdim=True)
    show.check("dividing by that sum mends it", found=again, expected=A, within=1e-9)

    show.say(
        f"In a whole model of 2 layers (random weights), exchange one of {count} tokens, and see which outputs move:"
    )
    causal = moved_outputs("decoder", count, parameters.seed)
    both_ways = moved_outputs("encoder", count, parameters.seed)
    for name, moved in (("masked (a decoder)", causal), ("not masked (an encoder)", both_ways)):
        show.heatmap(
            f"How far outputs move, {name}",
            moved,
            rows=names,
            x="output at token",
            y="token exchanged",
            unit="largest change of a logit",
        )
    earlier = torch.ones(count, count, dtype=torch.bool).tril(-1)  # outputs before the replaced token
    show.check("masked: outputs before the exchanged token move by", found=causal[earlier], expected=0)
    show.bound("masked: outputs from it on move by at least", found=float(causal[~earlier].min()), at_least=1e-9)
    show.bound(
        "not masked: outputs before the exchanged token move by at least",
        found=float(both_ways[earlier].min()),
        at_least=1e-9,
    )


# %%
if __name__ == "__main__":
    masking.main()
