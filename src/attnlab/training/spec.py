"""A run as a value: what somebody asks for, and what that comes to.

    RunSpec()                                                    GPT-2's recipe at the size `nano` on Python's own texts
    RunSpec(variant="tied-kv", steps=500, seed=3)
    RunSpec(recipe="fast", corpus={"name": "notes.txt", "tokenizer": "bpe"}, minutes=5)

What is left out is the recipe's. `resolve` fills everything in; the result is written to the run's directory before the
first step and read from there ever after, so that changed defaults never change a run that has begun.
"""

from __future__ import annotations

import hashlib
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    SerializeAsAny,
    ValidationError,
    model_validator,
)

from attnlab.attention import variant as variant_by_name
from attnlab.attention.positions import Position
from attnlab.corpora import Corpus, CorpusSpec
from attnlab.errors import SpecError, as_spec_error
from attnlab.models import Family, ModelSpec
from attnlab.models import size as size_by_name
from attnlab.training.execution import Execution
from attnlab.training.optimizers import OptimizerSpec
from attnlab.training.recipes import optimizer as optimizer_by_name
from attnlab.training.recipes import recipe as recipe_by_name
from attnlab.training.schedules import Schedule

_EVALUATIONS = 5  # over a run, unless asked for otherwise
_VALIDATION_TOKENS = 32_768
_SHAPE = ("num_layers", "model_width", "num_heads", "context_length", "mlp_width", "head_width", "dropout")


class RunSpec(BaseModel):
    """What somebody asks for. Fields that are None are as the recipe says."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    variant: str = "softmax"  # several, parted by commas, take turns over the layers
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
    min_learning_rate_ratio: Annotated[float, Field(ge=0, le=1)] | None = None  # at the last step, of the highest rate
    clip: PositiveFloat | None = None

    steps: PositiveInt | None = None
    minutes: PositiveFloat | None = None
    batch_size: PositiveInt | None = None
    seed: NonNegativeInt = 0
    evaluate_every: PositiveInt | None = None
    validation_rows: PositiveInt | None = None

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise as_spec_error(error, "a run") from None

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
        for name in self.variant.split(","):
            variant_by_name(name.strip())
        return self

    def replace(self, **changes: Any) -> RunSpec:
        """Another spec with some fields changed."""
        return RunSpec(**{**{name: getattr(self, name) for name in type(self).model_fields}, **changes})

    def name(self, corpus_hash: str) -> str:
        """Return the name of the run's folder: the same for the same spec on the text with this hash."""
        text = self.model_dump_json(exclude_none=True, exclude={"corpus"}) + corpus_hash
        short = hashlib.sha256(text.encode()).hexdigest()[:8]
        plain = "".join(letter if letter.isalnum() or letter in "-+" else "-" for letter in self.variant)
        return f"{plain[:60]}-{self.size}-{self.recipe}-seed{self.seed}-{short}"

    def resolve(self, corpus: Corpus, execution: Execution, steps: int | None = None) -> ResolvedRun:
        """Everything that this run will do; `steps` where they follow from minutes."""
        recipe = recipe_by_name(self.recipe)
        # Another optimizer brings the numbers that suit it.
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
        """The model that learns this corpus: an encoder–decoder where there is another sequence to read."""
        shape = _given(self, *_SHAPE, "initial_std")
        paired = corpus.spec.name == "translation"
        return ModelSpec.build(
            self.size,
            vocabulary_size=corpus.vocabulary_size,
            variant=self.variant,
            architecture=recipe_by_name(self.recipe).architecture,
            family=self.family or ("encoder-decoder" if paired else "decoder"),
            position=self.position,
            **shape,
        )


class ResolvedRun(BaseModel):
    """What a run does, with nothing left open."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

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


def _given(spec: RunSpec, *names: str) -> dict[str, Any]:
    return {name: getattr(spec, name) for name in names if getattr(spec, name) is not None}
