"""The request of a retrofit: the variants, the texts, the layers, and the healing."""

from __future__ import annotations

from typing import Annotated, Any, Self

from pydantic import Field, PositiveFloat, PositiveInt, model_validator

from attnlab.errors import SpecError
from attnlab.models import ModelSpec
from attnlab.retrofit.healing.plan import METHODS, HealingPlan
from attnlab.specification import Specification

ALL_LAYERS = "all"
_USUAL_LENGTH = 512
_LEAST_LENGTH = 4


class RetrofitRequest(Specification):
    """The variants to convert a model to, the text and the layers; `layers` is "all", or indices such as "0,3,5".

    With a budget in nats per token, as many of the cheapest layers are converted as it allows.
    """

    what = "a retrofit"

    variants: tuple[str, ...]
    text: str | None = None
    layers: str = ALL_LAYERS
    budget: PositiveFloat | None = None
    texts: Annotated[int, Field(ge=2, le=100_000)] = 40
    fitting_texts: PositiveInt = 16
    length: PositiveInt | None = None
    healing: HealingPlan = HealingPlan()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if not self.variants:
            raise SpecError("a retrofit needs a variant", hint="name one, as in tied-kv")
        twice = [name for name in self.variants if self.variants.count(name) > 1]
        if twice:
            raise SpecError(f"{twice[0]} is named twice", hint="name each variant once")
        if self.budget is not None and self.layers != ALL_LAYERS:
            raise SpecError("a budget chooses the layers, and they are given too", hint="leave one of the two out")
        return self

    def text_length(self, model: ModelSpec) -> int:
        """Return how many tokens a text has: as many as the context, up to 512, or as asked for."""
        context = model.context_length
        length = min(context, _USUAL_LENGTH) if self.length is None else self.length
        if not _LEAST_LENGTH <= length <= context:
            raise SpecError(
                f"texts of {length} tokens do not suit a context of {context}",
                hint=f"use a `length` from {_LEAST_LENGTH} to {context}",
            )
        if self.healing.tokens and model.learns_positions and length != context:
            raise SpecError(
                f"a model with learned positions is healed at its whole context of {context}, not at {length} tokens",
                hint="leave `length` out",
            )
        return length

    @property
    def healing_runs(self) -> int:
        """Return how many runs of healing there are to be: each variant by each method, and the control."""
        plan = self.healing
        return plan.seeds * (len(METHODS) * len(self.variants) + 1) if plan.tokens else 0

    def chosen_layers(self, num_layers: int) -> tuple[int, ...]:
        """Return the numbers of the layers that may be converted."""
        if self.layers == ALL_LAYERS:
            return tuple(range(num_layers))
        words = [word.strip() for word in self.layers.split(",")]
        odd = [word for word in words if not word.isdecimal() or int(word) >= num_layers]
        if odd:
            raise SpecError(
                f"{odd[0]!r} is no layer of a model with {num_layers}",
                hint=f"use all, or numbers from 0 to {num_layers - 1} with commas between them",
            )
        return tuple(sorted({int(word) for word in words}))


def request_of(**fields: Any) -> RetrofitRequest:
    """Return a request from fields of itself and of its healing."""
    healing = {name: fields.pop(name) for name in list(fields) if name in HealingPlan.model_fields}
    return RetrofitRequest(**fields, healing=HealingPlan(**healing))
