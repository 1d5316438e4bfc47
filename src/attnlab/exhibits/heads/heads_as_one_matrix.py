# %% [markdown]
# # Heads as one matrix
# Several heads are not several layers that run one after the other: their matrices are concatenated side by side for
# queries, keys and values, and stacked in the output matrix. One product computes all heads.
#
# W_Q = [W_Q¹ … W_Qʰ], likewise K and V; out = [o₁ … o_h] W_O = Σ oₕ W_Oʰ

# %%
from __future__ import annotations

import math

import torch
from pydantic import Field
from torch import Tensor, nn

from attnlab.attention import AttentionSpec, Mask, MultiHeadAttention
from attnlab.errors import SpecError
from attnlab.exhibits import Parameters, Stage, exhibit, line, number_text


class HeadsAsOneMatrix(Parameters):
    model_width: int = Field(32, ge=2, le=512, description="the width d of the model")
    num_heads: int = Field(4, ge=1, le=64, description="the number h of heads, which must divide the width")
    tokens: int = Field(10, ge=2, le=128, description="the length of a text")
    seed: int = Field(0, ge=0, description="of the random numbers")

    def check(self) -> None:
        if self.model_width % self.num_heads:
            raise SpecError(
                f"a width of {self.model_width} does not divide into {self.num_heads} heads",
                hint=f"use a multiple of {self.num_heads}",
            )
        if self.model_width == self.num_heads:
            raise SpecError("heads of width 1 have no root to be divided by", hint="use fewer heads, or a wider model")


# %% [markdown]
# Each head as a separate layer: its rows of the projections, its columns of the output matrix.


# %%
def head_alone(layer: MultiHeadAttention, head: int) -> MultiHeadAttention:
    spec, width = layer.spec, layer.spec.key_width
    alone = MultiHeadAttention(spec.replace(num_heads=1, key_width=width, value_width=width)).double().eval()
    rows = slice(head * width, (head + 1) * width)
    weights = layer.state_dict()
    alone.load_state_dict({name: w[:, rows] if name == "output.weight" else w[rows] for name, w in weights.items()})
    return alone


def same_in_pytorch(layer: MultiHeadAttention) -> nn.MultiheadAttention:
    """Return PyTorch's own layer with the same weights: its projections are stacked in one matrix."""
    spec = layer.spec
    theirs = nn.MultiheadAttention(spec.model_width, spec.num_heads, bias=False, batch_first=True).double().eval()
    weights = layer.state_dict()
    stacked = torch.cat([weights[f"projections.{name}.weight"] for name in ("query", "key", "value")])
    theirs.load_state_dict({"in_proj_weight": stacked, "out_proj.weight": weights["output.weight"]})
    return theirs


# %% [markdown]
# The gradient reaches the scores through ∂a/∂z = diag(a) − a aᵀ. Where the softmax is saturated, it vanishes.


# %%
def softmax_gradient(scores: Tensor) -> float:
    """Return the Frobenius norm of the Jacobian diag(a) − a aᵀ, the mean over all rows of scores."""
    a = torch.softmax(scores, dim=-1)
    jacobian = torch.diag_embed(a) - a[..., :, None] * a[..., None, :]
    return float(jacobian.norm(dim=(-2, -1)).mean())


# %%
@exhibit(
    "heads-as-one-matrix",
    "Heads as one matrix",
    chapter="one head against many",
    claims=("1.12", "r.3", "r.4"),
    equation="W_Q = [W_Q¹ … W_Qʰ], likewise K, V\nout = [o_1 … o_h] W_O = Σ o_h W_Oʰ",
    place=3,
)
@torch.no_grad()
def heads_as_one_matrix(show: Stage, parameters: HeadsAsOneMatrix) -> None:
    """Heads of width d/h in three d × d matrices and one output matrix equal h separate layers added up."""
    d, h, tokens = parameters.model_width, parameters.num_heads, parameters.tokens
    spec = AttentionSpec(model_width=d, num_heads=h, bias=False, mask=Mask(causal=True))
    torch.manual_seed(parameters.seed)
    layer = MultiHeadAttention(spec).double().eval()
    layer.reset_parameters(std=1 / math.sqrt(d))
    x = torch.randn(3, tokens, d, dtype=torch.float64)
    whole = layer(x)
    parts = torch.stack([head_alone(layer, head)(x) for head in range(h)])
    show.table(
        f"{h} heads of width {spec.key_width} in a model of width {d}",
        ("matrix", "all heads", "one head"),
        [
            *((f"W_{name[0].upper()}", f"{d} × {d}", f"{d} × {spec.key_width}") for name in layer.projections),
            ("W_O, the heads' maps up", f"{d} × {d}", f"{spec.value_width} × {d}"),
        ],
    )
    show.check(f"{h} layers of one head each, added up", claim="r.3", found=parts.sum(0), expected=whole, within=1e-12)
    show.check(
        "parameters of the separate layers together",
        claim="r.3",
        found=sum(weight.numel() for head in range(h) for weight in head_alone(layer, head).parameters()),
        expected=4 * d * d,
    )
    q, k, v = (projection(x).unflatten(-1, (h, -1)).transpose(1, 2) for projection in layer.projections.values())
    future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    scores = q @ k.mT / math.sqrt(spec.key_width)  # (texts, heads, tokens, tokens)
    o = torch.softmax(scores.masked_fill(future, -math.inf), dim=-1) @ v  # (texts, heads, tokens, d/h)
    stacked = layer.state_dict()["output.weight"].T.unflatten(0, (h, -1))  # (heads, d/h, d): output projections
    each = sum(o[:, head] @ stacked[head] for head in range(h))
    joined = o.transpose(1, 2).flatten(2) @ stacked.flatten(0, 1)
    show.check("Σ o_h W_Oʰ, by hand", claim="1.12", found=each, expected=whole, within=1e-12)
    show.check("[o_1 … o_h] W_O, by hand", claim="1.12", found=joined, expected=whole, within=1e-12)

    theirs = same_in_pytorch(layer)(x, x, x, attn_mask=future, need_weights=False)[0]
    show.check(
        "torch.nn.MultiheadAttention with the same weights and mask",
        claim="r.4",
        found=theirs,
        expected=whole,
        within=1e-12,
    )
    show.slip(
        claim="r.4",
        says="to avoid that gradients explode, the scores are clipped by √d",
        computed="they are scaled, all divided by √D_k, and what that prevents is a saturated softmax whose gradient "
        "vanishes",
    )
    raw = q @ k.mT
    limit = math.sqrt(spec.key_width)
    clipped = torch.softmax(raw.clamp(-limit, limit).masked_fill(future, -math.inf), dim=-1)
    cut = (clipped @ v).transpose(1, 2).flatten(2) @ stacked.flatten(0, 1)
    show.bound(
        "with clipped scores the output is another, by",
        claim="r.4",
        found=float((cut - theirs).abs().max()),
        at_least=1e-6,
    )
    widths = [2**power for power in range(2, 13)]
    generator = torch.Generator().manual_seed(parameters.seed)
    sums = [torch.randn(400, 16, generator=generator, dtype=torch.float64) for _ in widths]  # (q·k) / √D_k
    plain = [softmax_gradient(math.sqrt(width) * one) for width, one in zip(widths, sums, strict=True)]
    scaled = [softmax_gradient(one) for one in sums]
    show.plot(
        "What is left of the gradient behind the softmax",
        line("scaled by 1/√D_k", widths, scaled),
        line("not scaled", widths, plain),
        x="key width D_k (numbers)",
        y="|diag(a) − a aᵀ|, mean over 400 rows",
        log_x=True,
        log_y=True,
        caption="Rows of 16 scores q·k of variance D_k. Without the scale, the gradient dies out as keys get wider.",
    )
    show.bound("scaled: the least gradient over all widths", claim="r.4", found=min(scaled), at_least=0.1)
    show.require(
        "not scaled: the gradient vanishes, and does not explode",
        claim="r.4",
        holds=plain[-1] < plain[0] / 4 and max(plain) <= 1,
        figure=f"{number_text(plain[0], 3)} at {widths[0]}, {number_text(plain[-1], 3)} at {widths[-1]}",
    )


# %%
if __name__ == "__main__":
    heads_as_one_matrix.main()
