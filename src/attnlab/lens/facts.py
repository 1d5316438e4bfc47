"""Facts that a model may know, as tokens: the subject, the prompt, and the answer that should follow.

    world = World.generate(people=200)
    facts = world_facts(world, corpus.tokenizer)            "Bera Dolock was born in" → " Stavenport"
    facts = known_facts(model, facts)                       those that the model answers correctly

`trace` (tracing.py) finds where in the model they are stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.corpora import Person, Tokenizer, World
from attnlab.corpora.generated.world import BIRTHPLACE
from attnlab.errors import InputError, UnsupportedError
from attnlab.lens.taps import check_tokens, evaluating
from attnlab.models import LanguageModel

_MOST_VALUES = 1 << 24  # of a tensor in the model: bounds how many rows run in one batch

# Groups of tokens to restore or ablate. Tokens before the subject are the same with another subject.
GROUPS = ("subject", "subject end", "between", "end")


@dataclass(frozen=True)
class Fact:
    """A prompt and its answer. An answer of several tokens is right if all of them are predicted in turn."""

    prompt: tuple[int, ...]
    subject: tuple[int, int]  # its first position in the prompt, and the one after its last
    answer: tuple[int, ...]
    name: str = ""  # of the subject, for people

    def __post_init__(self) -> None:
        first, end = self.subject
        if not (0 <= first < end <= len(self.prompt) and self.answer):
            raise InputError(
                f"a fact with a prompt of {len(self.prompt)} tokens, a subject from {first} to {end} and an answer of "
                f"{len(self.answer)}",
                hint="the subject is a stretch of the prompt, and the answer has one token or more",
            )

    @property
    def inputs(self) -> tuple[int, ...]:
        """Return the input of the model: the prompt, and the answer without its last token."""
        return (*self.prompt, *self.answer[:-1])

    @property
    def places(self) -> dict[str, list[int]]:
        """Return the positions in `inputs` of each of GROUPS.

        These are the subject without its last token, its last token, the tokens after it, and the positions that
        predict the answer: the prompt's last token, and the answer without its last one.
        """
        first, end = self.subject
        said = len(self.prompt) - 1
        last = end - 1
        return {
            "subject": [place for place in range(first, last) if place < said],
            "subject end": [last] if last < said else [],
            "between": list(range(end, said)),
            "end": list(range(said, len(self.inputs))),
        }


def world_facts(
    world: World, tokenizer: Tokenizer, people: Sequence[Person] | None = None, *, phrasing: str = BIRTHPLACE[0]
) -> list[Fact]:
    """Return the birthplaces of the people of a world, by default of everyone in its text.

    `phrasing` contains {name} and, after it, {place}: use one that the text has, or `phrases.QUESTION + " {place}"`.
    A line break before it tells the model that a document begins.

    Parameters
    ----------
    world
        The generated world.
    tokenizer
        The tokenizer.
    people
        The people; by default everyone in its text.
    phrasing
        A sentence with {name} and, after it, {place}.
    """
    prompt, found, _ = phrasing.partition("{place}")
    if not found or prompt.count("{name}") != 1 or "{" in prompt.replace("{name}", ""):
        raise InputError(
            f"{phrasing!r} has no {{name}} followed by {{place}}", hint=f"use one such as {BIRTHPLACE[0]!r}"
        )
    chosen = [one for one in world.truth if one.role != "unseen"] if people is None else people
    return [_fact(tokenizer, prompt, one) for one in chosen]


def _fact(tokenizer: Tokenizer, prompt: str, person: Person) -> Fact:
    # A space belongs to the word after it, as in most tokenizers.
    parts = [prompt.partition("{name}")[0], person.name, prompt.partition("{name}")[2], person.birthplace]
    for number in (0, 2):
        kept = parts[number].rstrip(" ")
        parts[number + 1] = parts[number][len(kept) :] + parts[number + 1]
        parts[number] = kept
    pieces = [tokenizer.encode(part) for part in parts]
    tokens = [token for piece in pieces for token in piece]
    if tokens != tokenizer.encode("".join(parts)):
        raise InputError(
            f"the tokens of {''.join(parts)!r} reach across the ends of the name or of the answer",
            hint="use a run trained with `tokenizer=word`, or another phrasing",
        )
    first, answer = len(pieces[0]), len(pieces[3])
    return Fact(tuple(tokens[:-answer]), (first, first + len(pieces[1])), tuple(tokens[-answer:]), person.name)


def known_facts(model: LanguageModel, facts: Sequence[Fact]) -> list[Fact]:
    """Return the facts for which the model predicts every token of the answer as the most likely."""
    known = torch.zeros(len(facts), dtype=torch.bool)
    with evaluating(model):
        for rows in batches_of(model, facts):
            logits = F.linear(rows.answering(model.hidden(rows.inputs)), model.head_weight)
            known[rows.numbers] = (logits.argmax(-1) == rows.answers).all(1).cpu()
    return [fact for fact, right in zip(facts, known.tolist(), strict=True) if right]


@dataclass(frozen=True, eq=False)
class Rows:
    """Facts of equal lengths, as the model reads them."""

    numbers: list[int]  # which of all facts
    facts: list[Fact]
    inputs: Tensor  # (facts, tokens)
    answers: Tensor  # (facts, tokens of the answer)

    def answering(self, hidden: Tensor) -> Tensor:
        """Return the hidden states that predict the answer, (…, tokens, width) → (…, tokens of the answer, width)."""
        return hidden[..., hidden.shape[-2] - self.answers.shape[1] :, :]

    def masks(self) -> Tensor:
        """Return masks of the positions of each group, (groups, facts, tokens)."""
        masks = torch.zeros(len(GROUPS), *self.inputs.shape, dtype=torch.bool)
        for row, fact in enumerate(self.facts):
            for group, places in enumerate(fact.places.values()):
                masks[group, row, places] = True
        return masks.to(self.inputs.device)


def batches_of(model: LanguageModel, facts: Sequence[Fact], times: int = 1) -> Iterator[Rows]:
    """Yield all facts, those of equal lengths together, few enough to go through the model `times` times at once."""
    if model.spec.family != "decoder":
        raise UnsupportedError(f"a {model.spec.family} does not continue a text", hint="use a decoder")
    if not facts:
        raise InputError("no facts", hint="give some; a model that knows none cannot be asked where they are")
    seen = max(spec.mask.prefix or 0 for spec in model.spec.attention)
    lengths: dict[tuple[int, int], list[int]] = {}
    for number, fact in enumerate(facts):
        if len(fact.prompt) < seen:
            raise InputError(
                f"a prompt of {len(fact.prompt)} tokens, where the model sees the first {seen} at once",
                hint="use longer prompts",
            )
        lengths.setdefault((len(fact.inputs), len(fact.answer)), []).append(number)
    device, spec = model.embedding.weight.device, model.spec
    for (length, answer), numbers in lengths.items():
        largest = max(length * max(spec.mlp_width, spec.model_width), answer * spec.vocabulary_size)
        together = max(1, _MOST_VALUES // (times * largest))
        for start in range(0, len(numbers), together):
            some = numbers[start : start + together]
            chosen = [facts[number] for number in some]
            inputs = torch.tensor([fact.inputs for fact in chosen])
            answers = torch.tensor([fact.answer for fact in chosen])
            check_tokens(model, inputs)
            check_tokens(model, answers)
            yield Rows(some, chosen, inputs.to(device), answers.to(device))
