"""Completion of commands and options in a shell."""

from __future__ import annotations

from typing import Literal


def completion(shell: Literal["bash", "zsh", "fish"], /) -> None:
    """Print a script that completes commands and options of attnlab in a shell.

    bash: write it to ~/.local/share/bash-completion/completions/attnlab; zsh: to a file _attnlab in a folder of $fpath;
    fish: to ~/.config/fish/completions/attnlab.fish. Then start a new shell.

    Parameters
    ----------
    shell
        The shell that is to complete.
    """
    from attnlab.cli.app import VERBS, GlobalOptions, build_app

    print(build_app(VERBS, GlobalOptions()).generate_completion(shell=shell))
