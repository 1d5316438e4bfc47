"""The contestants of a race, the shapes that they train at, and races between their processes.

Each contestant has its own process or processes, and they run in turn, so that they do not share memory, threads or
processes. In a round, each runs for about the same time, and every second round has the reverse order; waiting
contestants sleep. A ratio is taken within each round, as in `timing.py`.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, PositiveInt

from attnlab.bench.findings import BenchListener
from attnlab.bench.timing import Durations, check_rounds, turn_order
from attnlab.errors import FileError, SpecError, UnknownNameError
from attnlab.models import ModelSpec
from attnlab.processes.child import Child
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
Work = Literal["train", "write"]

_WARM_UP = 3


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
    def dimensions(self) -> Mapping[str, Any]:
        """The sizes of the model."""
        names = ("num_layers", "model_width", "num_heads", "context_length")
        return {name: getattr(self, name) for name in names}

    def model(self, variant: str = "softmax") -> ModelSpec:
        return ModelSpec.build("nano", vocabulary_size=self.vocabulary_size, variant=variant, **self.dimensions)

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
ONE_EACH = ("rung",)  # every core trains its own model, with one thread
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
    """One contestant: its kind, its shape, and the threads and processes that it uses.

    `workers` is the number of attnlab processes that train one model, each with `threads` threads; the others have one
    process. `copies` is the number of processes that each train their own model at the same time. `folder` is that of
    nanoGPT, or the `src` folder of another attnlab.
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
    """The peers that are available for comparison."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nanogpt: Path | None = None  # the folder that contains its model.py
    transformers: bool = True
    compile: bool = True  # also measure nanoGPT compiled
    missing: tuple[str, ...] = ()  # a sentence for each that is missing

    def entries(self, shape: Shape, threads: int, *, compile: bool = True) -> list[RaceEntry]:
        found: list[RaceEntry] = []
        if self.nanogpt is not None:
            eager = RaceEntry(kind="nanogpt", shape=shape, threads=threads, folder=str(self.nanogpt))
            found += [eager, eager.model_copy(update={"compile": True})] if compile and self.compile else [eager]
        if self.transformers:
            found.append(RaceEntry(kind="transformers", shape=shape, threads=threads))
        return found


def find_peers(nanogpt: Path | None, *, transformers: bool = True) -> Peers:
    """Return the requested peers that are installed; raise if a folder is not nanoGPT's.

    Parameters
    ----------
    nanogpt
        The folder of a clone of nanoGPT; None leaves it out.
    transformers
        Whether Transformers is measured if it is installed.
    """
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


@dataclass(frozen=True)
class Race:
    """Seconds of one unit of work by round, and the start-up time of each contestant, compilation included."""

    durations: Durations
    beginnings: dict[str, float]


@contextmanager
def contestant(entry: RaceEntry) -> Iterator[Child]:
    """Start the process of one contestant. Another attnlab is imported from its own folder."""
    hidden, environment, module = {"copies"}, {}, CONTESTANT
    if entry.kind == "attnlab" and entry.folder is not None:
        module = contestant_module(Path(entry.folder)) or CONTESTANT
        paths = [entry.folder, *filter(None, [os.environ.get("PYTHONPATH")])]
        hidden, environment = {"copies", "folder"}, {"PYTHONPATH": os.pathsep.join(paths)}
    told = entry.model_dump_json(exclude=hidden)  # only fields that an older attnlab also knows
    with Child(module, [told], name=entry.name, environment=environment) as child:
        yield child


class Contestant:
    """All processes of one contestant, which run at the same time."""

    def __init__(self, entry: RaceEntry, stack: ExitStack) -> None:
        self._children = [stack.enter_context(contestant(entry)) for _ in range(entry.copies)]
        self._pool = stack.enter_context(ThreadPoolExecutor(entry.copies))

    def ask(self, work: Work, count: int, tokens: int) -> list[dict[str, Any]]:
        return list(self._pool.map(lambda child: child.ask(do=work, count=count, tokens=tokens), self._children))

    def seconds(self, work: Work, count: int, tokens: int) -> float:
        """Return the seconds of one unit of work: those of one process, divided by how many work at once."""
        taken: list[float] = [answer["seconds"] for answer in self.ask(work, count, tokens)]
        return 1 / sum(count / seconds for seconds in taken)


def race(
    entries: Sequence[RaceEntry],
    work: Work,
    rounds: int,
    listener: BenchListener,
    *,
    turn_seconds: float = 2.0,
    tokens: int = 0,
    what: str = "",
) -> Race:
    """Let all do the work in turn: take training steps, or generate texts of so many tokens."""
    check_rounds(rounds)
    with ExitStack() as stack:
        contestants = {entry.name: Contestant(entry, stack) for entry in entries}
        beginnings, counts = {}, {}
        for entry in entries:
            name, one = entry.name, contestants[entry.name]
            listener.step(f"{what}: {name} begins", 0, rounds)
            beginnings[name] = max(answer["with_beginning"] for answer in one.ask(work, 1, tokens))
            seconds = one.seconds(work, _WARM_UP, tokens) * entry.copies
            counts[name] = max(1, round(turn_seconds / max(seconds, 1e-9)))
        taken: dict[str, list[float]] = {name: [] for name in contestants}
        for number in range(rounds):
            listener.step(f"{what}: round {number + 1}", number, rounds)
            for name in turn_order(list(contestants), number):
                taken[name].append(contestants[name].seconds(work, counts[name], tokens))
    return Race(Durations({name: tuple(seconds) for name, seconds in taken.items()}), beginnings)
