"""Long use of every page by one visitor, and the memory of the studio and its workers meanwhile."""

from __future__ import annotations

import itertools
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.bench.processes import TreePeak, run_command
from attnlab.bench.products.studio.crowd import PLAYGROUND, TYPE
from attnlab.bench.products.studio.hover import POINT, places_of
from attnlab.bench.products.studio.serving import RUNS, at, environment, go, visit

_SHARE = 10  # the first and the last tenth of the last half are compared
_MAPS = ".seen[data-shown]"
_PLANNED = "() => document.body.innerText.match(/for [0-9]+ runs/)?.[0] ?? null"
_ADDRESS = "() => location.search"
_PAUSE = 500  # milliseconds between two pages


@dataclass(frozen=True)
class LongUse:
    """The bytes that the studio and its workers held at the end, and their growth in the last half of the time."""

    bytes: float
    growth: float

    @classmethod
    def over(cls, samples: Sequence[int]) -> LongUse:
        """Evaluate samples that were taken at equal intervals.

        `bytes` is the maximum of the last tenth, `growth` its median ÷ that of the tenth after the midpoint.
        """
        part = max(1, len(samples) // _SHARE)
        middle = len(samples) // 2
        growth = statistics.median(samples[-part:]) / statistics.median(samples[middle : middle + part])
        return cls(max(samples[-part:]), growth)


def use_long(browser: Any, address: str, process: int, folder: Path, minutes: float, every: float) -> LongUse:
    """Use every page in turn for so many minutes; sample the memory `every` so many seconds."""
    words = ["knowledge", "demo", "--smoke", "--quiet", "--out", str(folder / RUNS / "knowledge")]
    run_command([sys.executable, "-m", "attnlab", *words], folder, "`attnlab knowledge demo`", environment(folder))
    page = visit(browser, at(address, PLAYGROUND))
    end = time.monotonic() + 60 * minutes
    with TreePeak(process, every=every) as peak:
        for number, (path, use) in enumerate(itertools.cycle(_USES.items())):
            if time.monotonic() > end:
                break
            go(page, at(address, path))
            use(page, number // len(_USES))
            page.wait_for_timeout(_PAUSE)
    page.close()
    return LongUse.over(peak.samples)


def _field(page: Any, label: str) -> Any:
    return page.locator(f"label.field:has(> .label:text-is('{label}')) :is(input, select, textarea)")


def _type(page: Any, label: str, text: str) -> None:
    _field(page, label).fill(text)
    _field(page, label).press("Tab")


def _another(page: Any, label: str, number: int) -> str:
    """Return a number from 3 to 7 that is not in the field already."""
    now = _field(page, label).input_value()
    return next(str(one) for one in (3 + number % 5, 3 + (number + 1) % 5) if str(one) != now)


def _see(page: Any, words: str) -> None:
    page.get_by_text(words).first.wait_for()


def _look(page: Any, _: int) -> None:
    page.wait_for_timeout(_PAUSE)


def _edit(page: Any, number: int) -> None:
    page.evaluate(TYPE, 10)
    before = page.evaluate(_ADDRESS)
    _field(page, "a variant").select_option(("tied-kv", "cosine")[number % 2])
    page.wait_for_function(f"(before) => ({_ADDRESS})() !== before", arg=before)
    page.evaluate(TYPE, 3)


def _point(page: Any, number: int) -> None:
    page.wait_for_selector(_MAPS)
    shown = page.locator(".seen").get_attribute("data-shown")
    page.evaluate(POINT, places_of(page, [(0, 1), (0, 0)] * (1 + number % 3)))
    page.get_by_role("button", name="Next token").click()
    page.wait_for_selector(f".seen:not([data-shown='{shown}'])")


def _ablate(page: Any, _: int) -> None:
    page.wait_for_selector(_MAPS)
    page.locator("button[aria-label^='take away head 1 ']").first.click()
    _see(page, "difference (points)")


def _move(page: Any, number: int) -> None:
    _see(page, "Along the context")
    _field(page, "begin with").select_option(("gpt3", "gpt2")[number % 2])
    _see(page, "Along the context")


def _plan(page: Any, number: int) -> None:
    _see(page, "minutes")
    before = page.evaluate(_PLANNED)
    _type(page, "seeds", _another(page, "seeds", number))
    page.wait_for_function(f"(before) => ![null, before].includes(({_PLANNED})())", arg=before)


def _ask(page: Any, number: int) -> None:
    _field(page, "question").fill(f"Where was Ada {number} born?")
    page.get_by_role("button", name="Ask", exact=True).click()
    _see(page, "from memory:")


def _search(page: Any, number: int) -> None:
    _type(page, "search", f"Ada {number}")
    page.wait_for_timeout(_PAUSE)


def _exhibit(page: Any, number: int) -> None:
    _see(page, "checks hold")
    _type(page, "tokens", _another(page, "tokens", number))
    page.wait_for_function("() => location.search.includes('tokens')")
    _see(page, "checks hold")


# The action of a visitor on each page, called with the number of the visit.
_USES: dict[str, Callable[[Any, int], None]] = {
    "/": _look,
    PLAYGROUND: _edit,
    "/seen": _point,
    "/compare": _plan,
    "/heads": _ablate,
    "/cost": _move,
    "/ask": _ask,
    "/facts": _search,
    "/exhibits/masking": _exhibit,
    "/scale": _look,
    "/retrofit": _look,
    "/reports": _look,
}
