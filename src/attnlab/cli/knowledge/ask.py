"""Ask a model; the reply says whether the answer was recalled, looked up or unknown."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text

from attnlab.cli.errors import print_error
from attnlab.cli.knowledge.facts import author, tell_added
from attnlab.cli.options import RUNS, Flag, JsonFlag, RunsFolder
from attnlab.cli.printing import say, show, show_json
from attnlab.errors import AttnlabError, InputError
from attnlab.formats import fixed, percent
from attnlab.knowledge.answers.guarantee import ScoreName
from attnlab.knowledge.asker import DEFAULT_STORE, Asker, Origin, Reply
from attnlab.knowledge.pairs import Pair, read_pairs
from attnlab.pages import Table
from attnlab.runs.ledger import find_run
from attnlab.statistics import clopper_pearson

_STYLES: dict[Origin, str] = {"recalled": "bold green", "looked up": "bold cyan", "unknown": "bold yellow"}
_SHOWN = 3  # pieces of evidence


def ask(
    run: str,
    question: str | None = None,
    /,
    *,
    risk: float | None = None,
    delta: float | None = None,
    score: ScoreName | None = None,
    facts: Path = DEFAULT_STORE,
    only_memory: Flag = False,
    pairs: Path | None = None,
    who: str | None = None,
    out: RunsFolder = RUNS,
    as_json: JsonFlag = False,
) -> None:
    """Ask a finetuned model. It answers from memory if it is confident, else from the fact store, or says “unknown”.

    "Sure enough" is a threshold that is set on pairs kept for nothing else, to a risk that you name. Without a question
    it asks you for some, and what you know better is kept with your name, the date and the source; what is piped in is
    answered line by line.

    Parameters
    ----------
    run
        A finetuned run.
    question
        The question.
    risk
        The share of wrong answers from memory that is tolerated; 0.05, or what was set last.
    delta
        The chance with which that may fail; 0.1, or what was set last.
    score
        The confidence: probability, length_normalised or agreement (over drawn answers; slower).
    facts
        The fact store, to look up and to keep.
    only_memory
        Look nothing up, and keep nothing.
    pairs
        Ask all questions of this file, and count how many replies are right.
    who
        Who you are, for what is kept; by default who is logged in.
    as_json
        Print it as JSON, and never ask back.
    """
    if question is not None and pairs is not None:
        raise InputError("a question and --pairs exclude each other", hint="leave one of them out")
    known = None if pairs is None else read_pairs(pairs)
    path = find_run(run, out)
    with Asker.open(path, None if only_memory else facts, risk=risk, delta=delta, score=score) as asker:
        if known is not None:
            _score(asker, known.pairs, as_json)
        elif question is not None:
            _answer(asker, question, as_json, who)
        elif as_json or not sys.stdin.isatty():
            _answer_lines(asker, as_json)
        else:
            _converse(asker, who)


def _answer(asker: Asker, question: str, as_json: bool, who: str | None) -> None:
    reply = asker.ask(question)
    if as_json:
        show_json({**reply.to_dict(), "guarantee": _promise(asker)})
        return
    _show(reply)
    if reply.origin == "recalled":
        say(f"\n{asker.guarantee.promise}")
    if reply.origin == "unknown" and sys.stdin.isatty() and asker.store is not None:
        _ask_back(asker, reply, who)


def _answer_lines(asker: Asker, as_json: bool) -> None:
    """Answer what is piped in; bytes that are no text become a question that has no answer."""
    questions = [line.strip() for line in sys.stdin if line.strip()]
    if not questions:
        raise AttnlabError("there is no question", hint="give one, pipe in some, or call it from a terminal")
    replies = asker.ask_all(questions)
    if as_json:
        show_json({"replies": [reply.to_dict() for reply in replies], "guarantee": _promise(asker)})
        return
    for reply in replies:
        _show(reply, with_question=True)
    say(f"\n{asker.guarantee.promise}")


def _converse(asker: Asker, who: str | None) -> None:
    say(f"{asker.guarantee.promise}\n\nAn empty line ends it.")
    while True:
        question = _line("\n? ")
        if not question:
            return
        try:
            reply = asker.ask(question)
            _show(reply)
            if reply.origin == "unknown" and asker.store is not None:
                _ask_back(asker, reply, who)
        except AttnlabError as error:  # one bad question does not end the session
            print_error(error)


def _ask_back(asker: Asker, reply: Reply, who: str | None) -> None:
    """Ask the person, and keep what they say."""
    answer = _line("Do you know? The answer, or an empty line: ")
    if not answer:
        return
    source = _line("How do you know it? (an empty line: you just do) ")
    tell_added(asker.keep(reply.question, answer, who=author(who), source=source or "told"))


def _line(prompt: str) -> str:
    """Return a line that is typed; the end of the input is an empty one."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    return sys.stdin.readline().strip()


def _show(reply: Reply, *, with_question: bool = False) -> None:
    if with_question:
        show(f"? {reply.question}")
    style = _STYLES[reply.origin]
    if reply.answer is None:
        show(Text("I do not know.", style=style))
    else:
        show(Text.assemble((reply.answer, style), f"  {reply.origin}"))
    for one in reply.evidence[:_SHOWN] if reply.origin != "recalled" else ():
        origin = ", ".join(part for part in (one.source, one.who, (one.at or "")[:10]) if part)
        show(f"  “{one.quote}” ({origin})" if one.quote else f"  {one.answer} ({origin})")
        if one.precision is not None:
            show(f"  readings of this kind were right in {percent(one.precision)} of known cases")
    show(f"  {_memory(reply)}")
    for note in reply.notes:
        show(f"  note: {note}")


def _memory(reply: Reply) -> str:
    """Return the answer from the model's memory, with its confidence."""
    if reply.threshold is None:
        return f"from memory: {reply.said or 'nothing'} (confidence {fixed(reply.confidence)}; no threshold is safe)"
    comparison = "≥" if reply.confidence >= reply.threshold else "<"
    numbers = f"confidence {fixed(reply.confidence)} {comparison} threshold {fixed(reply.threshold)}"
    return numbers if reply.origin == "recalled" else f"from memory: {reply.said or 'nothing'} ({numbers})"


def _score(asker: Asker, pairs: Sequence[Pair], as_json: bool) -> None:
    """Ask many questions whose answers are known, and count."""
    replies = asker.ask_all([pair.question for pair in pairs])
    counts: Counter[tuple[str, bool]] = Counter(
        (reply.origin, reply.answer == pair.answer) for reply, pair in zip(replies, pairs, strict=True)
    )
    table = {origin: (counts[origin, True], counts[origin, False]) for origin in ("recalled", "looked up")}
    right, wrong = (sum(row[place] for row in table.values()) for place in (0, 1))
    unknown = len(pairs) - right - wrong
    if as_json:
        rows = [
            {**reply.to_dict(), "expected": pair.answer, "right": reply.answer == pair.answer}
            for reply, pair in zip(replies, pairs, strict=True)
        ]
        sums = {"questions": len(pairs), "right": right, "wrong": wrong, "unknown": unknown}
        origins = {name: {"right": row[0], "wrong": row[1]} for name, row in table.items()}
        show_json({**sums, "by_origin": origins, "guarantee": _promise(asker), "replies": rows})
        return
    lines = [[name, str(row[0]), str(row[1]), ""] for name, row in table.items()]
    lines.append(["in all", str(right), str(wrong), str(unknown)])
    lines.append(["95 % interval", *(_interval(number, len(pairs)) for number in (right, wrong, unknown))])
    show(Table((f"{len(pairs)} questions", "right", "wrong", "unknown"), lines, wrap_columns=(0,)))
    say(f"\n{asker.guarantee.promise}")


def _interval(number: int, count: int) -> str:
    found = clopper_pearson(number, count)
    return f"{fixed(100 * found.low, 1)}–{percent(found.high, 1)}"


def _promise(asker: Asker) -> dict[str, object]:
    found = asker.guarantee
    return {**found.model_dump(mode="json"), "words": found.promise}
