"""`pydoc`: Python's language reference and the docstrings of its standard library, which lie in every CPython.

The sources are read, not imported. Topics and modules stand in a fixed random order, so that the last part, which is
held back, is like the rest. The text differs between releases of Python, so what must stay comparable names the
release, or uses a generated corpus. Typographic characters become their ASCII neighbours and the few others are left
out, so that the vocabulary of characters stays small.
"""

from __future__ import annotations

import ast
import os
import re
import sysconfig
import unicodedata
import warnings
from collections.abc import Iterator
from pathlib import Path

from attnlab.corpora.randomness import Stream
from attnlab.errors import FileError

VERSION = 1
SKIPPED = frozenset({"test", "tests", "idlelib", "idle_test", "site-packages", "lib2to3", "__pycache__", "pydoc_data"})
SHORTEST = 40  # characters; a shorter docstring says little
ASCII = str.maketrans(
    {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "−": "-", "…": "...", "×": "x", "→": "->"}
)
_OTHER = re.compile(r"[^\n -~]+")  # neither a line break nor printable ASCII


def python_text() -> str:
    """The topics of the reference and the docstrings of each module, a blank line between two."""
    pieces = Stream("pydoc", VERSION).shuffled([*_topics(), *_modules()])
    if not pieces:
        raise FileError("this Python has neither its topics nor its sources", hint="name a text file as the corpus")
    return "\n\n".join(pieces) + "\n"


def _topics() -> Iterator[str]:
    try:
        from pydoc_data.topics import topics
    except ImportError:  # some systems part it from Python
        return
    for name in sorted(topics):
        yield normalise(topics[name])


def _modules() -> Iterator[str]:
    """The docstrings of a module, for each that has any; a docstring that was there before is left out."""
    seen: set[str] = set()
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(_sources(library), key=lambda path: path.relative_to(library).as_posix()):
        found = dict.fromkeys(normalise(docstring) for docstring in read_docstrings(path))
        fresh = [text for text in found if len(text) >= SHORTEST and text not in seen]
        seen.update(fresh)
        if fresh:
            yield "\n\n".join(fresh)


def _sources(library: Path) -> Iterator[Path]:
    for place, folders, files in os.walk(library):
        folders[:] = [name for name in folders if name not in SKIPPED]
        yield from (Path(place, name) for name in files if name.endswith(".py"))


def read_docstrings(path: Path) -> Iterator[str]:
    """The docstrings of a module, its classes and its functions, in order; none if it cannot be parsed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the parser, about sources that are not ours
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
        text = unicodedata.normalize("NFKD", text.translate(ASCII))
    text = _OTHER.sub("", text.expandtabs(4))
    return "\n".join(line.rstrip() for line in text.split("\n")).strip()
