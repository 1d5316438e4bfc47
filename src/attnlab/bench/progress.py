"""How a measurement tells what it is at. It says nothing unless somebody listens."""

from __future__ import annotations


class Listener:
    """The base, which keeps silent; the command line and the studio bring their own."""

    def step(self, what: str, done: int, total: int) -> None:
        """`what` is about to be measured, after `done` of `total` others."""

    def note(self, text: str) -> None:
        """Something that the user should know, such as what is left out and why."""
