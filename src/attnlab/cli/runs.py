"""List, show, remove and clean up the runs on disk."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, Parameter

from attnlab.cli.printing import make_table, say, show, show_json
from attnlab.errors import AttnlabError, FileError
from attnlab.runs.cleaning import check_removable, collect_garbage, remove_run
from attnlab.runs.directory import RunDirectory
from attnlab.runs.ledger import DEFAULT_ROOT, RunSummary, find_run, find_runs, run_id, summarise
from attnlab.storage.disk import size_of
from attnlab.storage.records import to_plain

_UNKNOWN = "–"
_TAIL = 5  # lines of the metrics that `show` prints
_STYLES = {"finished": "green", "running": "cyan", "diverged": "bold red", "damaged": "bold red"}

Json = Annotated[bool, Parameter(name="--json", negative="", show_default=False)]
Flag = Annotated[bool, Parameter(negative="", show_default=False)]

runs = App(name="runs", help=__doc__)


@runs.command(name="list")
def list_runs(*, out: Path = DEFAULT_ROOT, as_json: Json = False) -> None:
    """List the runs: how far each is, its last validation loss, and its size on disk.

    Parameters
    ----------
    out
        The folder that the runs lie in.
    as_json
        Print it as JSON.
    """
    found = find_runs(out)
    if as_json:
        show_json(to_plain([asdict(run) for run in found]))
        return
    if not found:
        _say_empty(out)
        return
    headings = ["run", "status", "step", "loss", "variant", "recipe", "size", "started", "disk"]
    show(make_table(headings, [_row(run) for run in found], left=(0, 1, 4, 5, 6, 7), wrap=(0, 4), styles=_STYLES))
    for run in found:
        if run.problem is not None:
            say(f"{run.id}: {run.problem}")


def _row(run: RunSummary) -> list[str]:
    words = run.variant, run.recipe, run.size, run.started and run.started[:10]  # the day
    return [run.id, run.status, _progress(run), _number(run.validation_loss), *map(_word, words), _bytes(run.bytes)]


@runs.command(name="show")
def show_run(run: str, /, *, out: Path = DEFAULT_ROOT, as_json: Json = False) -> None:
    """Show one run: what it trains and with what, its last metrics, its checkpoints, and who works on it.

    Parameters
    ----------
    run
        Its name in the list, or its folder.
    out
        The folder that the runs lie in.
    as_json
        Print it as JSON.
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
            "holder": None if holder is None else asdict(holder),
            "result": directory.result,
        }
        show_json(to_plain(described))
        return
    facts = _facts(summary, directory.record) | {"held by": None if holder is None else str(holder)}
    result = directory.result or {}
    facts |= {f"result: {key}": _number(value) for key, value in result.items() if not isinstance(value, dict | list)}
    show(make_table(["", ""], [[what, fact] for what, fact in facts.items() if fact], left=(0, 1), wrap=(1,)))
    if metrics:
        show("", _metrics_table(metrics))
    rows = [[str(step), _bytes(size)] for step, size in saved.items()]
    show("", make_table(["checkpoint", "disk"], rows, left=()) if rows else "no checkpoints")


def _facts(summary: RunSummary, record: Mapping[str, Any]) -> dict[str, str | None]:
    corpus = record.get("corpus")
    corpus = corpus if isinstance(corpus, dict) else {"name": corpus}
    return {
        "run": summary.id,
        "status": summary.status,
        "step": _progress(summary),
        "validation loss": _number(summary.validation_loss),
        "variant": _word(summary.variant),
        "recipe": _word(summary.recipe),
        "size": _word(summary.size),
        "seed": _number(summary.seed),
        "corpus": " ".join(str(corpus[key]) for key in ("name", "hash") if corpus.get(key)) or _UNKNOWN,
        "started": _word(_moment(summary.started)),
        "machine": _flat(record.get("machine")),
        "versions": _flat(record.get("versions")),
        "disk": _bytes(summary.bytes),
        "folder": str(summary.path),
    }


def _metrics_table(metrics: Sequence[Mapping[str, Any]]) -> Any:
    names = list(dict.fromkeys(name for entry in metrics for name in entry))
    rows = [[_number(entry[name]) if name in entry else "" for name in names] for entry in metrics]
    return make_table(names, rows, left=(), wrap=range(len(names)))


@runs.command(name="rm")
def remove_runs(
    *names: Annotated[str, Parameter(name="RUN")],
    out: Path = DEFAULT_ROOT,
    yes: Flag = False,
) -> None:
    """Remove runs with all that they wrote. A run that somebody works on is refused.

    Parameters
    ----------
    names
        Their names in the list, or their folders.
    out
        The folder that the runs lie in.
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
    say(f"{_bytes(freed)} freed")


def _agrees(paths: Sequence[Path], out: Path) -> bool:
    if not sys.stdin.isatty():
        raise AttnlabError("there is no terminal to ask at whether to remove", hint="--yes removes without asking")
    for path in paths:
        say(f"{run_id(path, out)}: {_bytes(size_of(path))} in {path}")
    say(f"remove {'it' if len(paths) == 1 else f'these {len(paths)} runs'}? [y/N]")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


@runs.command(name="gc")
def clean_up(
    *,
    out: Path = DEFAULT_ROOT,
    dry_run: Flag = False,
    as_json: Json = False,
) -> int:
    """Remove what nobody needs: half-written files, and the checkpoints of runs that have their final weights.

    Parameters
    ----------
    out
        The folder that the runs lie in.
    dry_run
        Tell what would be removed, and remove nothing.
    as_json
        Print it as JSON.
    """
    found = collect_garbage(out, dry_run=dry_run)
    freed = sum(one.bytes for one in found)
    if as_json:
        show_json({"dry_run": dry_run, "freed_bytes": freed, "found": [asdict(one) for one in found]})
    else:
        rows = [[one.run, one.what, _bytes(one.bytes)] for one in found if one.problem is None]
        if rows:
            show(make_table(["run", "what", "disk"], rows, left=(0, 1)))
        show(f"{_bytes(freed)} {'would be freed' if dry_run else 'freed'}")
    for one in found:
        if one.problem is not None:
            say(f"{one.run} was left alone: {one.problem}")
    return 0


def _say_empty(root: Path) -> None:
    say(f"no runs in {root}\n\nhint: `attnlab train` begins one; --out DIR looks into another folder")


def _progress(run: RunSummary) -> str:
    if run.step is None and run.steps is None:
        return _UNKNOWN
    return f"{run.step or 0}/{_UNKNOWN if run.steps is None else run.steps}"


def _word(value: str | None) -> str:
    return _UNKNOWN if value is None else value


def _number(value: object) -> str:
    if value is None:
        return _UNKNOWN
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _moment(text: str | None) -> str | None:
    """A time to the minute, without what a person can do without."""
    return None if text is None else text[:16].replace("T", " ")


def _flat(value: object) -> str:
    """A record's entry on one line."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_flat(part)}" for key, part in value.items()) or _UNKNOWN
    return _number(value)


def _bytes(number: int) -> str:
    """A size as people read it."""
    size = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"
