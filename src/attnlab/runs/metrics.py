"""The metrics of a run: a file with one JSON object per line, each with its step.

A crash may truncate or garble the last lines; they are ignored. A number that is not finite is written as a string, and
read back as the number.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attnlab.errors import FileError, InputError
from attnlab.storage import disk
from attnlab.storage.records import to_plain

_NOT_FINITE = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
_TAIL = 2048  # bytes, more than the longest line


class Metrics:
    """The metrics file at `path`, which need not exist yet."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, entry: Mapping[str, float | int | str | None]) -> None:
        """Add a line. An incomplete line left by a crash is removed first."""
        if not _is_step(entry.get("step")):
            raise InputError(f"metrics need the step they belong to: {dict(entry)}", hint='give "step", a whole number')
        line = encode_entry(entry)
        try:
            if not self._ends_a_line():
                self._keep([text for text, _ in self._lines()])
            disk.append(self.path, line)
        except OSError as error:
            raise disk.refusal(f"{self.path} cannot be written", error) from error

    def read(self) -> list[dict[str, Any]]:
        """Return every line but unreadable ones at the end; an unreadable line before is an error."""
        return [entry for _, entry in self._lines()]

    def last(self) -> dict[str, Any] | None:
        """Return the last whole line, if it can be read; only the end of the file is looked at."""
        try:
            with self.path.open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - _TAIL))
                lines = file.read().split(b"\n")[:-1]  # the part after the last line feed may still be being written
        except OSError:
            return None
        found = _parse(lines[-1]) if lines else None
        return None if found is None else found[1]

    def rewind(self, step: int) -> None:
        """Remove what was measured after `step`, and what a crash garbled at the end."""
        if self.path.exists():
            self._keep([text for text, entry in self._lines() if entry["step"] <= step])

    def _lines(self) -> list[tuple[str, dict[str, Any]]]:
        """Return each line as text and as data."""
        try:
            raw = self.path.read_bytes().split(b"\n") if self.path.exists() else []
        except OSError as error:
            raise disk.refusal(f"{self.path} cannot be read", error) from error
        lines = [_parse(line) for line in raw]
        while lines and lines[-1] is None:
            lines.pop()
        if None in lines:
            number = lines.index(None) + 1
            raise FileError(
                f"line {number} of {self.path} is damaged", hint="remove that line, and nothing else is lost"
            )
        return [line for line in lines if line is not None]

    def _keep(self, lines: list[str]) -> None:
        kept = "".join(line + "\n" for line in lines).encode("utf-8", "surrogatepass")
        try:
            if self.path.read_bytes() != kept:
                disk.replace_file(self.path, kept)
        except OSError as error:
            raise disk.refusal(f"{self.path} cannot be written", error) from error

    def _ends_a_line(self) -> bool:
        if not self.path.exists() or self.path.stat().st_size == 0:
            return True
        with self.path.open("rb") as file:
            file.seek(-1, 2)
            return file.read() == b"\n"


def encode_entry(entry: Mapping[str, float | int | str | None]) -> bytes:
    """Return an entry as the line that is written."""
    return (json.dumps(to_plain(entry), ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


class MetricsFollower:
    """Reads what was added to a metrics file since the last time, while a run writes to it."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0

    def was_rewound(self) -> bool:
        """Return whether lines that were read are gone, so that the next reading begins anew."""
        try:
            rewound = self._path.stat().st_size < self._offset
        except OSError:
            return False
        if rewound:
            self._offset = 0
        return rewound

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the new lines, one at a time: a long run has more of them than should be in memory at once."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                for line in file:
                    if not line.endswith(b"\n"):
                        return
                    self._offset += len(line)
                    if (found := _parse(line)) is not None:
                        yield found[1]
        except OSError:
            return


def _is_step(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _parse(line: bytes) -> tuple[str, dict[str, Any]] | None:
    try:
        text = line.decode("utf-8", "surrogatepass")
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(entry, dict) or not _is_step(entry.get("step")):
        return None
    return text, {
        key: _NOT_FINITE.get(value, value) if isinstance(value, str) else value for key, value in entry.items()
    }
