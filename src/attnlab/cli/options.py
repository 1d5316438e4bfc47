"""Options that commands share. This file imports nothing heavy."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from attnlab.cli.figures import check_figures_folder
from attnlab.errors import AttnlabError
from attnlab.storage.files import check_writable

if TYPE_CHECKING:
    from attnlab.experiments.launching.progress import LaunchConsole

Value = int | float | str | bool

RUNS = Path("runs")
BUNDLE_LIMIT = 40.0  # MB
Flag = Annotated[bool, Parameter(negative="", show_default=False)]
JsonFlag = Annotated[bool, Parameter(name="--json", negative="", show_default=False)]
Json = Annotated[bool, Parameter(name="--json", negative="", show_default=False, help="Print it as JSON.")]
Markdown = Annotated[bool, Parameter(negative="", show_default=False, help="Print the list as a Markdown table.")]
Quiet = Annotated[bool, Parameter(negative="", show_default=False, help="Print nothing while it trains.")]
Several = Annotated[Sequence[str], Parameter(negative="", show_default=False)]
RunsFolder = Annotated[Path, Parameter(help="The folder that holds the runs.")]
VariantsFile = Annotated[Path | None, Parameter(help="A Python file that adds variants of your own.")]


def name_value_pairs(option: str, texts: Sequence[str], example: str) -> dict[str, str]:
    """Return what was given as name=value, as often as an option was given."""
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name or not value:
            raise AttnlabError(f"{option} {text!r} is no name=value", hint=f"write {option} {example}, for instance")
        if name in found:
            raise AttnlabError(
                f"{option} sets {name} twice, to {found[name]} and {value}", hint="leave out one of the two"
            )
        found[name] = value
    return found


def typed(text: str) -> Value:
    """Return a value as the number or the truth that it looks like."""
    if text in {"True", "False"}:
        return text == "True"
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text


def names_in(text: str) -> tuple[str, ...]:
    """Return names that were separated by commas."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def check_bundle(path: Path | None, limit: float) -> None:
    """Refuse a bundle that cannot be written, and a limit that is not a positive number of megabytes."""
    if path is not None:
        check_writable(path)
    if not 0 < limit < math.inf:
        raise AttnlabError(f"a bundle of {limit:g} MB cannot be", hint="use a number above 0 for `bundle_limit`")


@Parameter(name="*")
@dataclass(frozen=True)
class CorpusOptions:
    """The text to learn.

    Parameters
    ----------
    corpus
        pydoc, world, kinship, mqar, translation (to train), or the path of a text file or a folder.
    corpus_option
        An option of a generated corpus, such as pairs=8 of mqar; may be repeated.
    tokenizer
        char, byte, word, bpe, gpt2:FOLDER, or run:FOLDER for that of a run.
    vocabulary_size
        Number of tokens of bpe.
    """

    corpus: str = "pydoc"
    corpus_option: Several = ()
    tokenizer: str = "char"
    vocabulary_size: int | None = None

    @property
    def values(self) -> dict[str, Value]:
        """The options of a generated corpus."""
        pairs = name_value_pairs("--corpus-option", self.corpus_option, "pairs=8")
        return {name: typed(value) for name, value in pairs.items()}


@Parameter(name="*")
@dataclass(frozen=True)
class LaunchOptions:
    """Where the runs of a study are trained.

    Parameters
    ----------
    on
        Where runs run: local processes, ray, or slurm.
    where
        An option of ray or slurm, such as address=auto or partition=gpu; may be repeated.
    processes
        Runs at a time on this machine.
    threads
        Threads of each run.
    variants_from
        A Python file that adds variants of your own.
    out
        The folder that holds studies and their runs.
    """

    on: Literal["local", "ray", "slurm"] = "local"
    where: Several = ()
    processes: int | None = None
    threads: int | None = None
    variants_from: Path | None = None
    out: Path = RUNS

    def launch(self, out: Path | None = None) -> dict[str, Any]:
        """Return what a study is told about its launcher; Slurm's own options are passed on to it."""
        pairs = name_value_pairs("--where", self.where, "address=auto")
        given: dict[str, object] = {name: int(value) if value.isdecimal() else value for name, value in pairs.items()}
        if self.on == "slurm":
            cluster = {"cluster": given.pop("cluster")} if "cluster" in given else {}
            given = {**cluster, "parameters": given}
        where = {"processes": self.processes, "threads": self.threads, **given}
        return {"out": out or self.out, "on": self.on, "where": where}


@Parameter(name="*")
@dataclass(frozen=True)
class StudyOutput:
    """What is printed and written of a study.

    Parameters
    ----------
    report
        Also write the report to this HTML file.
    csv
        Also write all runs to this CSV file.
    figures
        Also write every figure as SVG and PDF, and every table as CSV and LaTeX, into this folder.
    bundle
        Also write one file with all that others need to verify the result.
    bundle_limit
        Megabytes that the bundle may have; states to replay from are left out above it.
    quiet
        Print nothing while it trains.
    as_json
        Print everything as JSON.
    """

    report: Path | None = None
    csv: Path | None = None
    figures: Path | None = None
    bundle: Path | None = None
    bundle_limit: float = BUNDLE_LIMIT
    quiet: Flag = False
    as_json: JsonFlag = False

    def check(self) -> None:
        """Refuse files that cannot be written, before any work."""
        for path in (self.report, self.csv):
            if path is not None:
                check_writable(path)
        check_figures_folder(self.figures)
        check_bundle(self.bundle, self.bundle_limit)

    @contextmanager
    def console(self) -> Iterator[LaunchConsole | None]:
        """Yield what prints the progress of runs, if anything does; an interruption says what is kept."""
        from attnlab.experiments.launching.progress import LaunchConsole

        try:
            with nullcontext() if self.quiet else LaunchConsole() as console:
                yield console
        except KeyboardInterrupt as interrupt:
            raise type(interrupt)("what was trained is kept, and the same command resumes from there") from None


@Parameter(name="*")
@dataclass(frozen=True)
class ExecutionOptions:
    """How one run uses this machine.

    Parameters
    ----------
    out
        The folder that holds the runs.
    threads
        Threads of each process; by default the cores are divided among the workers.
    workers
        Processes on this machine that share each batch; by default one for each core.
    checkpoint_seconds
        How often the run is saved.
    quiet
        Print nothing while it trains.
    """

    out: Path = RUNS
    threads: int | None = None
    workers: int | None = None
    checkpoint_seconds: float = 60.0
    quiet: Flag = False

    def check(self) -> None:
        """Refuse values that cannot be, before anything else."""
        if not self.checkpoint_seconds > 0:
            raise AttnlabError(
                f"{self.checkpoint_seconds:g} seconds between checkpoints cannot be",
                hint="use a number above 0 for `checkpoint_seconds`",
            )
        for name, count in {"threads": self.threads, "workers": self.workers}.items():
            if count is not None and count < 1:
                raise AttnlabError(f"{name} is {count}", hint=f"use `{name}=1` or more, or leave it out")


CORPUS, LAUNCH, OUTPUT, EXECUTION = CorpusOptions(), LaunchOptions(), StudyOutput(), ExecutionOptions()
