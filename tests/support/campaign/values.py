"""Command lines with good and bad values for every option of every command, drawn at random."""

from __future__ import annotations

import functools
import random
import typing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from cyclopts import App

from attnlab.cli.app import VERBS, GlobalOptions, build_app
from support.campaign.scenes import COMPARE, LAUNCH, READ, RETROFIT, SMALL_MODEL, TRAIN, Names

HUGE = "99999999999999999999999"
_NUMBERS = ("0", "1", "2", "3", "-1", "7", "1000", HUGE, f"-{HUGE}", "9223372036854775807", "9223372036854775808")
_REALS = ("nan", "inf", "-inf", "1e308", "1e-308", "-0.0", "0.5", "1e400", "0.05", "1e-9")
_TEXTS = (
    *(
        "",
        " ",
        "x",
        "-",
        "--",
        "=",
        "a=b",
        "&",
        "+",
        "a" * 5000,
        "😀",
        "é\u0301",
        "\udc80",
        "\n",
        "$(id)",
        "'; --",
        "\t",
    ),
    *(
        "softmax",
        "tied-kv",
        "sigmoid",
        "window:-1",
        f"window:{HUGE}",
        "window:x",
        "softmax+softmax",
        "a,(b",
        "a*",
        "a*0,b",
    ),
    *(
        "gpt2",
        "fast",
        "nano",
        "25k",
        "0",
        "1e9k",
        "-5k",
        "char",
        "byte",
        "bpe",
        "word",
        "gpt2:nowhere",
        "mqar",
        "world",
    ),
    *("steps=1", "steps=x", "steps=", "model_width=-3", "model_width=17", f"model_width={HUGE}", "num_heads=0"),
    *("learning_rate=nan", "learning_rate=-1", "dropout=1", "dropout=2", "context_length=0", "batch_size=0"),
    *("optimizer=muon", "optimizer=x", "seed=-1", "position=rope", "evaluate_every=0", "pairs=0", "families=0"),
    *("families=-1", f"sentences={HUGE}", "nosuch=1", "validation_rows=-1", "variant=", "corpus=text.txt"),
)
_PATHS = (
    *("", ".", "..", "runs", "nosuch/x.html", "scratch.txt", "text.txt/x", "x" * 300, "loop", "loop/x", "/dev/null"),
    *(
        "/dev/full",
        "/proc/self/mem",
        "new.html",
        "new.json",
        "a\nb",
        "scratch.py",
        "scratch.zip",
        "cache",
        "~",
        "\udc80",
    ),
)
_ENDLESS = ("studio",)
Kind = Literal["int", "float", "str", "path", "flag", "choice"]


@dataclass(frozen=True)
class Option:
    """An option of a command."""

    name: str
    kind: Kind
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Line:
    """A command line. `impossible` says why no program may accept it."""

    tokens: tuple[str, ...]
    impossible: str | None = None
    seconds: float = 25.0


def bases(names: Names) -> dict[str, Sequence[str]]:
    """Return arguments with which each command does something in a moment."""
    read = (*READ, *SMALL_MODEL)
    return {
        "compare": (*COMPARE[1:], *LAUNCH, "--plan"),
        "scale": ("tied-kv", "--corpus", "text.txt", "--rungs", "6k,14k", "--seeds", "2", "--plan", *LAUNCH),
        "variants": ("tied-kv",),
        "check": ("tied-kv", "--quick"),
        "cost": ("nano",),
        "train": (*TRAIN[1:], "--steps", "1"),
        "generate": (names.trained, "a", "--tokens", "2"),
        "look": (names.trained, "--maps-only", "--no-importance"),
        "retrofit": (names.trained, *RETROFIT, "--tokens", "0"),
        "exhibit": ("analogy", "--smoke"),
        "knowledge pretrain": (*read, "--steps", "1"),
        "knowledge finetune": (names.pretrained, "--steps", "1", "--workers", "1", "--threads", "1", "--quiet"),
        "knowledge evaluate": (names.finetuned, "--samples", "2"),
        "knowledge run": (*read, "--heldout-share", "x"),
        "knowledge learn": (names.finetuned, "--epochs", "1", "--quiet"),
        "knowledge report": (names.finetuned, "--samples", "2", "--out", "runs"),
        "knowledge facts import": ("pairs.tsv",),
        "knowledge facts add": ("Who?", "Ada"),
        "knowledge facts search": ("born",),
        "knowledge facts export": ("new.jsonl",),
        "knowledge facts retract": (HUGE,),
        "knowledge facts check": (),
        "ask": (names.finetuned, "Who wrote this?"),
        "runs list": (),
        "runs show": (names.trained,),
        "runs rm": (names.trained,),
        "runs gc": ("--dry-run",),
        "verify": ("run.zip", "--segments", "1"),
        "completion": ("bash",),
        "studio": ("--no-browser", "--port", "0"),
    }


@functools.cache
def options() -> dict[str, tuple[Option, ...]]:
    """Return the options of every command."""
    return {name: tuple(_options(app)) for name, app in _commands(build_app(VERBS, GlobalOptions()))}


def draw_line(chosen: random.Random, names: Names) -> Line:
    """Draw a command with one to three values of its options, and now and then something that is no option."""
    known_commands = bases(names)
    measured = sorted(options().keys() - known_commands.keys())
    command = chosen.choice([*sorted(known_commands) * 2, *measured])
    known = known_commands.get(command)
    words = [*command.split(), *(known or ())]
    impossible = None if known is not None else "a measurement with an impossible option"
    if known is None:
        words += ["--smoke", "--nosuch", "x"]
    elif known and chosen.random() < 0.15:
        words[chosen.randrange(len(command.split()), len(words))] = chosen.choice(_TEXTS)
    wrongs: dict[str, str] = {}  # by the option, of which the last one counts
    for _ in range(chosen.randint(1, 3) if options()[command] else 0):
        option = chosen.choice(options()[command])
        if option.name in {"--yes", "--expose", "--no-browser"}:
            continue
        given, wrong = _draw_value(chosen, option)
        words = [*_without(words, option), *given]
        wrongs[option.name] = f"{' '.join(given)!r} cannot be" if wrong else ""
    impossible = impossible or next(filter(None, wrongs.values()), None)
    if chosen.random() < 0.05:
        words.append(chosen.choice(["--nosuch", "--nosuch=1", "-q"]))
        impossible = impossible or f"{words[-1]} is no option"
    if "--help" in words or "--version" in words or "--" in words:
        impossible = None
    return Line(tuple(words), impossible, seconds=3.0 if command in _ENDLESS else 25.0)


def _without(words: list[str], option: Option) -> list[str]:
    """Return a command line without an option, which may stand there only once; some may be repeated."""
    if option.name in {"--change", "--corpus-option", "--where"}:
        return words
    kept, skip = [], False
    for word in words:
        if skip or word.partition("=")[0] == option.name:
            skip = not skip and word == option.name and option.kind != "flag"
            continue
        kept.append(word)
    return kept


def _draw_value(chosen: random.Random, option: Option) -> tuple[list[str], bool]:
    """Return the words of an option, and whether no program may accept them."""
    match option.kind:
        case "flag":
            return ([f"{option.name}=maybe"], True) if chosen.random() < 0.04 else ([option.name], False)
        case "int" | "float":
            wrong = chosen.random() < 0.1
            pool = ("x", "", "1x", "--1") if wrong else (*_NUMBERS, *(_REALS if option.kind == "float" else ()))
            return [f"{option.name}={chosen.choice(pool)}"], wrong
        case "choice":
            wrong = chosen.random() < 0.15
            return [f"{option.name}={'x' if wrong else chosen.choice(option.choices)}"], wrong
        case "path":
            return [f"{option.name}={chosen.choice(_PATHS)}"], False
    return [f"{option.name}={chosen.choice(_TEXTS)}"], False


def _commands(app: App, chain: tuple[str, ...] = ()) -> Iterator[tuple[str, App]]:
    names = [name for name in app if not name.startswith("-")]
    if chain and not names:
        yield " ".join(chain), app
    for name in names:
        yield from _commands(app[name], (*chain, name))


def _options(app: App) -> Iterator[Option]:
    for argument in app.assemble_argument_collection():
        for name in argument.names:
            if name.startswith("--"):
                kinds = {*_kinds(argument.hint)}
                choices = tuple(str(one) for one in _choices(argument.hint))
                kind: Kind = "choice" if choices else "str"
                for found in ("flag", "path", "float", "int"):
                    if found in kinds and not choices and "str" not in kinds:
                        kind = typing.cast(Kind, found)
                yield Option(name, kind, choices)


def _kinds(hint: Any) -> Iterator[str]:
    """Yield the kinds of values in a type."""
    names = {bool: "flag", int: "int", float: "float", str: "str", Path: "path"}
    if hint in names:
        yield names[hint]
    for part in typing.get_args(hint):
        yield from _kinds(part)


def _choices(hint: Any) -> Iterator[object]:
    if typing.get_origin(hint) is Literal:
        yield from typing.get_args(hint)
        return
    for part in typing.get_args(hint):
        yield from _choices(part)
