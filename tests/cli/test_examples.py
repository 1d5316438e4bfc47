"""Examples: one for every command, which its help ends with, and an overview in the order of use."""

from __future__ import annotations

import shlex
import subprocess

import pytest
from cyclopts import App

from attnlab.cli.app import VERBS, GlobalOptions, build_app, main
from attnlab.cli.errors import options_of
from attnlab.cli.examples import EXAMPLES


def every_command(app: App, chain: tuple[str, ...] = ()) -> dict[str, App]:
    """All commands by their words, also those that only hold others."""
    found = {" ".join(chain): app} if chain else {}
    for name in app:
        if not name.startswith("-"):
            found |= every_command(app[name], (*chain, name))
    return found


@pytest.fixture(scope="module")
def commands() -> dict[str, App]:
    return every_command(build_app(VERBS, GlobalOptions()))


def test_every_command_has_an_example_and_no_other_has(commands: dict[str, App]) -> None:
    assert sorted(EXAMPLES) == sorted(commands)


@pytest.mark.parametrize("command", EXAMPLES)
def test_the_help_of_a_command_ends_with_its_example(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    assert " ".join(capsys.readouterr().out.split()).endswith(f"Example: {EXAMPLES[command]}")


@pytest.mark.parametrize("command", EXAMPLES)
def test_an_example_can_be_parsed(command: str, commands: dict[str, App]) -> None:
    program, *words = shlex.split(EXAMPLES[command])
    assert program == "attnlab"
    assert words[: len(command.split())] == command.split()
    named = max((name for name in commands if words[: len(name.split())] == name.split()), key=len)
    assert {word for word in words if word.startswith("--")} <= options_of(commands[named])
    commands[named].parse_args(words[len(named.split()) :], print_error=False, exit_on_error=False)


def test_attnlab_alone_shows_the_jobs_in_the_order_of_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    out = capsys.readouterr().out
    places = [out.index(EXAMPLES[name]) for name in EXAMPLES if " " not in name]
    assert places == sorted(places)
    assert "attnlab COMMAND --help" in out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_commands_and_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    for word in ("compare", "knowledge", "retract", "tokens-per-parameter"):
        assert word in script


def test_bash_reads_the_script(capsys: pytest.CaptureFixture[str]) -> None:
    main(["completion", "bash"])
    done = subprocess.run(["bash", "-n"], input=capsys.readouterr().out, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
