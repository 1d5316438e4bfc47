"""The races of `attnlab bench`: training, generation, and the time to a loss, beside the peers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from attnlab.attention import variants as all_variants
from attnlab.bench.races.entries import MEMORY_SHAPE, RACED, check_against, check_nanogpt, check_threads, find_peers
from attnlab.bench.races.entries import shape as shape_called
from attnlab.bench.races.speed import GenerationPlan, bench_generate
from attnlab.bench.races.time_to_loss import bench_time_to_loss
from attnlab.bench.races.training import GridPlan, TrainPlan, bench_train
from attnlab.cli.bench.output import BENCH_OUTPUT, BenchOutput
from attnlab.cli.options import Flag, Several

_TRAIN_ROUNDS, _GENERATE_ROUNDS = 9, 15

NanoGpt = Annotated[
    Path | None,
    Parameter(help="The folder of a clone of nanoGPT. Without it, nothing is measured against nanoGPT."),
]
Transformers = Annotated[bool, Parameter(help="Also measure Transformers, if it is installed.")]


def train(
    *,
    shape: Several = (),
    variants: Flag = False,
    memory: Flag = False,
    grid: Flag = False,
    against: Path | None = None,
    nanogpt: NanoGpt = None,
    transformers: Transformers = True,
    rounds: int | None = None,
    threads: int | None = None,
    output: BenchOutput = BENCH_OUTPUT,
) -> int:
    """Train beside nanoGPT and Transformers: tokens per second, share of the peak, memory, variants, grids of runs.

    Each contestant has a process of its own and is asked in turn; all figures are ratios within this run. Without
    --shape, --variants, --memory or --grid, the shapes small, mini and gpt2 are raced, and with --bars everything is
    measured.

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
    rounds
        How often each is asked (9).
    threads
        Threads of each peer, and processes of attnlab (as many as cores).
    """
    rounds = output.rounds(rounds, _TRAIN_ROUNDS)
    threads = check_threads(threads)
    chosen = [shape_called(name) for name in dict.fromkeys(shape)]
    if not (chosen or variants or memory or grid):
        chosen = [shape_called(name) for name in RACED]
        variants = memory = grid = output.bars
    plan = TrainPlan(
        tuple(chosen),
        all_variants() if variants else (),
        memory=MEMORY_SHAPE if memory else None,
        grid=GridPlan() if grid else None,
        rounds=rounds,
        against=None if against is None else check_against(against),
    )
    peers = find_peers(nanogpt, transformers=transformers)
    plan = plan.smoke() if output.smoke else plan
    return output.run(lambda listener: bench_train(plan, peers, threads, listener))


def generate(
    *,
    nanogpt: NanoGpt = None,
    transformers: Transformers = True,
    rounds: int | None = None,
    threads: int | None = None,
    output: BenchOutput = BENCH_OUTPUT,
) -> int:
    """Generate one text of 200 tokens beside Transformers and nanoGPT.

    Parameters
    ----------
    rounds
        How often each is asked (15).
    threads
        Threads of each (as many as cores).
    """
    threads = check_threads(threads)
    plan = GenerationPlan(rounds=output.rounds(rounds, _GENERATE_ROUNDS))
    plan = plan.smoke() if output.smoke else plan
    peers = find_peers(nanogpt, transformers=transformers)
    return output.run(lambda listener: bench_generate(plan, peers, threads, listener))


def time_to_loss(
    *,
    text: Path,
    nanogpt: Path,
    seeds: int = 5,
    output: BenchOutput = BENCH_OUTPUT,
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
    """
    check_nanogpt(nanogpt)
    return output.run(lambda listener: bench_time_to_loss(text, nanogpt, seeds, listener, smoke=output.smoke))
