"""The records of a fact store and its file: one SQLite database, its tables, and how it is opened.

The journal is a rollback journal that SQLite keeps beside the file while it writes, never a write-ahead log: the
versions up to 3.51.2 that many Pythons ship can corrupt a database in that mode when two processes write at once. A
writer waits for the others, locks the whole file for one batch, and reports success only when the batch is on disk.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from attnlab.errors import FileError
from attnlab.storage import disk

APPLICATION = 0x61746E6C  # "atnl": identifies the kind of file
VERSION = 1
WAIT = 60.0  # seconds for another writer to finish
EXAMPLES = 5  # of contradictions that an import shows
Standing = Literal["new", "known", "contradicts"]


@dataclass(frozen=True)
class StoredFact:
    """A question with an answer: who stated it, when, and from what source. A retracted one is kept, but not used."""

    id: int
    question: str
    answer: str
    source: str
    who: str
    at: str  # in UTC, to the second
    told: bool  # given by a person, one at a time, not imported
    retracted_at: str | None = None
    retracted_by: str | None = None

    def __str__(self) -> str:
        words = f"{self.question} {self.answer} ({self.source}; {self.who}, {self.at[:10]})"
        return f"{words}, retracted by {self.retracted_by}" if self.retracted_at else words

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Document:
    """A text that facts can be read from."""

    id: int
    text: str
    source: str

    def to_dict(self) -> dict[str, object]:
        return asdict(self)


@dataclass(frozen=True)
class Added:
    """The outcome of adding a fact: kept as new, already known, or kept beside others that contradict it."""

    fact: StoredFact
    standing: Standing
    others: tuple[StoredFact, ...] = ()


@dataclass(frozen=True)
class Imported:
    """The outcome of an import: how much is new, how much was there before, and which facts contradict each other."""

    new: int = 0
    known: int = 0
    contradictions: int = 0
    examples: tuple[Added, ...] = ()  # of contradictions, the first few
    batches: int = 0

    def __add__(self, other: Imported) -> Imported:
        return Imported(
            self.new + other.new,
            self.known + other.known,
            self.contradictions + other.contradictions,
            (self.examples + other.examples)[:EXAMPLES],
            self.batches + other.batches,
        )


# Words are split at any character that is not a letter, a number, a mark or a symbol such as an emoji. The tables hold
# only the index: the content of matches is read from the tables of facts and documents.
_WORDS = "content='', tokenize=\"unicode61 remove_diacritics 0 categories 'L* N* M* Co So Sk'\""

_TABLES = f"""
CREATE TABLE batches (
    id INTEGER PRIMARY KEY, kind TEXT NOT NULL, source TEXT NOT NULL, who TEXT NOT NULL, at TEXT NOT NULL,
    count INTEGER NOT NULL
);
CREATE TABLE facts (
    id INTEGER PRIMARY KEY, question TEXT NOT NULL, answer TEXT NOT NULL,
    question_key TEXT NOT NULL, question_fold TEXT NOT NULL, answer_key TEXT NOT NULL,
    source TEXT NOT NULL, who TEXT NOT NULL, at TEXT NOT NULL,
    batch INTEGER REFERENCES batches, retracted_at TEXT, retracted_by TEXT
);
CREATE INDEX facts_by_question ON facts (question_key);
CREATE INDEX facts_by_fold ON facts (question_fold);
CREATE INDEX facts_told ON facts (id) WHERE batch IS NULL;
CREATE TABLE documents (
    id INTEGER PRIMARY KEY, text TEXT NOT NULL, digest BLOB NOT NULL UNIQUE, source TEXT NOT NULL,
    batch INTEGER NOT NULL REFERENCES batches
);
CREATE TABLE habits (template TEXT PRIMARY KEY, batches INTEGER NOT NULL, data TEXT NOT NULL);
CREATE VIRTUAL TABLE fact_words USING fts5(question, answer, {_WORDS});
CREATE VIRTUAL TABLE document_words USING fts5(text, {_WORDS});
"""
_REASONS = {  # by SQLite's error code
    "not a database": ("is no fact store", "name another file"),
    "malformed": ("is a damaged fact store", "go back to a copy of it; `sqlite3 FILE .recover` may save the rest"),
    "locked": (f"is held by another program for more than {WAIT:.0f} s", "wait for the other program, or end it"),
    "full": (
        "cannot be written: the disk is full",
        "free some space and import the same file again: whole batches are kept",
    ),
    "readonly": ("cannot be written: it may only be read", "give yourself the right to write it, or use a copy"),
    "unable to open": ("cannot be opened", "name a file in a folder of your own"),
}


def open_database(path: Path, *, create: bool) -> sqlite3.Connection:
    """Open a connection to the store in this file; if there is no file, `create` makes one."""
    if path.is_dir():
        raise FileError(f"{path} is a folder", hint=f"name a file, such as {path / 'facts.sqlite'}")
    if not path.exists():
        if not create:
            raise FileError(f"there is no fact store {path}", hint="import a file of facts, which makes one")
        with explained(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            _make(path)
    elif path.stat().st_size == 0:
        raise FileError(f"{path} is empty and no fact store", hint="remove it, or name another file")
    with explained(path):
        database = sqlite3.connect(path, timeout=WAIT, isolation_level=None)
        try:
            _prepare(database, path)
        except BaseException:
            database.close()
            raise
    return database


def _make(path: Path) -> None:
    """Make an empty store beside `path`, and give it that name when it is whole, unless another process was first."""
    for left in disk.find_temporaries(path.parent, path.name):
        left.unlink(missing_ok=True)
    temporary = disk.name_temporary(path.parent, path.name)
    database = sqlite3.connect(temporary, timeout=WAIT, isolation_level=None)
    try:
        database.execute("PRAGMA journal_mode = MEMORY")  # leaves no second file behind
        _prepare(database, path)
        database.close()
        with suppress(FileExistsError):
            os.link(temporary, path)
        disk.flush_folder(path.parent)
    finally:
        database.close()
        temporary.unlink(missing_ok=True)


def _prepare(database: sqlite3.Connection, path: Path) -> None:
    if database.execute("PRAGMA journal_mode").fetchone()[0] == "wal":  # another program's choice
        database.execute("PRAGMA journal_mode = DELETE")
    database.execute("PRAGMA synchronous = FULL")
    database.execute("PRAGMA foreign_keys = ON")
    if _kind(database) == (0, 0, 0):
        with writing(database):
            if _kind(database) == (0, 0, 0):  # else another process has just created it
                for statement in _TABLES.split(";\n"):
                    database.execute(statement)
                database.execute(f"PRAGMA application_id = {APPLICATION}")
                database.execute(f"PRAGMA user_version = {VERSION}")
    application, version, _ = _kind(database)
    if application != APPLICATION:
        raise FileError(f"{path} is no fact store but another database", hint="name another file")
    if version != VERSION:
        raise FileError(
            f"{path} is a fact store of version {version}, and this attnlab knows version {VERSION}",
            hint="export it as JSON lines with the attnlab that made it, and import that into a new store",
        )


def _kind(database: sqlite3.Connection) -> tuple[int, int, int]:
    """Return the application id of the file, its version, and how many tables and indexes it has."""
    application, version, tables = (
        database.execute(question).fetchone()[0]
        for question in ("PRAGMA application_id", "PRAGMA user_version", "SELECT COUNT(*) FROM sqlite_master")
    )
    return application, version, tables


@contextmanager
def writing(database: sqlite3.Connection) -> Iterator[None]:
    """Run the block as one transaction: all of it is written or nothing, by one writer at a time."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        if database.in_transaction:
            database.execute("ROLLBACK")
        raise


@contextmanager
def explained(path: Path) -> Iterator[None]:
    """Raise errors of SQLite and of the operating system as `FileError`."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        raise _refusal(path, error) from error
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path} cannot be opened: {(error.strerror or str(error)).lower()}") from error


def _refusal(path: Path, error: sqlite3.DatabaseError) -> FileError:
    for part, (words, hint) in _REASONS.items():
        if part in str(error):
            return FileError(f"{path} {words}", hint=hint)
    return FileError(
        f"{path} cannot be used as a fact store: {error}", hint="name another file, or go back to a copy of it"
    )
