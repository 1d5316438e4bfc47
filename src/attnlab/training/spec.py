"""The specification of a run: as given by the user, with named changes, and resolved.

    RunSpec()                                                    GPT-2's recipe at the size `nano` on Python's own texts
    RunSpec(variant="tied-kv", steps=500, seed=3)
    RunSpec(recipe="fast", corpus={"name": "notes.txt", "tokenizer": "bpe"}, minutes=5)

Omitted fields default to those of the recipe. `resolve` fills in everything; the result is written to the run's
directory before the first step and always read from there, so that changed defaults never affect a run that has begun.

A treatment is a named change to a run:

    treatment("tied-kv")               a variant of attention
    treatment("window*2,softmax")      a mixture of variants over layers
    treatment("fast")                  a recipe
    treatment("muon")                  an optimizer
    treatment("rope")                  a position
    treatment("learning_rate=3e-4")    any field of a run
    treatment("tied-kv & muon")        several at once

`+` joins variants of attention, and `&` treatments of any kind.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SerializeAsAny,
    model_validator,
)

from attnlab.attention import AttentionSpec, Position, mixture
from attnlab.corpora import Corpus, CorpusSpec
from attnlab.errors import SpecError, UnknownNameError
from attnlab.formats import file_name
from attnlab.models import Family, ModelSpec
from attnlab.models import size as size_by_name
from attnlab.specification import Specification
from attnlab.training.execution import Execution
from attnlab.training.recipes import OPTIMIZERS, RECIPES, OptimizerSpec, Schedule
from attnlab.training.recipes import optimizer as optimizer_by_name
from attnlab.training.recipes import recipe as recipe_by_name
from attnlab.training.starting import Start

_EVALUATIONS = 5  # per run, by default
_VALIDATION_TOKENS = 32_768
_SHAPE = ("num_layers", "model_width", "num_heads", "context_length", "mlp_width", "head_width", "dropout")
_OF_MODEL = ("family", "position", *(name for name in _SHAPE if name != "context_length"), "initial_std")


class RunSpec(Specification):
    """A run as specified by the user. Fields that are None default to those of the recipe."""

    what = "a run"

    variant: str = "softmax"  # or a mixture over layers
    recipe: str = "gpt2"
    size: str = "nano"
    corpus: CorpusSpec = CorpusSpec()
    family: Family | None = None
    position: Annotated[
        SerializeAsAny[Position] | None, BeforeValidator(lambda p: None if p is None else Position.parse(p))
    ] = None

    num_layers: PositiveInt | None = None
    model_width: PositiveInt | None = None
    num_heads: PositiveInt | None = None
    context_length: PositiveInt | None = None
    mlp_width: PositiveInt | None = None
    head_width: PositiveInt | None = None
    dropout: Annotated[float, Field(ge=0, lt=1)] | None = None
    initial_std: PositiveFloat | None = None

    optimizer: str | None = None
    learning_rate: PositiveFloat | None = None
    matrix_learning_rate: PositiveFloat | None = None
    weight_decay: Annotated[float, Field(ge=0)] | None = None
    warmup_steps: NonNegativeInt | None = None
    min_learning_rate_ratio: Annotated[float, Field(ge=0, le=1)] | None = None  # last rate / highest rate
    clip: PositiveFloat | None = None

    steps: PositiveInt | None = None
    minutes: Annotated[float, Field(gt=0, le=365 * 24 * 60)] | None = None
    batch_size: PositiveInt | None = None
    seed: NonNegativeInt = 0
    evaluate_every: PositiveInt | None = None
    validation_rows: PositiveInt | None = None
    start: Annotated[
        Start | None,
        BeforeValidator(lambda given: Start.of(given) if isinstance(given, str) else given),
        Field(exclude_if=lambda value: value is None),
    ] = None  # the run that provides the model and the initial weights

    @model_validator(mode="after")
    def _one_model(self) -> Self:
        given = _given(self, *_OF_MODEL) if self.start is not None else {}
        if given:
            raise SpecError(
                f"a run that starts from another has its model, so {next(iter(given))} cannot be given",
                hint="leave it out, or train a new model without `start`",
            )
        return self

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.steps is not None and self.minutes is not None:
            raise SpecError("a run has a number of steps or of minutes, not both", hint="leave one of them out")
        return self

    @model_validator(mode="after")
    def _known_names(self) -> Self:
        size_by_name(self.size)
        recipe_by_name(self.recipe)
        if self.optimizer is not None:
            optimizer_by_name(self.optimizer)
        mixture(self.variant)
        return self

    def name(self, corpus_hash: str) -> str:
        """Return the name of the run's folder: the same for the same spec on the text with this hash."""
        text = self.model_dump_json(exclude_none=True, exclude={"corpus"}) + corpus_hash
        short = hashlib.sha256(text.encode()).hexdigest()[:8]
        return f"{file_name(self.variant)}-{self.size}-{self.recipe}-seed{self.seed}-{short}"

    def resolve(self, corpus: Corpus, execution: Execution, steps: int | None = None) -> ResolvedRun:
        """Return everything that this run will do; `steps` where they follow from minutes."""
        recipe = recipe_by_name(self.recipe)
        # Another optimizer comes with its own default hyperparameters.
        optimizer = recipe.optimizer if self.optimizer is None else optimizer_by_name(self.optimizer)
        changed = _given(self, "learning_rate", "matrix_learning_rate", "weight_decay")
        schedule = recipe.schedule.model_copy(update=_given(self, "warmup_steps"))
        if self.min_learning_rate_ratio is not None:
            schedule = schedule.model_copy(update={"end": self.min_learning_rate_ratio})
        steps = steps or self.steps or recipe.steps
        model = self.model(corpus)
        batch_size = self.batch_size or recipe.batch_size
        return ResolvedRun(
            model=model,
            optimizer=OptimizerSpec(**{**optimizer.model_dump(), **changed}),
            schedule=schedule,
            clip=self.clip or recipe.clip,
            steps=steps,
            batch_size=batch_size,
            seed=self.seed,
            evaluate_every=min(steps, self.evaluate_every or max(1, steps // _EVALUATIONS)),
            validation_rows=self.validation_rows or max(1, _VALIDATION_TOKENS // model.context_length),
            execution=execution,
        )

    def model(self, corpus: Corpus) -> ModelSpec:
        """Return the model for this corpus: an encoder–decoder where there is another sequence to read."""
        if self.start is not None and corpus.vocabulary_size > self.start.model.vocabulary_size:
            raise SpecError(
                f"{self.start.run} knows {self.start.model.vocabulary_size} tokens, and {corpus.spec.name} has "
                f"{corpus.vocabulary_size}",
                hint=f"use the text of that run, or its tokenizer, by `tokenizer=run:{self.start.run}`",
            )
        return self._model(corpus.vocabulary_size, paired=corpus.spec.name == "translation")

    def attention(self) -> tuple[AttentionSpec, ...]:
        """Return the attention of each layer, of the decoder if there is one; it does not depend on the corpus."""
        return self._model(vocabulary_size=1, paired=False).attention

    def _model(self, vocabulary_size: int, *, paired: bool) -> ModelSpec:
        if self.start is not None:
            return self.start.at_context(self.context_length)
        return ModelSpec.build(
            self.size,
            vocabulary_size=vocabulary_size,
            variant=self.variant,
            architecture=recipe_by_name(self.recipe).architecture,
            family=self.family or ("encoder-decoder" if paired else "decoder"),
            position=self.position,
            **_given(self, *_SHAPE, "initial_std"),
        )


class ResolvedRun(Specification):
    """A run with all fields filled in."""

    what = "a resolved run"

    model: ModelSpec
    optimizer: OptimizerSpec
    schedule: Schedule
    clip: PositiveFloat
    steps: PositiveInt
    batch_size: PositiveInt
    seed: NonNegativeInt
    evaluate_every: PositiveInt
    validation_rows: PositiveInt
    execution: Execution

    @property
    def tokens_per_step(self) -> int:
        return self.batch_size * self.model.context_length

    def is_evaluated(self, done: int) -> bool:
        """Return whether the model is evaluated after so many steps."""
        return done % self.evaluate_every == 0 or done == self.steps


def _given(spec: RunSpec, *names: str) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in names if getattr(spec, name) is not None}


@dataclass(frozen=True)
class Treatment:
    """A named change to a run's spec."""

    name: str
    meaning: str
    changes: Mapping[str, Any]

    def change(self, spec: RunSpec) -> RunSpec:
        return spec.replace(**self.changes)


def treatment(name: str) -> Treatment:
    """Return a treatment by its name, or several joined by `&`."""
    parts = [_single(part.strip()) for part in name.split("&")]
    changes: dict[str, Any] = {}
    for part in parts:
        clash = changes.keys() & part.changes.keys()
        if clash:
            raise SpecError(
                f"{name!r} changes {', '.join(sorted(clash))} twice",
                hint="join variants of attention by +, and other treatments that change different things by &",
            )
        changes |= part.changes
    return Treatment(" & ".join(part.name for part in parts), " ".join(part.meaning for part in parts), changes)


def _single(name: str) -> Treatment:
    field, equals, value = (part.strip() for part in name.partition("="))
    if equals:
        return _of_field(name, field, value)
    if name in RECIPES:
        return Treatment(name, f"The recipe {name}.", {"recipe": name})
    if name in OPTIMIZERS:
        return Treatment(name, f"The optimizer {name}.", {"optimizer": name})
    try:
        found = mixture(name)
    except UnknownNameError as error:
        if error.name != name:  # one of several that are combined or mixed
            raise
        raise UnknownNameError("treatment", name, [*error.known, *RECIPES, *OPTIMIZERS], error.near) from None
    return Treatment(name, found.meaning, {"variant": name})


def _of_field(name: str, field: str, value: str) -> Treatment:
    known = [known for known in RunSpec.model_fields if known not in {"corpus", "seed"}]
    if field not in known:
        raise UnknownNameError("field of a run", field, known)
    changed: Any = getattr(RunSpec(**{field: value}), field)
    return Treatment(name, f"With {field} = {value}.", {field: changed})
