"""Labels of comparisons and studies: a title, a note, a star, archived; and deletion that can be undone.

RUNS/.studio.json    titles, notes and stars, by the folder's name
RUNS/.deleted/       folders that were deleted; they take up disk space until this folder is removed
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from attnlab.errors import AttnlabError, FileError, InputError
from attnlab.storage.disk import refusal
from attnlab.storage.records import read_json, write_json

FILE, DELETED = ".studio.json", ".deleted"
_MOST = 2_000  # characters
_NAME = re.compile(r"[^./\\][^/\\]*")


@dataclass(frozen=True)
class Label:
    """The label of one comparison or study."""

    title: str = ""
    note: str = ""
    starred: bool = False
    archived: bool = False


class Labels:
    """The labels of all comparisons and studies in a folder."""

    def __init__(self, runs: Path) -> None:
        self._runs = runs

    def read(self) -> dict[str, Label]:
        """Return every label by the name of its folder; a file that cannot be read holds none."""
        try:
            found = read_json(self._runs / FILE)
        except FileError:
            return {}
        return {name: _label(fields) for name, fields in found.items() if isinstance(fields, dict)}

    def change(self, folder: str, **fields: Any) -> Label:
        """Change some fields of a label, and return it."""
        known = self.read()
        too_long = [name for name, value in fields.items() if isinstance(value, str) and len(value) > _MOST]
        if too_long:
            raise InputError(f"the {too_long[0]} has {len(fields[too_long[0]])} letters", hint=f"use at most {_MOST}")
        changed = replace(known.get(folder, Label()), **fields)
        kept = {name: asdict(label) for name, label in {**known, folder: changed}.items() if label != Label()}
        write_json(self._runs / FILE, kept)
        return changed

    def delete(self, folder: str) -> None:
        """Move a comparison out of sight."""
        self._move(folder, self._runs, self._runs / DELETED)

    def restore(self, folder: str) -> None:
        """Bring a deleted comparison back."""
        self._move(folder, self._runs / DELETED, self._runs)

    def deleted(self) -> list[str]:
        """Return the folders that were deleted."""
        place = self._runs / DELETED
        return sorted(path.name for path in place.iterdir() if path.is_dir()) if place.is_dir() else []

    def _move(self, folder: str, source: Path, target: Path) -> None:
        path = source / folder
        if not _NAME.fullmatch(folder) or not path.is_dir() or path.is_symlink():
            raise AttnlabError("there is no such comparison here", hint="Compare lists those there are")
        if (target / folder).exists():
            raise AttnlabError(f"there is a comparison {folder} already", hint="rename one of the folders")
        try:
            target.mkdir(exist_ok=True)
            path.rename(target / folder)
        except OSError as error:
            raise refusal(f"{folder} cannot be moved", error) from error


def _label(fields: dict[str, Any]) -> Label:
    """Return a label from what a file says, without what is of another kind."""
    usual = asdict(Label())
    return Label(**{name: fields[name] for name in usual if isinstance(fields.get(name), type(usual[name]))})
