"""A form for a specification, drawn from its description (`work/forms.py`): a new field or kind needs nothing here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from nicegui import ui

from attnlab.studio.matrices import read_number, read_whole
from attnlab.studio.widgets import choice, entry, switch

Changed = Callable[[str, Any], Awaitable[None]]

_OPEN = "not set"
_MOST = 1_000_000


class SpecForm:
    """The fields of a specification; every change is told as (field, new value), parts as their whole mapping."""

    def __init__(self, fields: Sequence[Mapping[str, Any]], changed: Changed) -> None:
        self._fields, self._changed = fields, changed
        self._place = ui.element("div").classes("fields")

    def draw(self, values: Mapping[str, Any]) -> None:
        """Draw the form anew with these values."""
        self._place.clear()
        with self._place:
            for field in self._fields:
                self._draw(field, values.get(field["name"]))

    def _draw(self, field: Mapping[str, Any], value: Any) -> None:
        name = field["name"]

        async def tell(new: Any) -> None:
            await self._changed(name, new)

        if field["type"] == "part":
            self._draw_part(field, value, tell)
        elif field["type"] == "group":
            self._draw_fields(field["fields"], value, tell)
        else:
            _control(field, value, tell)

    def _draw_part(self, field: Mapping[str, Any], value: Any, tell: Callable[[Any], Awaitable[None]]) -> None:
        kinds = {one["kind"]: one["kind"] for one in field["kinds"]}
        options = {"": _OPEN, **kinds} if field["optional"] else kinds
        now = value["kind"] if value else ""

        async def chosen(kind: str) -> None:
            await tell({"kind": kind} if kind else None)

        choice(field["label"], options, now, chosen)
        for one in field["kinds"]:
            if one["kind"] == now:
                self._draw_fields(one["fields"], value, tell)

    def _draw_fields(
        self, fields: Sequence[Mapping[str, Any]], value: Mapping[str, Any], tell: Callable[[Any], Awaitable[None]]
    ) -> None:
        for inner in fields:

            async def told(new: Any, name: str = inner["name"]) -> None:
                await tell({**value, name: new})

            _control(inner, value.get(inner["name"]), told)


def _control(field: Mapping[str, Any], value: Any, tell: Callable[[Any], Awaitable[None]]) -> None:
    """One field of plain values."""
    if field["type"] == "switch":

        async def switched(text: str) -> None:
            await tell(bool(text))

        switch(field["label"], bool(value), switched)
    elif field["type"] == "choice":
        choice(field["label"], field["words"], str(value), tell)
    else:

        async def typed(text: str) -> None:
            await tell(_read(field, text))

        hint = " or ".join(["a number", *field["words"]]) if field["words"] else ""
        shown = "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
        entry(field["label"], shown, typed, whole=field["type"] == "whole", hint=hint)


def _read(field: Mapping[str, Any], text: str) -> Any:
    plain = text.strip()
    if plain in field["words"]:
        return plain
    if not plain and field["optional"]:
        return None
    if field["type"] == "real":
        return read_number(plain)
    return read_whole(plain, field["label"], int(field.get("least", 0)), int(field.get("most", _MOST)))
