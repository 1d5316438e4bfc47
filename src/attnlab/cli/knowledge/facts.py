"""`attnlab knowledge facts …`: what is looked up."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter
from rich.console import Console
from rich.text import Text

from attnlab.cli.options import Json
from attnlab.cli.printing import say, show, show_json
from attnlab.errors import AttnlabError
from attnlab.knowledge.asker import DEFAULT_STORE
from attnlab.knowledge.store.files import FileKind, export_lines, export_pairs, import_file
from attnlab.knowledge.store.schema import Added
from attnlab.knowledge.store.store import FactStore, Progress
from attnlab.pages import Table
from attnlab.storage.files import check_writable, write_whole

StoreFile = Annotated[Path, Parameter(help="The store.")]
NewStoreFile = Annotated[Path, Parameter(help="The store, which is made if it does not exist.")]
Author = Annotated[str | None, Parameter(help="Who says so; by default who is logged in.")]

facts = App(name="facts", help="Keep and find facts: what `attnlab ask` looks up when the model does not know.")


def author(who: str | None) -> str:
    """Return who says something: as given, or who is logged in."""
    if who is not None:
        return who
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return "unknown"


@facts.command(name="import")
def import_facts(
    *files: Annotated[Path, Parameter(name="FILE")],
    store: NewStoreFile = DEFAULT_STORE,
    kind: FileKind | None = None,
    source: str | None = None,
    who: Author = None,
    as_json: Json = False,
) -> None:
    """Put files into a store: pairs (.tsv), plain text with a document on each line, or what `export` wrote (.jsonl).

    Nothing is overwritten: a fact that contradicts another is kept beside it, and you are told. What is there already
    is passed over, so the same command resumes after any interruption.

    Parameters
    ----------
    files
        The files.
    kind
        What the files hold, if their names do not say so: pairs, text, or lines (of JSON).
    source
        What to quote as the source; by default the name of the file.
    """
    if not files:
        raise AttnlabError("no file is named", hint="name files of pairs or of text")
    found = {}
    with FactStore(store) as opened:
        for file in files:
            with _counting(file) as progress:
                total = import_file(opened, file, who=author(who), source=source, kind=kind, progress=progress)
            found[str(file)] = total
        counts = opened.counts()
    if as_json:
        imported = {
            name: {
                "new": total.new,
                "known": total.known,
                "contradictions": total.contradictions,
                "examples": [{"fact": one.fact, "others": one.others} for one in total.examples],
            }
            for name, total in found.items()
        }
        show_json({"store": store, "files": imported, **counts})
        return
    rows = [
        [name, *(str(one) for one in (total.new, total.known, total.contradictions))] for name, total in found.items()
    ]
    show(Table(("file", "new", "known", "contradict others"), rows, wrap_columns=(0,)))
    for total in found.values():
        for added in total.examples:
            say(_contradiction(added))
    say(f"{store} holds {counts['facts']} facts and {counts['documents']} documents")


@facts.command
def add(
    question: str,
    answer: str,
    /,
    *,
    source: str = "told",
    store: NewStoreFile = DEFAULT_STORE,
    who: Author = None,
    as_json: Json = False,
) -> None:
    """Add one fact.

    Parameters
    ----------
    question
        The question.
    answer
        Its answer.
    source
        How it is known.
    """
    with FactStore(store) as opened:
        added = opened.add(question, answer, who=author(who), source=source)
    _show_added(added, as_json)


@facts.command
def search(*words: str, store: StoreFile = DEFAULT_STORE, limit: int = 10, as_json: Json = False) -> None:
    """Find facts and texts that contain all the words, ignoring case and accents.

    Parameters
    ----------
    words
        Names or other words.
    limit
        Show at most so many facts, and so many texts.
    """
    with FactStore(store, create=False) as opened:
        found, texts = opened.search(" ".join(words), limit)
    if as_json:
        show_json({"facts": found, "documents": texts})
        return
    if found:
        rows = []
        for one in found:
            standing = "retracted" if one.retracted_at else ""
            rows.append([str(one.id), one.question, one.answer, one.source, one.who, one.at[:10], standing])
        headings = ("fact", "question", "answer", "source", "who", "when", "")
        show(Table(headings, rows, text_columns=range(7), wrap_columns=(1, 2, 3)))
    for document in texts:
        show(f"“{document.text}” ({document.source})")
    if not found and not texts:
        say("nothing holds all of these words")


@facts.command
def export(
    file: Path | None = None, /, *, store: StoreFile = DEFAULT_STORE, form: Literal["lines", "pairs"] = "lines"
) -> None:
    """Export all facts and texts that are in use, to a file or to stdout.

    Parameters
    ----------
    file
        The file; stdout if not said.
    form
        lines: JSON lines with everything, which `import` reads; pairs: question, answer and source with tabs.
    """
    if file is not None:
        check_writable(file)
    with FactStore(store, create=False) as opened:
        lines = export_lines(opened) if form == "lines" else export_pairs(opened)
        if file is None:
            for line in lines:
                sys.stdout.write(f"{line}\n")
            return
        write_whole(file, "".join(f"{line}\n" for line in lines))
    say(f"wrote {file}")


@facts.command
def retract(fact: int, /, *, store: StoreFile = DEFAULT_STORE, who: Author = None, as_json: Json = False) -> None:
    """Retract a fact, so that it is no longer used. The file keeps it, with who retracted it and when.

    Parameters
    ----------
    fact
        Its number, as `search` shows it.
    """
    with FactStore(store, create=False) as opened:
        before = opened.fact(fact)
        found = opened.retract(fact, who=author(who))
    if as_json:
        show_json(found)
        return
    show(f"{'no longer used' if before.retracted_at is None else 'already retracted'}: {found}")


@facts.command
def restore(fact: int, /, *, store: StoreFile = DEFAULT_STORE, as_json: Json = False) -> None:
    """Use a fact again that was retracted.

    Parameters
    ----------
    fact
        Its number, as `search` shows it.
    """
    with FactStore(store, create=False) as opened:
        before = opened.fact(fact)
        found = opened.restore(fact)
    if as_json:
        show_json(found)
        return
    show(f"{'in use' if before.retracted_at is None else 'used again'}: {found}")


@facts.command
def correct(
    fact: int,
    answer: str,
    /,
    *,
    source: str = "told",
    store: StoreFile = DEFAULT_STORE,
    who: Author = None,
    as_json: Json = False,
) -> None:
    """Give another answer to the question of a fact, and retract the fact.

    Parameters
    ----------
    fact
        Its number, as `search` shows it.
    answer
        The right answer.
    source
        How it is known.
    """
    with FactStore(store, create=False) as opened:
        added = opened.correct(fact, answer, who=author(who), source=source)
    _show_added(added, as_json)


@facts.command
def check(*, store: StoreFile = DEFAULT_STORE, as_json: Json = False) -> int:
    """Check that a store is sound and holds whole batches only; exit code 1 if not."""
    with FactStore(store, create=False) as opened:
        problems, counts = opened.check(), opened.counts()
    if as_json:
        show_json({"sound": not problems, "problems": problems, **counts})
    else:
        show(Table(("", ""), [(name, str(number)) for name, number in counts.items()]))
        show(*problems) if problems else show("sound")
    return int(bool(problems))


def _show_added(added: Added, as_json: bool) -> None:
    if as_json:
        show_json({"standing": added.standing, "fact": added.fact, "others": added.others})
    else:
        tell_added(added)


def tell_added(added: Added) -> None:
    """Print what became of a fact."""
    known = "known already" if added.standing == "known" else "kept"
    show(f"{known} as fact {added.fact.id}: {added.fact}")
    if added.standing == "contradicts":
        say(_contradiction(added))


def _contradiction(added: Added) -> str:
    others = "; ".join(f"fact {one.id}: {one.answer} ({one.source}; {one.who}, {one.at[:10]})" for one in added.others)
    return (
        f"note: {added.fact.question} {added.fact.answer} (fact {added.fact.id}) contradicts {others}. Both are kept; "
        "`attnlab knowledge facts retract NUMBER` settles it"
    )


@contextmanager
def _counting(file: Path) -> Iterator[Progress]:
    """Show the progress of an import: a line that changes in a terminal, nothing elsewhere."""
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status(Text(f"importing {file}")) as status:
        yield lambda total: status.update(Text(f"importing {file}: {total.new + total.known}"))
