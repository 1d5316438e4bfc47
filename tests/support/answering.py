"""A model whose memory is a table: what it says and how sure it is are given, to test what is made of it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnlab.knowledge import ModelAnswer, Pair, QuestionTemplate
from attnlab.knowledge.text import DocumentIndex

TEMPLATE = QuestionTemplate("Where was ", " born?")


class TableModel:
    """Stands for a `KnowledgeModel`: by name, the answer and its confidence; all others get the commonest answer."""

    def __init__(
        self,
        path: Path,
        memory: Mapping[str, tuple[str, float]],
        *,
        weights: str = "w",
        read: Sequence[str] | None = None,
        **pairs: Sequence[Pair],
    ) -> None:
        self.path, self.memory, self.template = path, dict(memory), TEMPLATE
        self.record: dict[str, Any] = {"recipe": "table"}
        self.weights_sha256 = hashlib.sha256(weights.encode()).hexdigest()
        self.documents = tuple(f"{name} was born." for name in (memory if read is None else read))
        self._pairs = pairs

    def pairs(self, use: str) -> tuple[Pair, ...]:
        return tuple(self._pairs.get(use, ()))

    def exposure(self, name: str) -> int:
        return sum(text.startswith(f"{name} was") for text in self.documents)

    def spellings(self, name: str) -> set[str]:
        return DocumentIndex(self.documents).spellings(name)

    def answer(self, questions: Sequence[str], samples: int = 0, seed: int = 0) -> list[ModelAnswer]:  # noqa: ARG002
        return [self._say(question, samples) for question in questions]

    def _say(self, question: str, samples: int) -> ModelAnswer:
        name = self.template.name(question)
        text, chance = self.memory.get(name or "", ("London", 0.1))
        if len(question) > 5000:
            return ModelAnswer(question, "", 0.0, 0.0, 0.0 if samples else None, False, "the question is too long")
        return ModelAnswer(question, text, chance, chance**0.5, chance if samples else None, name is not None)


def calibrated(path: Path, sure: int, unsure: int, **more: Any) -> TableModel:
    """A model that is right wherever it is sure, and wrong wherever it is not, with pairs that show it."""
    memory = {f"Sure {number}": (f"Town {number}", 0.9 + number / 10_000) for number in range(2 * sure)}
    memory |= {f"Unsure {number}": ("London", 0.2 + number / 10_000) for number in range(2 * unsure)}
    pairs = [Pair(TEMPLATE.ask(name), said if chance > 0.5 else "Paris") for name, (said, chance) in memory.items()]
    return TableModel(path, memory, calibration=pairs[::2], heldout=pairs[1::2], **more)
