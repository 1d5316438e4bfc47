"""Corpora from the Python installation: `pydoc`, `python` and `docstrings`. Source files are read, not imported.

pydoc         Python's language reference and the docstrings of its standard library
python        the source files of the standard library and of the packages that attnlab itself depends on
docstrings    the docstrings of the same files

`pydoc` has its topics and modules in a fixed random order, so that its last part, which is held out, resembles the
rest. In the other two, each source file is one document. Documents that are mostly generated data, or mostly repeat
lines of earlier documents, are left out. The rest is shuffled with a fixed seed and split by document: no file is part
of both training and validation.

The texts depend on the Python release, and the last two on the versions of the packages, so both are part of the
corpus's identity; `constraints.txt` pins them. Typographic characters are replaced by their ASCII equivalents and the
few others are left out, to keep the vocabulary of characters small.
"""

from __future__ import annotations

import ast
import os
import re
import sys
import sysconfig
import unicodedata
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from attnlab.corpora.randomness import Stream
from attnlab.errors import FileError

VERSION = 1
HELD_OUT = 20  # one document out of this many is validation text
_NO_SOURCES = frozenset({"site-packages", "__pycache__", "pydoc_data"})  # folders of the standard library
_NOT_IN_PYDOC = _NO_SOURCES | {"test", "tests", "idlelib", "idle_test", "lib2to3"}
_NOT_IN_PYTHON = _NO_SOURCES | {"dist-packages"}
_SHORTEST = 40  # characters; a shorter docstring says little
_ASCII = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-", "…": "...", "×": "x", "→": "->"}
)
_OTHER = re.compile(r"[^\n -~]+")  # neither a line break nor printable ASCII
_DISTRIBUTION = "attnlab"
_SHORTEST_DOCUMENT = 400  # characters
_LONGEST_LINE = 400  # characters; longer lines are data
_MOST_DIGITS = 0.15  # share of characters; more is a table
_WITHOUT_DIGITS = str.maketrans("", "", "0123456789")
_LONG_LINE = 24  # characters; shorter lines do not count as repeated
_MOST_REPEATED = 0.5  # share of a document's characters in long lines that earlier documents have too


def python_text() -> str:
    """Return the topics of the reference and the docstrings of each module, shuffled, a blank line between two."""
    pieces = Stream("pydoc", VERSION).shuffled([*_topics(), *_modules()])
    if not pieces:
        raise FileError("this Python has neither its topics nor its sources", hint="name a text file as the corpus")
    return "\n\n".join(pieces) + "\n"


def _topics() -> Iterator[str]:
    try:
        from pydoc_data.topics import topics
    except ImportError:  # some systems package it separately from Python
        return
    for name in sorted(topics):
        yield normalise(topics[name])


def _modules() -> Iterator[str]:
    """Yield the docstrings of each module that has any; a docstring that was there before is left out."""
    seen: set[str] = set()
    for path in _library(_NOT_IN_PYDOC):
        fresh = [text for text in _long_docstrings(path) if text not in seen]
        seen.update(fresh)
        if fresh:
            yield "\n\n".join(fresh)


def _library(skipped: Collection[str]) -> list[Path]:
    """Return the sources of the standard library in the order of their paths."""
    library = Path(sysconfig.get_path("stdlib"))
    return sorted(_sources(library, skipped), key=lambda path: path.relative_to(library).as_posix())


def _sources(folder: Path, skipped: Collection[str]) -> Iterator[Path]:
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in skipped]
        yield from (Path(place, name) for name in files if name.endswith(".py"))


def _long_docstrings(path: Path) -> list[str]:
    """Return the different docstrings of a file that say something, normalised."""
    found = dict.fromkeys(normalise(docstring) for docstring in read_docstrings(path))
    return [text for text in found if len(text) >= _SHORTEST]


def read_docstrings(path: Path) -> Iterator[str]:
    """Yield the docstrings of a module, its classes and its functions, in order; none if it cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the parser, about source files that are not ours
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring:
                yield docstring
            # Definitions inside a function or under an `if` are left out: few, and finding them takes much longer.
            todo.extend(reversed(node.body))


def normalise(text: str) -> str:
    """Keep printable ASCII and line breaks only, without spaces at the end of a line."""
    if not text.isascii():
        text = unicodedata.normalize("NFKD", text.translate(_ASCII))
    text = _OTHER.sub("", text.expandtabs(4))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()


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
    read = _source if kind == "python" else lambda path: "\n\n".join(_long_docstrings(path))
    documents = list(_fresh(text for path in _files() if _is_text(text := read(path))))
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
    """Return attnlab's runtime dependencies and theirs, sorted by name.

    Extras are left out, and so are requirements of other systems, which may be installed for something else.
    """
    found: dict[str, metadata.Distribution] = {}
    todo = [_DISTRIBUTION]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue
        found[name] = distribution
        for requirement in map(Requirement, distribution.requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                todo.append(canonicalize_name(requirement.name))
    found.pop(_DISTRIBUTION, None)
    return sorted(found.values(), key=lambda one: one.name.lower())


def _files() -> Iterator[Path]:
    """Yield every source file in a fixed order: the standard library, then package by package."""
    yield from _library(_NOT_IN_PYTHON)
    for distribution in _distributions():
        for file in sorted(distribution.files or (), key=str):
            if file.suffix == ".py" and "site-packages" not in file.parts:
                yield Path(str(file.locate()))


def _source(path: Path) -> str:
    """Return the text of a source file; nothing if it cannot be read."""
    try:
        return normalise(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return ""


def _is_text(document: str) -> bool:
    """Return whether a document is long enough, and text rather than data."""
    if len(document) < _SHORTEST_DOCUMENT or any(len(line) > _LONGEST_LINE for line in document.splitlines()):
        return False
    digits = len(document) - len(document.translate(_WITHOUT_DIGITS))
    return digits <= _MOST_DIGITS * len(document)


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
