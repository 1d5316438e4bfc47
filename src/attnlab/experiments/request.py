"""What somebody asks of a comparison, before anything is known about it.

    Request()                                                   the meeting's two questions, as `make compare` asks them
    Request(variants=("tied-kv",), seeds=12, corpus="notes.txt", steps=1000)

The same request finds the same folder again. This file imports nothing heavy, so that a question that has been answered
before is answered at once.
"""

from __future__ import annotations

import hashlib
import json
import math
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    field_validator,
    model_validator,
)

import attnlab
from attnlab.errors import FileError, SpecError, as_spec_error

# The meeting's questions: one projection for key and value; normalised dot products; and what else than softmax.
QUESTIONS = (
    "tied-kv",
    "cosine",
    "cosine-learned",
    "softmax-plus-one",
    "sigmoid",
    "relu",
    "sparsemax",
    "entmax15",
)
PLAN = "plan.json"
Match = Literal["parameters", "flops", "cache"]
Options = dict[str, int | float | str | bool]


class Request(BaseModel):
    """A comparison as it is asked for. What is None is chosen when the plan is made."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    variants: tuple[str, ...] = QUESTIONS
    baseline: str = "softmax"
    recipe: str = "gpt2"
    size: str = "pico"
    corpus: str = "pydoc"
    corpus_options: Options = {}
    tokenizer: str = "char"
    vocabulary_size: PositiveInt | None = None
    steps: PositiveInt | None = None
    changes: tuple[str, ...] = ()  # treatments of all arms alike, the baseline included
    seeds: PositiveInt = 10
    first_seed: NonNegativeInt = 0
    margin: PositiveFloat = 0.01  # of perplexity
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    looks: PositiveInt = 2
    match: Match | None = None
    tune: NonNegativeInt = 0  # learning-rate trials of each arm
    tune_seeds: PositiveInt = 1  # that each trial is a mean over
    pilot: NonNegativeInt | None = None  # seeds of the pilot; None: as many as are needed
    claims: bool = False  # whether published claims are judged too
    variants_from: str | None = None
    variants_sha256: str | None = None

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise as_spec_error(
                error, "a comparison", fields=type(self).model_fields, hint="`attnlab compare --help`"
            ) from None

    @field_validator("corpus")
    @classmethod
    def _whole_path(cls, name: str) -> str:
        """A path means the same file from wherever the question is asked again."""
        path = Path(name).expanduser()
        return str(path.resolve()) if path.suffix or path.name != name else name

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.seeds < 2:
            raise SpecError(
                "one seed says nothing about noise, so no difference can be told from it",
                hint="use --seeds 8 or more; 2 are the least",
            )
        twice = sorted({name for name in self.variants if self.variants.count(name) > 1})
        if twice:
            raise SpecError(f"{', '.join(twice)} is compared twice", hint="name each variant once")
        if self.baseline in self.variants:
            raise SpecError(f"{self.baseline!r} is the baseline itself", hint="leave it out of the variants")
        if not self.variants:
            raise SpecError("there is nothing to compare", hint="name a variant, such as tied-kv")
        return self

    @classmethod
    def with_variants_of(cls, path: Path | None, **fields: Any) -> Request:
        """A request whose variants may come from a file, which is part of what is asked."""
        if path is None:
            return cls(**fields)
        return cls(**fields, variants_from=str(path), variants_sha256=sha256_of(path))

    def replace(self, **changes: Any) -> Request:
        """Another request with some fields changed."""
        return Request(**{**{name: getattr(self, name) for name in type(self).model_fields}, **changes})

    @classmethod
    def of(cls, folder: Path) -> Request | None:
        """What the comparison in a folder was asked; None if there is none. The plan itself is checked later."""
        path = folder / PLAN
        if not path.is_file():
            return None
        try:
            return cls(**json.loads(path.read_text(encoding="utf-8"))["plan"]["request"])
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise FileError(f"{path} is damaged: {error}", hint="compare again in another folder") from None

    @property
    def hash(self) -> str:
        """Of everything asked, and of the version that answers."""
        asked = {**self.model_dump(mode="json"), "version": attnlab.__version__}
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    @property
    def folder(self) -> str:
        """The name of the comparison's folder: readable, and its own."""
        words = self.variants if len(self.variants) <= 3 else (self.variants[0], f"and-{len(self.variants) - 1}-more")
        plain = "".join(letter if letter.isalnum() or letter in "-+" else "-" for letter in "-".join(words))
        return f"compare-{plain[:60]}-{self.size}-{self.hash[:8]}"

    @property
    def margin_nats(self) -> float:
        """The margin as a difference of losses."""
        return math.log1p(self.margin)


LADDER = (4, 8, 16)  # pairs to remember
_LADDER_STEPS, _TOKENS_PER_PAIR = 400, 8


def ladder(request: Request) -> list[Request]:
    """The same arms on associative recall with more and more pairs: a task that needs attention by construction.

    They learn by the recipe `fast`, which recalls four pairs after 200 steps; GPT-2's own does not in 1500.
    """
    task = {"corpus": "mqar", "tokenizer": "char", "vocabulary_size": 64, "recipe": "fast", "claims": False}
    return [
        request.replace(
            **task,
            corpus_options={"pairs": pairs},
            steps=request.steps or _LADDER_STEPS,
            changes=(*request.changes, f"context_length={_TOKENS_PER_PAIR * pairs}"),
        )
        for pairs in LADDER
    ]


def sha256_of(path: Path) -> str:
    """Of a file, however large."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FileError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None
