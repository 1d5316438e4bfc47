"""List, show, remove and clean up the runs on disk."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from attnlab.cli.options import Flag, Json
from attnlab.cli.printing import say, show, show_json, show_pairs
from attnlab.errors import AttnlabError, FileError
from attnlab.formats import NOTHING, byte_count, general
from attnlab.pages import Table, Tone
from attnlab.runs.cleaning import check_removable, collect_garbage, remove_run
from attnlab.runs.directory import RunDirectory
from attnlab.runs.ledger import DEFAULT_ROOT, RunSummary, find_run, find_runs, run_id, summarise
from attnlab.storage.disk import size_of

_TAIL = 5  # lines of the metrics that `show` prints
_TONES: dict[str, Tone] = {"finished": "good", "running": "even", "diverged": "bad", "damaged": "bad"}

Folder = Annotated[Path, Parameter(help="The folder that the runs lie in.")]

runs = App(name="runs", help=__doc__)


@runs.command(name="list")
def list_runs(*, out: Folder = DEFAULT_ROOT, as_json: Json = False) -> None:
    """List the runs with their progress, their last validation loss, and its size on disk."""
    found = find_runs(out)
    if as_json:
        show_json(found)
        return
    if not found:
        say(f"no runs in {out}\n\nhint: `attnlab train` begins one; --out DIR lists another folder")
        return
    headings = ["run", "status", "step", "loss", "variant", "recipe", "size", "started", "disk"]
    rows = [_row(run) for run in found]
    show(Table(headings, rows, text_columns=(0, 1, 4, 5, 6, 7), wrap_columns=(0, 4), tones=_TONES))
    for run in found:
        if run.problem is not None:
            say(f"{run.id}: {run.problem}")


def _row(run: RunSummary) -> list[str]:
    words = run.variant, run.recipe, run.size, run.started and run.started[:10]  # the day
    return [
        run.id,
        run.status,
        _progress(run),
        _number(run.validation_loss),
        *(word or NOTHING for word in words),
        byte_count(run.bytes),
    ]


@runs.command(name="show")
def show_run(run: str, /, *, out: Folder = DEFAULT_ROOT, as_json: Json = False) -> None:
    """Show one run: what it trains and with what, its last metrics, its checkpoints, and the process that works on it.

    Parameters
    ----------
    run
        Its name in the list, or its folder.
    """
    path = find_run(run, out)
    directory = RunDirectory.open(path)
    summary = summarise(path, out)
    if summary.problem is not None:
        raise FileError(summary.problem, hint=f"`attnlab runs rm {run}` removes the run")
    saved = {step: size_of(directory.checkpoints.path(step)) for step in directory.checkpoints.steps()}
    holder, metrics = directory.holder, directory.metrics()[-_TAIL:]
    if as_json:
        described = {
            **asdict(summary),
            "record": directory.record,
            "metrics": metrics,
            "checkpoints": [{"step": step, "bytes": size} for step, size in saved.items()],
            "holder": holder,
            "result": directory.result,
        }
        show_json(described)
        return
    facts = _facts(summary, directory.record) | {"held by": None if holder is None else str(holder)}
    result = directory.result or {}
    facts |= {f"result: {key}": _number(value) for key, value in result.items() if not isinstance(value, dict | list)}
    show_pairs({what: fact for what, fact in facts.items() if fact})
    if metrics:
        show("", _metrics_table(metrics))
    rows = [[str(step), byte_count(size)] for step, size in saved.items()]
    show("", Table(("checkpoint", "disk"), rows, text_columns=(), wrap_columns=(0,)) if rows else "no checkpoints")


def _facts(summary: RunSummary, record: Mapping[str, object]) -> dict[str, str | None]:
    corpus = record.get("corpus")
    corpus = corpus if isinstance(corpus, dict) else {"name": corpus}
    return {
        "run": summary.id,
        "status": summary.status,
        "step": _progress(summary),
        "validation loss": _number(summary.validation_loss),
        "variant": summary.variant or NOTHING,
        "recipe": summary.recipe or NOTHING,
        "size": summary.size or NOTHING,
        "seed": _number(summary.seed),
        "corpus": " ".join(str(corpus[key]) for key in ("name", "hash") if corpus.get(key)) or NOTHING,
        "started": (summary.started or NOTHING)[:16].replace("T", " "),
        "machine": _flat(record.get("machine")),
        "versions": _flat(record.get("versions")),
        "disk": byte_count(summary.bytes),
        "folder": str(summary.path),
    }


def _metrics_table(metrics: Sequence[Mapping[str, object]]) -> Table:
    names = list(dict.fromkeys(name for entry in metrics for name in entry))
    rows = [[_number(entry[name]) if name in entry else "" for name in names] for entry in metrics]
    return Table(names, rows, text_columns=(), wrap_columns=range(len(names)))


@runs.command(name="rm")
def remove_runs(
    *names: Annotated[str, Parameter(name="RUN")],
    out: Folder = DEFAULT_ROOT,
    yes: Flag = False,
) -> None:
    """Remove runs with all that they wrote. A run that a process works on is refused.

    Parameters
    ----------
    names
        Their names in the list, or their folders.
    yes
        Do not ask.
    """
    if not names:
        raise AttnlabError("no run is named", hint="`attnlab runs list` shows the runs")
    paths = list(dict.fromkeys(find_run(name, out) for name in names))
    for path in paths:
        check_removable(path)
    if not yes and not _agrees(paths, out):
        say("nothing was removed")
        return
    freed = 0
    for path in paths:
        freed += remove_run(path)
        say(f"removed {run_id(path, out)}")
    say(f"{byte_count(freed)} freed")


def _agrees(paths: Sequence[Path], out: Path) -> bool:
    if not sys.stdin.isatty():
        raise AttnlabError("there is no terminal to ask at whether to remove", hint="--yes removes without asking")
    for path in paths:
        say(f"{run_id(path, out)}: {byte_count(size_of(path))} in {path}")
    say(f"remove {'it' if len(paths) == 1 else f'these {len(paths)} runs'}? [y/N]")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


@runs.command(name="gc")
def clean_up(
    *,
    out: Folder = DEFAULT_ROOT,
    dry_run: Flag = False,
    as_json: Json = False,
) -> int:
    """Remove what is no longer needed: incomplete files, and the checkpoints of runs that have their final weights.

    Parameters
    ----------
    dry_run
        Tell what would be removed, and remove nothing.
    """
    found = collect_garbage(out, dry_run=dry_run)
    freed = sum(one.bytes for one in found)
    if as_json:
        show_json({"dry_run": dry_run, "freed_bytes": freed, "found": found})
    else:
        rows = [[one.run, one.what, byte_count(one.bytes)] for one in found if one.problem is None]
        if rows:
            show(Table(("run", "what", "disk"), rows, text_columns=(0, 1), wrap_columns=(0,)))
        show(f"{byte_count(freed)} {'would be freed' if dry_run else 'freed'}")
    for one in found:
        if one.problem is not None:
            say(f"{one.run} was left alone: {one.problem}")
    return 0


def _progress(run: RunSummary) -> str:
    if run.step is None and run.steps is None:
        return NOTHING
    return f"{run.step or 0}/{NOTHING if run.steps is None else run.steps}"


def _number(value: object) -> str:
    if value is None:
        return NOTHING
    return general(value, 4) if isinstance(value, float) else str(value)


def _flat(value: object) -> str:
    """Return an entry of a record on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_flat(part)}" for key, part in value.items()) or NOTHING
    return _number(value)
