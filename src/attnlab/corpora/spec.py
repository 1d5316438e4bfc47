"""What to train on, as a value.

CorpusSpec()                                                        Python's own documentation, by characters
CorpusSpec(name="notes.txt", tokenizer="bpe", vocabulary_size=1024)
CorpusSpec(name="world", options={"people": 200}, seed=3)
CorpusSpec(name="mqar", vocabulary_size=64, options={"pairs": 4})
"""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, model_validator

from attnlab.corpora.generated.options import OPTIONS, TASKS, NoOptions, Options
from attnlab.errors import SpecError, UnknownNameError, as_spec_error

TOKENIZERS = ("char", "byte", "word", "bpe")
GPT2 = "gpt2:"
SMALLEST_BPE = 256  # the bytes themselves
DEFAULT_BPE = 2048


class CorpusSpec(BaseModel):
    """A corpus by its name or path, how its text becomes tokens, and how much of it is held back for validation.

    A name that attnlab knows wins over a file of that name, which is "./world" then. `tokenizer` is "char", "byte",
    "word" (for texts of few different words), "bpe" (trained on the whole text) or "gpt2:FOLDER". A task has symbols of
    its own, each a token: leave its tokenizer as it is. `vocabulary_size` is for "bpe" and the tasks. The validation
    text is the last part of the text; `seed` and `options` are those of what is generated.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    name: str = "pydoc"
    tokenizer: str = "char"
    vocabulary_size: PositiveInt | None = None
    validation_share: Annotated[float, Field(ge=0, lt=1)] = 0.1
    seed: int = 0
    options: dict[str, int | float | str | bool] = {}

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise as_spec_error(error, "a corpus spec", fields=type(self).model_fields) from None

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if not self.name or "\0" in self.name:
            raise SpecError(f"{self.name!r} cannot name a corpus", hint=f"use a path, or one of {', '.join(OPTIONS)}")
        _check_tokenizer(self)
        _check_vocabulary(self)
        assert self.parsed_options is not None  # built, and so checked
        return self

    @property
    def is_task(self) -> bool:
        """Whether the corpus consists of examples made on the spot, and not of text."""
        return self.name in TASKS

    @property
    def parsed_options(self) -> Options:
        """The options with their defaults, as the generator takes them."""
        return OPTIONS.get(self.name, NoOptions)(**self.options)

    def to_json(self, indent: int | None = None) -> str:
        return self.model_dump_json(indent=indent)

    @classmethod
    def from_json(cls, text: str | bytes) -> CorpusSpec:
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise as_spec_error(error, "a corpus spec", fields=cls.model_fields) from None

    def __hash__(self) -> int:
        return hash((self.name, self.tokenizer, self.vocabulary_size, self.validation_share, self.seed))


def _check_tokenizer(spec: CorpusSpec) -> None:
    kind = spec.tokenizer
    if (kind.startswith("gpt2") and not kind.removeprefix(GPT2).strip()) or kind == "gpt2":
        raise SpecError(
            f"the tokenizer {kind!r} does not say where GPT-2's files are",
            hint='use "gpt2:FOLDER", a folder with vocab.json and merges.txt, or with tokenizer.json',
        )
    if kind not in TOKENIZERS and not kind.startswith(GPT2):
        raise UnknownNameError("tokenizer", kind, [*TOKENIZERS, f"{GPT2}FOLDER"])
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
            hint='leave vocabulary_size out, or use tokenizer="bpe"',
        )
    if size < SMALLEST_BPE:
        raise SpecError(
            f"a BPE vocabulary of {size} cannot hold the {SMALLEST_BPE} bytes", hint=f"use at least {SMALLEST_BPE}"
        )
