"""The contestants of a race, as values that another process can be given, and the shapes that they train at."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, PositiveInt

from attnlab.errors import FileError, SpecError, UnknownNameError
from attnlab.models import ModelSpec
from attnlab.processes.machine import available_cores
from attnlab.training.execution import can_compile

OURS = "attnlab"
NANOGPT, NANOGPT_COMPILED = "nanoGPT", "nanoGPT compiled"
TRANSFORMERS = "Transformers"
MATMUL = "matrix products"
OTHER = "other attnlab"
CONTESTANT = "attnlab.bench.races.contestant"
NANOGPT_HINT = "give the folder of a clone of nanoGPT, such as `nanogpt=~/nanoGPT`"

Kind = Literal["attnlab", "nanogpt", "transformers", "matmul"]


@dataclass(frozen=True)
class Shape:
    """A model of GPT-2's architecture, and the batch that it is trained on."""

    name: str
    num_layers: int
    model_width: int
    num_heads: int
    context_length: int
    batch_size: int
    vocabulary_size: int = 65  # the characters of a Shakespeare text

    @property
    def tokens(self) -> int:
        """The tokens that one step learns from."""
        return self.batch_size * self.context_length

    @property
    def dimensions(self) -> dict[str, int]:
        """The sizes as a run's spec takes them."""
        names = ("num_layers", "model_width", "num_heads", "context_length", "batch_size")
        return {name: getattr(self, name) for name in names}

    def model(self, variant: str = "softmax") -> ModelSpec:
        return ModelSpec.build(
            "nano",
            vocabulary_size=self.vocabulary_size,
            variant=variant,
            num_layers=self.num_layers,
            model_width=self.model_width,
            num_heads=self.num_heads,
            context_length=self.context_length,
        )

    def __str__(self) -> str:
        return (
            f"{self.name}: {self.num_layers} layers of width {self.model_width}, {self.num_heads} heads, "
            f"{self.batch_size} × {self.context_length} tokens, vocabulary {self.vocabulary_size}"
        )


SHAPES: dict[str, Shape] = {
    "small": Shape("small", 4, 128, 4, 64, 12),
    "mini": Shape("mini", 6, 384, 6, 256, 16),
    "gpt2": Shape("gpt2", 12, 768, 12, 512, 2, 50257),
    "rung": Shape("rung", 2, 32, 2, 64, 12, 96),  # the largest size of the default comparison, 25k
}
RACED = ("small", "mini", "gpt2")  # against the peers; `rung` is for comparing versions of attnlab
ONE_EACH = ("rung",)  # where every core trains a model of its own, with one thread
MEMORY_SHAPE = Shape("gpt2-memory", 12, 768, 12, 1024, 4, 50257)
VARIANTS_SHAPE = Shape("mini", 6, 384, 6, 256, 4)
GENERATION_SHAPE = Shape("mini", 6, 384, 6, 256, 1)


def shape(name: str) -> Shape:
    """Return a shape by its name."""
    if name not in SHAPES:
        raise UnknownNameError("shape", name, SHAPES)
    return SHAPES[name]


def tiny(usual: Shape) -> Shape:
    """Return a shape so small that a measurement takes no time and means nothing; the name stays."""
    return Shape(usual.name, 1, 16, 2, 16, 4, 17)


class RaceEntry(BaseModel):
    """One contestant: what it is, at which shape, and with what of the machine.

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
    """The peers that are there to be measured against."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nanogpt: Path | None = None  # the folder that holds its model.py
    transformers: bool = True
    compile: bool = True  # also nanoGPT compiled
    missing: tuple[str, ...] = ()  # a sentence for each that is not there

    def entries(self, shape: Shape, threads: int, *, compile: bool = True) -> list[RaceEntry]:
        found: list[RaceEntry] = []
        if self.nanogpt is not None:
            folder = str(self.nanogpt)
            found.append(RaceEntry(kind="nanogpt", shape=shape, threads=threads, folder=folder))
            if compile and self.compile:
                found.append(RaceEntry(kind="nanogpt", shape=shape, threads=threads, folder=folder, compile=True))
        if self.transformers:
            found.append(RaceEntry(kind="transformers", shape=shape, threads=threads))
        return found


def find_peers(nanogpt: Path | None, *, transformers: bool = True) -> Peers:
    """Return the peers that are wanted and installed; refuse a folder that is not nanoGPT's."""
    missing = []
    compiles = can_compile()
    if nanogpt is None:
        missing.append("nothing is measured against nanoGPT: give the folder of a clone by `nanogpt`")
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
    """Refuse a folder that lacks the files that are used."""
    if not folder.is_dir():
        raise FileError(f"{folder} is no folder", hint=NANOGPT_HINT)
    for name in needed:
        if not (folder / name).is_file():
            raise FileError(f"{folder} holds no {name}", hint=NANOGPT_HINT)


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
            hint="give the src folder of another attnlab, such as `against=~/before/src`; `git worktree add` makes one",
        )
    return folder.resolve()


def check_threads(threads: int | None) -> int:
    """Return the threads of each peer and the workers of attnlab: as many as there are cores unless given."""
    cores = available_cores()
    if threads is not None and not 1 <= threads <= cores:
        raise SpecError(f"{threads} threads cannot be measured on {cores} cores", hint=f"use `threads=1` … {cores}")
    return threads or cores
