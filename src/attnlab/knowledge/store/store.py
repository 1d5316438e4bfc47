"""The fact store: questions, their answers and texts in one SQLite file that several processes may write to.

Nothing is overwritten or deleted. A fact that contradicts another one is kept beside it, with who stated it, when and
from what source; retract one of them to resolve the contradiction. Values are always passed as SQL parameters, never in
the statement, and search terms are split into words and quoted, so that no name can act as a command.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Self

from attnlab.errors import FileError, InputError
from attnlab.knowledge.pairs import Pair
from attnlab.knowledge.store.matching import has_words, match_all, phrase
from attnlab.knowledge.store.schema import (
    EXAMPLES,
    Added,
    Document,
    Imported,
    Standing,
    StoredFact,
    explained,
    open_database,
    writing,
)
from attnlab.knowledge.text import fold, key, shorten, tidy

_BATCH = 2000
MOST = 2**63 - 1  # the largest integer of SQLite
Progress = Callable[[Imported], None]
_FACT = (
    "facts.id, facts.question, facts.answer, facts.source, facts.who, facts.at, facts.batch IS NULL, "
    "facts.retracted_at, facts.retracted_by"
)


class FactStore:
    """A store in a file. Several can be open on the same file, in one process or in many."""

    def __init__(self, path: Path, *, create: bool = True) -> None:
        self.path = path
        self._database = open_database(path, create=create)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    # Writing

    def add(self, question: str, answer: str, *, who: str, source: str) -> Added:
        """Keep one fact that a person told. One that is known is not kept twice."""
        pair, who, source = _checked(question, answer), _word(who, "name of who says it"), _word(source, "source")
        with explained(self.path), writing(self._database):
            return self._keep(pair, source, who, None)

    def import_facts(
        self, pairs: Iterable[Pair], *, who: str, source: str, batch: int = _BATCH, progress: Progress | None = None
    ) -> Imported:
        """Keep many facts, a batch at a time, each of them whole and on the disk before the next one begins."""

        def keep(group: Sequence[Pair], number: int) -> Imported:
            kept = [self._keep(pair, source, who, number) for pair in group]
            against = [one for one in kept if one.standing == "contradicts"]
            new = sum(one.standing != "known" for one in kept)
            return Imported(new, len(kept) - new, len(against), tuple(against[:EXAMPLES]), int(new > 0))

        checked = (_checked(pair.question, pair.answer) for pair in pairs)
        return self._import("facts", _groups(checked, batch), keep, source, who, progress)

    def import_documents(
        self, texts: Iterable[str], *, who: str, source: str, batch: int = _BATCH, progress: Progress | None = None
    ) -> Imported:
        """Keep texts that facts can be read from; one that is there already is not kept twice."""

        def keep(group: Sequence[str], number: int) -> Imported:
            new = sum(self._keep_document(text, source, number) for text in group)
            return Imported(new, len(group) - new, batches=int(new > 0))

        tidied = (found for text in texts if (found := tidy(text)))
        return self._import("documents", _groups(tidied, batch), keep, source, who, progress)

    def _import(
        self,
        kind: str,
        groups: Iterable[list[Any]],
        keep: Callable[[list[Any], int], Imported],
        source: str,
        who: str,
        progress: Progress | None,
    ) -> Imported:
        """Keep each group as one batch; a batch that brings nothing new is left out."""
        total = Imported()
        for group in groups:
            with explained(self.path), writing(self._database):
                row = kind, _word(source, "source"), _word(who, "name of who imports"), _now()
                number = self._insert("INTO batches (kind, source, who, at, count) VALUES (?, ?, ?, ?, 0)", row)
                found = keep(group, number)
                if found.new:
                    self._database.execute("UPDATE batches SET count = ? WHERE id = ?", (found.new, number))
                else:
                    self._database.execute("DELETE FROM batches WHERE id = ?", (number,))
            total += found
            if progress is not None:
                progress(total)
        return total

    def retract(self, number: int, *, who: str) -> StoredFact:
        """Say that a fact is not to be used any more. It stays in the file, with who said so."""
        who = _word(who, "name of who retracts it")
        with explained(self.path), writing(self._database):
            if self.fact(number).retracted_at is None:
                self._mark(number, _now(), who)
            return self.fact(number)

    def restore(self, number: int) -> StoredFact:
        """Take back that a fact was retracted, unless another one says the same by now."""
        with explained(self.path), writing(self._database):
            fact = self.fact(number)
            same = [one.id for one in self._used(fact.question) if key(one.answer) == key(fact.answer)]
            if fact.retracted_at is not None and same:
                raise InputError(f"fact {same[0]} says the same as fact {number}", hint="nothing has to be restored")
            self._mark(number, None, None)
            return self.fact(number)

    def correct(self, number: int, answer: str, *, who: str, source: str) -> Added:
        """Keep another answer to the question of a fact and retract the fact: both, or neither."""
        who, source = _word(who, "name of who corrects it"), _word(source, "source")
        with explained(self.path), writing(self._database):
            fact = self.fact(number)
            pair = _checked(fact.question, answer)
            if fact.retracted_at is not None:
                raise InputError(f"fact {number} is retracted", hint="correct one that is in use")
            if key(pair.answer) == key(fact.answer):
                raise InputError(f"fact {number} says so already: {shorten(fact.answer)}", hint="give another answer")
            self._mark(number, _now(), who)
            return self._keep(pair, source, who, None)

    # Reading

    def fact(self, number: int) -> StoredFact:
        """Return one fact by its number, retracted or not."""
        with explained(self.path):
            found = self._facts("WHERE facts.id = ?", number) if 0 < number <= MOST else []
        if not found:
            raise InputError(f"there is no fact {number}", hint="search for it: the results show the numbers")
        return found[0]

    def answers(self, question: str) -> tuple[StoredFact, ...]:
        """Return the facts that answer a question, ignoring its case or, if there are none, also its accents."""
        question = tidy(question, "question")
        with explained(self.path):
            found = self._used(question)
            if not found:
                found = self._facts("WHERE question_fold = ? AND retracted_at IS NULL", fold(question))
        return tuple(found)

    def documents_naming(self, name: str, limit: int = 50) -> tuple[Document, ...]:
        """Return the texts that hold the name, ignoring case and accents; those that begin with it come first."""
        folded = fold(tidy(name, "name"))
        if not folded:
            return ()
        sought = re.compile(rf"(?<!\w){re.escape(folded)}(?!\w)")
        query = (
            "SELECT id, text, source FROM documents WHERE id IN "
            "(SELECT rowid FROM document_words WHERE document_words MATCH ? LIMIT ?) ORDER BY id"
        )
        with explained(self.path):
            rows = self._database.execute(query, (phrase(folded), 20 * limit)).fetchall() if has_words(folded) else []
        places = [(sought.search(fold(one.text)), one) for one in map(_document, rows)]
        found = sorted(((place.start() > 0, one.id, one) for place, one in places if place), key=lambda it: it[:2])
        return tuple(one for _, _, one in found[:limit])

    def browse(
        self, words: str = "", *, told: bool = False, before: int = MOST, limit: int = 50
    ) -> tuple[StoredFact, ...]:
        """Return facts from the newest to the oldest, retracted ones too, whose numbers lie below `before`.

        `words` selects the facts that contain all of them, ignoring case and accents; `told` those that people added
        one by one. Indexes make this fast, however many facts there are.
        """
        extra, indexed = (" AND facts.batch IS NULL", "INDEXED BY facts_told ") if told else ("", "")
        if words.strip():
            joined = f"{indexed}CROSS JOIN fact_words" if told else "JOIN fact_words"  # the smaller table first
            order = "facts.id" if told else "fact_words.rowid"
            rest = f"{joined} ON fact_words.rowid = facts.id WHERE fact_words MATCH ? AND {order} < ?{extra} "
            rest += f"ORDER BY {order} DESC LIMIT ?"
            values: tuple[object, ...] = (match_all(words), before, limit)
        else:
            rest, values = f"{indexed}WHERE facts.id < ?{extra} ORDER BY facts.id DESC LIMIT ?", (before, limit)
        with explained(self.path):
            return tuple(self._facts(rest, *values))

    def search(self, words: str, limit: int = 20) -> tuple[tuple[StoredFact, ...], tuple[Document, ...]]:
        """Return the facts and texts that hold all these words, best matches first; retracted facts are marked."""
        match = match_all(words)
        if not 1 <= limit <= MOST:
            raise InputError(f"limit must be from 1 to {MOST}, got {limit}", hint="use `limit=1` or more")
        with explained(self.path):
            facts = self._facts(
                "JOIN fact_words ON fact_words.rowid = facts.id WHERE fact_words MATCH ? ORDER BY rank LIMIT ?",
                match,
                limit,
            )
            rows = self._database.execute(
                "SELECT documents.id, documents.text, documents.source FROM documents "
                "JOIN document_words ON document_words.rowid = documents.id "
                "WHERE document_words MATCH ? ORDER BY rank LIMIT ?",
                (match, limit),
            ).fetchall()
        return tuple(facts), tuple(map(_document, rows))

    def facts(self, *, told: bool = False) -> Iterator[StoredFact]:
        """Yield the facts that are not retracted, in order of arrival; with `told`, only those that people told."""
        extra = "AND facts.batch IS NULL " if told else ""
        yield from self._walk(_FACT, "facts", f"retracted_at IS NULL {extra}", _fact)

    def documents(self) -> Iterator[Document]:
        yield from self._walk("id, text, source", "documents", "TRUE ", _document)

    def counts(self) -> dict[str, int]:
        """Return how many facts, told and retracted facts, contradicted questions, documents and batches there are."""
        queries = {
            "facts": "SELECT COUNT(*) FROM facts WHERE retracted_at IS NULL",
            "told": "SELECT COUNT(*) FROM facts WHERE retracted_at IS NULL AND batch IS NULL",
            "retracted": "SELECT COUNT(*) FROM facts WHERE retracted_at IS NOT NULL",
            "contradicted": (
                "SELECT COUNT(*) FROM (SELECT 1 FROM facts WHERE retracted_at IS NULL GROUP BY question_key "
                "HAVING COUNT(DISTINCT answer_key) > 1)"
            ),
            "documents": "SELECT COUNT(*) FROM documents",
            "batches": "SELECT COUNT(*) FROM batches",
        }
        with explained(self.path):
            return {name: self._database.execute(query).fetchone()[0] for name, query in queries.items()}

    def size(self, *, told: bool = False) -> int:
        """Return how many facts there are, retracted ones too; with `told`, only those that people told."""
        where = " WHERE batch IS NULL" if told else ""
        with explained(self.path):
            return int(self._database.execute(f"SELECT COUNT(*) FROM facts{where}").fetchone()[0])

    def check(self) -> list[str]:
        """Return what is wrong with the file; nothing, even after programs that wrote to it were killed."""
        with explained(self.path):
            said = [row[0] for row in self._database.execute("PRAGMA integrity_check")]
            counted = "SELECT COUNT(*) FROM {} WHERE batch = batches.id"
            broken = self._database.execute(
                f"SELECT id FROM batches WHERE count <> ({counted.format('facts')}) + ({counted.format('documents')})"
            ).fetchall()
            for table in ("fact_words", "document_words"):
                self._database.execute(f"INSERT INTO {table} ({table}) VALUES ('integrity-check')")
        return [text for text in said if text != "ok"] + [f"batch {number} is not whole" for (number,) in broken]

    # The statistics of `lookup` on how texts state answers, in the table `habits`

    def reading_statistics(self, template: str) -> Any:
        """Return the statistics kept for a template; None if there are none or something was imported since."""
        with explained(self.path):
            row = self._database.execute(
                "SELECT data FROM habits WHERE template = ? AND batches = (SELECT COUNT(*) FROM batches)", (template,)
            ).fetchone()
        return json.loads(row[0]) if row else None

    def keep_reading_statistics(self, template: str, data: Mapping[str, object]) -> None:
        with explained(self.path), writing(self._database):
            self._database.execute(
                "INSERT OR REPLACE INTO habits VALUES (?, (SELECT COUNT(*) FROM batches), ?)",
                (template, json.dumps(data, ensure_ascii=False)),
            )

    # Helpers that run inside a transaction

    def _keep(self, pair: Pair, source: str, who: str, batch: int | None) -> Added:
        asked, answered, at = key(pair.question), key(pair.answer), _now()
        there = self._used(pair.question)
        for fact in there:
            if key(fact.answer) == answered:
                return Added(fact, "known")
        row = (pair.question, pair.answer, asked, fold(pair.question), answered, source, who, at, batch)
        number = self._insert(
            "INTO facts (question, answer, question_key, question_fold, answer_key, source, who, at, batch) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            row,
        )
        words = number, fold(pair.question), fold(pair.answer)
        self._database.execute("INSERT INTO fact_words (rowid, question, answer) VALUES (?, ?, ?)", words)
        standing: Standing = "contradicts" if there else "new"
        fact = StoredFact(number, pair.question, pair.answer, source, who, at, batch is None)
        return Added(fact, standing, tuple(there))

    def _used(self, question: str) -> list[StoredFact]:
        """Return the facts in use with this question."""
        return self._facts("WHERE question_key = ? AND retracted_at IS NULL", key(question))

    def _mark(self, number: int, at: str | None, who: str | None) -> None:
        """Mark a fact as retracted, or as used."""
        self._database.execute("UPDATE facts SET retracted_at = ?, retracted_by = ? WHERE id = ?", (at, who, number))

    def _keep_document(self, text: str, source: str, batch: int) -> bool:
        digest = hashlib.sha256(text.encode()).digest()[:16]
        done = self._database.execute(
            "INSERT OR IGNORE INTO documents (text, digest, source, batch) VALUES (?, ?, ?, ?)",
            (text, digest, source, batch),
        )
        if done.rowcount == 0:
            return False
        row = done.lastrowid, fold(text)
        self._database.execute("INSERT INTO document_words (rowid, text) VALUES (?, ?)", row)
        return True

    def _insert(self, rest: str, row: Sequence[object]) -> int:
        """Insert a row and return its number."""
        number = self._database.execute(f"INSERT {rest}", row).lastrowid
        assert number is not None
        return number

    def _facts(self, rest: str, *values: object) -> list[StoredFact]:
        return [_fact(row) for row in self._database.execute(f"SELECT {_FACT} FROM facts {rest}", values)]

    def _walk(self, columns: str, table: str, where: str, make: Any) -> Iterator[Any]:
        """Yield rows by their number, some at a time, so that others can write meanwhile."""
        last = 0
        while True:
            query = f"SELECT {columns} FROM {table} WHERE {where}AND {table}.id > ? ORDER BY {table}.id LIMIT {_BATCH}"
            with explained(self.path):
                rows = self._database.execute(query, (last,)).fetchall()
            if not rows:
                return
            for row in rows:
                yield make(row)
            last = rows[-1][0]


def _fact(row: Sequence[Any]) -> StoredFact:
    number, question, answer, source, who, at, told, retracted_at, retracted_by = row
    _require_text(f"fact {number}", question, answer, source, who, at, retracted_at or "", retracted_by or "")
    return StoredFact(number, question, answer, source, who, at, bool(told), retracted_at, retracted_by)


def _document(row: Sequence[Any]) -> Document:
    number, text, source = row
    _require_text(f"document {number}", text, source)
    return Document(number, text, source)


def _require_text(what: str, *values: object) -> None:
    """Refuse what no import writes: SQLite lets any column hold any kind of value."""
    if not all(isinstance(value, str) for value in values):
        raise FileError(
            f"the fact store is damaged: {what} holds something that is no text", hint="go back to a copy of it"
        )


def _checked(question: str, answer: str) -> Pair:
    pair = Pair(tidy(question, "question"), tidy(answer, "answer"))
    if not pair.question or not pair.answer:
        raise InputError(
            f"a fact needs a question and an answer, and has {shorten(question)!r} and {shorten(answer)!r}",
            hint="give both",
        )
    return pair


def _word(text: str, what: str) -> str:
    found = tidy(text, what)
    if not found:
        raise InputError(f"the {what} is empty", hint="say it, so that others can judge the fact")
    return found


def _groups(things: Iterable[Any], size: int) -> Iterator[list[Any]]:
    left = iter(things)
    return iter(lambda: list(islice(left, size)), [])


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
