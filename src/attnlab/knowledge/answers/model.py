"""A knowledge model that answers many questions at once, each answer with the model's confidence.

model = KnowledgeModel.open(Path("runs/knowledge-…"))
for answer in model.answer(["Where was Bera Dolock born?"], samples=10):
    print(answer.text, answer.probability, answer.agreement)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from attnlab.errors import FileError, InputError
from attnlab.knowledge.answers.decoding import complete
from attnlab.knowledge.codec import Codec
from attnlab.knowledge.material import Material, read_record
from attnlab.knowledge.pairs import Pair, QuestionTemplate
from attnlab.knowledge.text import clean, shorten
from attnlab.models import LanguageModel
from attnlab.runs import RunDirectory
from attnlab.runs.checkpoints import digest
from attnlab.training import load_run

_MOST_SAMPLES = 10_000
_MOST_SEEDS = 2**40  # a PyTorch generator takes 64 bits


@dataclass(frozen=True)
class ModelAnswer:
    """The answer of a model to a question, with three confidence scores."""

    question: str
    text: str
    probability: float  # of all tokens of the answer and the end token
    length_normalised: float  # the geometric mean of their probabilities
    agreement: float | None = None  # share of sampled answers that are the same; None if none were sampled
    fits: bool = True  # whether the question is of the kind that the model was trained on
    problem: str | None = None  # why there is no answer


class KnowledgeModel:
    """The model of a knowledge run, with its training material."""

    def __init__(
        self,
        model: LanguageModel,
        codec: Codec,
        material: Material,
        record: Mapping[str, Any],
        path: Path | None = None,
    ) -> None:
        """Use `open` for a run."""
        self.model, self.codec, self.material, self.record = model, codec, material, record
        self._path = path

    @classmethod
    def open(cls, path: Path) -> KnowledgeModel:
        """Return the model of a finished run."""
        directory = RunDirectory.open(path)
        record = read_record(path)
        if directory.status != "finished":
            raise FileError(
                f"{path} has not finished: it is {directory.status}", hint="give the same request again to resume it"
            )
        loaded = load_run(path)
        return cls(loaded.model, Codec(loaded.tokenizer), Material.read(path), record, path)

    @property
    def path(self) -> Path:
        if self._path is None:
            raise InputError("this model was not read from a run", hint="use KnowledgeModel.open")
        return self._path

    @cached_property
    def weights_sha256(self) -> str:
        """Return the digest of the weights; a guarantee holds only for the weights that it was set for."""
        return digest(self.model.state_dict())

    @cached_property
    def template(self) -> QuestionTemplate:
        """Return the template of the questions that the model was trained on."""
        kept = self.record.get("question")
        return QuestionTemplate(kept["before"], kept["after"]) if kept else self.material.template

    def pairs(self, use: str) -> tuple[Pair, ...]:
        """Return the pairs of a use: train, heldout or calibration."""
        return self.material.pairs(use)

    def exposure(self, name: str) -> int:
        """Return how many documents name a person; 0 for an unseen entity."""
        return len(self.material.index.find(name))

    def spellings(self, name: str) -> set[str]:
        """Return how its documents spell a name, whatever its accents and its upper and lower case."""
        return self.material.index.spellings(name)

    def answer(self, questions: Sequence[str], samples: int = 0, seed: int = 0) -> list[ModelAnswer]:
        """Return an answer to each question, in their order; `samples` more are drawn for the agreement."""
        if not 0 <= samples <= _MOST_SAMPLES:
            raise InputError(
                f"{samples} samples cannot be drawn", hint=f"use a number from 0 to {_MOST_SAMPLES} for `samples`"
            )
        if not 0 <= seed < _MOST_SEEDS:
            raise InputError(f"the seed is {seed}", hint=f"use a number from 0 to {_MOST_SEEDS - 1} for `seed`")
        prompts: dict[int, tuple[int, ...]] = {}
        answers: dict[int, ModelAnswer] = {}
        for number, question in enumerate(questions):
            try:
                prompts[number] = self._prompt(question)
            except InputError as error:
                agreement = 0.0 if samples else None
                answers[number] = ModelAnswer(question, "", 0.0, 0.0, agreement, False, error.message)
        ready = list(prompts.values())
        drawn = self._drawn(ready, samples, seed)
        for number, said, others in zip(prompts, complete(self.model, ready, self.codec.mask), drawn, strict=True):
            text = self.codec.decode(said.tokens)
            agreement = sum(other == text for other in others) / samples if samples else None
            fits = self.template.name(questions[number]) is not None
            chances = said.probability, said.length_normalised
            answers[number] = ModelAnswer(questions[number], text, *chances, agreement, fits)
        return [answers[number] for number in range(len(questions))]

    def _prompt(self, question: str) -> tuple[int, ...]:
        if not clean(question):
            raise InputError("the question is empty", hint="ask something")
        prompt = self.codec.prompt(question)
        if len(prompt) >= self.model.spec.context_length:
            raise InputError(
                f"the question {shorten(question)!r} has {len(prompt)} tokens, and the model reads "
                f"{self.model.spec.context_length}",
                hint="ask a shorter one",
            )
        return prompt

    def _drawn(self, prompts: Sequence[tuple[int, ...]], samples: int, seed: int) -> list[list[str]]:
        """Sample answers to each prompt from the model's own probabilities."""
        many = [prompt for prompt in prompts for _ in range(samples)]
        texts = [self.codec.decode(said.tokens) for said in complete(self.model, many, self.codec.mask, seed=seed)]
        return [texts[place * samples : (place + 1) * samples] for place in range(len(prompts))]
