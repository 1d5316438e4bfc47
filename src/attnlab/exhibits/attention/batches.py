# %% [markdown]
# # All words at once
# A recurrent network processes the first word of every sentence, then the second of every sentence, and so on: each
# step waits for the previous one. A transformer processes the whole batch, (sentences, words, width), in one step.
#
# recurrent: hᵢ = f(xᵢ, hᵢ₋₁), for i = 1 … l, each x of shape (b, d)
#
# attention: O = softmax(Q Kᵀ / √D_k) V, of X of shape (b, l, d)

# %%
from __future__ import annotations

import torch
from pydantic import Field
from torch import nn

from attnlab.attention import AttentionSpec, Cache, Mask, MultiHeadAttention
from attnlab.errors import SpecError
from attnlab.exhibits import Parameters, Stage, exhibit

SENTENCES = ("the cat sat on the mat", "dogs bark", "a small model learns slowly")


class Batches(Parameters):
    width: int = Field(16, ge=4, le=512, description="the width d of a word's vector, a multiple of 4")
    seed: int = Field(0, ge=0, description="of the random vectors and weights")

    def check(self) -> None:
        if self.width % 4:
            raise SpecError(f"a width of {self.width} does not divide into 4 heads", hint="use a multiple of 4")


# %%
@exhibit(
    "batches",
    "All words at once",
    chapter="masks and shapes",
    claims=("r.1",),
    equation="recurrent: h_i = f(x_i, h_(i−1)), i = 1 … l,  x_i (b, d)\n"
    "attention: O = softmax(Q Kᵀ / √D_k) V,  X (b, l, d)",
    place=2,
)
@torch.no_grad()
def batches(show: Stage, parameters: Batches) -> None:
    """A recurrent network reads the i-th word of each sentence, step after step; attention reads (b, l, d) whole."""
    d = parameters.width
    words = [sentence.split() for sentence in SENTENCES]
    b, l = len(words), max(map(len, words))  # noqa: E741 - as in the claim
    generator = torch.Generator().manual_seed(parameters.seed)
    vocabulary = sorted({word for sentence in words for word in sentence})
    embedding = torch.randn(len(vocabulary), d, dtype=torch.float64, generator=generator)
    X = torch.zeros(b, l, d, dtype=torch.float64)
    real = torch.zeros(b, l, dtype=torch.bool)
    for row, sentence in enumerate(words):
        X[row, : len(sentence)] = embedding[[vocabulary.index(word) for word in sentence]]
        real[row, : len(sentence)] = True
    show.table(
        "What a recurrent network takes in each step: the column",
        ("sentence", *(f"step {i + 1}" for i in range(l))),
        [(f"{row + 1}", *sentence, *["–"] * (l - len(sentence))) for row, sentence in enumerate(words)],
    )

    torch.manual_seed(parameters.seed)
    cell = nn.RNNCell(d, d).double()
    state = torch.zeros(b, d, dtype=torch.float64)
    states = []
    for i in range(l):  # no step can start before the previous one has ended
        state = cell(X[:, i], state)  # (b, d)
        states.append(state)
    whole = nn.RNN(d, d, batch_first=True).double()
    whole.load_state_dict({f"{name}_l0": weight for name, weight in cell.state_dict().items()})
    at_once = whole(X)[0]
    show.check(
        "PyTorch's recurrent layer given (b, l, d) does the same l steps",
        found=torch.stack(states, dim=1),
        expected=at_once,
        within=1e-12,
    )

    spec = AttentionSpec(model_width=d, num_heads=4, mask=Mask(causal=True))
    layer = MultiHeadAttention(spec).double().eval()
    together = layer(X, padding=real)  # (b, l, d) → (b, l, d), one step
    apart = [layer(X[row : row + 1, : len(sentence)])[0] for row, sentence in enumerate(words)]
    show.table(
        "Steps that wait for each other",
        ("network", "takes at a time", "steps"),
        [
            ("recurrent", f"(b, d) = ({b}, {d})", len(states)),
            ("attention", f"(b, l, d) = ({b}, {l}, {d})", 1),
        ],
    )
    show.check(
        "the batch, padding masked, equals every sentence alone",
        found=together[real],
        expected=torch.cat(apart),
        within=1e-12,
    )
    cache = Cache()
    one_by_one = torch.cat([layer(X[:, i : i + 1], cache=cache) for i in range(l)], dim=1)
    show.check(
        "and equals attention that is fed word by word, as a recurrent network is",
        found=together[real],
        expected=one_by_one[real],
        within=1e-12,
    )
    open_layer = MultiHeadAttention(spec.replace(mask=Mask(causal=False))).double().eval()
    unmasked = open_layer(X) - open_layer(X, padding=real)
    show.say("Sentences differ in length, so short ones are filled up; what fills them must be masked as well:")
    show.bound(
        "forgotten, with a mask that looks both ways, the padding moves outputs by",
        found=float(unmasked[real].abs().max()),
        at_least=1e-6,
    )


# %%
if __name__ == "__main__":
    batches.main()
