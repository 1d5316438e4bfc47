"""`python` and `docstrings`: the Python sources that every attnlab installation has on disk.

python        the source files of the standard library and of the packages that attnlab itself depends on
docstrings    the docstrings of the same files

A document is one source file. Documents that are mostly generated data, or mostly repeat lines of earlier documents,
are left out. The rest is shuffled by a fixed seed and split by document: no file has a part in training and another
part in validation. The text depends on the Python release and on the versions of the packages, so both are part of the
corpus's identity; `constraints.txt` pins them.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from attnlab.corpora.python_text import SHORTEST, normalise, read_docstrings
from attnlab.corpora.randomness import Stream
from attnlab.errors import FileError

VERSION = 1
HELD_OUT = 20  # one document in so many is validation text
_SKIPPED_FOLDERS = frozenset({"site-packages", "__pycache__", "pydoc_data", "dist-packages"})
_DISTRIBUTION = "attnlab"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_SHORTEST_DOCUMENT = 400  # characters
_LONGEST_LINE = 400  # characters; longer lines are data
_MOST_DIGITS = 0.15  # share of characters; more is a table
_WITHOUT_DIGITS = str.maketrans("", "", "0123456789")
_LONG_LINE = 24  # characters from which a repeated line counts as a repetition
_MOST_REPEATED = 0.5  # share of a document's characters in long lines that earlier documents have too


@dataclass(frozen=True)
class Split:
    """Documents to train on and documents to validate on, each as one text."""

    train: str
    validation: str


def identity() -> list[str]:
    """Return what the text depends on: the Python release and the version of every package that is read."""
    return [sys.version, *(f"{found.name} {found.version}" for found in _distributions())]


def installed_text(kind: str) -> Split:
    """Return the text of the corpus `kind`, "python" or "docstrings"."""
    read = _source if kind == "python" else _docstrings
    documents = list(_fresh(text for path in _files() if (text := read(path)) is not None))
    if len(documents) < HELD_OUT:
        raise FileError(
            f"this Python has no sources to read ({len(documents)} documents were found)",
            hint="name a text file or a folder as the corpus",
        )
    shuffled = Stream(kind, VERSION).shuffled(documents)
    held_out = len(shuffled) // HELD_OUT
    return Split(_joined(shuffled[held_out:]), _joined(shuffled[:held_out]))


def _joined(documents: list[str]) -> str:
    return "\n\n\n".join(documents) + "\n"


def _distributions() -> list[metadata.Distribution]:
    """Return attnlab's runtime dependencies and theirs, sorted by name; extras are left out."""
    found: dict[str, metadata.Distribution] = {}
    todo = [_DISTRIBUTION]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # of another system, or of another Python
        found[name] = distribution
        for requirement in distribution.requires or ():
            match = _NAME.match(requirement)
            if match is not None and "extra ==" not in requirement:
                todo.append(match.group().lower().replace("_", "-"))
    found.pop(_DISTRIBUTION, None)
    return sorted(found.values(), key=lambda one: one.name.lower())


def _files() -> Iterator[Path]:
    """Yield every source file in a fixed order: the standard library, then package by package."""
    library = Path(sysconfig.get_path("stdlib"))
    found = []
    for place, folders, names in os.walk(library):
        folders[:] = [name for name in folders if name not in _SKIPPED_FOLDERS]
        found += [Path(place, name) for name in names if name.endswith(".py")]
    yield from sorted(found, key=lambda path: path.relative_to(library).as_posix())
    for distribution in _distributions():
        for file in sorted(distribution.files or (), key=str):
            if file.suffix == ".py" and "site-packages" not in file.parts:
                yield Path(str(file.locate()))


def _source(path: Path) -> str | None:
    """Return the text of a source file; None if it is unreadable, too short, or data rather than text."""
    try:
        raw = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    return _kept(normalise(raw))


def _docstrings(path: Path) -> str | None:
    found = dict.fromkeys(normalise(docstring) for docstring in read_docstrings(path))
    return _kept("\n\n".join(text for text in found if len(text) >= SHORTEST))


def _kept(text: str) -> str | None:
    if len(text) < _SHORTEST_DOCUMENT:
        return None
    if any(len(line) > _LONGEST_LINE for line in text.splitlines()):
        return None
    digits = len(text) - len(text.translate(_WITHOUT_DIGITS))
    return None if digits > _MOST_DIGITS * len(text) else text


def _fresh(documents: Iterator[str]) -> Iterator[str]:
    """Yield the documents that do not mostly repeat lines of those before them."""
    seen: set[str] = set()
    for text in documents:
        lines = [stripped for line in text.splitlines() if len(stripped := line.strip()) >= _LONG_LINE]
        total = sum(map(len, lines))
        repeated = sum(len(line) for line in lines if line in seen)
        if repeated > _MOST_REPEATED * total:
            continue
        seen.update(lines)
        yield text
