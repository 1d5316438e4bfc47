"""How a measurement tells what it is at. It says nothing unless somebody listens."""

from __future__ import annotations

from collections.abc import Iterable


class Listener:
    """The base, which keeps silent; the command line and the studio bring their own."""

    def step(self, what: str, done: int, total: int) -> None:
        """`what` is about to be measured, after `done` of `total` others."""

    def note(self, text: str) -> None:
        """Something that the user should know, such as what is left out and why."""


class Noting(Listener):
    """Passes everything on, and remembers what the user should know."""

    def __init__(self, listener: Listener | None, notes: Iterable[str] = ()) -> None:
        self._listener = listener or Listener()
        self.notes: list[str] = []
        for text in notes:
            self.note(text)

    def step(self, what: str, done: int, total: int) -> None:
        self._listener.step(what, done, total)

    def note(self, text: str) -> None:
        self.notes.append(text)
        self._listener.note(text)
