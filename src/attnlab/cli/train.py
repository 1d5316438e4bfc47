"""Train one model."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from attnlab.attention import load_variants
from attnlab.cli.compare import corpus_options
from attnlab.cli.printing import make_table, say, show, show_json
from attnlab.corpora import CorpusSpec
from attnlab.errors import AttnlabError
from attnlab.runs.ledger import DEFAULT_ROOT, find_run
from attnlab.storage.records import to_plain
from attnlab.training import RunResult, RunSpec, Saving, treatment
from attnlab.training.progress import ConsoleReporter, Reporter, Silent, TensorBoard
from attnlab.training.run import resume
from attnlab.training.run import train as train_run

Flag = Annotated[bool, Parameter(negative="", show_default=False)]

_DIVERGED, _STOPPED = 3, 130


def train(
    run: Path | None = None,
    /,
    *,
    variant: str = "softmax",
    recipe: str = "gpt2",
    size: str = "nano",
    corpus: str = "pydoc",
    tokenizer: str = "char",
    vocabulary_size: int | None = None,
    corpus_option: Annotated[list[str] | None, Parameter(name="--corpus-option", negative="")] = None,
    steps: int | None = None,
    minutes: float | None = None,
    seed: int = 0,
    change: Annotated[list[str] | None, Parameter(name="--change", negative="")] = None,
    out: Path = DEFAULT_ROOT,
    threads: int | None = None,
    workers: int | None = None,
    micro_batch_size: int | None = None,
    precision: Literal["float32", "bfloat16"] | None = None,
    compile: Flag = False,
    checkpoint_seconds: float = 60.0,
    tensorboard: Flag = False,
    variants_from: Path | None = None,
    quiet: Flag = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="", show_default=False)] = False,
) -> int:
    """Train a model, or go on with one: the same command after any interruption ends with the same weights.

    Parameters
    ----------
    run
        A run directory to go on with, as its own record says. Leave it out to train by the options below.
    variant
        The attention: a name of the catalogue, a+b for both changes, a,b for layers that take turns.
    recipe
        gpt2 (faithful) or fast (soonest to a loss).
    size
        nano, micro, mini, gpt2, gpt2-medium, gpt2-large or gpt2-xl.
    corpus
        pydoc, world, kinship, mqar, translation, or the path of a text file or a folder.
    tokenizer
        char, byte, word, bpe, or gpt2:FOLDER.
    vocabulary_size
        How many tokens bpe is to have.
    corpus_option
        An option of a generated corpus, such as pairs=8 of mqar; may be repeated.
    steps
        How many steps; by default the recipe's.
    minutes
        How long instead of how many: the steps that fit are measured first.
    seed
        The initial weights and the order of the data.
    change
        Any other change, such as learning_rate=3e-4, num_layers=6, batch_size=32 or optimizer=muon; may be repeated.
    out
        The folder that holds the runs.
    threads
        Threads of each process; by default the cores are divided among the workers.
    workers
        Processes on this machine that share each batch; by default one for each core.
    micro_batch_size
        Rows at a time, for batches that do not fit into memory at once.
    precision
        float32 or bfloat16; by default what is fast here.
    compile
        Compile the model first. It rarely pays on a CPU.
    checkpoint_seconds
        How often the run is saved.
    tensorboard
        Write event files for TensorBoard into the run's folder.
    variants_from
        A Python file that adds variants of your own.
    quiet
        Say nothing while it trains.
    as_json
        Print the result as JSON.
    """
    if variants_from is not None:
        load_variants(variants_from)
    if checkpoint_seconds <= 0:
        raise AttnlabError(f"{checkpoint_seconds:g} seconds between checkpoints cannot be", hint="use a number above 0")
    reporter: Reporter = Silent() if quiet else ConsoleReporter()
    options: dict[str, Any] = {
        "reporter": reporter,
        "trackers": [TensorBoard] if tensorboard else [],
        "saving": Saving(seconds=checkpoint_seconds),
    }
    if run is not None:
        result = resume(find_run(run, out), **options)
    else:
        made = corpus_options(corpus_option or ())
        text = CorpusSpec(name=corpus, tokenizer=tokenizer, vocabulary_size=vocabulary_size, options=made)
        spec = RunSpec(variant=variant, recipe=recipe, size=size, corpus=text, steps=steps, minutes=minutes, seed=seed)
        for name in change or []:
            spec = treatment(name).change(spec)
        options |= {"threads": threads, "workers": workers, "precision": precision, "compile": compile}
        result = train_run(spec, out, **options, micro_batch_size=micro_batch_size)
    return _tell(result, as_json)


def _tell(result: RunResult, as_json: bool) -> int:
    if as_json:
        show_json(to_plain({**asdict(result), "path": str(result.path)}))
    elif result.already:
        say(f"{result.path} has {result.outcome} before, and is left as it is.")
    if not as_json:
        rows = [
            ["run", str(result.path)],
            ["outcome", result.outcome],
            ["steps", str(result.steps)],
            ["validation loss", "–" if result.validation_loss is None else f"{result.validation_loss:.4f} nats"],
            ["time", f"{result.seconds:.1f} s"],
        ]
        if result.tokens_per_second:
            rows.append(["speed", f"{result.tokens_per_second:,.0f} tokens/s"])
        if result.weights_sha256:
            rows.append(["weights", f"sha-256 {result.weights_sha256[:16]}…"])
        show(make_table(["", ""], rows, left=(0, 1), wrap=(1,)))
    if result.outcome == "diverged":
        say(f"\nIt diverged: {result.message}\n\nhint: try --change learning_rate=… with a third of it")
        return _DIVERGED
    if result.outcome == "stopped":
        say("\nStopped. The same command goes on from here.")
        return _STOPPED
    return 0
