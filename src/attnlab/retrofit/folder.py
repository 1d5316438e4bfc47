"""The folder of a retrofit, for following its progress: the request, the state, and the results.

state = state_of(Path("runs/retrofit-…"))
state.status, state.words, state.share
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from attnlab.errors import FileError
from attnlab.retrofit.request import RetrofitRequest
from attnlab.storage.locks import find_holder, stop_holder
from attnlab.storage.plans import read_plan
from attnlab.storage.records import read_json, write_json

PREFIX = "retrofit-"
REQUEST, ABOUT, PROGRESS = "retrofit.json", "about.json", "progress.json"
COSTS, GAINS, ANSWER, PAGE = "costs.json", "gains.json", "answer.json", "report.html"
LAYERS, RUNS = "layers", "runs"
_EVERY = 1.0  # seconds between two updates of the progress file

Status = Literal["running", "finishing", "finished", "stopped"]


@dataclass(frozen=True)
class RetrofitState:
    """The progress of a retrofit: the current step, and how many variants, texts and healing runs are done."""

    status: Status
    request: RetrofitRequest
    title: str
    model: str | None  # its path, if it was opened from one
    words: str
    converted: int
    texts: int
    healed: int

    @property
    def share(self) -> float:
        """Return the share of variants, texts and runs that are done."""
        done = self.converted + self.texts + self.healed
        return min(1.0, done / (len(self.request.variants) + self.request.texts + self.request.healing_runs))


def state_of(folder: Path) -> RetrofitState:
    """Return how far the retrofit in a folder is."""
    plan = read_plan(folder, name=REQUEST)
    about = _read(folder / ABOUT)
    held, told = find_holder(folder) is not None, (folder / ANSWER).is_file()
    status: Status = "running" if held else "stopped"
    if told:
        status = "finished" if (folder / PAGE).is_file() else "finishing"
    return RetrofitState(
        status,
        RetrofitRequest.from_plain(plan.get("request")),
        str(about.get("title", folder.name)),
        str(about["model"]) if "model" in about else None,
        str(_read(folder / PROGRESS).get("words", "")),
        len(list((folder / LAYERS).glob("*.json"))),
        len(_read(folder / COSTS).get("base", ())),
        len(list((folder / RUNS).glob("*/result.json"))),
    )


def stop(folder: Path) -> None:
    """Ask the process that carries a retrofit out to end; what was done is kept."""
    stop_holder(folder, "retrofit")


def noting(folder: Path, tell: Callable[[str], None]) -> Callable[[str], None]:
    """Return what tells the same, and notes it in the folder now and then."""
    last = 0.0

    def told(words: str) -> None:
        nonlocal last
        tell(words)
        if time.monotonic() - last > _EVERY:
            last = time.monotonic()
            write_json(folder / PROGRESS, {"words": words})

    return told


def command_of(request: RetrofitRequest, model: str, out: Path) -> list[str]:
    """Return the arguments of `attnlab` that ask for this."""
    words = ["retrofit", model, "--to", ",".join(request.variants), "--out", str(out)]
    fields = {**request.model_dump(exclude={"variants", "healing"}), **request.healing.model_dump()}
    for name, value in fields.items():
        if value is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return words


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_json(path) if path.is_file() else {}
    except FileError:  # half written
        return {}
