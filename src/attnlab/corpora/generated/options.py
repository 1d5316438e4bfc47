"""The numbers of the generated corpora and tasks: `CorpusSpec.options`, with their defaults and limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeFloat, PositiveInt, ValidationError, field_validator

from attnlab.errors import SpecError, as_spec_error

MOST_PHRASINGS = 16  # as many as phrases.py has


class Options(BaseModel):
    """The base: what is not a field is refused, with the nearest field."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise as_spec_error(error, type(self).__doc__ or "", fields=type(self).model_fields) from None


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


class MatchingOptions(Options):
    """the matching task"""

    places: Annotated[int, Field(ge=2, le=10_000)] = 16  # that symbols stand at, and questions after them
    validation_examples: PositiveInt = 512


class AdjectivesOptions(Options):
    """the sentences with adjectives"""

    sentences: Annotated[int, Field(gt=0, le=1000)] = 3  # of a row
    others: Annotated[int, Field(ge=0, le=100)] = 2  # at most so many adjectives that decide nothing, before a noun
    validation_examples: PositiveInt = 512

    @property
    def longest(self) -> int:
        """The words of the longest row: each sentence has an article, an adjective, a noun, a verb and a stop."""
        return self.sentences * (self.others + 5)


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
    "python": NoOptions,
    "docstrings": NoOptions,
    "world": WorldOptions,
    "kinship": KinshipOptions,
    "mqar": MqarOptions,
    "translation": TranslationOptions,
    "matching": MatchingOptions,
    "adjectives": AdjectivesOptions,
}
TASKS = ("mqar", "translation", "matching", "adjectives")
