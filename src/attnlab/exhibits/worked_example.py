# %% [markdown]
# # Attention by hand
# Three tokens and three small matrices: every number of the discussion sheet, computed again. The keys have width 3
# and the values width 2, for the two need not be equal.
#
# qᵢ = W_Qᵀ xᵢ, kᵢ = W_Kᵀ xᵢ, vᵢ = W_Vᵀ xᵢ; zᵢⱼ = qᵢ·kⱼ; aᵢ = softmax(zᵢ); oᵢ = Σⱼ aᵢⱼ vⱼ

# %%
from __future__ import annotations

import math

import torch
from pydantic import Field

from attnlab.attention import Dot, ScaledDot, one_head
from attnlab.exhibits import Parameters, Stage, exhibit, number_text, vector_text

X = torch.tensor([[2, 3], [-1, 0], [1, -2]], dtype=torch.float64)  # a row for each token
W_Q = torch.tensor([[1, 0, 2], [0, 1, -3]], dtype=torch.float64)
W_K = torch.tensor([[0, 0, -1], [-2, 0, 1]], dtype=torch.float64)
W_V = torch.tensor([[8, 0], [0, 9]], dtype=torch.float64)

# %% [markdown]
# What the sheet prints, with the second query as it must be: 2·(−1) − 3·0 is −2, where the sheet has 2.

# %%
QUERIES = [[2, 3, -5], [-1, 0, -2], [1, -2, 8]]
KEYS = [[-6, 0, 1], [0, 0, 1], [4, 0, -3]]
VALUES = [[16, 27], [-8, 0], [8, -18]]
SCORES, WEIGHTS, OUTPUT = [2, 8, -20], [0.00247, 0.99753, 6.90e-13], [-7.94, 0.067]  # of the third token


class WorkedExample(Parameters):
    token: int = Field(3, ge=1, le=3, description="the token whose attention is drawn, counted from 1")


# %%
@exhibit(
    "worked-example",
    "Attention by hand",
    chapter="attention by hand",
    claims=("0.1", "1.4", "1a", "1b", "1c", "1d", "1e", "1f"),
    equation="q = W_Qᵀ x,  k = W_Kᵀ x,  v = W_Vᵀ x\nz_ij = q_i · k_j,  a_i = softmax(z_i),  o_i = Σ_j a_ij v_j",
)
def worked_example(show: Stage, parameters: WorkedExample) -> None:
    """Every token asks with its query, is found by its key and gives its value: all numbers of the sheet."""
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    show.table(
        "Queries, keys and values",
        ("token", "x", "q", "k", "v"),
        [(f"x{i + 1}", *(vector_text(one[i]) for one in (X, Q, K, V))) for i in range(len(X))],
    )
    show.check("the queries", claim="1a", found=Q, expected=QUERIES)
    show.check("the keys", claim="1a", found=K, expected=KEYS)
    show.check("the values", claim="1a", found=V, expected=VALUES)
    show.slip(claim="1a", says="q₂ = (−1, 0, 2)", computed=f"q₂ = {vector_text(Q[1])}, as 2·(−1) − 3·0 = −2")
    by_token = torch.stack([torch.stack([W.T @ x for x in X]) for W in (W_Q, W_K)])
    show.check(
        "Q = X W_Q and K = X W_K, a row for each token", claim="1d", found=torch.stack([Q, K]), expected=by_token
    )
    widths = [*Q.shape, *K.shape, *V.shape]
    show.check("Q and K are N × D_K, V is N × D_V", claim="1d", found=widths, expected=[3, 3, 3, 3, 3, 2])

    output, A = one_head(Q, K, V, score=Dot())
    Z = Q @ K.T
    show.check("z₃, the scores of the third token", claim="1b", found=Z[2], expected=SCORES)
    pairs = [[torch.dot(q, k) for k in K] for q in Q]
    show.check("(Q Kᵀ)_ij is q_i · k_j", claim="1e", found=Z, expected=pairs)
    for j, (weight, last) in enumerate(zip(WEIGHTS, (5e-6, 5e-6, 5e-16), strict=True), start=1):
        show.check(f"a₃{j}, to the last printed digit", claim="1c", found=A[2, j - 1], expected=weight, within=last)
    for j, (number, last) in enumerate(zip(OUTPUT, (5e-3, 5e-4), strict=True), start=1):
        show.check(
            f"o₃, number {j}, to the last printed digit",
            claim="1c",
            found=output[2, j - 1],
            expected=number,
            within=last,
        )
    show.check("rows of A sum to 1", claim="1f", found=A.sum(-1), expected=1, within=1e-15)
    sums = torch.stack([A[i, 0] * V[0] + A[i, 1] * V[1] + A[i, 2] * V[2] for i in range(3)])
    show.check("row i of AV is Σ_j a_ij v_j", claim="1f", found=output, expected=sums, within=1e-12)
    names = [f"x{i}" for i in (1, 2, 3)]
    show.heatmap("The weights A", A, rows=names, columns=names, x="key of token j", y="query of token i", unit="weight")
    chosen = parameters.token - 1
    show.say(f"x{chosen + 1} gets {vector_text(output[chosen])}, mostly from x{int(A[chosen].argmax()) + 1}.")

    show.say("The sheet leaves the scale out. With it, scores are divided by the root of the key's width, here √3:")
    scaled = one_head(Q, K, V, score=ScaledDot())[1]
    show.check(
        "a = softmax(q·k / √D_K), for all",
        claim="0.1",
        found=scaled,
        expected=torch.softmax(Z / math.sqrt(3), dim=-1),
        within=1e-15,
    )
    show.slip(
        claim="1.4",
        says="the scale is √d_v, the root of the value's width, and softmax runs down columns",
        computed=f"√D_K = {number_text(math.sqrt(3))}, not √D_V = {number_text(math.sqrt(2))}; by column of K Qᵀ is "
        "by row of Q Kᵀ, transposed",
    )
    wrong = torch.softmax(Z / math.sqrt(V.shape[1]), dim=-1)
    show.bound(
        "dividing by √D_V gives other weights, by",
        claim="1.4",
        found=float((wrong - scaled).abs().max()),
        at_least=1e-3,
    )
    columns = torch.softmax(K @ Q.T / math.sqrt(3), dim=0)
    show.check("softmax by column of K Qᵀ, transposed", claim="1.4", found=columns.T, expected=scaled, within=1e-15)


# %%
if __name__ == "__main__":
    worked_example.main()
