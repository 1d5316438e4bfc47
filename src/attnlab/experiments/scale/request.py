"""The request of a scale study. This file imports nothing heavy.

    ScaleRequest(variants=("tied-kv",), rungs=("14k", "25k", "50k", "100k"))

Studies that differ only in rungs, seeds, variants or corpora share a folder, and so all runs that they have in common.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)

from attnlab.errors import SpecError, as_spec_error
from attnlab.experiments.request import DEFAULT_TOKENS, QUESTIONS, Request, sha256_of

RUNGS = ("14k", "25k", "55k", "100k")
FEWEST_RUNGS = 3  # for a trend
_IDENTITY = (
    "baseline",
    "recipe",
    "tokens_per_parameter",
    "least_tokens",
    "tokenizer",
    "vocabulary_size",
    "changes",
    "variants_sha256",
)


class ScaleRequest(BaseModel):
    """A study as a user asks for it.

    `rungs` ascend; `rate_rungs` of them, the smallest, have their learning rates searched. `held_out` names a corpus of
    `corpora` that takes part in no decision: its rates are those of the first.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    variants: tuple[str, ...] = QUESTIONS
    baseline: str = "softmax"
    recipe: str = "gpt2"
    rungs: tuple[str, ...] = RUNGS
    up_to: dict[str, str] = {}
    tokens_per_parameter: PositiveFloat = DEFAULT_TOKENS
    least_tokens: NonNegativeInt = 0
    half_tokens: bool = True
    corpora: tuple[str, ...] = ("python",)
    held_out: str | None = None
    tokenizer: str = "char"
    vocabulary_size: PositiveInt | None = None
    changes: tuple[str, ...] = ()
    seeds: PositiveInt = 5
    first_seed: NonNegativeInt = 0
    margin: PositiveFloat = 0.03
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    rate_rungs: PositiveInt = 2
    rate_count: Annotated[int, Field(ge=3, le=15)] = 5
    rate_seeds: PositiveInt = 3
    hours: PositiveFloat | None = None
    target: str = "gpt2"
    variants_from: str | None = None
    variants_sha256: str | None = None

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise as_spec_error(
                error, "a scale study", fields=type(self).model_fields, hint="`attnlab scale --help`"
            ) from None

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if len(self.rungs) < FEWEST_RUNGS:
            raise SpecError(
                f"a trend needs at least {FEWEST_RUNGS} rungs, got {len(self.rungs)}: {', '.join(self.rungs)}",
                hint="add a size, or use `attnlab compare` for a verdict at one size",
            )
        if self.rate_rungs < min(2, len(self.rungs) - 1):
            raise SpecError("a law for learning rates needs two searched rungs", hint="use rate_rungs=2 or more")
        if not self.corpora or len(set(self.corpora)) < len(self.corpora):
            raise SpecError(f"corpora must be named once each, got {self.corpora}", hint="name one or more corpora")
        if self.held_out is not None and self.held_out not in self.corpora[1:]:
            raise SpecError(
                f"{self.held_out!r} cannot be held out: it is not among the corpora after the first",
                hint="name it as a further corpus, too",
            )
        return self

    @classmethod
    def with_variants_of(cls, path: Path | None, **fields: Any) -> ScaleRequest:
        """Return a request whose variants may come from a file, which is part of its identity."""
        if path is None:
            return cls(**fields)
        return cls(**fields, variants_from=str(path), variants_sha256=sha256_of(path))

    def replace(self, **changes: Any) -> ScaleRequest:
        """Return another request with some fields changed."""
        return ScaleRequest(**{**{name: getattr(self, name) for name in type(self).model_fields}, **changes})

    @property
    def folder(self) -> str:
        """Return the name of the study's folder, which studies on the same ladder share."""
        shared = {name: getattr(self, name) for name in _IDENTITY}
        digest = hashlib.sha256(json.dumps(shared, sort_keys=True).encode()).hexdigest()
        return f"scale-{self.recipe}-{self.tokens_per_parameter:g}-tokens-{digest[:8]}"

    @property
    def hash(self) -> str:
        """Return the hash of everything that is asked, but the hours."""
        asked = self.model_dump(mode="json", exclude={"hours"})
        return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()

    def comparison(self, corpus: str, rates: dict[str, dict[str, float]]) -> Request:
        """Return the comparison of this study on one corpus."""
        return Request(
            variants=self.variants,
            baseline=self.baseline,
            recipe=self.recipe,
            size=self.rungs[-1],
            rungs=self.rungs[:-1],
            tokens_per_parameter=self.tokens_per_parameter,
            least_tokens=self.least_tokens,
            half_tokens=self.half_tokens,
            up_to=self.up_to,
            rates=rates,
            corpus=corpus,
            tokenizer=self.tokenizer,
            vocabulary_size=self.vocabulary_size,
            changes=self.changes,
            seeds=self.seeds,
            first_seed=self.first_seed,
            margin=self.margin,
            alpha=self.alpha,
            pilot=0,
            variants_from=self.variants_from,
            variants_sha256=self.variants_sha256,
        )
