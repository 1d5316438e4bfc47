"""Whether a model fits into a memory, for training and for serving, and how large its batch and its context may be.

    capacity(Question(size="gpt2", batch_size=8), as_bytes("80GB")).training.largest_batch

Training needs the peak of `training_memory`, serving the total of `serving_memory`. The given memory is for the model
alone: memory used by a driver or a library, or lost to fragmentation, is not included.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass

from attnlab.attention import variants
from attnlab.cost.call import MOST_TOKENS
from attnlab.cost.estimate import CostEstimate
from attnlab.cost.questions.question import Question
from attnlab.errors import InputError, SpecError

_BYTES = re.compile(r"(-?\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_UNITS: dict[str, int] = {
    "b": 1,
    **{f"{letter}b": 1000**power for power, letter in enumerate("kmgtp", 1)},
    **{f"{letter}ib": 1024**power for power, letter in enumerate("kmgtp", 1)},
}


def as_bytes(memory: int | str) -> int:
    """Return a number of bytes, also from a string such as "80GB" (10⁹) or "80GiB" (2³⁰)."""
    text = f"{memory}B" if isinstance(memory, int) else memory
    match = _BYTES.fullmatch(text.strip())
    if match is None or match[2].lower() not in _UNITS:
        raise InputError(
            f"{text!r} is no number of bytes", hint="give a number and B, kB, MB, GB, TB, KiB, MiB, GiB or TiB: 80GB"
        )
    number = round(float(match[1]) * _UNITS[match[2].lower()])
    if number < 1:
        raise InputError(f"a memory of {text} holds nothing", hint="give a number above 0, such as 80GB")
    return number


@dataclass(frozen=True)
class Fit:
    """Training or serving a model in a memory. The largest batch is for the given context, and vice versa.

    Either is 0 if not even one fits; the context is None if it was not computed.
    """

    needed: int
    fits: bool
    largest_batch: int
    largest_context: int | None


@dataclass(frozen=True)
class Capacity:
    """A model in a memory; `refusal` says why there is no such model."""

    question: Question
    memory: int
    training: Fit | None = None
    serving: Fit | None = None
    refusal: str = ""

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "question": self.question.model_dump(), "refusal": self.refusal or None}

    def as_row(self) -> dict[str, object]:
        """Return it as one row of a table: plain values by the names of their columns."""
        row: dict[str, object] = {"size": self.question.size, "variant": self.question.variant, "memory": self.memory}
        for use in ("training", "serving"):
            fit = getattr(self, use)
            for name in Fit.__dataclass_fields__:
                row[f"{use}_{name}"] = None if fit is None else getattr(fit, name)
        return {**row, "refusal": self.refusal}


def capacity(question: Question, memory: int, *, context: bool = True) -> Capacity:
    """Return how the model of a question fits into a memory.

    Parameters
    ----------
    question
        The size, the variant and everything else that a cost depends on.
    memory
        Bytes.
    context
        Whether to find the largest context, which takes most of the time.
    """
    training, serving = (_fit(question, memory, use, context) for use in (_training, _serving))
    return Capacity(question, memory, training, serving)


def capacities_beside(question: Question, memory: int) -> tuple[Capacity, ...]:
    """Return the capacity with every other variant of the catalogue, without their largest contexts.

    A variant that the model cannot have is returned with the reason.

    Parameters
    ----------
    question
        The size, the variant and everything else that a cost depends on.
    memory
        Bytes.
    """
    found = []
    for name in (one.name for one in variants() if one.name != question.variant):
        asked = question.replace(variant=name)
        try:
            found.append(capacity(asked, memory, context=False))
        except SpecError as error:
            found.append(Capacity(asked, memory, refusal=error.message))
    return tuple(found)


def _training(found: CostEstimate) -> int:
    return found.memory.peak


def _serving(found: CostEstimate) -> int:
    return found.serving.total


def _fit(question: Question, memory: int, use: Callable[[CostEstimate], int], with_context: bool) -> Fit:
    model = question.model()
    batch, context = question.batch_size, model.context_length
    most = memory // (model.model_width * question.bytes_per_number)  # each sequence and token needs a vector

    def needed(**changes: int) -> float:
        asked = question.replace(**changes)
        try:
            return use(CostEstimate(asked, asked.model() if "context_length" in changes else model))
        except InputError:  # tensors larger than PyTorch can represent
            return math.inf

    now = use(CostEstimate(question, model))
    largest = _largest(lambda number: needed(batch_size=number), memory, min(most, MOST_TOKENS // context))
    longest = None
    if with_context:
        longest = _largest(lambda number: needed(context_length=number), memory, min(most, MOST_TOKENS // batch))
    return Fit(now, now <= memory, largest, longest)


def _largest(needed: Callable[[int], float], memory: int, most: int) -> int:
    """Return the last whole number up to `most` that fits; 0 if 1 does not.

    The memory needed is almost linear in the batch, and linear or quadratic in the context. So three guesses alternate:
    where the line through both ends reaches the memory, the number next to that, and the midpoint of the logarithms.
    """
    low, high = 1, max(1, most)
    low_need, high_need = needed(low), needed(high)
    if low_need > memory:
        return 0
    if high_need <= memory:
        return high
    turn, fitted = 0, True
    while high - low > 1:
        guess = math.isqrt(low * high)
        if turn % 3 == 0 and math.isfinite(high_need):
            guess = low + int((memory - low_need) * (high - low) / (high_need - low_need))
        elif turn % 3 == 1:
            guess = low + 1 if fitted else high - 1
        guess, turn = min(max(guess, low + 1), high - 1), turn + 1
        need = needed(guess)
        fitted = need <= memory
        if fitted:
            low, low_need = guess, need
        else:
            high, high_need = guess, need
    return low
