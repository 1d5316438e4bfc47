"""The request of a scale study. This file imports nothing heavy.

    ScaleRequest(variants=("tied-kv",), rungs=("14k", "25k", "50k", "100k"))

Studies that differ only in rungs, seeds, variants or corpora share a folder, and so all runs that they have in common.
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from attnlab.errors import SpecError
from attnlab.experiments.request import DEFAULT_TOKENS, ExperimentRequest, Request, hash_of

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


class ScaleRequest(ExperimentRequest):
    """A study as a user asks for it.

    `rate_rungs` of the rungs, the smallest, have their learning rates searched. `held_out` names a corpus of `corpora`
    that takes part in no decision: its rates are those of the first.
    """

    what = "a scale study"
    help_at = "`help(attnlab.experiments.scale.request.ScaleRequest)` lists the fields"

    rungs: tuple[str, ...] = RUNGS
    tokens_per_parameter: PositiveFloat = DEFAULT_TOKENS
    half_tokens: bool = True
    seeds: PositiveInt = 5
    corpora: tuple[str, ...] = ("python",)
    held_out: str | None = None
    rate_rungs: PositiveInt = 2
    rate_count: Annotated[int, Field(ge=3, le=15)] = 5
    rate_seeds: PositiveInt = 3
    hours: PositiveFloat | None = None
    target: str = "gpt2"

    @model_validator(mode="after")
    def _has_rungs_and_corpora(self) -> Self:
        if len(self.rungs) < FEWEST_RUNGS:
            raise SpecError(
                f"a trend needs at least {FEWEST_RUNGS} rungs, got {len(self.rungs)}: {', '.join(self.rungs)}",
                hint="add a size, or make a comparison for a verdict at one size",
            )
        if self.rate_rungs < min(2, len(self.rungs) - 1):
            raise SpecError("a law for learning rates needs two searched rungs", hint="use `rate_rungs=2` or more")
        if not self.corpora or len(set(self.corpora)) < len(self.corpora):
            raise SpecError(f"corpora must be named once each, got {self.corpora}", hint="name one or more corpora")
        if self.held_out is not None and self.held_out not in self.corpora[1:]:
            raise SpecError(
                f"{self.held_out!r} cannot be held out: it is not among the corpora after the first",
                hint="name it as a further corpus, too",
            )
        return self

    @property
    def folder(self) -> str:
        """Return the name of the study's folder, which studies on the same ladder share."""
        digest = hash_of({name: getattr(self, name) for name in _IDENTITY})
        return f"scale-{self.recipe}-{self.tokens_per_parameter:g}-tokens-{digest[:8]}"

    @property
    def hash(self) -> str:
        """Return the hash of everything that is asked, but the hours."""
        return hash_of(self.model_dump(mode="json", exclude={"hours"}))

    def comparison(self, corpus: str, rates: dict[str, dict[str, float]]) -> Request:
        """Return the comparison of this study on one corpus."""
        shared: dict[str, Any] = {name: getattr(self, name) for name in ExperimentRequest.model_fields}
        return Request(
            **{**shared, "rungs": self.rungs[:-1]},
            size=self.rungs[-1],
            tokens_per_parameter=self.tokens_per_parameter,
            rates=rates,
            corpus=corpus,
            pilot=0,
        )
