"""The races of `attnlab bench`: training, writing, and the time to a loss, beside the peers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from attnlab.attention import variants as all_variants
from attnlab.bench.races.entries import check_against, check_nanogpt, check_threads, find_peers
from attnlab.bench.races.shapes import RACED
from attnlab.bench.races.shapes import shape as shape_called
from attnlab.bench.races.time_to_loss import bench_time_to_loss
from attnlab.bench.races.training import TrainPlan, bench_train
from attnlab.bench.races.writing import WritePlan, bench_generate
from attnlab.cli.bench_options import AS_USUAL, Flag, Showing

_TRAIN_ROUNDS, _WRITE_ROUNDS = 9, 15


def train(
    *,
    shape: Annotated[Sequence[str], Parameter(negative="")] = (),
    variants: Flag = False,
    memory: Flag = False,
    grid: Flag = False,
    against: Path | None = None,
    nanogpt: Path | None = None,
    transformers: bool = True,
    rounds: int | None = None,
    threads: int | None = None,
    showing: Showing = AS_USUAL,
) -> int:
    """Train beside nanoGPT and Transformers: tokens per second, share of the peak, memory, variants, grids of runs.

    Everybody has a process of its own and is asked in turn; all figures are ratios within this run. Without --shape,
    --variants, --memory or --grid, the shapes small, mini and gpt2 are raced, and with --bars everything is measured.

    Parameters
    ----------
    shape
        Which shape to train at: small, mini, gpt2 or rung. May be given several times. rung is a small model of which
        every core trains one.
    variants
        A training step of every variant against softmax's.
    memory
        The peak of memory of GPT-2 small.
    grid
        Eight small runs side by side against one after the other.
    against
        The src folder of another attnlab, which is raced at the same shapes.
    nanogpt
        The folder of a clone of nanoGPT. Without it, nothing is measured against nanoGPT.
    transformers
        Also measure Transformers, if it is installed.
    rounds
        How often each is asked (9).
    threads
        Threads of each peer, and processes of attnlab (as many as cores).
    showing
        How what was found is shown.
    """
    showing.check()
    rounds = showing.rounds(rounds, _TRAIN_ROUNDS)
    threads = check_threads(threads)
    chosen = [shape_called(name) for name in dict.fromkeys(shape)]
    if not (chosen or variants or memory or grid):
        chosen = [shape_called(name) for name in RACED]
        variants = memory = grid = showing.bars
    plan = TrainPlan.make(
        chosen,
        all_variants() if variants else (),
        memory=memory,
        grid=grid,
        rounds=rounds,
        against=None if against is None else check_against(against),
    )
    peers = find_peers(nanogpt, transformers=transformers)
    with showing.listening() as listener:
        found = bench_train(plan.smoke() if showing.smoke else plan, peers, threads, listener)
    return showing.finish(found)


def generate(
    *,
    nanogpt: Path | None = None,
    transformers: bool = True,
    rounds: int | None = None,
    threads: int | None = None,
    showing: Showing = AS_USUAL,
) -> int:
    """Write one text of 200 tokens beside Transformers and nanoGPT.

    Parameters
    ----------
    nanogpt
        The folder of a clone of nanoGPT. Without it, nothing is measured against nanoGPT.
    transformers
        Measure Transformers, if it is installed.
    rounds
        How often each is asked (15).
    threads
        Threads of each (as many as cores).
    showing
        How what was found is shown.
    """
    showing.check()
    threads = check_threads(threads)
    plan = replace(WritePlan(), rounds=showing.rounds(rounds, _WRITE_ROUNDS))
    peers = find_peers(nanogpt, transformers=transformers)
    with showing.listening() as listener:
        found = bench_generate(plan.smoke() if showing.smoke else plan, peers, threads, listener)
    return showing.finish(found)


def time_to_loss(
    *,
    text: Path,
    nanogpt: Path,
    seeds: int = 5,
    showing: Showing = AS_USUAL,
) -> int:
    """Time whole commands, from their start to a validation loss: `attnlab train` beside nanoGPT's own CPU recipe.

    Parameters
    ----------
    text
        The text to learn: a file, meant to be Shakespeare's.
    nanogpt
        The folder of a clone of nanoGPT, which is copied before it runs.
    seeds
        How often attnlab trains.
    showing
        How what was found is shown.
    """
    showing.check()
    check_nanogpt(nanogpt)
    with showing.listening() as listener:
        found = bench_time_to_loss(text, nanogpt, seeds, listener, smoke=showing.smoke)
    return showing.finish(found)
