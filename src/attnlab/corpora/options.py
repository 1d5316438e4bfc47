"""The numbers of the generated corpora and tasks: `CorpusSpec.options`, with their defaults and limits."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveInt, ValidationError, field_validator

from attnlab.errors import SpecError

MOST_PHRASINGS = 16  # as many as phrases.py has


def as_spec_error(error: ValidationError, what: str, fields: dict[str, Any]) -> Exception:
    """The first complaint of a validation as one sentence; an error of ours that pydantic wrapped comes back."""
    first = error.errors()[0]
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, Exception) and hasattr(cause, "hint"):
        return cause
    where = ".".join(str(step) for step in first["loc"])
    if first["type"] == "extra_forbidden":
        close = get_close_matches(where, fields, n=1, cutoff=0.5)
        known = ", ".join(fields) or "none"
        return SpecError(f"{what} has no {where!r}", hint=f"did you mean {close[0]!r}?" if close else f"known: {known}")
    message = first["msg"][0].lower() + first["msg"][1:]
    return SpecError(f"{where or 'the text'} of {what} is {first['input']!r}: {message}")


class Options(BaseModel):
    """The base: what is not a field is refused, with the nearest field."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise as_spec_error(error, type(self).__doc__ or "", type(self).model_fields) from None


class NoOptions(Options):
    """a corpus that is not generated"""


class WorldOptions(Options):
    """the world"""

    people: Annotated[int, Field(gt=0, le=200_000)] = 1000  # who are in the text
    unseen: Annotated[int, Field(ge=0, le=200_000)] = 250  # and who are not
    places: Annotated[int, Field(gt=0, le=2000)] = 100
    skew: NonNegativeFloat = 0.5  # the place of rank r is a birthplace in proportion to 1 / r^skew
    exposures: str = "1,2,4,8,16"  # how many documents speak of a person: each number for as many people
    phrasings: Annotated[int, Field(gt=0, le=MOST_PHRASINGS)] = 8  # at most so many ways to state a birthplace
    details: Annotated[int, Field(ge=0, le=3)] = 2  # other facts in each document
    asked: Annotated[float, Field(ge=0, le=1)] = 0.5  # share of the people whose question belongs to the train split
    questions: bool = False  # whether the text holds the train split's questions and answers as well

    @field_validator("exposures")
    @classmethod
    def _are_numbers(cls, text: str) -> str:
        parts = text.split(",")
        if not all(part.strip().isascii() and part.strip().isdigit() and 0 < int(part) <= 10_000 for part in parts):
            raise SpecError(f"exposures of the world are {text!r}", hint='give whole numbers such as "1,2,4,8,16"')
        return text

    @property
    def exposure_levels(self) -> list[int]:
        return [int(part) for part in self.exposures.split(",")]


class KinshipOptions(Options):
    """the kinship text"""

    families: Annotated[int, Field(gt=0, le=200)] = 20
    sentences: Annotated[int, Field(gt=0, le=10_000_000)] = 20_000
    shuffled: bool = False  # the control: every gendered word has its gender drawn anew, so that nothing agrees


class MqarOptions(Options):
    """associative recall"""

    pairs: PositiveInt = 8
    power: Annotated[float, Field(gt=0)] = 0.01  # 1: queries anywhere; towards 0: more of them soon after the pairs
    filler: Literal["random", "blank"] = "random"  # what stands between the queries
    validation_examples: PositiveInt = 512


class TranslationOptions(Options):
    """the translation task"""

    clauses: Annotated[int, Field(gt=0, le=100)] = 2  # at most so many in a sentence
    adjectives: Annotated[int, Field(ge=0, le=100)] = 2  # at most so many before a noun
    validation_examples: PositiveInt = 512

    @property
    def longest(self) -> int:
        """The words of the longest sentence: each clause has two nouns, a verb and an end."""
        return self.clauses * (2 * self.adjectives + 4)


OPTIONS: dict[str, type[Options]] = {
    "pydoc": NoOptions,
    "world": WorldOptions,
    "kinship": KinshipOptions,
    "mqar": MqarOptions,
    "translation": TranslationOptions,
}
TASKS = ("mqar", "translation")
