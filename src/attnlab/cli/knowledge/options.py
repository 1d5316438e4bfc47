"""The options that the training commands of `attnlab knowledge` share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cyclopts import Parameter

from attnlab.cli.options import EXECUTION, ExecutionOptions
from attnlab.knowledge.material.material import CALIBRATION, HELDOUT, read_record
from attnlab.knowledge.training.recipes import KnowledgeRecipe
from attnlab.knowledge.training.recipes import recipe as recipe_by_name
from attnlab.knowledge.training.stage_run import Length, Options
from attnlab.training import Saving
from attnlab.training.progress import ConsoleReporter, Silent


@Parameter(name="*")
@dataclass(frozen=True)
class SplitOptions:
    """Which pairs are held out.

    Parameters
    ----------
    heldout
        Pairs in another file, to be asked and never learned; by default a share of the pairs.
    heldout_share
        The share of the pairs that is kept back to be asked, where there is no other file.
    calibration_share
        The share of the pairs that is kept back for setting a threshold.
    """

    heldout: Path | None = None
    heldout_share: float = HELDOUT
    calibration_share: float = CALIBRATION

    @property
    def asked(self) -> float | Path:
        """The pairs to be asked: a share, or a file."""
        return self.heldout_share if self.heldout is None else self.heldout


@Parameter(name="*")
@dataclass(frozen=True)
class ModelOptions:
    """The model, and how long it is trained.

    Parameters
    ----------
    recipe
        fast (the most in the time given) or assignment (the course assignment's protocol); by default fast, or that of
        the run that is finetuned.
    variant
        The attention: a name of the catalogue, a+b for both changes, a,b for layers that take turns.
    objective
        span (span corruption), lm (language modelling) or mix.
    tokenizer
        char or bpe.
    vocabulary_size
        How many tokens bpe is to have.
    num_layers
        How many layers.
    model_width
        How wide the model is.
    num_heads
        How many heads each layer has.
    context_length
        How many tokens the model reads at most.
    dropout
        The share of activations that training leaves out; some variants have no weights to drop and need 0.
    reading
        Document-conditioned QA in pretraining: documents of the training split are followed by question and answer.
    practice
        Synthetic QA in finetuning: also learn the pairs that the pretrained model writes about the text.
    epochs
        How often everything is read; by default as the recipe says.
    minutes
        How long instead: the steps that fit are measured first.
    seed
        The initial weights, the order of the data, and which pairs are put aside.
    """

    recipe: str | None = None
    variant: str | None = None
    objective: Literal["span", "lm", "mix"] | None = None
    tokenizer: Literal["char", "bpe"] | None = None
    vocabulary_size: int | None = None
    num_layers: int | None = None
    model_width: int | None = None
    num_heads: int | None = None
    context_length: int | None = None
    dropout: float | None = None
    reading: bool | None = None
    practice: bool | None = None
    epochs: int | None = None
    minutes: float | None = None
    seed: int = 0
    execution: ExecutionOptions = EXECUTION

    def knowledge_recipe(self, parent: Path | None = None) -> KnowledgeRecipe:
        """Return the recipe with its changes; that of the parent if none is named."""
        if self.recipe is None and parent is not None:
            base = KnowledgeRecipe(**read_record(parent)["settings"])
        else:
            base = recipe_by_name(self.recipe or "fast")
        names = ("variant", "objective", "tokenizer", "vocabulary_size", "num_layers", "model_width", "num_heads")
        changes = {name: getattr(self, name) for name in (*names, "context_length", "dropout", "reading", "practice")}
        if changes["tokenizer"] == "char":
            base = base.model_copy(update={"vocabulary_size": None})
        return base.replace(**changes)

    def length(self, steps: int | None = None) -> Length:
        return Length(self.epochs, steps, self.minutes)

    def options(self) -> Options:
        execution = self.execution
        execution.check()
        return Options(
            execution.out,
            self.seed,
            Silent() if execution.quiet else ConsoleReporter(),
            Saving(seconds=execution.checkpoint_seconds),
            {"threads": execution.threads, "workers": execution.workers},
        )


SPLIT, MODEL = SplitOptions(), ModelOptions()
