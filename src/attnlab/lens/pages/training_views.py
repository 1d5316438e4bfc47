"""How the heads of a run became what they are, over its checkpoints, as a part of a look."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from attnlab.corpora import Batch
from attnlab.lens.heads.redundancy import over_checkpoints
from attnlab.lens.heads.role_scores import ROLES
from attnlab.lens.heads.roles import HeadRoles, head_roles
from attnlab.lens.pages.study_views import SHORT
from attnlab.lens.pages.views import View, number, plain
from attnlab.pages import Table
from attnlab.training import load_run


def training_view(path: Path, batch: Batch, delimiters: Collection[int]) -> View:
    """The strongest head of each role, how alike heads are, and how like the final ones, after each saved step."""
    given: dict[str, Any] = {"source": batch.source, "source_padding": batch.source_padding}
    alike = over_checkpoints(path, batch.inputs, **given)
    last = max(alike)
    rows, data = [], []
    for step, (likeness, matching) in alike.items():
        model = load_run(path, None if step == last else step).model
        roles = head_roles(model, batch.inputs, delimiters=delimiters, controls=0, **given)
        strongest = {role: strongest_of(roles, role) for role in ROLES}
        numbers = {
            "redundancy in maps": likeness.redundancy("maps"),
            "redundancy in effects": likeness.redundancy("effects"),
            "like the final heads": matching.mean,
            "like shuffled ones": matching.control,
        }
        rows.append([str(step), *(number(value) for value in (*strongest.values(), *numbers.values()))])
        data.append({"step": step, "strongest": strongest, **numbers})
    words = (
        "After each step that was saved: the excess over chance of the head that plays a role the most; how alike each "
        "head is to the one most like it, in maps and in effects; and how like the final heads, matched within their "
        "layers, beside what shuffled weights would show. A run keeps its last checkpoints only."
    )
    headings = ("step", *SHORT.values(), "maps", "effects", "final", "shuffled")
    return View("over_training", "Over training", [words, Table(headings, rows)], plain(data))


def strongest_of(roles: HeadRoles, role: str) -> float | None:
    """The excess of the head that plays a role the most."""
    found = [score.excess.mean for one in roles.heads if (score := one.scores[role]) is not None]
    return max(found, default=None)
