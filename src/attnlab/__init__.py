"""Change one thing about attention and find out, with evidence, what it does to GPT-2.

    comparison = attnlab.compare(variants=("tied-kv",))

errors, specification, formats     error classes, the base of specifications, numbers as text
storage, processes, runs           files and records, child processes, runs on disk
attention, models                  variants of attention, and the models around them
corpora, statistics, pages         text and tasks as tokens, tests and forecasts, offline pages
cost, training, lens               what a model costs, how it is trained, what its heads do
conformance                        whether a variant, perhaps one's own, is what it says
retrofit                           another attention for a trained model: convert, cost by layer, heal
experiments                        compare and scale: request, plan, launch, judge, report
knowledge, exhibits, bench         applications: question answering, claims as programs, measurements
verification                       application: checking results that someone else recorded
studio, cli                        applications: the laboratory in a browser and on the command line

Importing this package is cheap on purpose: nothing heavy is imported before it is used, so that `attnlab --help`
answers at once.
"""

from importlib import import_module
from typing import Any

__all__ = ["__version__", "compare"]


def __getattr__(name: str) -> Any:
    """Look the version up when it is asked for: reading the package's metadata takes longer than the rest."""
    if name == "__version__":
        return import_module("importlib.metadata").version("attnlab")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def compare(*arguments: Any, **options: Any) -> Any:
    """Train a baseline and its variants over paired seeds, and judge them, by `attnlab.experiments.compare`."""
    return import_module("attnlab.experiments.comparing").compare(*arguments, **options)
