"""The sides of a comparison of heads: runs that differ in nothing but their seed are one side.

    sides_of([Path("runs/softmax-…-seed0-…"), Path("runs/softmax-…-seed1-…"), Path("runs/tied-kv-…-seed0-…")])
    sides_of([Path("runs/compare-tied-kv-…")])          the folder of a comparison: every arm is a side

Two runs alone are two sides, whatever they are. The first side is what the others are compared with.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.errors import FileError, InputError
from attnlab.runs import RunDirectory
from attnlab.storage.plans import PLAN, read_plan


@dataclass(frozen=True)
class Side:
    """One or more runs, by seed where they have one."""

    name: str
    runs: tuple[Path, ...]
    seeds: tuple[int | None, ...]


def sides_of(paths: Sequence[Path]) -> list[Side]:
    """The sides that these runs, GPT-2 folders and folders of comparisons make."""
    runs = list(dict.fromkeys(run for path in paths for run in _runs_of(path)))
    if len(runs) < 2:
        raise InputError(f"{len(runs)} runs cannot be compared", hint="name two or more, or the folder of a comparison")
    groups: dict[str, list[Path]] = {}
    for run in runs:
        groups.setdefault(str(run) if len(runs) == 2 else _spec(run), []).append(run)
    if len(groups) < 2:
        raise InputError(
            f"all {len(runs)} runs are seeds of one spec, and there is nothing to compare them with",
            hint="name runs of another variant too, or two of them alone",
        )
    names = _names(list(groups.values()))
    return [_side(name, group) for name, group in zip(names, groups.values(), strict=True)]


def _runs_of(path: Path) -> list[Path]:
    """The runs in the folder of a comparison, arm by arm, or else the path itself."""
    if RunDirectory.exists(path) or (path / "config.json").is_file():
        return [path]
    if not (path / PLAN).is_file():
        words = f"{path} is neither a run nor a comparison" if path.exists() else f"there is no run or folder {path}"
        raise FileError(words, hint="`attnlab runs list` shows the runs")
    plan = read_plan(path, verify=False)
    try:
        arms = [arm["run"] for arm in plan["arms"]]
    except (LookupError, TypeError) as error:
        raise FileError(f"{path / PLAN} cannot be read: {error}", hint="call `attnlab compare` again") from None
    runs = path / plan.get("runs_folder", "runs")
    found = [run for run in sorted(runs.glob("*")) if RunDirectory.exists(run)]
    order = {_key(arm): number for number, arm in enumerate(arms)}
    known = [(order[_spec(run)], run) for run in found if _spec(run) in order and _finished(run)]
    if not known:
        raise FileError(f"{path} holds no finished runs", hint="call `attnlab compare` again: it goes on")
    return [run for _, run in sorted(known)]


def _finished(path: Path) -> bool:
    return RunDirectory.open(path).status == "finished"


def _spec(path: Path) -> str:
    """What a run trains, whatever the seed."""
    return _key(RunDirectory.open(path).record["spec"]) if RunDirectory.exists(path) else str(path)


def _key(spec: dict[str, Any]) -> str:
    return json.dumps({name: value for name, value in spec.items() if name != "seed"}, sort_keys=True)


def _side(name: str, runs: Sequence[Path]) -> Side:
    pairs = sorted(((_seed(run), run) for run in runs), key=lambda pair: (pair[0] or 0, str(pair[1])))
    return Side(name, tuple(run for _, run in pairs), tuple(seed for seed, _ in pairs))


def _seed(path: Path) -> int | None:
    return RunDirectory.open(path).record["spec"]["seed"] if RunDirectory.exists(path) else None


def _names(groups: Sequence[Sequence[Path]]) -> list[str]:
    """The variant where that tells the sides apart, and else the folder."""
    variants = [
        str(RunDirectory.open(runs[0]).record["spec"]["variant"]) if RunDirectory.exists(runs[0]) else runs[0].name
        for runs in groups
    ]
    if len(set(variants)) == len(variants):
        return variants
    return [runs[0].resolve().name for runs in groups]
