"""The findings of a verification: checks that hold, that fail, or that could not be made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from attnlab.errors import AttnlabError

Note = Callable[[str], None]  # receives a description of each step
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, OSError)


class MismatchError(AttnlabError):
    """A record contradicts other records, or the result of computing it again."""


class UncheckedError(AttnlabError):
    """A check cannot be made here; the record may still be right."""


@dataclass
class CheckTally:
    """One kind of check on all runs: how often it held, where it failed, and where it could not be made."""

    name: str
    held: int = 0
    failed: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    @property
    def status(self) -> str:
        """Return "differs", "unchecked" or "holds"."""
        return "differs" if self.failed else "unchecked" if self.unchecked or not self.held else "holds"


@dataclass
class CheckList:
    """All checks of a verification, in the order in which they were first made."""

    tallies: dict[str, CheckTally] = field(default_factory=dict)

    @contextmanager
    def checking(self, name: str, what: str) -> Iterator[None]:
        """Make a check inside: it fails if it raises, and could not be made if it raises an `UncheckedError`.

        `what` names the thing checked. Data of the wrong type fails too.
        """
        tally = self.tallies.setdefault(name, CheckTally(name))
        try:
            yield
        except UncheckedError as error:
            tally.unchecked.append(f"{what}: {error.message}")
        except AttnlabError as error:
            tally.failed.append(f"{what}: {error.message}")
        except _MALFORMED as error:
            tally.failed.append(f"{what} is malformed: {type(error).__name__}: {error}")
        else:
            tally.held += 1

    def fails(self, what: str) -> bool:
        """Return whether any check of this thing failed."""
        return any(one.startswith((f"{what}:", f"{what} ")) for tally in self.tallies.values() for one in tally.failed)

    @property
    def exit_code(self) -> int:
        """Return 0 if everything holds, 1 if something does not, and 2 if something could not be checked."""
        found = {tally.status for tally in self.tallies.values()}
        return 1 if "differs" in found else 2 if "unchecked" in found else 0
