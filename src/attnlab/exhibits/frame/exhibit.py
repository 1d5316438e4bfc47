"""An exhibit: a function that shows and checks, with the claims it stands for, and the outcome of a run.

@exhibit("scaling", "Why scores are divided by √D_k", chapter="why scale", claims=("2a", "2b"), equation="…")
def scaling(show: Stage, parameters: Scaling) -> None:
    \"\"\"The claim in one sentence.\"\"\"
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, cast, get_type_hints

import torch

from attnlab.exhibits.frame.blocks import Block
from attnlab.exhibits.frame.parameters import Parameters
from attnlab.exhibits.frame.stage import Check, ExhibitListener, Stage
from attnlab.pages import HasPage, Page
from attnlab.storage.records import to_plain

# In the order in which a newcomer should read them.
CHAPTERS = (
    "attention by hand",
    "why scale",
    "magnitude",
    "copying and averaging",
    "one head against many",
    "masks and shapes",
    "values and their rank",
    "cross-attention",
    "synthesizer",
    "cost",
    "geometry",
    "learning",
)


@dataclass(frozen=True)
class Outcome(HasPage):
    """What a run leaves: its parameters, all it showed, and its checks; `ok` says whether every check held."""

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

    def to_dict(self, *, blocks: bool = True) -> dict[str, object]:
        """Return plain data, with all numbers of the tables and plots unless `blocks` is False."""
        found: dict[str, object] = {
            **self.exhibit.describe(),
            "parameters": self.parameters.model_dump(mode="json"),
            "ok": self.ok,
            "seconds": round(self.seconds, 3),
            "checks": to_plain(self.checks),
        }
        if blocks:
            shown = [block for block in self.blocks if not isinstance(block, Check)]
            found["blocks"] = [{"kind": type(block).__name__.lower(), **to_plain(block)} for block in shown]
        return found

    def page(self) -> Page:
        """Return a page that works offline."""
        from attnlab.exhibits.frame.pages import outcome_page

        return outcome_page([self])


P = TypeVar("P", bound=Parameters)


@dataclass(frozen=True)
class Exhibit(Generic[P]):
    """One claim or a few, as a program. `smoke` are parameters with which it takes seconds."""

    name: str
    title: str
    chapter: str
    claims: tuple[str, ...]
    equation: str
    parameters: type[P]
    act: Callable[[Stage, P], None]
    place: int = 0  # within its chapter
    trains: bool = False
    smoke: Mapping[str, object] = field(default_factory=dict)

    @property
    def claim(self) -> str:
        """The claim in a sentence: the docstring of the function."""
        return " ".join((inspect.getdoc(self.act) or "").split("\n\n")[0].split())

    @property
    def order(self) -> tuple[int, int, str]:
        return CHAPTERS.index(self.chapter), self.place, self.name

    def run(self, *, listener: ExhibitListener | None = None, **settings: object) -> Outcome:
        """Run it. Whatever random numbers are drawn elsewhere stay as they would have been."""
        parameters = self.parameters.parse(settings)
        stage = Stage(self.claims, listener)
        begin = time.perf_counter()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(getattr(parameters, "seed", 0)))
            self.act(stage, parameters)
        missing = set(self.claims) - {check.claim for check in stage.checks}
        assert not missing, f"the exhibit {self.name!r} has no check for the claims {sorted(missing)}"
        return Outcome(self, parameters, tuple(stage.blocks), time.perf_counter() - begin)

    def main(self) -> None:
        """Show it with its defaults: in a notebook as a page, elsewhere in the terminal."""
        from attnlab.exhibits.frame.gallery import show_here

        show_here(self)

    def describe(self) -> dict[str, object]:
        """Return what is known without running it, as plain data."""
        return {
            "name": self.name,
            "title": self.title,
            "chapter": self.chapter,
            "claims": list(self.claims),
            "claim": self.claim,
            "equation": self.equation,
            "trains": self.trains,
            "parameters": self.parameters.describe(),
        }


def exhibit(
    name: str,
    title: str,
    *,
    chapter: str,
    claims: Sequence[str],
    equation: str,
    place: int = 0,
    trains: bool = False,
    smoke: Mapping[str, object] | None = None,
) -> Callable[[Callable[[Stage, P], None]], Exhibit[P]]:
    """Make an exhibit of a function of a stage and parameters."""
    assert chapter in CHAPTERS, f"{chapter!r} is no chapter of the course"

    def make(act: Callable[[Stage, P], None]) -> Exhibit[P]:
        kinds = [
            hint for hint in get_type_hints(act).values() if inspect.isclass(hint) and issubclass(hint, Parameters)
        ]
        assert len(kinds) == 1, f"{act.__name__} takes a stage and one kind of parameters"
        kind = cast("type[P]", kinds[0])
        return Exhibit(name, title, chapter, tuple(claims), equation, kind, act, place, trains, dict(smoke or {}))

    return make
