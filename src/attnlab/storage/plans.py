"""The file of a comparison's plan, plan.json: {"format": 1, "sha256": the hash of the plan, "plan": what was planned}.

It is read here, so that code that reads a comparison's folder does not depend on the comparison code.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.errors import FileError
from attnlab.storage.records import read_json, write_json

PLAN = "plan.json"
_FORMAT = 1


def write_plan(folder: Path, plan: Mapping[str, object], name: str = PLAN) -> None:
    """Write a plan, as plain data, with its hash, into a file of this name."""
    write_json(folder / name, {"format": _FORMAT, "sha256": plan_hash(plan), "plan": plan})


def read_plan(folder: Path, *, verify: bool = True, name: str = PLAN) -> dict[str, Any]:
    """Return the plan in a comparison's folder; with `verify`, refuse another format and a plan that was changed."""
    path = folder / name
    if not path.exists():
        raise FileError(f"{folder} is no comparison: it has no {name}", hint="name the folder of a comparison")
    record = read_json(path)
    if verify and record.get("format") != _FORMAT:
        raise FileError(f"{path} is of another version of attnlab", hint="compare again in another folder `out`")
    plan = record.get("plan")
    if verify and plan_hash(plan) != record.get("sha256"):
        raise FileError(
            f"{path} was changed after it was made",
            hint="restore the original file, or start another comparison",
        )
    if not isinstance(plan, dict):
        raise FileError(f"{path} cannot be read: it holds no plan", hint="compare again in another folder")
    return plan


def plan_hash(plan: object) -> str:
    """Return the hash of a plan as plain data."""
    return hashlib.sha256(json.dumps(plan, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
