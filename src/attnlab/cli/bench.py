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
from attnlab.bench import (
    AttentionBench,
    BarsBench,
    Size,
    attention_page,
    bars_page,
    bench_attention,
    bench_bars,
    using_threads,
)
from attnlab.bench.results.report import (
    BAR_HEADINGS,
    FIGURE_HEADINGS,
    attention_words,
    bar_rows,
    bars_words,
    columns,
    figure_rows,
)
from attnlab.bench.results.timing import check_rounds
from attnlab.cli.bench_cost import cost
from attnlab.cli.bench_facts import facts
from attnlab.cli.bench_look import look
from attnlab.cli.bench_races import generate, time_to_loss, train
from attnlab.cli.bench_studio import studio
from attnlab.cli.bench_trust import compare, forecasts, verdicts
from attnlab.cli.listening import listening
from attnlab.cli.printing import make_table, say, show, show_json
from attnlab.errors import AttnlabError
from attnlab.pages import write_page
from attnlab.processes.machine import available_cores
from attnlab.storage.files import check_writable

_ROUNDS, _SMOKE_ROUNDS = 15, 2
_THREADS = 2  # what the bars are meant for

bench = App(name="bench", help=__doc__)
bench.command(train)
bench.command(generate)
bench.command(time_to_loss)
bench.command(verdicts)
bench.command(forecasts)
bench.command(cost)
bench.command(compare)
bench.command(facts)
bench.command(look)
bench.command(studio)


@bench.command
def attention(
    *variants: Annotated[str, Parameter(name="VARIANT")],
    bars: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    batch: int | None = None,
    heads: int | None = None,
    tokens: int | None = None,
    width: int | None = None,
    rounds: int | None = None,
    threads: int | None = None,
    variants_from: Path | None = None,
    out: Path | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative="", show_default=False)] = False,
    strict: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    smoke: Annotated[bool, Parameter(negative="", show_default=False)] = False,
) -> int:
    """Time attention variants against fused softmax, their references and the entmax package, with their memory.

    All times are ratios within this run, with their spread, which is wide where other programs hold the cores. All
    variants at the default size take many minutes; name some for a quick answer.

    Parameters
    ----------
    variants
        Which variants; all of them if none is named. a+b is both changes at once.
    bars
        Measure what attnlab claims of itself, and judge it, instead of the table.
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
    variants_from
        A Python file that adds variants of your own.
    out
        Also write a page with a figure to this HTML file.
    as_json
        Print the figures as JSON.
    strict
        With --bars: end with exit code 1 unless every bar is met.
    smoke
        A tiny size and 2 rounds, to try the tool; the figures mean nothing.
    """
    if strict and not bars:
        raise AttnlabError("--strict judges the bars, and they are not measured", hint="add --bars")
    given = {"batch": batch, "heads": heads, "tokens": tokens, "width": width}
    usual = Size.smoke() if smoke else Size()
    size = replace(usual, **{name: number for name, number in given.items() if number is not None})
    rounds = rounds if rounds is not None else _SMOKE_ROUNDS if smoke else _ROUNDS
    check_rounds(rounds)
    if out is not None:
        check_writable(out)
    chosen = _choose(variants, variants_from)
    with using_threads(threads if threads is not None else min(_THREADS, available_cores())), listening() as listener:
        if smoke:
            listener.note("a smoke run: the figures mean nothing")
        found: AttentionBench | BarsBench
        found = (bench_bars if bars else bench_attention)(chosen, size, rounds, listener)
    _print(found, as_json=as_json)
    if out is not None:
        write_page(bars_page(found) if isinstance(found, BarsBench) else attention_page(found), out)
        say(f"wrote {out}")
    return int(strict and isinstance(found, BarsBench) and not found.all_met)


def _choose(names: Sequence[str], variants_from: Path | None) -> list[Variant]:
    """The variants of these names, each once, or all."""
    if variants_from is not None:
        load_variants(variants_from)
    return [variant_called(name) for name in dict.fromkeys(names)] or list(all_variants())


def _print(found: AttentionBench | BarsBench, *, as_json: bool) -> None:
    if as_json:
        show_json(found.to_dict())
        return
    lines = str(found.machine), str(found.size), found.machine.warning
    show("\n".join(line for line in lines if line), "")
    if isinstance(found, AttentionBench):
        shown = columns(on_page=False)
        rows = [[column.cell(row) for column in shown] for row in found.variants]
        show(make_table([column.heading for column in shown], rows), "", *attention_words(found))
        return
    show(*bars_words(found), "", make_table(BAR_HEADINGS, bar_rows(found), left=(0, 1, 4), styles=_STYLES))
    missed = figure_rows(found, missed_only=True)
    if missed:
        show("\nMissed:\n", make_table(FIGURE_HEADINGS, missed, left=(0, 1, 4), styles=_STYLES))


_STYLES = {"met": "green", "missed": "bold red", "not measured": "yellow"}
