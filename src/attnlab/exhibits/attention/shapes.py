# %% [markdown]
# # Which axes to swap, and which to normalise
# With a batch dimension, `.T` reverses all axes, (b, l, d) → (d, l, b), and mixes sentences; `transpose(1, 2)` leaves
# the batch dimension first. And the softmax is over the last axis of (b, l, l), the keys of one query.
#
# (b, l, d) · (b, d, l) → (b, l, l); Σⱼ a(b, i, j) = 1

# %%
from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor

from attnlab.attention import Mask, one_head
from attnlab.exhibits import Parameters, Stage, exhibit, number_text


class Shapes(Parameters):
    batch: int = Field(2, ge=2, le=16, description="the number of sentences b")
    length: int = Field(5, ge=3, le=16, description="the number of words l in each")
    width: int = Field(8, ge=2, le=512, description="the width d of a word's vector")
    seed: int = Field(0, ge=0, description="of the random vectors")


def product_shape(left: Tensor, right: Tensor) -> str:
    """Return the shape of a product of batches, or that the shapes do not fit."""
    try:
        return str(tuple(torch.bmm(left, right).shape))
    except RuntimeError:
        return "refused: the shapes do not fit"


# %%
@exhibit(
    "shapes",
    "Which axes to swap, and which to normalise",
    chapter="masks and shapes",
    claims=("r.2",),
    equation="(b, l, d) · (b, d, l) → (b, l, l),  A = softmax over the last axis,  Σ_j a(b, i, j) = 1",
    place=3,
)
def shapes(show: Stage, parameters: Shapes) -> None:
    """Keys are transposed with `transpose(1, 2)`, never `.T`, and the softmax runs along the last axis."""
    b, l, d = parameters.batch, parameters.length, parameters.width  # noqa: E741 - as in the claim
    generator = torch.Generator().manual_seed(parameters.seed)
    Q, K, V = torch.randn(3, b, l, d, dtype=torch.float64, generator=generator)
    Z = torch.bmm(Q, K.transpose(1, 2)) / math.sqrt(d)
    turned = K.numpy().T  # PyTorch's own .T warns before it does the same
    show.table(
        "Shapes",
        ("what", "shape"),
        [
            ("Q, K", f"(b, l, d) = {tuple(K.shape)}"),
            ("K.transpose(1, 2)", f"(b, d, l) = {tuple(K.transpose(1, 2).shape)}"),
            ("Q · K.transpose(1, 2)", f"(b, l, l) = {tuple(Z.shape)}"),
            ("K.T", f"(d, l, b) = {turned.shape}"),
            ("Q · K.T", product_shape(Q, K.permute(2, 1, 0))),
        ],
    )
    show.check("K.T has the shape (d, l, b)", found=turned.shape, expected=(d, l, b))
    one_by_one = torch.stack([Q[s] @ K[s].T / math.sqrt(d) for s in range(b)])
    show.check("Q · K.transpose(1, 2), sentence by sentence", found=Z, expected=one_by_one, within=1e-12)

    show.require(
        "Q · K.T is refused, unless b = l = d",
        holds=product_shape(Q, K.permute(2, 1, 0)).startswith("refused") is not (b == l == d),
        figure=product_shape(Q, K.permute(2, 1, 0)),
    )
    show.say("Mostly `.T` fails at once, which is lucky. Where all three sizes are equal it does not:")
    cube = torch.randn(2, l, l, l, dtype=torch.float64, generator=generator)  # b = l = d
    right = torch.bmm(cube[0], cube[1].transpose(1, 2))
    silent = torch.bmm(cube[0], cube[1].permute(2, 1, 0))  # what .T does
    show.bound(
        f"error of the scores that `.T` gives silently for b = l = d = {l}",
        found=float((silent - right).abs().max()),
        at_least=0.1,
    )
    touched = cube[1].clone()
    touched[1] += 1  # another sentence
    moved = torch.bmm(cube[0], touched.permute(2, 1, 0)) - silent
    show.bound(
        "how far sentence 1's scores then move when sentence 2 changes", found=float(moved[0].abs().max()), at_least=0.1
    )

    future = torch.ones(l, l, dtype=torch.bool).triu(1)
    hidden = Z.masked_fill(future, -math.inf)
    last, second = torch.softmax(hidden, dim=2), torch.softmax(hidden, dim=1)
    show.slip(
        says="softmax over (b, l, l) runs row-wise, meaning the second dimension",
        computed="row-wise is right, and that is the last dimension: the second runs over queries, so that a key "
        "shares itself out among those who ask",
    )
    names = [str(i + 1) for i in range(l)]
    for title, weights in (("Softmax along the last axis", last), ("Softmax along the second axis", second)):
        show.heatmap(f"{title}, first sentence", weights[0], rows=names, x="key", y="query", unit="weight")
    show.check("row sums along the last axis", found=last.sum(-1), expected=1, within=1e-12)
    show.check(
        "and it is what the library does",
        found=one_head(Q, K, V, mask=Mask(causal=True))[1],
        expected=last,
        within=1e-12,
    )
    sums = second.sum(-1)
    show.bound(
        "along the second axis, the row sum that is farthest from 1 is off by",
        found=float((sums - 1).abs().max()),
        at_least=0.01,
    )
    show.say(
        f"Row sums then run from {number_text(float(sums.min()), 3)} to {number_text(float(sums.max()), 3)}. Worse, "
        "the mask leaks: a key's share depends on queries that come later, so the last word changes what earlier ones "
        "get."
    )
    other = Q.clone()
    other[:, -1] += 3 * K[:, 0]  # another last word, which asks for the first
    scores = (torch.bmm(other, K.transpose(1, 2)) / math.sqrt(d)).masked_fill(future, -math.inf)
    changes = {axis: torch.softmax(scores, dim=axis) @ V for axis in (1, 2)}
    show.check(
        "exchange the last word: earlier outputs along the last axis",
        found=changes[2][:, :-1],
        expected=(last @ V)[:, :-1],
    )
    show.bound(
        "and along the second axis they move by",
        found=float((changes[1] - second @ V)[:, :-1].abs().max()),
        at_least=0.01,
    )


# %%
if __name__ == "__main__":
    shapes.main()
