"""The races of `attnlab bench`: training, writing, and the time to a loss, beside the peers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from attnlab.attention import variants as all_variants
from attnlab.bench.charts import findings_page
from attnlab.bench.entries import check_nanogpt, check_threads, find_peers
from attnlab.bench.findings import Findings
from attnlab.bench.progress import Listener
from attnlab.bench.report import BAR_HEADINGS, bar_rows, bars_words, figure_rows
from attnlab.bench.shapes import SHAPES
from attnlab.bench.shapes import shape as shape_called
from attnlab.bench.time_to_loss import bench_time_to_loss
from attnlab.bench.timing import check_rounds
from attnlab.bench.training import TrainPlan, bench_train
from attnlab.bench.writing import WritePlan, bench_generate
from attnlab.cli.listening import listening
from attnlab.cli.printing import make_table, say, show, show_json
from attnlab.errors import AttnlabError
from attnlab.pages import check_writable, write_page

_TRAIN_ROUNDS, _WRITE_ROUNDS, _SMOKE_ROUNDS = 9, 15, 2
_FIGURE_HEADINGS = ("bar", "of", "figure", "limit", "verdict")
_STYLES = {"met": "green", "missed": "bold red", "not measured": "yellow"}

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
Json = Annotated[bool, Parameter(name="--json", negative="", show_default=False)]


def train(
    *,
    shape: Annotated[Sequence[str], Parameter(negative="")] = (),
    variants: Flag = False,
    memory: Flag = False,
    grid: Flag = False,
    nanogpt: Path | None = None,
    transformers: bool = True,
    rounds: int | None = None,
    threads: int | None = None,
    bars: Flag = False,
    strict: Flag = False,
    out: Path | None = None,
    as_json: Json = False,
    smoke: Flag = False,
) -> int:
    """Train beside nanoGPT and Transformers: tokens per second, share of the peak, memory, variants, grids of runs.

    Everybody has a process of its own and is asked in turn; all figures are ratios within this run. Without --shape,
    --variants, --memory or --grid, all shapes are raced, and with --bars everything is measured.

    Parameters
    ----------
    shape
        Which shape to train at: small, mini or gpt2. May be given several times.
    variants
        A training step of every variant against softmax's.
    memory
        The peak of memory of GPT-2 small.
    grid
        Eight small runs side by side against one after the other.
    nanogpt
        The folder of a clone of nanoGPT. Without it, nothing is measured against nanoGPT.
    transformers
        Also measure Transformers, if it is installed.
    rounds
        How often each is asked (9).
    threads
        Threads of each peer, and processes of attnlab (as many as cores).
    bars
        Judge what attnlab claims of itself.
    strict
        With --bars: end with exit code 1 unless every bar is met.
    out
        Also write a page to this HTML file.
    as_json
        Print the figures as JSON.
    smoke
        Tiny shapes and 2 rounds, to try the tool; the figures mean nothing.
    """
    check_request(bars=bars, strict=strict, out=out)
    rounds = _rounds(rounds, _TRAIN_ROUNDS, smoke=smoke)
    threads = check_threads(threads)
    chosen = [shape_called(name) for name in dict.fromkeys(shape)]
    if not (chosen or variants or memory or grid):
        chosen = list(SHAPES.values())
        variants = memory = grid = bars
    plan = TrainPlan.make(chosen, all_variants() if variants else (), memory=memory, grid=grid, rounds=rounds)
    peers = find_peers(nanogpt, transformers=transformers)
    with listening() as listener:
        warn_of_smoke(listener, smoke=smoke)
        found = bench_train(plan.smoke() if smoke else plan, peers, threads, listener)
    return finish(found, bars=bars, strict=strict, out=out, as_json=as_json)


def generate(
    *,
    nanogpt: Path | None = None,
    transformers: bool = True,
    rounds: int | None = None,
    threads: int | None = None,
    bars: Flag = False,
    strict: Flag = False,
    out: Path | None = None,
    as_json: Json = False,
    smoke: Flag = False,
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
    bars
        Judge what attnlab claims of itself.
    strict
        With --bars: end with exit code 1 unless every bar is met.
    out
        Also write a page to this HTML file.
    as_json
        Print the figures as JSON.
    smoke
        A tiny model and 2 rounds, to try the tool; the figures mean nothing.
    """
    check_request(bars=bars, strict=strict, out=out)
    threads = check_threads(threads)
    plan = replace(WritePlan(), rounds=_rounds(rounds, _WRITE_ROUNDS, smoke=smoke))
    peers = find_peers(nanogpt, transformers=transformers)
    with listening() as listener:
        warn_of_smoke(listener, smoke=smoke)
        found = bench_generate(plan.smoke() if smoke else plan, peers, threads, listener)
    return finish(found, bars=bars, strict=strict, out=out, as_json=as_json)


def time_to_loss(
    *,
    text: Path,
    nanogpt: Path,
    seeds: int = 5,
    bars: Flag = False,
    strict: Flag = False,
    out: Path | None = None,
    as_json: Json = False,
    smoke: Flag = False,
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
    bars
        Judge what attnlab claims of itself.
    strict
        With --bars: end with exit code 1 unless every bar is met.
    out
        Also write a page to this HTML file.
    as_json
        Print the figures as JSON.
    smoke
        A few steps, to try the tool; the figures mean nothing.
    """
    check_request(bars=bars, strict=strict, out=out)
    check_nanogpt(nanogpt)
    with listening() as listener:
        warn_of_smoke(listener, smoke=smoke)
        found = bench_time_to_loss(text, nanogpt, seeds, listener, smoke=smoke)
    return finish(found, bars=bars, strict=strict, out=out, as_json=as_json)


def check_request(*, bars: bool, strict: bool, out: Path | None) -> None:
    """Refuse what cannot be done before anything is measured."""
    if strict and not bars:
        raise AttnlabError("--strict judges the bars, and they are not measured", hint="add --bars")
    if out is not None:
        check_writable(out)


def _rounds(given: int | None, usual: int, *, smoke: bool) -> int:
    rounds = given if given is not None else _SMOKE_ROUNDS if smoke else usual
    check_rounds(rounds)
    return rounds


def warn_of_smoke(listener: Listener, *, smoke: bool) -> None:
    if smoke:
        listener.note("a smoke run: the figures mean nothing")


def finish(found: Findings, *, bars: bool, strict: bool, out: Path | None, as_json: bool) -> int:
    """Print what was found, write the page, and give the exit code."""
    if as_json:
        show_json(found.to_dict())
    else:
        _print(found, bars=bars)
    if out is not None:
        write_page(findings_page(found, bars=bars), out)
        say(f"wrote {out}")
    return int(strict and not found.all_met)


def _print(found: Findings, *, bars: bool) -> None:
    show("\n".join(line for line in (str(found.machine), found.machine.warning) if line))
    for table in found.tables():
        shown = make_table(table.headings, table.rows, left=table.text_columns)
        show("", table.title, "", shown, "", table.words)
    if not bars:
        return
    show("", *bars_words(found), "", make_table(BAR_HEADINGS, bar_rows(found), left=(0, 1, 4), styles=_STYLES))
    missed = figure_rows(found, missed_only=True)
    if missed:
        show("\nMissed:\n", make_table(_FIGURE_HEADINGS, missed, left=(0, 1, 4), styles=_STYLES))
