"""Train one model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from signal import SIGINT
from typing import Any, Literal

from attnlab.attention import load_variants
from attnlab.cli.bundling import bundled
from attnlab.cli.errors import given_options
from attnlab.cli.options import (
    BUNDLE_LIMIT,
    CORPUS,
    EXECUTION,
    CorpusOptions,
    ExecutionOptions,
    Flag,
    JsonFlag,
    Several,
    VariantsFile,
    check_bundle,
)
from attnlab.cli.printing import say, show_json, show_pairs
from attnlab.cli.recorded import check_options, check_value
from attnlab.conformance import require_sound
from attnlab.corpora import CorpusSpec
from attnlab.errors import AttnlabError
from attnlab.formats import NOTHING, fixed
from attnlab.runs import RunDirectory
from attnlab.runs.ledger import find_run
from attnlab.training import RunResult, RunSpec, Saving, treatment
from attnlab.training.loading import resolved_of
from attnlab.training.progress import ConsoleReporter, Silent, TensorBoard
from attnlab.training.run import resume
from attnlab.training.run import train as train_run

_DIVERGED = 3


def train(
    run: str | None = None,
    /,
    *,
    variant: str = "softmax",
    recipe: str = "gpt2",
    size: str = "nano",
    text: CorpusOptions = CORPUS,
    steps: int | None = None,
    minutes: float | None = None,
    seed: int = 0,
    change: Several = (),
    execution: ExecutionOptions = EXECUTION,
    micro_batch_size: int | None = None,
    precision: Literal["float32", "bfloat16"] | None = None,
    compile: Flag = False,
    tensorboard: Flag = False,
    variants_from: VariantsFile = None,
    unchecked: Flag = False,
    bundle: Path | None = None,
    bundle_limit: float = BUNDLE_LIMIT,
    as_json: JsonFlag = False,
) -> int:
    """Train a model, or resume one: the same command after any interruption ends with the same weights.

    Parameters
    ----------
    run
        A run directory to resume, as its own record says. Leave it out to train by the options below.
    variant
        The attention: a name of the catalogue, perhaps with a number (window:256), or a+b for both changes; over the
        layers a*2,b takes turns and a,(b),c repeats b. `attnlab variants NAME` explains any of these.
    recipe
        gpt2 (faithful) or fast (soonest to a loss).
    size
        nano, micro, mini, gpt2, gpt2-medium, gpt2-large or gpt2-xl.
    steps
        How many steps; by default the recipe's.
    minutes
        How long instead of how many: the steps that fit are measured first.
    seed
        The initial weights and the order of the data.
    change
        Any other change, such as learning_rate=3e-4, num_layers=6, batch_size=32 or optimizer=muon; may be repeated.
    micro_batch_size
        Rows at a time, for batches that do not fit into memory at once.
    precision
        float32 or bfloat16; by default float32 on CPUs, and bfloat16 on GPUs that compute in it.
    compile
        Compile the model first. It rarely pays on a CPU.
    tensorboard
        Write event files for TensorBoard into the run's folder.
    unchecked
        Train a variant of your own that leaks or loses gradients, too.
    bundle
        Also write one file with all that others need to verify the run.
    bundle_limit
        Megabytes that the bundle may have; states to replay from are left out above it.
    as_json
        Print the result as JSON.
    """
    if variants_from is not None:
        load_variants(variants_from)
    execution.check()
    check_bundle(bundle, bundle_limit)
    options: dict[str, Any] = {
        "reporter": Silent() if execution.quiet else ConsoleReporter(),
        "trackers": [TensorBoard] if tensorboard else [],
        "saving": Saving(seconds=execution.checkpoint_seconds),
    }
    corpus = CorpusSpec(
        name=text.corpus, tokenizer=text.tokenizer, vocabulary_size=text.vocabulary_size, options=text.values
    )
    spec = RunSpec(variant=variant, recipe=recipe, size=size, corpus=corpus, steps=steps, minutes=minutes, seed=seed)
    changes = treatment(" & ".join(change)).changes if change else {}
    for name in sorted(changes.keys() & given_options()):
        if getattr(spec, name) != changes[name]:
            raise AttnlabError(
                f"`{name}={getattr(spec, name)}` and --change both set {name}", hint="leave out one of the two"
            )
    if run is not None:
        machine = {
            "threads": execution.threads,
            "workers": execution.workers,
            "precision": precision,
            "compile": compile,
            "micro_batch_size": micro_batch_size,
        }
        path = find_run(run, execution.out)
        _check_recorded(path, spec, changes, machine)
        return _tell(resume(path, **options), as_json, bundle, bundle_limit)
    spec = spec.replace(**changes)
    if not unchecked:
        require_sound([spec.variant])
    result = train_run(
        spec,
        execution.out,
        threads=execution.threads,
        workers=execution.workers,
        precision=precision,
        compile=compile,
        micro_batch_size=micro_batch_size,
        **options,
    )
    return _tell(result, as_json, bundle, bundle_limit)


def _check_recorded(path: Path, spec: RunSpec, changes: Mapping[str, Any], machine: Mapping[str, object]) -> None:
    """Refuse options that differ from what the run in `path` records."""
    directory = RunDirectory.open(path)
    resolved = resolved_of(directory)
    known = directory.record.get("spec", {})
    known_corpus = known["corpus"] if isinstance(known.get("corpus"), dict) else {}
    parts = (resolved.model, resolved.optimizer, resolved.schedule, resolved.execution, resolved)
    values = {name: value for part in parts for name, value in dict(part).items()}
    recorded = values | {name: value for name, value in known.items() if value is not None}
    recorded |= {"corpus": known_corpus.get("name"), "corpus_option": known_corpus.get("options")}
    recorded |= {name: known_corpus.get(name) for name in ("tokenizer", "vocabulary_size")}
    asked = {name: getattr(spec, name) for name in ("variant", "recipe", "size", "steps", "minutes", "seed")}
    asked |= {"corpus": spec.corpus.name, "corpus_option": spec.corpus.options, "tokenizer": spec.corpus.tokenizer}
    asked |= {"vocabulary_size": spec.corpus.vocabulary_size, **machine}
    instead = "or leave out RUN to train another run"
    check_options(path, asked, recorded, instead=instead)
    plain = spec.replace(**changes).model_dump(mode="json")
    for name in changes:
        check_value(path, f"change={name}", plain[name], recorded.get(name), instead=instead)


def _tell(result: RunResult, as_json: bool, bundle: Path | None, bundle_limit: float) -> int:
    if bundle is not None and result.outcome != "stopped":
        bundled(bundle, result.path, bundle_limit, [result.path])
    if as_json:
        show_json(result)
    elif result.already:
        say(f"{result.path} has {result.outcome} before, and is left as it is.")
    if not as_json:
        loss = result.validation_loss
        rows = [
            ["run", str(result.path)],
            ["outcome", result.outcome],
            ["steps", str(result.steps)],
            ["validation loss", NOTHING if loss is None else f"{fixed(loss, 4)} nats"],
            ["time", f"{fixed(result.seconds, 1)} s"],
        ]
        if result.tokens_per_second:
            rows.append(["speed", f"{result.tokens_per_second:,.0f} tokens/s"])
        if result.weights_sha256:
            rows.append(["weights", f"sha-256 {result.weights_sha256[:16]}…"])
        show_pairs(rows)
    if result.outcome == "diverged":
        say(f"\nIt diverged: {result.message}\n\nhint: try --change learning_rate=… with a third of it")
        return _DIVERGED
    if result.outcome == "stopped":
        say("\nStopped. The same command resumes it.")
        return 128 + (result.signal or SIGINT)
    return 0
