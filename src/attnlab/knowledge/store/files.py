"""Import files into a fact store, and export them.

.tsv     question, tab, answer, and optionally a tab and a source    facts
.jsonl   what `export` writes: a fact or a document on each line      both
other    plain text, a document on each line                          documents

A file is read completely before anything is written: one with a bad line changes nothing. It is then written in
batches. If an import is killed, importing the same file again finishes it, because existing entries are not duplicated.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

from attnlab.errors import FileError
from attnlab.knowledge.pairs import Pair, numbered_lines, read_rows
from attnlab.knowledge.store.schema import Imported
from attnlab.knowledge.store.store import FactStore, Progress
from attnlab.knowledge.text import shorten, tidy

FileKind = Literal["pairs", "text", "lines"]


@dataclass(frozen=True)
class FileEntry:
    """A fact or a document of a file, with its source if the file names one."""

    content: Pair | str
    source: str
    who: str | None = None


def kind_of(path: Path) -> FileKind:
    return {".tsv": "pairs", ".jsonl": "lines"}.get(path.suffix.casefold(), "text")  # type: ignore[return-value]


def import_file(
    store: FactStore,
    path: Path,
    *,
    who: str,
    source: str | None = None,
    kind: FileKind | None = None,
    progress: Progress | None = None,
) -> Imported:
    """Import a file into a store.

    Parameters
    ----------
    store
        The fact store.
    path
        The file.
    who
        Who imports it.
    source
        The source that is recorded; None takes the file's name.
    kind
        The kind of file; None infers it.
    progress
        Called with a sentence about each step.
    """
    entries = list(_READERS[kind or kind_of(path)](path, source or path.name))
    if not entries:
        raise FileError(f"{path} is empty", hint="give a file with a fact or a document on each line")
    total = Imported()

    def tell(found: Imported) -> None:
        if progress is not None:
            progress(total + found)

    parts = groupby(entries, key=lambda entry: (isinstance(entry.content, Pair), entry.source, entry.who or who))
    for (is_fact, where, author), group in parts:
        if is_fact:
            pairs = (entry.content for entry in group if isinstance(entry.content, Pair))
            total += store.import_facts(pairs, who=author, source=where, progress=tell)
        else:
            texts = (entry.content for entry in group if isinstance(entry.content, str))
            total += store.import_documents(texts, who=author, source=where, progress=tell)
    return total


def export_lines(store: FactStore) -> Iterator[str]:
    """Yield all facts and documents in use as JSON lines; a store that imports them answers the same."""
    for fact in store.facts():
        yield json.dumps({"kind": "fact", **fact.to_dict()}, ensure_ascii=False)
    for document in store.documents():
        yield json.dumps({"kind": "document", **document.to_dict()}, ensure_ascii=False)


def export_pairs(store: FactStore) -> Iterator[str]:
    """Yield the facts as tab-separated lines: question, answer, source."""
    for fact in store.facts():
        yield f"{fact.question}\t{fact.answer}\t{fact.source}"


def _read_pairs(path: Path, source: str) -> Iterator[FileEntry]:
    for question, answer, where in read_rows(path, tidy):
        yield FileEntry(Pair(question, answer), where or source)


def _read_text(path: Path, source: str) -> Iterator[FileEntry]:
    return (FileEntry(text, source) for _, line in numbered_lines(path) if (text := tidy(line)))


def _read_exported(path: Path, source: str) -> Iterator[FileEntry]:
    for number, line in numbered_lines(path):
        try:
            data = json.loads(line)
            content = Pair(data["question"], data["answer"]) if data["kind"] == "fact" else data["text"]
            parts = [*vars(content).values()] if isinstance(content, Pair) else [content]
            if not all(isinstance(part, str) and part.strip() for part in parts):
                raise ValueError
            yield FileEntry(content, str(data.get("source") or source), data.get("who"))
        except (ValueError, KeyError, TypeError, RecursionError):
            raise FileError(
                f"line {number} of {path} is no fact and no document: {shorten(line)!r}",
                hint="give what the export of a fact store wrote",
            ) from None


_READERS = {"pairs": _read_pairs, "text": _read_text, "lines": _read_exported}
