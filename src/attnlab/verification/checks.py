"""What a verification found: checks that hold, checks that do not, and what could not be checked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from attnlab.errors import AttnlabError

Note = Callable[[str], None]  # is told each step in words
_MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RuntimeError, OSError)


class MismatchError(AttnlabError):
    """Something that does not fit what else is recorded, or what comes out when it is computed again."""


class UncheckedError(AttnlabError):
    """Something that cannot be checked here, which says nothing about whether it is right."""


@dataclass
class CheckTally:
    """One kind of check on all runs: how often it held, where it did not, and where it could not be made."""

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
        """Make a check inside: it does not hold if it raises, and cannot be made if that is an `UncheckedError`.

        `what` is checked. Data that is not even of the right kind does not hold.
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
