"""Change one thing about attention and find out, with evidence, what it does to GPT-2.

    comparison = attnlab.compare(variants=("tied-kv",))

Importing this package is cheap on purpose: nothing heavy is imported before it is used, so that `attnlab --help`
answers at once.
"""

from importlib import import_module
from importlib.metadata import version
from typing import Any

__all__ = ["__version__", "compare"]

__version__ = version("attnlab")


def compare(*arguments: Any, **options: Any) -> Any:
    """`attnlab.experiments.compare`: train a baseline and its variants over paired seeds, and judge them."""
    return import_module("attnlab.experiments.comparing").compare(*arguments, **options)
