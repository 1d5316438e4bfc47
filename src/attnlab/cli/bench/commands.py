"""Measure this machine against the peers, as ratios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from attnlab.attention import Variant, load_variants
from attnlab.attention import variant as variant_called
from attnlab.attention import variants as all_variants
from attnlab.bench import BenchListener, CallSize, Findings, bench_attention, bench_bars, using_threads
from attnlab.cli.bench.facts import facts
from attnlab.cli.bench.output import BENCH_OUTPUT, BenchOutput
from attnlab.cli.bench.products import compare, cost, forecasts, look, studio, verdicts
from attnlab.cli.bench.races import generate, time_to_loss, train
from attnlab.cli.options import VariantsFile
from attnlab.processes.machine import available_cores

_ROUNDS = 15
_THREADS = 2  # what the bars are meant for

bench = App(name="bench", help=__doc__)
for measurement in (train, generate, time_to_loss, verdicts, forecasts, cost, compare, facts, look, studio):
    bench.command(measurement)


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
        Which variants; all of them if none is named. a+b is both changes at once.
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
    chosen = _choose(variants, variants_from)

    def measure(listener: BenchListener) -> Findings:
        return (bench_bars if output.bars else bench_attention)(chosen, size, rounds, listener)

    with using_threads(threads if threads is not None else min(_THREADS, available_cores())):
        return output.run(measure)


def _choose(names: Sequence[str], variants_from: Path | None) -> list[Variant]:
    """Return the variants of these names, each once, or all."""
    if variants_from is not None:
        load_variants(variants_from)
    return [variant_called(name) for name in dict.fromkeys(names)] or list(all_variants())
