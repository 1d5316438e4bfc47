"""The specification of a corpus: its name, its tokenizer, how much is held out, and the options of generated text.

CorpusSpec()                                                        Python's own documentation, by characters
CorpusSpec(name="notes.txt", tokenizer="bpe", vocabulary_size=1024)
CorpusSpec(name="world", options={"people": 200}, seed=3)
CorpusSpec(name="mqar", vocabulary_size=64, options={"pairs": 4})
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, NonNegativeFloat, PositiveInt, field_validator, model_validator

from attnlab.errors import SpecError, UnknownNameError
from attnlab.specification import Specification

TOKENIZERS = ("char", "byte", "word", "bpe")
GPT2, RUN = "gpt2:", "run:"
SMALLEST_BPE = 256  # the bytes themselves
LARGEST_BPE = 1_000_000  # several times that of any published model; memory for all of it is allocated at once
DEFAULT_BPE = 2048
MOST_PHRASINGS = 16  # as many as world.BIRTHPLACE has


class GeneratorOptions(Specification):
    """Base of the options of a generated corpus; `OPTIONS` maps each corpus to its subclass."""

    model_config = ConfigDict(strict=True)


class NoOptions(GeneratorOptions):
    what: ClassVar[str] = "a corpus that is not generated"


class WorldOptions(GeneratorOptions):
    """Options of `world`: generated documents that state birthplaces of people."""

    what: ClassVar[str] = "the world"

    people: Annotated[int, Field(gt=0, le=200_000)] = 1000  # people in the text
    unseen: Annotated[int, Field(ge=0, le=200_000)] = 250  # people who are not in the text
    places: Annotated[int, Field(gt=0, le=2000)] = 100
    skew: NonNegativeFloat = 0.5  # the place of rank r is a birthplace with probability ∝ 1 / r^skew
    exposures: str = "1,2,4,8,16"  # documents that name a person; each number applies to equally many people
    phrasings: Annotated[int, Field(gt=0, le=MOST_PHRASINGS)] = 8  # maximum number of ways to state a birthplace
    details: Annotated[int, Field(ge=0, le=3)] = 2  # other facts in each document
    asked: Annotated[float, Field(ge=0, le=1)] = 0.5  # share of people in the text whose question is in the train split
    questions: bool = False  # whether the text also holds the questions and answers of the train split

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


class KinshipOptions(GeneratorOptions):
    """Options of `kinship`: generated sentences about relatives."""

    what: ClassVar[str] = "the kinship text"

    families: Annotated[int, Field(gt=0, le=200)] = 20
    sentences: Annotated[int, Field(gt=0, le=10_000_000)] = 20_000
    shuffled: bool = False  # the control: the gender of every gendered word is drawn independently


class MqarOptions(GeneratorOptions):
    """Options of `mqar`: multi-query associative recall."""

    what: ClassVar[str] = "associative recall"

    pairs: PositiveInt = 8
    power: Annotated[float, Field(gt=0)] = 0.01  # 1: queries anywhere; towards 0: more of them soon after the pairs
    filler: Literal["random", "blank"] = "random"  # the tokens between the queries
    validation_examples: PositiveInt = 512


class MatchingOptions(GeneratorOptions):
    """Options of `matching`: find the position of an equal symbol."""

    what: ClassVar[str] = "the matching task"

    places: Annotated[int, Field(ge=2, le=10_000)] = 16  # positions of the symbols, and as many queries after them
    validation_examples: PositiveInt = 512


class AdjectivesOptions(GeneratorOptions):
    """Options of `adjectives`: sentences whose verb depends on an adjective."""

    what: ClassVar[str] = "the sentences with adjectives"

    sentences: Annotated[int, Field(gt=0, le=1000)] = 3  # per row
    others: Annotated[int, Field(ge=0, le=100)] = 2  # maximum number of adjectives per noun that decide nothing
    validation_examples: PositiveInt = 512

    @property
    def longest(self) -> int:
        """The words of the longest row: each sentence has an article, an adjective, a noun, a verb and a stop."""
        return self.sentences * (self.others + 5)


class TranslationOptions(GeneratorOptions):
    """Options of `translation`: sentence pairs with known alignment."""

    what: ClassVar[str] = "the translation task"

    clauses: Annotated[int, Field(gt=0, le=100)] = 2  # maximum number per sentence
    adjectives: Annotated[int, Field(ge=0, le=100)] = 2  # maximum number per noun
    validation_examples: PositiveInt = 512

    @property
    def longest(self) -> int:
        """The words of the longest sentence: each clause has two nouns, a verb and an end."""
        return self.clauses * (2 * self.adjectives + 4)


OPTIONS: dict[str, type[GeneratorOptions]] = {
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


class CorpusSpec(Specification):
    """A corpus by its name or path, its tokenizer, and the share of it that is held out for validation.

    A name that attnlab knows takes precedence over a file with that name; for the file, write "./world". `tokenizer` is
    "char", "byte", "word" (for texts of few different words), "bpe" (trained on the whole text), "gpt2:FOLDER", or
    "run:FOLDER" for the tokenizer of a run. A task has its own symbols, each one token: do not change its tokenizer.
    `vocabulary_size` is for "bpe" and the tasks. The validation text is the last part of the text; `seed` and `options`
    are for generated corpora.
    """

    what: ClassVar[str] = "a corpus spec"

    name: str = "pydoc"
    tokenizer: str = "char"
    vocabulary_size: PositiveInt | None = None
    validation_share: Annotated[float, Field(ge=0, lt=1)] = 0.1
    seed: int = 0
    options: dict[str, int | float | str | bool] = Field(default={})

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if not self.name or "\0" in self.name:
            raise SpecError(f"{self.name!r} cannot name a corpus", hint=f"use a path, or one of {', '.join(OPTIONS)}")
        _check_tokenizer(self)
        _check_vocabulary(self)
        assert self.parsed_options is not None  # checked at construction
        return self

    @property
    def is_task(self) -> bool:
        """Return whether the corpus consists of examples made on the fly, and not of text."""
        return self.name in TASKS

    @property
    def parsed_options(self) -> GeneratorOptions:
        """The options with their defaults, as the generator takes them."""
        return OPTIONS.get(self.name, NoOptions)(**self.options)

    def to_json(self, indent: int | None = None) -> str:
        return self.model_dump_json(indent=indent)

    def __hash__(self) -> int:
        return hash((self.name, self.tokenizer, self.vocabulary_size, self.validation_share, self.seed))


def _check_tokenizer(spec: CorpusSpec) -> None:
    kind = spec.tokenizer
    if (kind.startswith("gpt2") and not kind.removeprefix(GPT2).strip()) or kind == "gpt2":
        raise SpecError(
            f"the tokenizer {kind!r} does not say where GPT-2's files are",
            hint='use "gpt2:FOLDER", a folder with vocab.json and merges.txt, or with tokenizer.json',
        )
    if kind not in TOKENIZERS and not kind.startswith((GPT2, RUN)):
        raise UnknownNameError("tokenizer", kind, [*TOKENIZERS, f"{GPT2}FOLDER", f"{RUN}FOLDER"])
    if spec.is_task and kind != "char":
        raise SpecError(
            f"{spec.name!r} is a task with symbols of its own, not a text for the tokenizer {kind!r}",
            hint='leave tokenizer at "char"',
        )


def _check_vocabulary(spec: CorpusSpec) -> None:
    size = spec.vocabulary_size
    if size is None or spec.is_task:
        return
    if spec.tokenizer != "bpe":
        raise SpecError(
            f"the tokenizer {spec.tokenizer!r} has a vocabulary of its own, so its size cannot be {size}",
            hint="leave `vocabulary_size` out, or use `tokenizer=bpe`",
        )
    if size < SMALLEST_BPE:
        raise SpecError(
            f"a BPE vocabulary of {size} cannot hold the {SMALLEST_BPE} bytes", hint=f"use at least {SMALLEST_BPE}"
        )
    if size > LARGEST_BPE:
        raise SpecError(
            f"a BPE vocabulary of {size} is too large to learn", hint=f"use `vocabulary_size` up to {LARGEST_BPE}"
        )
