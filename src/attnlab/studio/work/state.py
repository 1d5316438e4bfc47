"""The playground's complete state as a value, as a link, and as a Python program that computes the same numbers."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Annotated, Any, Self

import torch
from pydantic import Field, StringConstraints, model_validator

from attnlab.attention import AttentionSpec, MultiHeadAttention, Score
from attnlab.attention.layer import projection_shapes, projection_widths
from attnlab.errors import InputError, SpecError
from attnlab.specification import Specification

MOST_TOKENS = 8
MOST_WIDTH = 16  # of x, and of all heads of a projection together
_LARGEST = 1e6  # absolute value of a typed number
_SEED = 0  # of a score's own parameters, such as a synthesizer's tables
_MOST_TEXT = 100_000  # bytes of an unpacked link

Number = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST, allow_inf_nan=False)]
Row = Annotated[tuple[Number, ...], Field(min_length=1, max_length=MOST_WIDTH)]
Matrix = tuple[tuple[float, ...], ...]
Name = Annotated[str, StringConstraints(max_length=24)]

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


_PROJECTIONS = ("query", "key", "value", "latent", "rotary", "query_latent")


class State(Specification):
    """Tokens, their vectors, the projections, and the attention that is computed from them.

    `spec` contains the fields of an `AttentionSpec` that differ from its defaults; the model's width is that of x.
    """

    what = "the playground"

    tokens: Annotated[tuple[Name, ...], Field(min_length=1, max_length=MOST_TOKENS)]
    x: Annotated[tuple[Row, ...], Field(min_length=1, max_length=MOST_TOKENS)]
    projections: dict[str, tuple[Row, ...]]
    spec: dict[str, Any] = Field(default_factory=dict)
    scale: Annotated[float, Field(gt=0, le=100)] = 1.0
    temperature: Annotated[float, Field(gt=0, le=100)] = 1.0

    @model_validator(mode="after")
    def _rectangular(self) -> Self:
        if len(self.x) != len(self.tokens):
            raise SpecError(
                f"there are {len(self.tokens)} tokens and {len(self.x)} rows of x", hint="give one row each"
            )
        unknown = self.projections.keys() - set(_PROJECTIONS)
        if unknown:
            raise SpecError(f"there is no projection {min(unknown)!r}", hint=f"there are {', '.join(_PROJECTIONS)}")
        for name, rows in (("x", self.x), *self.projections.items()):
            if len({len(row) for row in rows}) > 1:
                raise SpecError(f"the rows of {name} have different lengths", hint="give a rectangle of numbers")
        return self

    @classmethod
    def of(cls, given: object) -> State:
        if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
            raise InputError("the playground's state is an object", hint="begin with one of the presets")
        return cls(**given)

    def attention(self) -> AttentionSpec:
        """Return the spec at the width of x; what is refused elsewhere is refused here."""
        given = {name: value for name, value in self.spec.items() if name not in {"model_width", "bias"}}
        needs = "score" in given and Score.parse(given["score"]).needs_context
        given["context_length"] = len(self.tokens) if needs else None
        spec = AttentionSpec(model_width=len(self.x[0]), **{"num_heads": 1, **given}, bias=False)
        widest = max(projection_widths(spec).values(), default=0)
        if widest > MOST_WIDTH:
            raise SpecError(
                f"{spec.num_heads} heads of width {widest // spec.num_heads} have {widest} columns",
                hint=f"the playground shows at most {MOST_WIDTH}: use fewer or narrower heads",
            )
        return spec

    def fitted(self) -> State:
        """Return the same with projections of the shapes that the spec needs: cut, or filled up."""
        matrices = dict(self.projections)
        for name, (width, columns, _) in projection_shapes(self.attention()).items():
            matrices[name] = resized(self.projections.get(name, ()), columns, width)
        return self.replace(projections=matrices)

    def layer(self) -> MultiHeadAttention:
        """Return a layer with these projections."""
        torch.manual_seed(_SEED)
        layer = MultiHeadAttention(self.attention()).double()
        for name, projection in layer.projections.items():
            projection.weight.data = torch.tensor(self.projections[name], dtype=torch.float64).T
        return layer

    @property
    def factor(self) -> float:
        """Return the factor of the scores."""
        return self.scale / self.temperature

    def to_link(self) -> str:
        """Return the state as letters that may stand in an address."""
        text = json.dumps(self.model_dump(mode="json"), separators=(",", ":"))
        return base64.urlsafe_b64encode(zlib.compress(text.encode(), 9)).decode().rstrip("=")

    def to_python(self) -> str:
        """Return a program whose `steps` are the numbers that the playground shows."""
        used = {name: self.projections[name] for name in self.layer().projections}
        lines = "".join(f"\n    {name!r}: torch.tensor({_lists(rows)})," for name, rows in used.items())
        return _PROGRAM.format(
            tokens=list(self.tokens),
            x=_lists(self.x),
            projections=f"{lines}\n" if lines else "",
            spec=self.attention().to_json(),
            scale=self.scale,
            temperature=self.temperature,
        )

    @classmethod
    def from_link(cls, link: str) -> State:
        try:
            packed = base64.urlsafe_b64decode(link + "=" * (-len(link) % 4))
            unpacking = zlib.decompressobj()
            text = unpacking.decompress(packed, _MOST_TEXT)
            if unpacking.unconsumed_tail or not unpacking.eof:
                raise ValueError("too long, or cut off")
            given = json.loads(text)
        except (ValueError, zlib.error, RecursionError):
            raise InputError(
                "this link holds no state of the playground", hint="copy it whole, or begin with one of the presets"
            ) from None
        return cls.of(given)


def resized(rows: Matrix, height: int, width: int) -> Matrix:
    """Return a matrix of another shape: what fits is kept, and new cells differ from each other."""

    def cell(row: int, column: int) -> float:
        if row < len(rows) and column < len(rows[row]):
            return rows[row][column]
        return float((2 * row + 3 * column) % 5 - 2)

    return tuple(tuple(cell(row, column) for column in range(width)) for row in range(height))


def _lists(rows: Matrix) -> list[list[float]]:
    return [list(row) for row in rows]
