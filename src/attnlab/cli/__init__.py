"""The command line: one file per verb, and `main`, which runs them."""

from attnlab.cli.app import main

__all__ = ["main"]
