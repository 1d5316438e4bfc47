"""The groups of a comparison of heads: runs that differ in nothing but their seed are one group.

    group_runs([Path("runs/softmax-…-seed0-…"), Path("runs/softmax-…-seed1-…"), Path("runs/tied-kv-…-seed0-…")])
    group_runs([Path("runs/compare-tied-kv-…")])        the folder of a comparison: every arm is a group

Two runs alone are two groups, whatever they are. The first group is what the others are compared with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.errors import FileError, InputError
from attnlab.runs import RunDirectory
from attnlab.storage.plans import PLAN, read_plan


@dataclass(frozen=True)
class RunGroup:
    """One or more runs, by seed where they have one."""

    name: str
    runs: tuple[Path, ...]
    seeds: tuple[int | None, ...]


def group_runs(paths: Sequence[Path]) -> list[RunGroup]:
    """Return the groups of these runs, GPT-2 folders and folders of comparisons."""
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
    return [_group(name, group) for name, group in zip(names, groups.values(), strict=True)]


def _runs_of(path: Path) -> list[Path]:
    """Return the runs in the folder of a comparison, arm by arm, or else the path itself."""
    if RunDirectory.exists(path) or (path / "config.json").is_file():
        return [path]
    if not (path / PLAN).is_file():
        words = f"{path} is neither a run nor a comparison" if path.exists() else f"there is no run or folder {path}"
        raise FileError(words, hint="name the folder of a run or of a comparison")
    plan = read_plan(path, verify=False)
    try:
        arms = [arm["run"] for arm in plan["arms"]]
    except (LookupError, TypeError) as error:
        raise FileError(f"{path / PLAN} cannot be read: {error}", hint="run the comparison again") from None
    runs = path / plan.get("runs_folder", "runs")
    found = [run for run in sorted(runs.glob("*")) if RunDirectory.exists(run)]
    order = {_key(arm): number for number, arm in enumerate(arms)}
    known = [(order[_spec(run)], run) for run in found if _spec(run) in order and _finished(run)]
    if not known:
        raise FileError(f"{path} holds no finished runs", hint="run the comparison again: it resumes")
    return [run for _, run in sorted(known)]


def _finished(path: Path) -> bool:
    return RunDirectory.open(path).status == "finished"


def _spec(path: Path) -> str:
    """Return what a run trains, whatever the seed."""
    return _key(RunDirectory.open(path).record["spec"]) if RunDirectory.exists(path) else str(path)


def _key(spec: Mapping[str, object]) -> str:
    return json.dumps({name: value for name, value in spec.items() if name != "seed"}, sort_keys=True)


def _group(name: str, runs: Sequence[Path]) -> RunGroup:
    pairs = sorted(((_seed(run), run) for run in runs), key=lambda pair: (pair[0] or 0, str(pair[1])))
    return RunGroup(name, tuple(run for _, run in pairs), tuple(seed for seed, _ in pairs))


def _seed(path: Path) -> int | None:
    return RunDirectory.open(path).record["spec"]["seed"] if RunDirectory.exists(path) else None


def _names(groups: Sequence[Sequence[Path]]) -> list[str]:
    """Return the variant of each group where that tells them apart, and else the folder."""
    variants = [
        str(RunDirectory.open(runs[0]).record["spec"]["variant"]) if RunDirectory.exists(runs[0]) else runs[0].name
        for runs in groups
    ]
    if len(set(variants)) == len(variants):
        return variants
    return [runs[0].resolve().name for runs in groups]
