"""Recipes: a model, its training on a text and on pairs, and the length of each stage.

assignment   the protocol of the course assignment, number by number (docs/knowledge.md has its source). Hours on a CPU.
fast         the best result in the given time on two cores. It differs, largest gain first, by
             · document-conditioned QA (`document_qa`): in pretraining, a document that answers a training pair is
               followed by question and answer, so that the model learns to answer questions from a document;
             · synthetic QA (`synthetic_qa`): the pretrained model then generates a question and an answer from every
               document, and is finetuned on these beside the training pairs (after Lewis et al., arXiv 2102.07033, and
               the mixing of text and questions of Allen-Zhu and Li, arXiv 2309.14316). Only the text and the training
               split are used;
             · unseen entities (`unseen_entities`): some questions of finetuning are about people who are not in the
               text, with random answers, so that the model has low confidence about them;
             · BPE, RoPE, cosine attention with a learned temperature, Muon, batches of rows of similar length.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from attnlab.attention import mixture
from attnlab.corpora.spec import LARGEST_BPE
from attnlab.errors import SpecError, UnknownNameError
from attnlab.knowledge.training.sources import SPAN_SHARES, Objective
from attnlab.models import ModelSpec
from attnlab.specification import Specification
from attnlab.training import OptimizerSpec, Schedule
from attnlab.training.recipes import recipe as training_recipe

Share = Annotated[float, Field(ge=0, le=1)]
# Field names in the records of earlier runs.
_EARLIER = {"reading": "document_qa", "practice": "synthetic_qa", "strangers": "unseen_entities"}


class StageSettings(Specification):
    """One stage of training: its epochs, batch size, optimizer and schedule."""

    what: ClassVar[str] = "a stage of training"

    epochs: PositiveInt
    most_epochs: PositiveInt | None = None  # however many minutes are given: more epochs would only memorise
    batch_size: PositiveInt
    optimizer: OptimizerSpec
    schedule: Schedule
    clip: PositiveFloat = 1.0


class KnowledgeRecipe(Specification):
    """Everything about a knowledge model except the text and the pairs."""

    what: ClassVar[str] = "a knowledge recipe"

    name: str
    variant: str = "softmax"
    architecture: Literal["gpt2", "fast"] = "gpt2"
    num_layers: PositiveInt
    model_width: PositiveInt
    num_heads: PositiveInt
    context_length: Annotated[int, Field(ge=8)]
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    model_changes: dict[str, bool | str] = Field(default={})

    tokenizer: Literal["char", "bpe"]
    vocabulary_size: Annotated[int, Field(ge=260, le=LARGEST_BPE)] | None = None
    objective: Objective
    bucketed: bool  # batches of rows of similar length
    document_qa: bool = False  # document-conditioned QA in pretraining, on documents of the training split
    synthetic_qa: bool = False  # synthetic QA: finetuning also on pairs that the pretrained model generates
    unseen_entities: Share = 0.0  # questions about unseen entities per pair of finetuning

    pretraining: StageSettings
    finetuning: StageSettings
    epochs_alone: PositiveInt  # of finetuning without pretraining
    pretraining_share: Share  # of the total minutes; the remainder is for generating and asking questions
    finetuning_share: Share

    @model_validator(mode="before")
    @classmethod
    def _takes_earlier_names(cls, fields: Any) -> Any:
        if not isinstance(fields, dict):
            return fields
        return {_EARLIER.get(name, name): value for name, value in fields.items()}

    def replace(self, **changes: Any) -> KnowledgeRecipe:
        """Return a copy with some fields changed; those that are None stay."""
        recipe = super().replace(**{name: value for name, value in changes.items() if value is not None})
        mixture(recipe.variant)
        return recipe

    @property
    def span_share(self) -> float:
        return SPAN_SHARES[self.objective]

    def model(self, vocabulary_size: int) -> ModelSpec:
        changes: dict[str, Any] = dict(self.model_changes)
        try:
            return ModelSpec.build(
                "nano",
                vocabulary_size=vocabulary_size,
                variant=self.variant,
                architecture=self.architecture,
                num_layers=self.num_layers,
                model_width=self.model_width,
                num_heads=self.num_heads,
                context_length=self.context_length,
                dropout=self.dropout,
                **changes,
            )
        except SpecError as error:
            if not self.dropout:
                raise
            raise SpecError(error.message, hint=f"{error.hint}; or use `dropout=0`") from None


def _assignment(learning_rate: float, epochs: int, batch_size: int) -> StageSettings:
    # The assignment warms up over 10 240 tokens, fewer than one of its batches has.
    adamw = OptimizerSpec(kind="adamw", learning_rate=learning_rate, betas=(0.9, 0.95), weight_decay=0.1)
    schedule = Schedule(kind="cosine", warmup_steps=1, end=0.1)
    return StageSettings(epochs=epochs, batch_size=batch_size, optimizer=adamw, schedule=schedule)


def _fast(epochs: int, most_epochs: int, batch_size: int) -> StageSettings:
    fast = training_recipe("fast")
    return StageSettings(
        epochs=epochs, most_epochs=most_epochs, batch_size=batch_size, optimizer=fast.optimizer, schedule=fast.schedule
    )


RECIPES: dict[str, KnowledgeRecipe] = {
    "assignment": KnowledgeRecipe(
        name="assignment",
        num_layers=4,
        model_width=256,
        num_heads=8,
        context_length=128,
        dropout=0.1,
        model_changes={"tied_embedding": False, "activation": "gelu"},
        tokenizer="char",
        objective="span",
        bucketed=False,
        pretraining=_assignment(6e-3, 650, 128),
        finetuning=_assignment(6e-4, 10, 256),
        epochs_alone=75,
        pretraining_share=0.95,
        finetuning_share=0.03,
    ),
    "fast": KnowledgeRecipe(
        name="fast",
        variant="cosine-learned",
        architecture="fast",
        num_layers=3,
        model_width=192,
        num_heads=3,
        context_length=160,
        tokenizer="bpe",
        vocabulary_size=2048,
        objective="lm",
        bucketed=True,
        document_qa=True,
        synthetic_qa=True,
        unseen_entities=0.3,
        pretraining=_fast(8, 16, 64),
        finetuning=_fast(20, 30, 128),
        epochs_alone=75,
        pretraining_share=0.6,
        finetuning_share=0.3,
    ),
}


def recipe(name: str) -> KnowledgeRecipe:
    """Return a recipe by its name."""
    if name not in RECIPES:
        raise UnknownNameError("recipe", name, RECIPES)
    return RECIPES[name]
