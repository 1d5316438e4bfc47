"""What `main` does with a command line, with errors, and with the two streams."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from textwrap import dedent

import pytest

import attnlab
from attnlab.cli import main
from attnlab.cli.app import VERBS

Run = Callable[..., tuple[int, str, str]]

# The file of a verb that exists in these tests only. It can do everything that a verb can do wrong.
THROWAWAY = '''
import torch

from attnlab.errors import AttnlabError, UnknownNameError


def throwaway(what: str = "nothing", *, count: int = 1, colour: bool = False) -> int | None:
    """Do something, or fail at it.

    This is the longer story.

    Parameters
    ----------
    what
        Which of the things to do.
    """
    match what:
        case "plain":
            raise AttnlabError("the width 7 is odd")
        case "hint":
            raise UnknownNameError("variant", "sofmax", ["softmax", "sigmoid"])
        case "brackets":
            raise AttnlabError("[bold]q[/bold] has shape [2, 3], " + "x" * 200)
        case "defect":
            raise KeyError("lost")
        case "interrupt":
            raise KeyboardInterrupt
        case "flood":
            for _ in range(100_000):
                print("a line of data")
        case "code":
            return 3
        case _:
            print(f"{what} {count}")
    return None
'''


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `attnlab` with the throw-away verb in this process; gives exit code, stdout and stderr."""
    (tmp_path / "throwaway.py").write_text(THROWAWAY, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "throwaway", raising=False)
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "120")

    def run(*tokens: str) -> tuple[int, str, str]:
        code = main(tokens, verbs=["throwaway:throwaway"])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


def start(folder: Path, code: str) -> subprocess.Popen[str]:
    """Run Python code that can import the throw-away verb in a process of its own."""
    (folder / "throwaway.py").write_text(THROWAWAY, encoding="utf-8")
    command = [sys.executable, "-c", dedent(code)]
    return subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_verb_prints_data_on_stdout(run: Run) -> None:
    assert run("throwaway", "something", "--count", "2") == (0, "something 2\n", "")


def test_a_verb_chooses_its_exit_code(run: Run) -> None:
    assert run("throwaway", "code") == (3, "", "")


def test_version(run: Run) -> None:
    assert run("--version") == (0, f"{attnlab.__version__}\n", "")


@pytest.mark.parametrize("tokens", [[], ["--help"], ["-h"]])
def test_help_lists_the_verbs(run: Run, tokens: list[str]) -> None:
    code, out, err = run(*tokens)
    assert (code, err) == (0, "")
    assert "what it does to GPT-2." in out
    assert "throwaway" in out
    assert "Do something, or fail at it." in out
    assert "longer story" not in out
    assert "--verbose" in out


def test_help_of_a_verb(run: Run) -> None:
    code, out, err = run("throwaway", "--help")
    assert (code, err) == (0, "")
    assert "This is the longer story." in out
    assert "Which of the things to do." in out


def test_error_without_hint(run: Run) -> None:
    assert run("throwaway", "plain") == (2, "", "error: the width 7 is odd\n")


def test_error_with_hint(run: Run) -> None:
    expected = "error: there is no variant called 'sofmax'\n\nhint: did you mean 'softmax'?\n"
    assert run("throwaway", "hint") == (2, "", expected)


def test_error_text_is_neither_wrapped_nor_read_as_markup(run: Run) -> None:
    assert run("throwaway", "brackets") == (2, "", f"error: [bold]q[/bold] has shape [2, 3], {'x' * 200}\n")


@pytest.mark.parametrize("tokens", [["--verbose", "throwaway", "plain"], ["throwaway", "plain", "--verbose"]])
def test_verbose_shows_the_traceback(run: Run, tokens: list[str]) -> None:
    code, out, err = run(*tokens)
    assert (code, out) == (2, "")
    assert err.startswith("Traceback (most recent call last):\n")
    assert "throwaway.py" in err
    assert err.endswith("\nerror: the width 7 is odd\n")


def test_a_defect_is_told_apart_from_a_wrong_request(run: Run) -> None:
    code, out, err = run("throwaway", "defect")
    assert (code, out) == (1, "")
    assert err.startswith("error: attnlab failed in a way it should not: KeyError: 'lost'\n\nhint: ")
    assert "Traceback" not in err
    assert "Traceback" in run("throwaway", "defect", "--verbose")[2]


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        (["throwawy"], "error: there is no command called 'throwawy'\n\nhint: did you mean 'throwaway'?\n"),
        (["zzz"], "error: there is no command called 'zzz'\n\nhint: known: throwaway\n"),
        (["--zzz"], "error: there is no option called '--zzz'\n\nhint: `attnlab --help` shows what can be given\n"),
        (["--versoin"], "error: there is no option called '--versoin'\n\nhint: did you mean --version?\n"),
        (["throwaway", "--coun", "2"], "error: unknown option: --coun\n\nhint: did you mean --count?\n"),
        (
            ["throwaway", "--count", "two"],
            'error: invalid value for --count: unable to convert "two" into int\n\n'
            "hint: `attnlab throwaway --help` shows what can be given\n",
        ),
        (
            ["throwaway", "one", "2", "true", "three"],
            "error: too many arguments: 2 true three\n\nhint: `attnlab throwaway --help` shows what can be given\n",
        ),
    ],
)
def test_a_wrong_command_line_reads_like_any_other_error(run: Run, tokens: list[str], expected: str) -> None:
    assert run(*tokens) == (2, "", expected)


def test_a_mistyped_verb_imports_none(run: Run) -> None:
    run("throwawy")
    assert "throwaway" not in sys.modules


def test_interrupt(run: Run) -> None:
    assert run("throwaway", "interrupt") == (130, "", "interrupted\n")


def test_colour_is_for_terminals_and_no_color_is_honoured(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b[1;31merror:" in run("throwaway", "plain")[2]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "31m" not in run("throwaway", "plain")[2]


def test_a_reader_that_leaves_is_no_error(tmp_path: Path) -> None:
    code = """
        import sys
        from attnlab.cli import main
        sys.exit(main(["throwaway", "flood"], verbs=["throwaway:throwaway"]))
    """
    with start(tmp_path, code) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == "a line of data\n"
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 1


def test_help_does_not_import_torch(tmp_path: Path) -> None:
    code = """
        import sys
        from attnlab.cli import main
        from attnlab.cli.app import VERBS
        code = main(["--help"], verbs=[*VERBS, "throwaway:throwaway"])
        heavy = {"torch", "numpy", "pydantic", "plotly"} & set(sys.modules)
        sys.exit(f"--help imported {heavy}" if heavy else code)
    """
    with start(tmp_path, code) as process:
        out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "throwaway" in out


def test_the_studio_leaves_torch_to_its_workers() -> None:
    modules = "attnlab.cli.commands.studio, attnlab.studio.server, attnlab.studio.studio"
    code = f"import sys, {modules}; sys.exit(str({{'torch', 'numpy', 'plotly'}} & set(sys.modules) or ''))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_an_exhibit_does_not_import_the_compiler() -> None:
    code = (
        "import sys; from attnlab.exhibits import exhibit_named; exhibit_named('masking').run(); "
        "sys.exit(str({'sympy', 'torch._dynamo', 'plotext'} & set(sys.modules) or ''))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


@pytest.mark.parametrize(
    "module", ["attnlab.cli.commands.train", "attnlab.cli.commands.generate", "attnlab.experiments.launching.worker"]
)
def test_training_does_not_import_what_draws(module: str) -> None:
    code = f"import sys, {module}; sys.exit(str({{'plotly', 'plotext', 'scipy', 'jinja2'}} & set(sys.modules) or ''))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stderr.strip() == ""


def test_python_dash_m() -> None:
    done = subprocess.run([sys.executable, "-m", "attnlab", "--version"], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == (f"{attnlab.__version__}\n", "")


@pytest.mark.parametrize("target", VERBS)
def test_every_registered_verb_exists(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    module, _, name = target.partition(":")
    assert module.startswith("attnlab.cli.")
    assert hasattr(import_module(module), name)
    assert main([name.replace("_", "-"), "--help"]) == 0
    assert capsys.readouterr().out
