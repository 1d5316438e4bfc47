"""Options given together with a recorded run to resume, or a recorded comparison to open.

The record takes precedence. An option that agrees with it is accepted, and one that differs is refused, not ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from attnlab.cli.errors import given_options
from attnlab.errors import AttnlabError


def check_options(path: Path, asked: Mapping[str, object], recorded: Mapping[str, object], *, instead: str) -> None:
    """Refuse options of the running command that differ from what `path` records.

    `asked` and `recorded` are values by the name of their parameter; `instead` says how to get what was asked for.
    """
    given = given_options()
    for name in asked:
        if name in given:
            check_value(path, name, asked[name], recorded.get(name), instead=instead)


def check_value(path: Path, name: str, asked: object, recorded: object, *, instead: str) -> None:
    """Refuse one value that differs from what `path` records."""
    if asked != recorded:
        known = "nothing of the kind" if recorded is None else recorded
        raise AttnlabError(
            f"`{name}={asked}` differs from what {path} records: {known}", hint=f"leave it out, {instead}"
        )
