"""The base class of everything that a user specifies: immutable, strict, and clear about what is wrong."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from attnlab.errors import AttnlabError, as_spec_error


class Specification(BaseModel):
    """A frozen model that knows its fields only; a bad value raises a `SpecError` that says what to do.

    A subclass names itself for error messages, as in `what = "a run"`; `help_at` is a hint for values of a wrong type.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    what: ClassVar[str] = "a specification"
    help_at: ClassVar[str | None] = None

    def __init__(self, **fields: Any) -> None:
        try:
            super().__init__(**fields)
        except ValidationError as error:
            raise self.explain(error) from None

    @classmethod
    def explain(cls, error: ValidationError) -> AttnlabError:
        """Return the error to raise for what pydantic refused."""
        return as_spec_error(error, cls.what, fields=cls.model_fields, hint=cls.help_at)

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        """Return what a text of JSON specifies."""
        try:
            return cls.model_validate_json(text)
        except ValidationError as error:
            raise as_spec_error(error, cls.what, fields=cls.model_fields, hint=cls.help_at) from None

    @classmethod
    def from_plain(cls, data: object) -> Self:
        """Return what plain data, as read from JSON, specifies."""
        try:
            return cls.model_validate(data)
        except ValidationError as error:
            raise cls.explain(error) from None

    def replace(self, **changes: Any) -> Self:
        """Return a copy with some fields changed, validated like a new one."""
        return type(self)(**{**{name: getattr(self, name) for name in type(self).model_fields}, **changes})
