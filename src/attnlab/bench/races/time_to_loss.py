"""Time from the command to a trained model: whole commands, including imports and compilation.

The peer is nanoGPT's own recipe for a CPU, as given in its README: its train.py, copied with the rest of its code from
the folder of a clone, on the given text. Ours is `attnlab train` with `OUR_RECIPE`, once for each seed. Both start with
empty caches.
"""

from __future__ import annotations

import pickle
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from attnlab.bench.findings import Bar, BenchListener, Findings, table_section
from attnlab.bench.processes import run_command
from attnlab.bench.races.race import NANOGPT, OURS, check_nanogpt
from attnlab.errors import AttnlabError, FileError, SpecError
from attnlab.formats import NOTHING, fixed, significant
from attnlab.pages import Section
from attnlab.processes.machine import Machine, describe_machine
from attnlab.storage.records import read_json

TARGET = 1.88
TIME = Bar(
    "time", f"every seed of ours, to a validation loss of {TARGET}", "seconds of the whole command ÷ nanoGPT's", 1 / 5
)
LOSS = Bar("loss", "every seed of ours", "validation loss in nats for each character", TARGET)

OUR_COMMAND: tuple[str, ...] = (sys.executable, "-m", "attnlab", "train")
# Its command-line options; the text, the seed and the folder are added.
OUR_RECIPE: tuple[str, ...] = (
    *("--recipe", "fast"),
    *("--variant", "cosine-learned"),
    *("--steps", "310"),
    *("--change", "num_layers=2"),
    *("--change", "batch_size=16"),
    *("--change", "evaluate_every=310"),
)
THEIR_RECIPE: tuple[str, ...] = (
    "config/train_shakespeare_char.py",
    "--device=cpu",
    "--compile=False",
    "--eval_iters=20",
    "--log_interval=1",
    "--block_size=64",
    "--batch_size=12",
    "--n_layer=4",
    "--n_head=4",
    "--n_embd=128",
    "--max_iters=2000",
    "--lr_decay_iters=2000",
    "--dropout=0.0",
)
OUR_SMOKE = (
    *("--steps", "2"),
    *("--change", "batch_size=2"),
    *("--change", "context_length=16"),
    *("--change", "validation_rows=2"),
)
THEIR_SMOKE = ("--max_iters=1", "--eval_interval=1", "--eval_iters=1", "--batch_size=2", "--block_size=16")

_NEEDED = ("train.py", "model.py", "configurator.py", THEIR_RECIPE[0])
_TEXT_HINT = "give a UTF-8 text file by `text`"
_EVALUATED = re.compile(r"^step (\d+): train loss \S+, val loss (\S+)$")


@dataclass(frozen=True)
class Learnt:
    """One command: its total time, and its final validation loss."""

    name: str
    seconds: float
    loss: float


@dataclass(frozen=True)
class TimeToLossBench(Findings):
    """All results of one run."""

    benchmark: ClassVar[str] = "time-to-loss"
    title: ClassVar[str] = "Time to a loss"
    lead: ClassVar[str] = "How long it takes from the command to a character model of Shakespeare's text."

    ours: tuple[Learnt, ...]
    peer: Learnt
    peer_reached_seconds: float | None  # when it first printed a loss at or below the target, if it did

    def sections(self) -> list[Section]:
        rows = [
            (one.name, significant(one.seconds), fixed(one.loss, 4), fixed(one.seconds / self.peer.seconds, 3))
            for one in self.ours
        ]
        rows.append((self.peer.name, significant(self.peer.seconds), fixed(self.peer.loss, 4), NOTHING))
        reached = self.peer_reached_seconds
        words = (
            "Whole commands, from their start to their end. nanoGPT first printed a validation loss of at most "
            f"{TARGET} " + ("never." if reached is None else f"after {significant(reached)} s.")
        )
        return [table_section("Time to a loss", words, ("", "seconds", "validation\nloss", "÷ nanoGPT"), rows)]


def bench_time_to_loss(
    text: Path, nanogpt: Path, seeds: int = 5, listener: BenchListener | None = None, *, smoke: bool = False
) -> TimeToLossBench:
    """Train ours for each seed, with the peer's in between, so that a machine that slows down favours neither.

    Parameters
    ----------
    text
        The text file to train on.
    nanogpt
        The folder of a clone of nanoGPT.
    seeds
        The seeds of our runs.
    listener
        Called with the progress; None reports nothing.
    smoke
        Whether to train for a few seconds only.
    """
    listener, machine = listener or BenchListener(), describe_machine()
    if seeds < 1:
        raise SpecError(f"{seeds} seeds measure nothing", hint="use `seeds=1` or more; the bar asks for 5")
    check_nanogpt(nanogpt, _NEEDED)
    characters = read_text(text)
    with tempfile.TemporaryDirectory(prefix="attnlab-time-") as name:
        folder = Path(name)
        home = prepare_nanogpt(nanogpt, characters, folder / "nanogpt")
        ours: list[Learnt] = []
        for seed in range(seeds):
            if seed == seeds // 2:
                listener.step(NANOGPT, seed, seeds + 1)
                peer, reached = _run_nanogpt(home, (*THEIR_RECIPE, *(THEIR_SMOKE if smoke else ())))
            listener.step(f"{OURS}, seed {seed}", len(ours) + (seed >= seeds // 2), seeds + 1)
            ours.append(_run_ours(text, seed, folder / f"seed {seed}", (*OUR_RECIPE, *(OUR_SMOKE if smoke else ()))))
    return read_commands(machine, ours, peer, reached)


def read_commands(machine: Machine, ours: Sequence[Learnt], peer: Learnt, reached: float | None) -> TimeToLossBench:
    """Judge what was measured."""
    outcomes = (
        TIME.judge({one.name: one.seconds / peer.seconds for one in ours}),
        LOSS.judge({one.name: one.loss for one in ours}),
    )
    return TimeToLossBench(machine, len(ours), (), outcomes, tuple(ours), peer, reached)


def read_text(path: Path) -> str:
    """Return the text of a file, which must be UTF-8 and not empty."""
    try:
        characters = path.read_text(encoding="utf-8")
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}", hint=_TEXT_HINT) from None
    except UnicodeDecodeError:
        raise FileError(f"{path} is not UTF-8", hint=_TEXT_HINT) from None
    if not characters:
        raise FileError(f"{path} is empty", hint=_TEXT_HINT)
    return characters


def prepare_nanogpt(clone: Path, characters: str, home: Path) -> Path:
    """Copy nanoGPT's code to `home`, with the text as its own data/shakespeare_char/prepare.py would leave it."""
    home.mkdir(parents=True)
    for source in (*clone.glob("*.py"), *clone.glob("config/*.py")):
        (home / source.relative_to(clone)).parent.mkdir(exist_ok=True)
        shutil.copyfile(source, home / source.relative_to(clone))
    data = home / "data" / "shakespeare_char"
    data.mkdir(parents=True)
    symbols = sorted(set(characters))
    numbers = {symbol: number for number, symbol in enumerate(symbols)}
    split = int(len(characters) * 0.9)
    for name, part in (("train", characters[:split]), ("val", characters[split:])):
        np.array([numbers[symbol] for symbol in part], dtype=np.uint16).tofile(data / f"{name}.bin")
    meta = {"vocab_size": len(symbols), "itos": dict(enumerate(symbols)), "stoi": numbers}
    (data / "meta.pkl").write_bytes(pickle.dumps(meta))  # the format that it reads
    return home


def _run_nanogpt(home: Path, options: Sequence[str]) -> tuple[Learnt, float | None]:
    run = run_command([sys.executable, "-u", "train.py", *options], home, NANOGPT)
    losses = [(after, float(found[2])) for after, line in run.lines if (found := _EVALUATED.match(line))]
    if not losses:
        raise AttnlabError("nanoGPT printed no validation loss", hint="use a clone whose train.py is as published")
    reached = next((after for after, loss in losses if loss <= TARGET), None)
    return Learnt(NANOGPT, run.seconds, losses[-1][1]), reached


def _run_ours(text: Path, seed: int, folder: Path, options: Sequence[str]) -> Learnt:
    folder.mkdir()
    fresh = {"ATTNLAB_CACHE": str(folder / "cache"), "TORCHINDUCTOR_CACHE_DIR": str(folder / "compiled")}
    out = folder / "runs"
    given = ["--corpus", str(text.resolve()), "--seed", str(seed), "--out", str(out)]
    name = f"{OURS}, seed {seed}"
    run = run_command([*OUR_COMMAND, *options, *given], folder, name, fresh)
    for result in out.glob("*/result.json"):
        loss = read_json(result)["validation_loss"]
        if loss is not None:
            return Learnt(name, run.seconds, loss)
    raise AttnlabError(f"{name} ended without a validation loss")
