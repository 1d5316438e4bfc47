"""Who takes part in a race, as a value that another process can be given."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, PositiveInt

from attnlab.bench.races.shapes import Shape
from attnlab.errors import FileError, SpecError
from attnlab.processes.machine import available_cores
from attnlab.training.execution import can_compile

OURS = "attnlab"
NANOGPT, NANOGPT_COMPILED = "nanoGPT", "nanoGPT compiled"
TRANSFORMERS = "Transformers"
MATMUL = "matrix products"
OTHER = "other attnlab"
CONTESTANT = "attnlab.bench.races.contestant"

Kind = Literal["attnlab", "nanogpt", "transformers", "matmul"]


class Entry(BaseModel):
    """One that takes part: what it is, at which shape, and with what of the machine.

    `workers` are attnlab's processes that train one model, each with so many `threads`; the others have one process.
    `copies` are processes that train a model each, at the same time. `folder` is nanoGPT's, or the `src` folder of
    another attnlab.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    shape: Shape
    threads: PositiveInt
    workers: PositiveInt = 1
    copies: PositiveInt = 1
    compile: bool = False
    folder: str | None = None

    @property
    def name(self) -> str:
        if self.kind == "nanogpt":
            return NANOGPT_COMPILED if self.compile else NANOGPT
        if self.kind == "attnlab" and self.folder is not None:
            return OTHER
        return {"attnlab": OURS, "transformers": TRANSFORMERS, "matmul": MATMUL}[self.kind]


class Peers(BaseModel):
    """Which peers are there to be measured against."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nanogpt: Path | None = None  # the folder that holds its model.py
    transformers: bool = True
    compile: bool = True  # also nanoGPT compiled
    missing: tuple[str, ...] = ()  # what to say of those that are not there

    def entries(self, shape: Shape, threads: int, *, compile: bool = True) -> list[Entry]:
        found: list[Entry] = []
        if self.nanogpt is not None:
            folder = str(self.nanogpt)
            found.append(Entry(kind="nanogpt", shape=shape, threads=threads, folder=folder))
            if compile and self.compile:
                found.append(Entry(kind="nanogpt", shape=shape, threads=threads, folder=folder, compile=True))
        if self.transformers:
            found.append(Entry(kind="transformers", shape=shape, threads=threads))
        return found


def find_peers(nanogpt: Path | None, *, transformers: bool = True) -> Peers:
    """The peers that are wanted and there. A folder that is not nanoGPT's is refused."""
    missing = []
    compiles = can_compile()
    if nanogpt is None:
        missing.append("nothing is measured against nanoGPT: name its folder by --nanogpt PATH")
    else:
        check_nanogpt(nanogpt)
        if not compiles:
            missing.append("nanoGPT is not measured compiled: torch.compile finds no C++ compiler here")
    if transformers and not transformers_is_installed():
        missing.append("nothing is measured against Transformers, which is not installed: pip install transformers")
        transformers = False
    return Peers(nanogpt=nanogpt, transformers=transformers, compile=compiles, missing=tuple(missing))


def transformers_is_installed() -> bool:
    return importlib.util.find_spec("transformers") is not None


def check_nanogpt(folder: Path, needed: Sequence[str] = ("model.py",)) -> None:
    """Refuse a folder that does not hold what will be used of it."""
    hint = "give the folder of a clone of nanoGPT, such as --nanogpt ~/nanoGPT"
    if not folder.is_dir():
        raise FileError(f"{folder} is no folder", hint=hint)
    for name in needed:
        if not (folder / name).is_file():
            raise FileError(f"{folder} holds no {name}", hint=hint)


def contestant_module(folder: Path) -> str | None:
    """Return the module in which the attnlab of this `src` folder takes part in a race; None if it has none."""
    for module in (CONTESTANT, "attnlab.bench.contestant"):  # the second in versions before there were subpackages
        if folder.joinpath(*module.split(".")).with_suffix(".py").is_file():
            return module
    return None


def check_against(folder: Path) -> Path:
    """Return the absolute path of the `src` folder of another attnlab; refuse any other folder."""
    if contestant_module(folder) is None:
        raise FileError(
            f"{folder} does not hold the races of another attnlab",
            hint="give the src folder of another attnlab, such as --against ~/before/src; `git worktree add` makes one",
        )
    return folder.resolve()


def check_threads(threads: int | None) -> int:
    """So many threads for each peer, and so many workers of ours: as many as there are cores unless given."""
    cores = available_cores()
    if threads is not None and not 1 <= threads <= cores:
        raise SpecError(f"{threads} threads cannot be measured on {cores} cores", hint=f"use 1 … {cores}")
    return threads or cores
