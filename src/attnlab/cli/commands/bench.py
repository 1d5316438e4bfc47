"""Measure this machine against the peers, as ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from attnlab.attention import load_variants
from attnlab.attention import variant as variant_called
from attnlab.attention import variants as all_variants
from attnlab.bench import BenchListener, CallSize, Findings, bench_attention, bench_bars, using_threads
from attnlab.bench.calibration import calibrate, train_null
from attnlab.bench.forecasts import bench_forecasts
from attnlab.bench.products.commands import bench_compare, bench_look
from attnlab.bench.products.cost import CostPlan, bench_cost
from attnlab.bench.products.pretrained import PretrainedPlan, bench_pretrained
from attnlab.bench.products.retrofit import RetrofitPlan, bench_retrofit
from attnlab.bench.products.studio import StudioPlan, bench_studio
from attnlab.bench.products.verification import bench_verify
from attnlab.bench.races.race import MEMORY_SHAPE, RACED, check_against, check_nanogpt, check_threads, find_peers
from attnlab.bench.races.race import shape as shape_called
from attnlab.bench.races.speed import GenerationPlan, bench_generate
from attnlab.bench.races.time_to_loss import bench_time_to_loss
from attnlab.bench.races.training import GridPlan, TrainPlan, bench_train
from attnlab.bench.timing import check_rounds
from attnlab.cli.commands.bench_facts import facts
from attnlab.cli.measuring import BENCH_OUTPUT, BenchOutput
from attnlab.cli.options import Flag, Several, VariantsFile
from attnlab.experiments.launching.progress import LaunchConsole
from attnlab.processes.machine import available_cores

_ROUNDS, _COST_ROUNDS, _TRAIN_ROUNDS, _GENERATE_ROUNDS = 15, 5, 9, 15
_THREADS = 2  # the number that the bars are meant for
_TRAINED = 320  # runs: twenty comparisons with four, then eight seeds per group
_SMOKE_SIMULATIONS, _SMOKE_TRAINED, _SMOKE_LADDERS = 20, 160, 16

NanoGpt = Annotated[
    Path | None,
    Parameter(help="The folder of a clone of nanoGPT. Without it, nothing is measured against nanoGPT."),
]
Transformers = Annotated[bool, Parameter(help="Also measure Transformers, if it is installed.")]

bench = App(name="bench", help=__doc__)


@bench.command
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


@bench.command
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


@bench.command
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


bench.command(facts)


@bench.command
def attention(
    *variants: Annotated[str, Parameter(name="VARIANT")],
    batch: int | None = None,
    heads: int | None = None,
    tokens: int | None = None,
    width: int | None = None,
    rounds: int | None = None,
    threads: int | None = None,
    variants_from: VariantsFile = None,
    output: BenchOutput = BENCH_OUTPUT,
) -> int:
    """Time attention variants against fused softmax, their references and the entmax package, with their memory.

    All times are ratios within this run, with their spread, which is wide where other programs hold the cores. All
    variants at the default size take many minutes; name some for a quick answer. With --bars, what attnlab claims is
    measured instead of the table.

    Parameters
    ----------
    variants
        Which variants; all of them if none is named. a+b is both changes at once, window:256 has a number.
    batch
        Sequences in a call (2).
    heads
        Heads of the baseline (6).
    tokens
        Tokens in a sequence (1024).
    width
        Width of a head of the baseline (64).
    rounds
        How often each call is timed (15).
    threads
        Threads to compute with (2, or 1 on a single core).
    """
    output.check()
    given = {"batch": batch, "heads": heads, "tokens": tokens, "width": width}
    usual = CallSize.smoke() if output.smoke else CallSize()
    size = replace(usual, **{name: number for name, number in given.items() if number is not None})
    rounds = output.rounds(rounds, _ROUNDS)
    if variants_from is not None:
        load_variants(variants_from)
    chosen = [variant_called(name) for name in dict.fromkeys(variants)] or list(all_variants())

    def measure(listener: BenchListener) -> Findings:
        return (bench_bars if output.bars else bench_attention)(chosen, size, rounds, listener)

    with using_threads(threads if threads is not None else min(_THREADS, available_cores())):
        return output.run(measure)


@bench.command
def verdicts(*, simulations: int = 2000, trained: Path | None = None, output: BenchOutput = BENCH_OUTPUT) -> int:
    """Count how often verdicts are wrong where the truth is known: simulated comparisons, and trained ones.

    Parameters
    ----------
    simulations
        Comparisons to simulate for each question and kind of noise.
    trained
        Also train one spec at 320 seeds below this folder, and compare it with itself 20 times.
    """
    output.check()
    losses = None
    if trained is not None:
        with LaunchConsole() as console:
            losses = train_null(_SMOKE_TRAINED if output.smoke else _TRAINED, trained, console, smoke=output.smoke)
    count = _SMOKE_SIMULATIONS if output.smoke else simulations
    return output.run(lambda listener: calibrate(count, listener=listener, trained=losses))


@bench.command
def forecasts(
    *,
    ladders: int = 1000,
    study: Annotated[Sequence[Path], Parameter(negative="", show_default=False)] = (),
    output: BenchOutput = BENCH_OUTPUT,
) -> int:
    """Measure how good forecasts over sizes are: simulated ladders, and real studies with the largest rung hidden.

    Parameters
    ----------
    ladders
        Ladders to simulate.
    study
        The scale.json of a study to back-test; may be repeated.
    """
    return output.run(lambda _: bench_forecasts(_SMOKE_LADDERS if output.smoke else ladders, study))


@bench.command
def cost(*, rounds: int | None = None, threads: int | None = None, output: BenchOutput = BENCH_OUTPUT) -> int:
    """Measure the peak memory of training and the growth of its time with the context, beside what is predicted.

    Parameters
    ----------
    rounds
        How often each context is timed (5).
    threads
        Threads to compute with (as many as cores).
    """
    times = output.rounds(rounds, _COST_ROUNDS)
    plan = CostPlan.smoke() if output.smoke else CostPlan()
    return output.run(lambda listener: bench_cost(plan, threads, times, listener))


@bench.command
def compare(*, output: BenchOutput = BENCH_OUTPUT) -> int:
    """Time the main job: `attnlab compare` in an empty folder, from its start to the report, and asked again."""
    return output.run(lambda listener: bench_compare(listener, smoke=output.smoke))


@bench.command
def verify(comparison: Path | None = None, /, *, rounds: int | None = None, output: BenchOutput = BENCH_OUTPUT) -> int:
    """Measure the bundle of the default comparison, the time to verify it, and what receipts cost.

    Parameters
    ----------
    comparison
        The folder of a finished comparison; without it, the default one is trained first.
    rounds
        How often a run is loaded (15).
    """
    times = output.rounds(rounds, _ROUNDS)
    return output.run(lambda listener: bench_verify(listener, rounds=times, comparison=comparison, smoke=output.smoke))


@bench.command
def look(*, rounds: int = 3, threads: int | None = None, output: BenchOutput = BENCH_OUTPUT) -> int:
    """Time `attnlab look`: every measure of 12 × 12 heads on 512 tokens, the importance of each head, and the page.

    Parameters
    ----------
    rounds
        How often heads are removed with and without reused prefixes.
    threads
        As many as cores, if not given.
    """
    check_rounds(rounds)
    cores = check_threads(threads)
    return output.run(lambda listener: bench_look(listener, rounds=rounds, threads=cores, smoke=output.smoke))


@bench.command
def pretrained(
    model: str,
    /,
    *,
    rounds: int | None = None,
    threads: int | None = None,
    output: BenchOutput = BENCH_OUTPUT,
) -> int:
    """Measure a pretrained model beside Transformers: logits, text, generation, and the time of `attnlab look`.

    Parameters
    ----------
    model
        A folder of Hugging Face (GPT-2 or Llama), a GGUF file (Llama), or smollm2.
    rounds
        How often each generates (5).
    threads
        Threads of each (as many as cores).
    """
    plan = PretrainedPlan()
    plan = plan.smoke() if output.smoke else replace(plan, rounds=output.rounds(rounds, plan.rounds))
    cores = check_threads(threads)
    return output.run(lambda listener: bench_pretrained(model, plan, cores, listener))


@bench.command
def retrofit(
    model: str,
    /,
    *,
    rounds: int | None = None,
    threads: int | None = None,
    output: BenchOutput = BENCH_OUTPUT,
) -> int:
    """Measure what a retrofit takes: the cost of K = V and of a window of 256 in each layer, and the speed of K = V.

    Parameters
    ----------
    model
        A folder of Hugging Face (GPT-2 or Llama), a GGUF file (Llama), smollm2, or the folder of a run.
    rounds
        How often each generates (5).
    threads
        Threads to compute with (as many as cores).
    """
    plan = RetrofitPlan()
    plan = plan.smoke() if output.smoke else replace(plan, rounds=output.rounds(rounds, plan.rounds))
    cores = check_threads(threads)
    return output.run(lambda listener: bench_retrofit(model, plan, cores, listener))


@bench.command
def studio(*, minutes: float | None = None, output: BenchOutput = BENCH_OUTPUT) -> int:
    """Time the studio in Chromium: start, edits alone and in a crowd, pointing at heads, and training beside it.

    Parameters
    ----------
    minutes
        Also use every page for so many minutes, and measure the memory in the end. The bars are meant for 60.
    """
    plan = StudioPlan(minutes=minutes)
    return output.run(lambda listener: bench_studio(plan.smoke() if output.smoke else plan, listener))
