"""The stage: what an exhibit calls to show something, to check something, and to say how far it has come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from typing import Any, Protocol, SupportsFloat, TypeVar

from attnlab.errors import InputError
from attnlab.exhibits.frame import checks
from attnlab.exhibits.frame.blocks import Block, Cell, Formula, Plot, Series, Slip, TableBlock, Words, heatmap
from attnlab.exhibits.frame.checks import Check
from attnlab.statistics import Estimate, estimate_mean

Item = TypeVar("Item")


class Listener(Protocol):
    """Somebody who watches an exhibit while it runs."""

    def shown(self, block: Block | Check) -> None:
        """Something new to see."""

    def progress(self, what: str, done: int, total: int | None) -> None:
        """A long piece of work got on."""


class Deaf:
    """Watches nothing."""

    def shown(self, block: Block | Check) -> None:
        del block

    def progress(self, what: str, done: int, total: int | None) -> None:
        del what, done, total


class Stage:
    """Collects what an exhibit shows and checks, in order, and passes it on to whoever listens."""

    def __init__(self, claims: Sequence[str], listener: Listener | None = None) -> None:
        self.claims = tuple(claims)
        self.blocks: list[Block | Check] = []
        self._listener = listener or Deaf()

    @property
    def checks(self) -> list[Check]:
        return [block for block in self.blocks if isinstance(block, Check)]

    def say(self, text: str) -> None:
        """A paragraph of plain words."""
        self._add(Words(" ".join(text.split())))

    def formula(self, text: str) -> None:
        """An equation, or several on lines of their own."""
        self._add(Formula(text))

    def numbers(self, title: str, numbers: Mapping[str, Cell]) -> None:
        """Names with their numbers."""
        self.table(title, ("", ""), list(numbers.items()))

    def table(self, title: str, headings: Sequence[str], rows: Iterable[Sequence[Cell | SupportsFloat]]) -> None:
        """Rows under headings; the first column names its row."""
        made = tuple(
            tuple(cell if isinstance(cell, str | int | float) else float(cell) for cell in row) for row in rows
        )
        if any(len(row) != len(headings) for row in made):
            raise InputError(f"a row of {title!r} has not {len(headings)} cells", hint="give one for each heading")
        self._add(TableBlock(title, tuple(headings), made))

    def plot(
        self,
        title: str,
        *series: Series,
        x: str,
        y: str,
        caption: str = "",
        log_x: bool = False,
        log_y: bool = False,
        labels: Sequence[str] = (),
        equal: bool = False,
    ) -> None:
        """Lines, points, histograms or bars over two axes; `x` and `y` say what they show, with the unit.

        With `equal` both have the same scale, so that shapes look as they are.
        """
        if any(one.kind == "bars" and len(one.y) != len(labels) for one in series) or not series:
            raise InputError(f"{title!r} needs a label for each bar, and a series", hint="labels=[…]")
        self._add(Plot(title, series, x, y, caption, log_x, log_y, tuple(labels), equal))

    def heatmap(
        self,
        title: str,
        cells: Any,
        *,
        rows: Iterable[str],
        columns: Iterable[str],
        x: str,
        y: str,
        unit: str,
        caption: str = "",
    ) -> None:
        """A matrix with its first row on top; `unit` says what its numbers are."""
        self._add(heatmap(title, cells, rows=rows, columns=columns, x=x, y=y, unit=unit, caption=caption))

    def slip(self, *, claim: str, says: str, computed: str) -> None:
        """Where a note is wrong. What is computed instead needs a check besides."""
        self._claim(claim)
        self._add(Slip(claim, says, computed))

    def check(self, what: str, *, claim: str, found: Any, expected: Any, within: float = 0.0) -> bool:
        """All numbers found are within `within` of those expected: numbers, tensors, arrays or lists."""
        return self._check(checks.equal(what, self._claim(claim), found, expected, within))

    def bound(
        self, what: str, *, claim: str, found: float, at_least: float | None = None, at_most: float | None = None
    ) -> bool:
        """A number lies above a limit, below one, or between two."""
        return self._check(checks.bounded(what, self._claim(claim), float(found), at_least, at_most))

    def sampled(self, what: str, *, claim: str, samples: Any, derived: float) -> bool:
        """The mean of samples, or an `Estimate`, is within 4 standard errors of what is derived."""
        estimate = samples if isinstance(samples, Estimate) else estimate_mean(samples)
        return self._check(checks.sampled(what, self._claim(claim), estimate, float(derived)))

    def distributed(self, what: str, *, claim: str, samples: Any, cumulative: Callable[[Any], Any]) -> bool:
        """Samples are spread as derived: `cumulative` gives the chance of at most x, for an array of x."""
        return self._check(checks.distributed(what, self._claim(claim), samples, cumulative))

    def require(self, what: str, *, claim: str, holds: bool, figure: str) -> bool:
        """Anything else that must hold, with the figure that says so."""
        return self._check(Check(self._claim(claim), what, bool(holds), figure))

    def progress(self, items: Iterable[Item], what: str) -> Iterator[Item]:
        """Go through items of long work, telling how far it has come."""
        total = len(items) if isinstance(items, Sized) else None
        self._listener.progress(what, 0, total)
        for done, item in enumerate(items, start=1):
            yield item
            self._listener.progress(what, done, total)

    def _add(self, block: Block) -> None:
        self.blocks.append(block)
        self._listener.shown(block)

    def _check(self, check: Check) -> bool:
        self.blocks.append(check)
        self._listener.shown(check)
        return check.ok

    def _claim(self, claim: str) -> str:
        assert claim in self.claims, f"this exhibit does not name the claim {claim!r}: {self.claims}"
        return claim
