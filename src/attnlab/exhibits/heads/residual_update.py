# %% [markdown]
# # A token moves by what it attends to
# Attention does not replace a token's vector, it adds to it: the weighted values of the tokens that it attends to. So a
# noun takes on the meaning of its adjectives, and if there is nothing to add it stays unchanged.
#
# Eⱼ ← Eⱼ + Σᵢ softmaxᵢ((W_K Eᵢ)·(W_Q Eⱼ) / √D_k) W_V Eᵢ

# %%
from __future__ import annotations

import math

import torch
from pydantic import Field

from attnlab.attention import Mask, one_head
from attnlab.exhibits import Parameters, Stage, exhibit, line, number_text, points, vector_text
from attnlab.models import ModelSpec, build_model

# %% [markdown]
# An interpretable space: three numbers say whether a token is a thing, how fluffy it is and how blue. The queries of
# things ask for properties; keys are the properties that a token has; and values contain only these.

# %%
WORDS = ("a", "fluffy", "blue", "creature")
E = torch.tensor([[0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]], dtype=torch.float64)  # thing, fluffy, blue
W_Q = torch.tensor([[1, 0, 0]], dtype=torch.float64)  # the more of a thing, the stronger its query
W_K = torch.tensor([[0, 1, 1]], dtype=torch.float64)  # how much of a property
W_V = torch.tensor([[0, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=torch.float64)  # the properties alone


class ResidualUpdate(Parameters):
    sharpness: float = Field(6.0, ge=0, le=50, description="how loudly a thing asks; W_Q is multiplied by it")
    seed: int = Field(0, ge=0, description="of the weights of the model at the end")


# %%
@exhibit(
    "residual-update",
    "A token moves by what it attends to",
    chapter="values and their rank",
    claims=("1.7",),
    equation="E_j ← E_j + Σ_i softmax_i((W_K E_i)·(W_Q E_j) / √D_k) W_V E_i",
    place=1,
)
def residual_update(show: Stage, parameters: ResidualUpdate) -> None:
    """Attention adds to a token's vector the values of the tokens that it looks at, each by its weight."""
    ask = parameters.sharpness * W_Q
    Q, K, V = E @ ask.T, E @ W_K.T, E @ W_V.T
    output, weights = one_head(Q, K, V, mask=Mask(causal=True))
    after = E + output
    show.table(
        "The phrase, before and after",
        ("token", "E (thing, fluffy, blue)", "what is added", "E after"),
        [(word, *(vector_text(one[j], 3) for one in (E, output, after))) for j, word in enumerate(WORDS)],
    )
    show.heatmap("Who listens to whom", weights, rows=WORDS, x="token i", y="token j, which moves", unit="weight")
    show.plot(
        "The creature moves",
        *(line(WORDS[j], [E[j, 1], after[j, 1]], [E[j, 2], after[j, 2]]) for j in (1, 2, 3)),
        points("after", after[:, 1], after[:, 2]),
        x="how fluffy",
        y="how blue",
        caption="Each line leads from before to after. The creature begins at (0, 0) and ends half fluffy, half blue.",
        equal=True,
    )

    by_the_sum = E.clone()
    for j in range(len(E)):  # the equation above, term by term
        scores = torch.stack([(W_K @ E[i]) @ (ask @ E[j]) / math.sqrt(len(W_K)) for i in range(j + 1)])
        by_the_sum[j] += sum(p * (W_V @ E[i]) for i, p in enumerate(torch.softmax(scores, dim=0)))
    show.check("E + attention, by the note's sum", found=after, expected=by_the_sum, within=1e-12)
    share = _share(parameters.sharpness)
    show.check(
        "how fluffy and how blue the creature becomes: e^s / (2 + 2e^s)",
        found=after[3, 1:],
        expected=[share, share],
        within=1e-12,
    )
    show.check("that it is a thing stays as it was", found=after[3, 0], expected=1)

    show.say("The same in a whole model: what leaves a block's attention is what came in, plus what attention says.")
    spec = ModelSpec.build("pico", vocabulary_size=32)
    model = build_model(spec, parameters.seed).double().eval()
    text = torch.arange(8)[None]
    with torch.no_grad(), model.tap("residual", "blocks.*") as seen:
        model(text)
        silent = {f"blocks.*.{part}.output": torch.zeros_like for part in ("attention", "mlp")}
        before = seen["residual"]
        rows = []
        for layer in range(spec.num_layers):
            attention, own = seen[f"blocks.{layer}.attention.output"], f"blocks.{layer}"
            show.check(
                f"layer {layer + 1}: residual after attention",
                found=seen[f"{own}.attention.residual"],
                expected=before + attention,
                within=1e-12,
            )
            rows.append((f"layer {layer + 1}", float(before.norm()), float(attention.norm())))
            before = seen[f"{own}.residual"]
        with model.tap(silent), model.tap("residual", "norm.in") as unmoved:
            model(text)
    show.table("Lengths of the vectors, all tokens together", ("", "what comes in", "what attention adds"), rows)
    show.check(
        "where nothing is added, every token stays what it was", found=unmoved["norm.in"], expected=unmoved["residual"]
    )
    show.slip(
        says="the scores in this sum are divided by √d_v",
        computed=f"they are divided by the root of the key's width, here √{len(W_K)} and not √{len(W_V)}: with the "
        f"value's root the creature would have become {number_text(_share(parameters.sharpness / math.sqrt(3)), 3)} "
        f"fluffy, and not {number_text(share, 3)}",
    )


def _share(loudness: float) -> float:
    return math.exp(loudness) / (2 + 2 * math.exp(loudness))  # two properties at e^s, `a` and the creature at e^0


# %%
if __name__ == "__main__":
    residual_update.main()
