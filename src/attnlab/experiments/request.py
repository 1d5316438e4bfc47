"""The requests of a comparison and of a scale study: what a user asks for, before anything is planned or measured.

    Request()                                                   the default ladder, as `make compare` asks for it
    Request(variants=("tied-kv",), seeds=12, corpus="notes.txt", size="nano", steps=1000)
    Request(variants=("tied-kv",), size="100k", rungs=("25k", "50k"), tokens_per_parameter=100)
    ScaleRequest(variants=("tied-kv",), rungs=("14k", "25k", "50k", "100k"))

The same request finds the same folder again. This file imports nothing heavy, so that a finished comparison is shown
at once. Studies that differ only in rungs, seeds, variants or corpora share a folder, and so all runs that they have
in common.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, field_validator, model_validator

import attnlab
from attnlab.errors import FileError, SpecError
from attnlab.formats import file_name
from attnlab.specification import Specification
from attnlab.storage.files import hash_file
from attnlab.storage.plans import PLAN, read_plan

# One projection for keys and values; normalised dot products, literal and with a learned temperature; no softmax.
QUESTIONS = ("tied-kv", "cosine", "cosine-learned", "sigmoid")
DEFAULT_SIZE, DEFAULT_RUNGS, DEFAULT_TOKENS = "25k", ("14k",), 120.0
MOST = 10_000  # seeds, trials or analyses; more would take years
Count = Annotated[int, Field(ge=1, le=MOST)]
Match = Literal["parameters", "flops", "cache"]
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
RECALL = "mqar"  # the corpus of associative recall
LADDER = (4, 8, 16)  # pairs to remember
_LADDER_STEPS, _LADDER_QUERIES = 2000, 384  # of a run; of a batch
_PER_PAIR = 8  # tokens of the context, and symbols


class ExperimentRequest(Specification):
    """What is asked alike of a comparison and of a study over sizes."""

    variants: tuple[str, ...] = QUESTIONS
    baseline: str = "softmax"
    recipe: str = "gpt2"
    rungs: tuple[str, ...] = ()  # sizes, ascending
    least_tokens: NonNegativeInt = 0  # that every rung is trained on, however small it is
    half_tokens: bool = False  # whether the rungs below the largest are trained with half the tokens as well
    up_to: dict[str, str] = Field(default_factory=dict)  # the largest size of an arm, where that has a limit
    tokenizer: str = "char"
    vocabulary_size: PositiveInt | None = None
    changes: tuple[str, ...] = ()  # treatments of all arms alike, the baseline included
    seeds: Count = 4
    first_seed: NonNegativeInt = 0
    margin: PositiveFloat = 0.03  # of perplexity
    alpha: Annotated[float, Field(gt=0, lt=1)] = 0.05
    claims: bool = False  # whether published claims are judged too
    variants_from: str | None = None
    variants_sha256: str | None = None
    unchecked: bool = Field(default=False, exclude_if=lambda value: not value)  # train variants that fail their check

    @model_validator(mode="after")
    def _can_be_compared(self) -> Self:
        if self.seeds < 2:
            raise SpecError(
                "one seed says nothing about noise, so no difference can be told from it",
                hint="use `seeds=8` or more; 2 are the least",
            )
        twice = sorted({name for name in self.variants if self.variants.count(name) > 1})
        if twice:
            raise SpecError(f"{', '.join(twice)} is compared twice", hint="name each variant once")
        if self.baseline in self.variants:
            raise SpecError(f"{self.baseline!r} is the baseline itself", hint="leave it out of the variants")
        if not self.variants:
            raise SpecError("there is nothing to compare", hint="name a variant, such as tied-kv")
        unknown = sorted(self.up_to.keys() - {*self.variants})
        if unknown:
            raise SpecError(f"up_to names {unknown[0]!r}, which is not compared", hint="name one of the variants")
        return self

    @classmethod
    def with_variants_of(cls, path: Path | None, **fields: Any) -> Self:
        """Return a request whose variants may come from a file, which is part of what is asked."""
        if path is None:
            return cls(**fields)
        return cls(**fields, variants_from=str(path), variants_sha256=sha256_of(path))


class Request(ExperimentRequest):
    """A comparison as a user asks for it. A field that is None is chosen when the plan is made.

    `size` is the largest, which decides; at `rungs` the same arms are trained too. With `tokens_per_parameter`, batch,
    steps, warm-up and learning rate of every rung follow from its size (`planning/budgets.py`).
    """

    what = "a comparison"
    help_at = "`help(attnlab.experiments.Request)` lists the fields"

    size: str = DEFAULT_SIZE  # without any of size, rungs, tokens_per_parameter and steps: the default ladder
    tokens_per_parameter: PositiveFloat | None = None
    rates: dict[str, dict[str, PositiveFloat]] = Field(default_factory=dict)  # by size and arm, searched before
    corpus: str = "pydoc"
    corpus_options: dict[str, int | float | str | bool] = Field(default_factory=dict)
    steps: PositiveInt | None = None
    looks: Count = 1  # interim analyses, the last one included
    match: Match | None = None
    tune: Annotated[int, Field(ge=0, le=MOST)] = 0  # learning-rate trials of each arm
    tune_seeds: Count = 1  # that each trial is a mean over
    pilot: Annotated[int, Field(ge=0, le=MOST)] | None = None  # seeds of the pilot; None: as many as are needed
    starts: dict[str, dict[str, Any]] = Field(default_factory=dict, exclude_if=lambda value: not value)
    # by arm, the run that it begins with, as `attnlab.training.starting.Start` has it

    @model_validator(mode="before")
    @classmethod
    def _default_lengths(cls, fields: Any) -> Any:
        """Fill in the default ladder where nothing is said about sizes and lengths, and tokens where only sizes are.

        A size with a name of its own, such as nano, has the steps of the recipe.
        """
        said = ("size", "rungs", "tokens_per_parameter", "steps", "starts")
        if not isinstance(fields, dict) or any(fields.get(name) for name in said[2:]):
            return fields
        if not any(fields.get(name) for name in said):
            return {**fields, "rungs": DEFAULT_RUNGS, "tokens_per_parameter": DEFAULT_TOKENS}
        if fields.get("rungs") or str(fields.get("size"))[:1].isdigit():
            return {"tokens_per_parameter": DEFAULT_TOKENS, **fields}
        return fields

    @field_validator("corpus")
    @classmethod
    def _whole_path(cls, name: str) -> str:
        """Make a path mean the same file from wherever the question is asked again."""
        path = Path(name).expanduser()
        return str(path.resolve()) if path.suffix or path.name != name else name

    @model_validator(mode="after")
    def _has_lengths(self) -> Self:
        if self.steps is not None and (self.tokens_per_parameter is not None or self.rungs):
            raise SpecError(
                f"steps={self.steps} cannot hold for every rung of a ladder",
                hint="give tokens_per_parameter instead of steps, or leave out the rungs",
            )
        if self.rungs and self.tokens_per_parameter is None:
            raise SpecError(
                "a ladder needs tokens_per_parameter", hint=f"use `tokens_per_parameter={DEFAULT_TOKENS:g}`"
            )
        return self

    @model_validator(mode="after")
    def _starts_alike(self) -> Self:
        if not self.starts:
            return self
        if missing := {self.baseline, *self.variants} - self.starts.keys():
            raise SpecError(f"{min(missing)} starts from no run, and others do", hint="give every arm its start")
        unsuited = [name for name in ("rungs", "tokens_per_parameter", "match", "up_to") if getattr(self, name)]
        if unsuited:
            raise SpecError(
                f"{unsuited[0]} changes the size of models, and a retrofit has that of the original",
                hint=f"leave out `{unsuited[0]}`, and give `steps`",
            )
        return self

    @classmethod
    def of(cls, folder: Path) -> Request | None:
        """Return what the comparison in a folder was asked; None if there is none. A changed plan is refused."""
        if not (folder / PLAN).is_file():
            return None
        try:
            return cls(**read_plan(folder)["request"])
        except (SpecError, LookupError, TypeError) as error:
            raise FileError(f"{folder / PLAN} is damaged: {error}", hint="compare again in another folder") from None

    @property
    def hash(self) -> str:
        """Return the hash of everything asked, and of the version that answers."""
        return hash_of({**self.model_dump(mode="json"), "version": attnlab.__version__})

    @property
    def folder(self) -> str:
        """Return the name of the comparison's folder: readable, and its own."""
        words = self.variants if len(self.variants) <= 3 else (self.variants[0], f"and-{len(self.variants) - 1}-more")
        return f"compare-{file_name('-'.join(words))}-{self.size}-{self.hash[:8]}"

    @property
    def margin_nats(self) -> float:
        """Return the margin as a difference of losses."""
        return math.log1p(self.margin)


def ladder(request: Request) -> list[Request]:
    """Return the same arms on associative recall with more and more pairs, a task that needs attention by construction.

    Context and vocabulary grow with the pairs. A batch asks as many queries on every rung: with a quarter of them, one
    of three seeds of softmax did not recall 4 pairs after 3,000 steps. By the recipe `fast`, softmax at 25k recalls 16
    pairs after 1,200 steps; with half or twice the symbols it does not after 2,000, and by GPT-2's own recipe not even
    4 pairs after 1,500. A run recalls nearly all pairs or hardly any, so a pilot's spread would say little: none is run
    unless it is asked for.
    """
    return [
        request.replace(
            corpus=RECALL,
            tokenizer="char",
            vocabulary_size=_PER_PAIR * pairs,
            recipe="fast",
            rungs=(),
            tokens_per_parameter=None,
            half_tokens=False,
            up_to={},
            rates={},
            claims=False,
            corpus_options={"pairs": pairs},
            steps=request.steps or _LADDER_STEPS,
            pilot=request.pilot or 0,
            changes=(
                f"batch_size={_LADDER_QUERIES // pairs}",
                *request.changes,
                f"context_length={_PER_PAIR * pairs}",
            ),
        )
        for pairs in LADDER
    ]


def hash_of(asked: Mapping[str, object]) -> str:
    """Return the hash of plain data, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def sha256_of(path: Path) -> str:
    """Return the hash of a file, however large."""
    try:
        return hash_file(path)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from None


class ScaleRequest(ExperimentRequest):
    """A study as a user asks for it.

    `rate_rungs` of the rungs, the smallest, have their learning rates searched. `held_out` names a corpus of `corpora`
    that takes part in no decision: its rates are those of the first.
    """

    what = "a scale study"
    help_at = "`help(attnlab.experiments.request.ScaleRequest)` lists the fields"

    rungs: tuple[str, ...] = RUNGS
    tokens_per_parameter: PositiveFloat = DEFAULT_TOKENS
    half_tokens: bool = True
    seeds: Count = 5
    corpora: tuple[str, ...] = ("python",)
    held_out: str | None = None
    rate_rungs: PositiveInt = 2
    rate_count: Annotated[int, Field(ge=3, le=15)] = 5
    rate_seeds: Count = 3
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
    def report_folder(self) -> str:
        """Return the name of the folder inside it that is this study's own."""
        return f"study-{self.hash[:8]}"

    @property
    def hash(self) -> str:
        """Return the hash of everything that is asked, but the hours; earlier studies were not asked for claims."""
        return hash_of(self.model_dump(mode="json", exclude={"hours"} if self.claims else {"hours", "claims"}))

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
