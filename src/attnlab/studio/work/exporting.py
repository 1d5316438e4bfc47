"""The playground as a Python program that gives the same numbers."""

from __future__ import annotations

from attnlab.studio.work.state import State

_PROGRAM = '''\
"""Attention by hand, as the playground of `attnlab studio` showed it."""

import torch
from attnlab.attention import AttentionSpec, MultiHeadAttention
from attnlab.attention.blackboard import follow

torch.set_default_dtype(torch.float64)
tokens = {tokens}
x = torch.tensor({x})
projections = {{{projections}}}
spec = AttentionSpec.from_json(
    {spec!r}
)

torch.set_default_dtype(torch.float32)
torch.manual_seed(0)  # for what a score brings along, such as a synthesizer's tables
layer = MultiHeadAttention(spec).double()
for name, weight in projections.items():
    layer.projections[name].weight.data = weight.T

with torch.no_grad():
    steps = follow(layer, x, factor={scale!r} / {temperature!r})  # scores times scale / temperature

if __name__ == "__main__":
    torch.set_printoptions(precision=5, sci_mode=False)
    for name in ("query", "key", "value", "scores", "weights", "output"):
        print(name, getattr(steps, name), sep="\\n")
'''


def python_of(state: State) -> str:
    """The program; `steps` holds the numbers when it has run."""
    spec = state.attention()
    used = {name: state.projections[name] for name in state.layer().projections}
    lines = "".join(f"\n    {name!r}: torch.tensor({_matrix(rows)})," for name, rows in used.items())
    return _PROGRAM.format(
        tokens=list(state.tokens),
        x=_matrix(state.x),
        projections=f"{lines}\n" if lines else "",
        spec=spec.to_json(),
        scale=state.scale,
        temperature=state.temperature,
    )


def _matrix(rows: tuple[tuple[float, ...], ...]) -> str:
    return "[" + ", ".join("[" + ", ".join(repr(number) for number in row) + "]" for row in rows) + "]"
