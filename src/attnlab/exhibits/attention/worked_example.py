# %% [markdown]
# # Attention by hand
# Three tokens and three small matrices: every number of a printed worksheet, recomputed. The keys have width 3 and the
# values width 2, because the two need not be equal.
#
# qᵢ = W_Qᵀ xᵢ, kᵢ = W_Kᵀ xᵢ, vᵢ = W_Vᵀ xᵢ; zᵢⱼ = qᵢ·kⱼ; aᵢ = softmax(zᵢ); oᵢ = Σⱼ aᵢⱼ vⱼ

# %%
from __future__ import annotations

import math
from typing import Annotated

import torch
from pydantic import Field

from attnlab.attention import Dot, ScaledDot, one_head
from attnlab.exhibits import Parameters, Stage, exhibit, number_text, vector_text

X = torch.tensor([[2, 3], [-1, 0], [1, -2]], dtype=torch.float64)  # a row for each token
W_Q = torch.tensor([[1, 0, 2], [0, 1, -3]], dtype=torch.float64)
W_K = torch.tensor([[0, 0, -1], [-2, 0, 1]], dtype=torch.float64)
W_V = torch.tensor([[8, 0], [0, 9]], dtype=torch.float64)

# %% [markdown]
# The printed results of the worksheet, with the second query corrected: 2·(−1) − 3·0 is −2, and 2 is printed.

# %%
QUERIES = [[2, 3, -5], [-1, 0, -2], [1, -2, 8]]
KEYS = [[-6, 0, 1], [0, 0, 1], [4, 0, -3]]
VALUES = [[16, 27], [-8, 0], [8, -18]]
SCORES, WEIGHTS, OUTPUT = [2, 8, -20], [0.00247, 0.99753, 6.90e-13], [-7.94, 0.067]  # of the third token


Number = Annotated[float, Field(ge=-100, le=100)]


class WorkedExample(Parameters):
    x1: tuple[Number, Number] = Field((2, 3), description="the first token, two numbers of −100 … 100")
    x2: tuple[Number, Number] = Field((-1, 0), description="the second token")
    x3: tuple[Number, Number] = Field((1, -2), description="the third token")


# %% [markdown]
# First the printed results, digit by digit; then the same in matrix form, for any three tokens; then the scale.


# %%
@exhibit(
    "worked-example",
    "Attention by hand",
    chapter="attention by hand",
    claims=("0.1", "1.4", "1a", "1b", "1c", "1d", "1e", "1f"),
    equation="q = W_Qᵀ x,  k = W_Kᵀ x,  v = W_Vᵀ x\nz_ij = q_i · k_j,  a_i = softmax(z_i),  o_i = Σ_j a_ij v_j",
)
def worked_example(show: Stage, parameters: WorkedExample) -> None:
    """Every token asks with its query, is found by its key and gives its value: every number of a worked example."""
    printed(show)
    in_matrices(show, torch.tensor([parameters.x1, parameters.x2, parameters.x3], dtype=torch.float64))
    scale(show)


def printed(show: Stage) -> None:
    """Check every printed digit."""
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    show.check("the queries", claim="1a", found=Q, expected=QUERIES)
    show.check("the keys", claim="1a", found=K, expected=KEYS)
    show.check("the values", claim="1a", found=V, expected=VALUES)
    show.slip(claim="1a", says="q₂ = (−1, 0, 2)", computed=f"q₂ = {vector_text(Q[1])}, as 2·(−1) − 3·0 = −2")
    output, A = one_head(Q, K, V, score=Dot())
    show.check("z₃, the scores of the third token", claim="1b", found=Q[2] @ K.T, expected=SCORES)
    digits = "to the last printed digit"
    for j, (weight, last) in enumerate(zip(WEIGHTS, (5e-6, 5e-6, 5e-16), strict=True)):
        show.check(f"a₃{j + 1}, {digits}", claim="1c", found=A[2, j], expected=weight, within=last)
    for j, (number, last) in enumerate(zip(OUTPUT, (5e-3, 5e-4), strict=True)):
        show.check(f"o₃, number {j + 1}, {digits}", claim="1c", found=output[2, j], expected=number, within=last)


def in_matrices(show: Stage, tokens: torch.Tensor) -> None:
    """Show and check Q = X W_Q, K = X W_K, V = X W_V, A = softmax of the rows of Q Kᵀ, and A V."""
    Q, K, V = tokens @ W_Q, tokens @ W_K, tokens @ W_V
    output, A = one_head(Q, K, V, score=Dot())
    rows = [(f"x{i + 1}", *(vector_text(one[i]) for one in (tokens, Q, K, V, output))) for i in range(3)]
    show.table("Queries, keys, values and outputs", ("token", "x", "q", "k", "v", "o"), rows)
    names = ["x1", "x2", "x3"]
    show.heatmap("The weights A", A, rows=names, x="key of token j", y="query of token i", unit="weight")
    one_by_one = torch.stack([torch.stack([W.T @ x for x in tokens]) for W in (W_Q, W_K)])
    both = torch.stack([Q, K])
    show.check("Q = X W_Q and K = X W_K, row by row", claim="1d", found=both, expected=one_by_one, within=1e-9)
    widths = [*Q.shape, *K.shape, *V.shape]
    show.check("Q and K are N × D_K, V is N × D_V", claim="1d", found=widths, expected=[3, 3, 3, 3, 3, 2])
    pairs = [[torch.dot(q, k) for k in K] for q in Q]
    show.check("(Q Kᵀ)_ij is q_i · k_j", claim="1e", found=Q @ K.T, expected=pairs, within=1e-9)
    show.check("rows of A sum to 1", claim="1f", found=A.sum(-1), expected=1, within=1e-12)
    sums = torch.stack([A[i, 0] * V[0] + A[i, 1] * V[1] + A[i, 2] * V[2] for i in range(3)])
    show.check("row i of AV is Σ_j a_ij v_j", claim="1f", found=output, expected=sums, within=1e-9)


def scale(show: Stage) -> None:
    """Check that scores are divided by √D_K and not by √D_V, and that the softmax runs over the keys."""
    Q, K, V = X @ W_Q, X @ W_K, X @ W_V
    root, other = math.sqrt(K.shape[1]), math.sqrt(V.shape[1])
    show.say("So far scores were not scaled. GPT-2 divides them by the root of the key width, here √3:")
    scaled = one_head(Q, K, V, score=ScaledDot())[1]
    right, wrong = (torch.softmax(Q @ K.T / divisor, dim=-1) for divisor in (root, other))
    show.check("a = softmax(q·k / √D_K)", claim="0.1", found=scaled, expected=right, within=1e-12)
    show.slip(
        claim="1.4",
        says="the scale is √d_v, the root of the value's width, and softmax runs down the columns",
        computed=f"√D_K = {number_text(root)}, not √D_V = {number_text(other)}; by column of K Qᵀ is by row of Q Kᵀ, "
        "transposed",
    )
    apart = float((wrong - scaled).abs().max())
    show.bound("dividing by √D_V instead changes a weight by", claim="1.4", found=apart, at_least=1e-3)
    columns = torch.softmax(K @ Q.T / root, dim=0)
    show.check("softmax by column of K Qᵀ, transposed", claim="1.4", found=columns.T, expected=scaled, within=1e-12)


# %%
if __name__ == "__main__":
    worked_example.main()
