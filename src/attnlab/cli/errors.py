"""Errors as the command line prints them.

The other packages name parameters in backticks: `pilot=3`, `rungs`. If the running command has an option of that name,
it is printed as one: `--pilot 3`, `--rungs`. Any other text is unchanged.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Collection, Sequence
from contextvars import ContextVar
from difflib import get_close_matches

from cyclopts import App, CycloptsError, UnknownCommandError, UnusedCliTokensError
from rich.console import Console
from rich.text import Text

from attnlab.errors import AttnlabError, UnknownNameError

_PARAMETER = re.compile(r"`([a-z][a-z0-9_]*)(?:=([^`]+))?`")
# Parameters whose option has a different name, in the commands that have that option.
_RENAMED = {
    "batch_size": "batch",
    "bytes_per_number": "number-bytes",
    "changes": "change",
    "context_length": "context",
    "corpora": "corpus",
    "corpus_options": "corpus-option",
    "vocabulary_size": "vocabulary",
}
_EVERYWHERE = ("--help", "--verbose", "--version")
_running: ContextVar[tuple[App, Sequence[str]] | None] = ContextVar("the running command", default=None)


def set_running(app: App | None, tokens: Sequence[str] = ()) -> None:
    """Remember the command line whose options errors are printed with."""
    _running.set(None if app is None else (app, tokens))


def given_options() -> frozenset[str]:
    """Return the parameters whose options stand in the running command line, such as `corpus_option`."""
    tokens = () if (running := _running.get()) is None else running[1]
    options = (token.partition("=")[0] for token in tokens if token.startswith("--"))
    return frozenset(option.removeprefix("--").replace("-", "_") for option in options)


def with_options(text: str) -> str:
    """Return a text with its parameters as options of the running command."""
    running = _running.get()
    if running is None or "`" not in text:
        return text
    app, tokens = running
    try:
        command = app.parse_commands(tokens)[1][-1]
        options = options_of(command)
    except (CycloptsError, ValueError):  # a command line that names no command
        return text
    return translate(text, options)


def options_of(command: App) -> frozenset[str]:
    """Return the names of all options of a command, such as --seeds and --no-half-tokens."""
    arguments = command.assemble_argument_collection()
    return frozenset(name for argument in arguments for name in argument.names if name.startswith("--"))


def translate(text: str, options: Collection[str]) -> str:
    """Return a text in which `name=value` is `--name value` where there is such an option."""

    def written(match: re.Match[str]) -> str:
        name, value = match[1], match[2]
        stems = [name.replace("_", "-"), *([_RENAMED[name]] if name in _RENAMED else [])]
        stem = next((stem for stem in stems if f"--{stem}" in options), None)
        if stem is None or value == "None":
            return match[0]
        if value == "False":
            return f"`--no-{stem}`" if f"--no-{stem}" in options else match[0]
        if value is None or value == "True":
            return f"`--{stem}`"
        return f"`--{stem} {_unquoted(value)}`"

    return _PARAMETER.sub(written, text)


def _unquoted(value: str) -> str:
    quoted = len(value) > 2 and value[0] in "'\"" and value[0] == value[-1]
    return value[1:-1] if quoted and " " not in value else value


def print_error(error: AttnlabError, cause: BaseException | None = None) -> None:
    """Print an error and its hint to stderr, after the traceback of `cause` if there is one."""
    if cause is not None:
        traceback.print_exception(cause)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(Text.assemble(("error:", "bold red"), f" {with_options(error.message)}"))
    if error.hint is not None:
        console.print()
        console.print(Text.assemble(("hint:", "bold cyan"), f" {with_options(error.hint)}"))


def explain_usage(error: CycloptsError) -> AttnlabError:
    """Return what cyclopts says about a command line, in the form of our own errors."""
    command = " ".join(["attnlab", *(error.command_chain or ())])
    hint = f"`{command} --help` shows what can be given"
    if isinstance(error, UnknownCommandError) and error.unused_tokens:
        # cyclopts would import every command to find the nearest name.
        name = error.unused_tokens[0]
        known = [command for command in error.app or () if not command.startswith("-")]
        if name.startswith("-"):
            close = get_close_matches(name.partition("=")[0], _EVERYWHERE, n=1)
            return AttnlabError(
                f"there is no option called {name!r}", hint=f"did you mean {close[0]}?" if close else hint
            )
        return UnknownNameError("command", name, known)
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return AttnlabError(f"too many arguments: {' '.join(error.unused_tokens)}", hint=hint)
    error.verbose = False
    message, _, suggestion = str(error).partition(" Did you mean ")
    if suggestion:
        hint = f"did you mean {suggestion}"
    return AttnlabError(message[:1].lower() + message[1:].removesuffix("."), hint=hint)
