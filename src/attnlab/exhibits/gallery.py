"""Exhibits, their parameters, the outcome of a run, and the gallery that finds them by name.

@exhibit("scaling", "Why scores are divided by √D_k", chapter="why scale", claims=("2a", "2b"), equation="…")
def scaling(show: Stage, parameters: Scaling) -> None:
    \"\"\"The claim in one sentence.\"\"\"

Every file in a folder of exhibits contains one.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import pkgutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, Self, TypeVar, cast, get_origin, get_type_hints

import torch
from pydantic import ValidationError, model_validator

import attnlab.exhibits as package
from attnlab.errors import AttnlabError, SpecError, UnknownNameError
from attnlab.exhibits.blocks import Block
from attnlab.exhibits.stage import Check, ExhibitListener, Stage
from attnlab.pages import HasPage, Page
from attnlab.specification import Specification
from attnlab.storage.records import to_plain

# In the order in which a beginner should read them.
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
_LARGEST_SEED = 2**32 - 1


class Parameters(Specification):
    """Base of the parameters of an exhibit. An exhibit without parameters uses it directly."""

    @model_validator(mode="after")
    def _checked(self) -> Self:
        seed = getattr(self, "seed", 0)
        if seed > _LARGEST_SEED:
            raise SpecError(f"seed = {seed} is more than a generator takes", hint=f"use 0 … {_LARGEST_SEED}")
        self.check()
        return self

    def check(self) -> None:
        """Refuse values that do not fit together."""

    @classmethod
    def parse(cls, settings: Mapping[str, object]) -> Self:
        """Return parameters from typed values: text is read as the field's type, and a,b,c as several."""
        fields: dict[str, object] = {}
        for name, value in settings.items():
            if name not in cls.model_fields:
                raise cls._unknown(name)
            several = get_origin(cls.model_fields[name].annotation) is tuple
            fields[name] = [part.strip() for part in value.split(",")] if several and isinstance(value, str) else value
        return cls(**fields)

    @classmethod
    def describe(cls) -> list[dict[str, object]]:
        """Return every field with its default, its limits and its meaning, as plain data."""
        return [
            {
                "name": name,
                "default": field.get_default(),
                "limits": limits_text(field.metadata),
                "meaning": field.description or "",
            }
            for name, field in cls.model_fields.items()
        ]

    @classmethod
    def explain(cls, error: ValidationError) -> AttnlabError:
        """Name the parameter as a user sets it, with its meaning and its limits as the hint."""
        first = error.errors()[0]
        name = str(first["loc"][0]) if first["loc"] else ""
        if first["type"] == "extra_forbidden":
            return cls._unknown(name)
        field = cls.model_fields.get(name)
        if field is None:
            return super().explain(error)
        message = first["msg"][0].lower() + first["msg"][1:]
        limits = limits_text(field.metadata)
        hint = f"{name}: {field.description or 'a number'}" + (f"; {limits}" if limits else "")
        return SpecError(f"{name} = {first['input']} is impossible: {message}", hint=hint)

    @classmethod
    def _unknown(cls, name: str) -> AttnlabError:
        if cls.model_fields:
            return UnknownNameError("parameter", name, cls.model_fields)
        return SpecError(f"there is no parameter called {name!r}", hint="this exhibit has none")


def limits_text(metadata: list[Any]) -> str:
    """Return what a field allows, as in ≥ 1, ≤ 64."""
    words = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    found = [
        f"{sign} {getattr(limit, kind)}" for limit in metadata for kind, sign in words.items() if hasattr(limit, kind)
    ]
    return ", ".join(found)


def setting_text(value: object) -> str:
    """Return a value as a user would type it: 2015 for 2015.0, and a,b,c for several."""
    if isinstance(value, list | tuple):
        return ",".join(setting_text(one) for one in value)
    return f"{value:.12g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Outcome(HasPage):
    """The result of a run: its parameters, everything that it showed, and its checks; `ok` if all checks held."""

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
        from attnlab.exhibits.pages import outcome_page

        return outcome_page([self])


P = TypeVar("P", bound=Parameters)


@dataclass(frozen=True)
class Exhibit(Generic[P]):
    """One or several claims as a program. With the parameters `smoke` it takes seconds."""

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
        """Return the claim in a sentence: the docstring of the function."""
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
        """Run it with its defaults: a page in a notebook; a terminal's program ends with 1 if a check fails."""
        if hasattr(builtins, "get_ipython") or hasattr(builtins, "__IPYTHON__"):
            from IPython.display import display  # type: ignore[import-not-found,unused-ignore]

            display(self.run())  # type: ignore[no-untyped-call,unused-ignore]
            return
        from attnlab.exhibits.terminal import Printer

        if not Printer().run(self).ok:
            sys.exit(1)

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
    """Return a decorator that turns a function of a stage and parameters into an exhibit.

    Parameters
    ----------
    name
        The name on the command line.
    title
        The heading.
    chapter
        The chapter of the course.
    claims
        The claims of docs/claims.md that it checks.
    equation
        Plain text, one equation on each line.
    place
        Its position in the chapter.
    trains
        Whether it trains models, which takes minutes.
    smoke
        Parameters with which a run takes seconds.
    """
    assert chapter in CHAPTERS, f"{chapter!r} is no chapter of the course"

    def make(act: Callable[[Stage, P], None]) -> Exhibit[P]:
        kinds = [
            hint for hint in get_type_hints(act).values() if inspect.isclass(hint) and issubclass(hint, Parameters)
        ]
        assert len(kinds) == 1, f"{act.__name__} takes a stage and one kind of parameters"
        kind = cast("type[P]", kinds[0])
        return Exhibit(name, title, chapter, tuple(claims), equation, kind, act, place, trains, dict(smoke or {}))

    return make


def exhibits() -> list[Exhibit[Any]]:
    """Return all exhibits, in the order of the course."""
    return sorted(map(_load, _modules().values()), key=lambda one: one.order)


def exhibit_named(name: str) -> Exhibit[Any]:
    """Return the exhibit of this name."""
    known = _modules()
    if name not in known:
        raise UnknownNameError("exhibit", name, known)
    return _load(known[name])


def _modules() -> dict[str, str]:
    """Return the module of each exhibit by the exhibit's name, from every folder beside this one."""
    folders = [one.name for one in pkgutil.iter_modules(package.__path__) if one.ispkg]
    return {
        module.name.replace("_", "-"): f"{package.__name__}.{folder}.{module.name}"
        for folder in folders
        for module in pkgutil.iter_modules([f"{package.__path__[0]}/{folder}"])
    }


@cache
def _load(module_name: str) -> Exhibit[Any]:
    found = [one for one in vars(importlib.import_module(module_name)).values() if isinstance(one, Exhibit)]
    assert len(found) == 1, f"{module_name} holds {len(found)} exhibits, not one"
    name = module_name.rpartition(".")[2].replace("_", "-")
    assert found[0].name == name, f"{module_name} holds {found[0].name!r}"
    return found[0]
