"""Everything about the heads of a model at once: what each does, what it is worth, which are alike, what draws them.

    found = study_heads(model, batch, delimiters=delimiter_tokens(tokenizer))
    found["self"].roles[1, 3].roles            ("induction",)
    found.worth_of("self", 1, 3)               Interval(mean, low, high) in nats
    found["self"].likeness.copies()            heads that are the same
    found["self"].explained[1][3].norm.share   how much of the attention that a key receives follows its length

What each head is worth takes a pass through half of the model for every head: by default it is measured where that is
a matter of seconds.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from attnlab.corpora import IGNORED, Batch
from attnlab.errors import UnknownNameError
from attnlab.lens.heads.ablation import Ablation, ablate
from attnlab.lens.heads.redundancy import Likeness, head_likeness
from attnlab.lens.heads.roles import CONTROLS, HeadRoles, head_roles
from attnlab.lens.maps.attention_maps import Place, places
from attnlab.lens.maps.length_direction import Explained, length_or_direction
from attnlab.models import LanguageModel
from attnlab.statistics import Interval

WORTH_LENGTH = 128  # tokens of the texts that heads are removed on
WORTH_TOKENS = 1024  # of all of them, unless eight have more
_SECONDS_OF_WORK = 2e12  # multiplications and additions below which it is a matter of seconds
_PARTS: dict[Place, str] = {"self": "attention", "cross": "cross_attention"}


@dataclass(frozen=True, eq=False)
class PlaceStudy:
    """The heads of all layers that attend in one place."""

    place: Place
    roles: HeadRoles
    likeness: Likeness
    explained: list[list[Explained | None]]  # by layer and head


@dataclass(frozen=True, eq=False)
class Study:
    """All heads of a model on some texts, which `texts` describes."""

    texts: str
    places: tuple[PlaceStudy, ...]
    worth: Ablation | None  # None where it was not measured

    def __getitem__(self, place: Place) -> PlaceStudy:
        for one in self.places:
            if one.place == place:
                return one
        raise UnknownNameError("place", place, [one.place for one in self.places])

    def worth_of(self, place: Place, layer: int, head: int) -> Interval | None:
        """How much the loss rises without a head; None where it was not measured, as in an encoder."""
        name = f"blocks.{layer}.{_PARTS.get(place, '')}.heads.{head}"
        found = None if self.worth is None else self.worth.removed.get(name)
        return None if found is None else found.worth


def study_heads(
    model: LanguageModel,
    batch: Batch,
    *,
    delimiters: Collection[int] = (),
    worth: bool | None = None,
    controls: int = CONTROLS,
    texts: str = "",
) -> Study:
    """Study the heads on the rows of a batch, in every place where the model attends.

    `worth` None measures what each head is worth only where that takes seconds. Without controls no head gets a name.
    """
    given: dict[str, Any] = {"source": batch.source, "source_padding": batch.source_padding}
    padding = None if batch.source is None else _said(batch)
    known = {token for token in delimiters if token < model.spec.vocabulary_size}
    found = tuple(
        PlaceStudy(
            place,
            head_roles(model, batch.inputs, delimiters=known, padding=padding, of=place, controls=controls, **given),
            head_likeness(model, batch.inputs, of=place, **given),
            length_or_direction(model, batch.inputs, padding=padding, of=place, **given),
        )
        for place in places(model)
    )
    some = worth_batch(batch)
    wanted = worth if worth is not None else worth_work(model, some) < _SECONDS_OF_WORK
    return Study(texts, found, ablate(model, [some]) if wanted else None)


def worth_batch(batch: Batch) -> Batch:
    """The rows that heads are removed on: some of the batch, each cut where nothing is lost by it."""
    length = batch.inputs.shape[1] if batch.source is not None else min(batch.inputs.shape[1], WORTH_LENGTH)
    rows = max(8, WORTH_TOKENS // length)
    inputs, targets = batch.inputs, batch.targets
    if bool((targets[:rows, :length] == IGNORED).all(1).any()):  # where what is asked stands further on
        length = inputs.shape[1]
    kept = [None if one is None else one[:rows] for one in (batch.source, batch.source_padding)]
    return Batch(inputs[:rows, :length], targets[:rows, :length], *kept)


def worth_work(model: LanguageModel, batch: Batch) -> float:
    """Multiplications and additions that removing every part takes, about."""
    spec = model.spec
    parts = sum(one.num_heads + 2 for one in (*spec.attention, *spec.cross_attention))
    blocks = sum(parameter.numel() for parameter in model.stack.blocks.parameters())
    head = spec.vocabulary_size * spec.model_width
    return float(2 * parts * batch.inputs.numel() * (blocks / 2 + head))


def _said(batch: Batch) -> Tensor:
    """Up to the last target of each row, (rows, tokens): what follows is padding."""
    asked: Tensor = batch.targets != IGNORED
    return asked.flip(1).cumsum(1).flip(1) > 0
