"""The fields of a Hugging Face config.json, each checked when it is read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.errors import FileError, UnsupportedError


@dataclass(frozen=True)
class ConfigFields:
    """The fields by name. GGUF metadata is read the same way."""

    path: Path
    values: Mapping[str, Any]

    def whole(self, *names: str, default: int | None = None) -> int:
        """Return a whole number from 1 on; the names after the first are other spellings of it."""
        value = next((self.values[name] for name in names if self.values.get(name) is not None), default)
        if value is None:
            raise FileError(f"{self.path} has no {names[0]}", hint=f'add "{names[0]}" to it, or fetch it again')
        if type(value) is not int or value < 1:
            raise self.odd(names[0], value, "a whole number from 1 on")
        return value

    def positive(self, name: str, default: float | None = None) -> float:
        """Return a number above 0."""
        value = self.values.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise self.odd(name, value, "a number above 0")
        return float(value)

    def truth(self, name: str, default: bool) -> bool:
        """Return true or false."""
        value = self.values.get(name, default)
        if not isinstance(value, bool):
            raise self.odd(name, value, "true or false")
        return value

    def require(self, name: str, default: str, known: Collection[str]) -> str:
        """Return a string, or refuse it if it is not one of the known ones."""
        value = self.values.get(name, default)
        if not isinstance(value, str) or value not in known:
            raise UnsupportedError(f"{name} of {self.path} is {value!r}", hint=f"it may be {', '.join(known)}")
        return value

    def odd(self, name: str, value: object, wanted: str) -> FileError:
        """Return the error for a value other than wanted."""
        return FileError(f"{name} of {self.path} is {value!r}, not {wanted}", hint=f"correct {name}, or fetch it again")
