"""What all verbs share: finding them, and turning whatever goes wrong into text and an exit code.

    0    the verb did what it was asked, or ended with this code of its own
    1    a defect of attnlab, or nobody was left to read what it printed
    2    something about the request: an `AttnlabError`, or a command line that cannot be understood
    130  interrupted from the keyboard

Data goes to stdout, everything else to stderr.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter, UnknownCommandError, UnusedCliTokensError
from rich.console import Console
from rich.text import Text

import attnlab
from attnlab.errors import AttnlabError, UnknownNameError

# To add a verb, write `cli/<verb>.py` with a function of the verb's name, and add "attnlab.cli.<verb>:<verb>" here.
# The function's parameters are the verb's arguments and options, its docstring is the help, and it returns None or an
# exit code. A verb that has verbs of its own is a cyclopts `App(name="<verb>")` instead of a function, and its help is
# the docstring of its file. The file is imported only when its verb is called, so it may import what it likes.
VERBS: tuple[str, ...] = (
    "attnlab.cli.compare:compare",
    "attnlab.cli.scale:scale",
    "attnlab.cli.variants:variants",
    "attnlab.cli.cost:cost",
    "attnlab.cli.train:train",
    "attnlab.cli.generate:generate",
    "attnlab.cli.look:look",
    "attnlab.cli.exhibit:exhibit",
    "attnlab.cli.knowledge:knowledge",
    "attnlab.cli.ask:ask",
    "attnlab.cli.runs:runs",
    "attnlab.cli.studio:studio",
    "attnlab.cli.bench:bench",
)


@dataclass
class GlobalOptions:
    """What may be given with every verb."""

    verbose: bool = False


def main(tokens: Sequence[str] | None = None, *, verbs: Sequence[str] = VERBS) -> int:
    """Run one command line (by default that of this process), without the program's name, and return its exit code."""
    options = GlobalOptions()
    app = build_app(verbs, options)
    try:
        # cyclopts passes an exit code on; with these settings it raises its errors instead of printing them.
        code: int = app.meta(sys.argv[1:] if tokens is None else tokens, print_error=False, exit_on_error=False)
        sys.stdout.flush()
    except AttnlabError as error:
        return _fail(error, error, 2, verbose=options.verbose)
    except CycloptsError as error:
        return _fail(_explain_usage(error), error, 2, verbose=options.verbose)
    except KeyboardInterrupt as interrupt:
        if options.verbose:
            traceback.print_exception(interrupt)
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader left, as `head` does. Python flushes stdout once more when it ends; let that go nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1  # as rich does when it notices first
    except Exception as error:
        explained = AttnlabError(
            f"attnlab failed in a way it should not: {type(error).__name__}: {error}",
            hint="with --verbose, the same command shows where it happened",
        )
        return _fail(explained, error, 1, verbose=options.verbose)
    return code


def build_app(verbs: Sequence[str], options: GlobalOptions) -> App:
    """The cyclopts app with `verbs`. Its `meta` app is the one to call: that fills `options` first."""
    app = App(
        name="attnlab",
        help=attnlab.__doc__.splitlines()[0] if attnlab.__doc__ else "",
        help_format="plaintext",
        version=attnlab.__version__,
        result_action="return_int_as_exit_code_else_zero",
        suppress_keyboard_interrupt=False,
    )
    app.meta.suppress_keyboard_interrupt = False  # which it does not take over from the app
    for target in verbs:
        app.command(target, help=_read_docstring(target))

    @app.meta.default
    def launch(
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        verbose: Annotated[bool, Parameter(group="Everywhere", negative="", show_default=False)] = False,
    ) -> Any:
        """Take the options that belong to no verb, and hand the rest on.

        Parameters
        ----------
        verbose
            Show where an error came from.
        """
        options.verbose = verbose
        return app(tokens, print_error=False, exit_on_error=False)

    return app


def _read_docstring(target: str) -> str:
    """The docstring of "module:function", or else of the module, read from the source so as not to import it."""
    module_name, _, name = target.partition(":")
    spec = importlib.util.find_spec(module_name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"there is no module {module_name!r} for the verb {target!r}", name=module_name)
    module = ast.parse(Path(spec.origin).read_bytes())
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return ast.get_docstring(node) or ""
    return ast.get_docstring(module) or ""


def _explain_usage(error: CycloptsError) -> AttnlabError:
    """What cyclopts says about a command line, in the form of our own errors."""
    command = " ".join(["attnlab", *(error.command_chain or ())])
    hint = f"`{command} --help` shows what can be given"
    if isinstance(error, UnknownCommandError) and error.unused_tokens:
        # cyclopts would import every verb to find the nearest name.
        name = error.unused_tokens[0]
        known = [command for command in error.app or () if not command.startswith("-")]
        if name.startswith("-"):
            return AttnlabError(f"there is no option called {name!r}", hint=hint)
        return UnknownNameError("command", name, known)
    if isinstance(error, UnusedCliTokensError) and error.unused_tokens:
        return AttnlabError(f"too many arguments: {' '.join(error.unused_tokens)}", hint=hint)
    error.verbose = False
    message, _, suggestion = str(error).partition(" Did you mean ")
    if suggestion:
        hint = f"did you mean {suggestion}"
    return AttnlabError(message[:1].lower() + message[1:].removesuffix("."), hint=hint)


def _fail(explained: AttnlabError, error: Exception, code: int, *, verbose: bool) -> int:
    """Print `explained` to stderr, after the traceback of `error` if that is wanted, and return `code`."""
    if verbose:
        traceback.print_exception(error)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(Text.assemble(("error:", "bold red"), f" {explained.message}"))
    if explained.hint is not None:
        console.print()
        console.print(Text.assemble(("hint:", "bold cyan"), f" {explained.hint}"))
    return code
