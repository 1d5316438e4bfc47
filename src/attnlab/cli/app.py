"""The commands, and `main`, which runs one and returns an exit code.

    0    success; a command may also return other codes
    1    a bug in attnlab, or the reader of its output has closed the pipe
    2    an invalid request: an `AttnlabError`, or a command line that cannot be parsed
    130  interrupted from the keyboard
    143  ended by SIGTERM

Data goes to stdout, everything else to stderr.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from signal import SIGINT, SIGTERM
from typing import Annotated, Any

from cyclopts import App, CycloptsError, Parameter

import attnlab
from attnlab.cli.errors import explain_usage, print_error, set_running
from attnlab.cli.examples import add_example, print_overview
from attnlab.cli.terminal import discard_output, explain_failure, prepared
from attnlab.errors import AttnlabError, Terminated

# To add a verb, write `cli/commands/<verb>.py` with a function of the verb's name, and add its path here. The
# function's parameters are the verb's arguments and options, its docstring is the help, and it returns None or an exit
# code. A verb with subcommands is a cyclopts `App(name="<verb>")` instead of a function, and its help is the docstring
# of its file. The file is imported only when its verb is called, so it may import heavy packages.
VERBS: tuple[str, ...] = (
    "attnlab.cli.commands.compare:compare",
    "attnlab.cli.commands.scale:scale",
    "attnlab.cli.commands.variants:variants",
    "attnlab.cli.commands.check:check",
    "attnlab.cli.commands.cost:cost",
    "attnlab.cli.commands.train:train",
    "attnlab.cli.commands.generate:generate",
    "attnlab.cli.commands.look:look",
    "attnlab.cli.retrofit:retrofit",
    "attnlab.cli.commands.exhibit:exhibit",
    "attnlab.cli.knowledge.commands:knowledge",
    "attnlab.cli.knowledge.ask:ask",
    "attnlab.cli.commands.runs:runs",
    "attnlab.cli.verify:verify",
    "attnlab.cli.commands.studio:studio",
    "attnlab.cli.commands.bench:bench",
    "attnlab.cli.completion:completion",
)


@dataclass
class GlobalOptions:
    """The options that every command has."""

    verbose: bool = False


def main(tokens: Sequence[str] | None = None, *, verbs: Sequence[str] = VERBS) -> int:
    """Run one command line (by default that of this process), without the program's name, and return its exit code."""
    try:
        with prepared():
            return _run(sys.argv[1:] if tokens is None else tokens, verbs)
    except KeyboardInterrupt as interrupt:  # before the command started, or after it ended
        return _tell_interrupted(interrupt)


def _run(tokens: Sequence[str], verbs: Sequence[str]) -> int:
    options = GlobalOptions()
    set_running(None)
    app = build_app(verbs, options)
    try:
        add_example(app, tokens)
        # cyclopts passes an exit code on; with these settings it raises its errors instead of printing them.
        code: int = app.meta(tokens, print_error=False, exit_on_error=False)
        sys.stdout.flush()
    except AttnlabError as error:
        print_error(error, error if options.verbose else None)
        return error.exit_code
    except CycloptsError as error:
        print_error(explain_usage(error), error if options.verbose else None)
        return 2
    except KeyboardInterrupt as interrupt:
        if options.verbose:
            traceback.print_exception(interrupt)
        return _tell_interrupted(interrupt)
    except BrokenPipeError:
        discard_output()  # the reader closed the pipe, as `head` does
        return 1  # as rich does when it notices the closed pipe first
    except Exception as error:
        explained = explain_failure(error)
        if explained is not None:
            discard_output()
            print_error(explained, error if options.verbose else None)
            return explained.exit_code
        explained = AttnlabError(
            f"attnlab failed in a way it should not: {type(error).__name__}: {error}",
            hint="with --verbose, the same command shows where it happened",
        )
        print_error(explained, error if options.verbose else None)
        return 1
    return code


def _tell_interrupted(interrupt: KeyboardInterrupt) -> int:
    """Print what became of an interrupted command, and return its exit code."""
    what = "terminated" if isinstance(interrupt, Terminated) else "interrupted"
    print(": ".join([what, *map(str, interrupt.args)]), file=sys.stderr)
    return 128 + (SIGTERM if isinstance(interrupt, Terminated) else SIGINT)


def build_app(verbs: Sequence[str], options: GlobalOptions) -> App:
    """Return the cyclopts app with `verbs`. Its `meta` app is the one to call: that fills `options` first."""
    app = App(
        name="attnlab",
        help=attnlab.__doc__.splitlines()[0] if attnlab.__doc__ else "",
        help_format="plaintext",
        version=attnlab.__version__,
        result_action="return_int_as_exit_code_else_zero",
        suppress_keyboard_interrupt=False,
    )
    app.meta.suppress_keyboard_interrupt = False  # not inherited from the app
    for target in verbs:
        app.command(target, help=_read_docstring(target))

    @app.meta.default
    def launch(
        *tokens: Annotated[str, Parameter(show=False, allow_leading_hyphen=True)],
        verbose: Annotated[bool, Parameter(group="Everywhere", negative="", show_default=False)] = False,
    ) -> Any:
        """Take the options that belong to no command, and pass the rest on.

        Parameters
        ----------
        verbose
            Show where an error came from.
        """
        options.verbose = verbose
        if not tokens:
            print_overview(
                str(app.help), {_name(target): _read_docstring(target).partition("\n")[0] for target in verbs}
            )
            return 0
        set_running(app, tokens)
        return app(tokens, print_error=False, exit_on_error=False)

    return app


def _name(target: str) -> str:
    return target.partition(":")[2].replace("_", "-")


def _read_docstring(target: str) -> str:
    """Return the docstring of "module:function", or else of the module, read from the source so as not to import it."""
    module_name, _, name = target.partition(":")
    spec = importlib.util.find_spec(module_name)
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError(f"there is no module {module_name!r} for the verb {target!r}", name=module_name)
    module = ast.parse(Path(spec.origin).read_bytes())
    for node in module.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return ast.get_docstring(node) or ""
    return ast.get_docstring(module) or ""
