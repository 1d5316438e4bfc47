"""What a run of an exhibit leaves: its parameters, all it showed, and its checks."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.exhibits.frame.blocks import Block, plain
from attnlab.exhibits.frame.checks import Check
from attnlab.exhibits.frame.parameters import Parameters
from attnlab.pages import Page, render, write_page

if TYPE_CHECKING:
    from attnlab.exhibits.frame.exhibit import Exhibit


@dataclass(frozen=True)
class Outcome:
    """A run. `ok` says whether every check held."""

    exhibit: Exhibit[Any]
    parameters: Parameters
    blocks: tuple[Block | Check, ...]
    seconds: float

    @property
    def checks(self) -> tuple[Check, ...]:
        return tuple(block for block in self.blocks if isinstance(block, Check))

    @property
    def ok(self) -> bool:
        return all(check.ok for check in self.checks)

    def to_dict(self, *, blocks: bool = True) -> dict[str, Any]:
        """As plain data, with all numbers of the tables and plots unless they are not wanted."""
        found = {
            **self.exhibit.describe(),
            "parameters": self.parameters.model_dump(mode="json"),
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            "checks": [plain(asdict(check)) for check in self.checks],
        }
        if blocks:
            shown = [block for block in self.blocks if not isinstance(block, Check)]
            found["blocks"] = [{"kind": type(block).__name__.lower(), **plain(asdict(block))} for block in shown]
        return found

    def page(self) -> Page:
        """As a page that works offline."""
        from attnlab.exhibits.frame.pages import outcome_page

        return outcome_page([self])

    def write(self, path: Path) -> None:
        write_page(self.page(), path)

    def _repr_html_(self) -> str:
        """In a notebook: the page in a frame of its own, so that its styles stay inside."""
        from html import escape

        inner = escape(render(self.page()), quote=True)
        return f'<iframe srcdoc="{inner}" style="width: 100%; height: 50rem; border: 0"></iframe>'
