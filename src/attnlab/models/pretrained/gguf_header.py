"""The header of a GGUF file: its metadata, and where its tensors are. Every length is checked against the file's size.

    magic "GGUF", version, number of tensors, number of fields
    fields        name, type, value                          values are numbers, texts, or arrays of either
    tensors       name, dimensions, type, offset
    data          from the next multiple of `general.alignment` on

The format is that of https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little-endian. The
`gguf` package has a reader too, but it trusts the lengths stated in a file.
"""

from __future__ import annotations

import mmap
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.errors import FileError, UnsupportedError

MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_ALIGNMENT = 32
_MOST_DIMENSIONS = 4
_STRING, _ARRAY, _TRUTH = 8, 9, 7
# The codes of Python's `struct` for each type of number, of standard size and little-endian.
_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 10: "<Q", 11: "<q", 12: "<d"}
_NAME = re.compile(r"[\w.\-]{1,64}", re.ASCII)
_LEAST_FIELD, _LEAST_TENSOR = 13, 24  # smallest size in bytes


@dataclass(frozen=True)
class StoredTensor:
    """A tensor in the file, not read yet."""

    shape: tuple[int, ...]  # the slowest dimension first, as in PyTorch
    kind: int  # ggml's number of the type
    start: int  # bytes from the beginning of the file


@dataclass(frozen=True)
class Header:
    """The metadata and the list of tensors of a GGUF file."""

    path: Path
    size: int
    fields: dict[str, Any]
    tensors: dict[str, StoredTensor]

    @property
    def architecture(self) -> object:
        return self.fields.get("general.architecture")


def read_header(path: Path) -> Header:
    """Return the header of a file."""
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(path, data).read()
    except FileNotFoundError:
        raise FileError(f"there is no file {path}", hint="name a .gguf file") from None
    except ValueError as error:  # of an empty file
        raise FileError(f"{path} is no GGUF file: {error}", hint="fetch it again") from None
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path} cannot be read: {error.strerror}", hint="check the path and its permissions") from None


class _Reader:
    """A position in the file, which advances with every read."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path, self.data, self.place = path, data, 0

    def read(self) -> Header:
        if self._bytes(4, "its magic number") != MAGIC:
            raise FileError(f"{self.path} is no GGUF file: it does not begin with {MAGIC!r}", hint="name a .gguf file")
        version = self._number("<I", "its version")
        if version not in _VERSIONS:
            raise UnsupportedError(
                f"{self.path} has version {version} of the format",
                hint=f"the supported versions are {' and '.join(map(str, _VERSIONS))}, little-endian",
            )
        num_tensors = self._number("<Q", "the number of tensors")
        num_fields = self._number("<Q", "the number of fields")
        self._check_room(num_fields * _LEAST_FIELD, f"{num_fields} fields")
        self._check_room(num_tensors * _LEAST_TENSOR, f"{num_tensors} tensors")
        fields: dict[str, Any] = {}
        for _ in range(num_fields):
            name = self._name(fields, "field")
            fields[name] = self._value(self._number("<I", f"the type of {name}"), name)
        stored = [self._tensor(names) for names in [set[str]()] for _ in range(num_tensors)]
        start = self._data_start(fields)
        tensors = {name: StoredTensor(shape, kind, start + offset) for name, shape, kind, offset in stored}
        return Header(self.path, len(self.data), fields, tensors)

    def _data_start(self, fields: dict[str, Any]) -> int:
        alignment = fields.get("general.alignment", _ALIGNMENT)
        if type(alignment) is not int or alignment < 1 or alignment & (alignment - 1):
            raise self._damaged(f"general.alignment is {alignment!r}, not a power of two")
        return -(-self.place // alignment) * alignment

    def _tensor(self, names: set[str]) -> tuple[str, tuple[int, ...], int, int]:
        name = self._name(names, "tensor")
        names.add(name)
        count = self._number("<I", f"the dimensions of {name}")
        if not 1 <= count <= _MOST_DIMENSIONS:
            raise self._damaged(f"{name} has {count} dimensions")
        dimensions = tuple(self._number("<Q", f"the shape of {name}") for _ in range(count))
        kind, offset = self._number("<I", f"the type of {name}"), self._number("<Q", f"the offset of {name}")
        return name, dimensions[::-1], kind, offset

    def _name(self, known: dict[str, Any] | set[str], what: str) -> str:
        name = self._text(f"the name of a {what}")
        if not _NAME.fullmatch(name):
            raise self._damaged(f"{name[:64]!r} is no name of a {what}")
        if name in known:
            raise self._damaged(f"it has two {what}s called {name}")
        return name

    def _value(self, kind: int, name: str) -> Any:
        if kind == _STRING:
            return self._text(name)
        if kind == _ARRAY:
            return self._array(name)
        if kind == _TRUTH:
            return self._bytes(1, name) != b"\0"
        if kind not in _NUMBERS:
            raise self._damaged(f"{name} has the unknown type {kind}")
        return self._number(_NUMBERS[kind], name)

    def _array(self, name: str) -> list[str] | NDArray[Any]:
        kind, count = self._number("<I", name), self._number("<Q", name)
        if kind == _STRING:
            self._check_room(8 * count, f"{count} texts of {name}")
            return [self._text(name) for _ in range(count)]
        dtype = "?" if kind == _TRUTH else _NUMBERS.get(kind)
        if dtype is None:
            raise self._damaged(f"{name} is an array of the unknown type {kind}")
        size = np.dtype(dtype).itemsize
        self._check_room(size * count, f"{count} numbers of {name}")
        return np.frombuffer(self._bytes(size * count, name), dtype)

    def _text(self, what: str) -> str:
        length = self._number("<Q", what)
        try:
            return self._bytes(length, what).decode("utf-8")
        except UnicodeDecodeError:
            raise self._damaged(f"{what} is not UTF-8") from None

    def _number(self, code: str, what: str) -> Any:
        return struct.unpack(code, self._bytes(struct.calcsize(code), what))[0]

    def _bytes(self, count: int, what: str) -> bytes:
        self._check_room(count, what)
        found = self.data[self.place : self.place + count]
        self.place += count
        return found

    def _check_room(self, count: int, what: str) -> None:
        left = len(self.data) - self.place
        if count > left:
            raise self._damaged(f"{what} would take {count} bytes, and {left} are left")

    def _damaged(self, reason: str) -> FileError:
        return FileError(f"{self.path} is damaged: {reason}", hint="fetch it again")
