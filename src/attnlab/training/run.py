"""Train a run from its spec to its result, or resume it after an interruption.

    result = train(RunSpec(variant="tied-kv", steps=500))
    result = resume(Path("runs/softmax-nano-gpt2-seed0-…"))

The same spec on the same text has the same directory: calling `train` again resumes an interrupted run, and a finished
run is not trained again.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from signal import SIGINT
from typing import Any

import torch

from attnlab.attention.names.files import file_hashes
from attnlab.corpora import Corpus, CorpusSpec, open_corpus
from attnlab.errors import AttnlabError, FileError, SpecError, UnsupportedError
from attnlab.processes.machine import describe_machine
from attnlab.processes.memory import keep_memory
from attnlab.runs.directory import RunDirectory, RunResult
from attnlab.runs.ledger import DEFAULT_ROOT
from attnlab.runs.verification import hash_text
from attnlab.training.engine import LocalProcesses, ProcessGroup, make_process_group
from attnlab.training.execution import Execution, choose_execution
from attnlab.training.fitting import fitted, steps_in
from attnlab.training.limits import check_least, check_run
from attnlab.training.loading import check_variants, resolved_of
from attnlab.training.loop import Loop, Saving
from attnlab.training.progress import Reporter, Silent, Tracker
from attnlab.training.spec import ResolvedRun, RunSpec
from attnlab.training.starting import recorded_start

__all__ = ["RunResult", "Saving", "StoppedError", "resume", "train", "train_on"]


class StoppedError(AttnlabError):
    """A run was asked to stop early, but the caller needs its result; repeating the call resumes it."""

    def __init__(self, result: RunResult) -> None:
        super().__init__(f"{result.path} stopped after step {result.steps}", hint="the same request resumes it")
        self.exit_code = 128 + (result.signal or SIGINT)


MakeTracker = Callable[[Path, int], Tracker]  # takes the run's folder and its first step
Weights = Mapping[str, torch.Tensor]


def train(
    spec: RunSpec,
    out: Path = Path(DEFAULT_ROOT),
    *,
    reporter: Reporter | None = None,
    trackers: Sequence[MakeTracker] = (),
    saving: Saving | None = None,
    cache: Path | None = None,
    **wishes: Any,
) -> RunResult:
    """Train a run, or resume it.

    Parameters
    ----------
    spec
        What to train.
    out
        The folder that contains runs.
    reporter
        Told the progress; None tells nothing.
    trackers
        Functions that create trackers, such as TensorBoard.
    saving
        How often the run is saved; None uses the default.
    cache
        The folder of prepared corpora; None uses the default.
    wishes
        The options of `choose_execution`.
    """
    keep_memory()
    corpus = open_corpus(spec.corpus, cache)
    if spec.start is not None:
        spec.start.check_text(corpus)

    def resolve() -> ResolvedRun:
        execution = choose_execution(spec.resolve(corpus, Execution()).batch_size, **wishes)
        torch.set_num_threads(execution.threads)
        return spec.resolve(corpus, execution, None if spec.minutes is None else steps_in(spec, corpus, execution))

    record: dict[str, Any] = {"spec": spec.model_dump(mode="json")}
    if hashes := file_hashes(spec.variant):
        record["variants"] = hashes
    return _train(out / spec.name(corpus.hash), corpus, resolve, record, reporter, trackers, saving)


def train_on(
    corpus: Corpus,
    path: Path,
    resolved: ResolvedRun,
    record: Mapping[str, Any],
    *,
    start: Callable[[], Weights] | None = None,
    reporter: Reporter | None = None,
    saving: Saving | None = None,
) -> RunResult:
    """Train on a corpus that the caller built, in the directory `path`, or resume the run that is there.

    `record` holds further entries of run.json; `start` returns the initial weights, instead of new ones. An existing
    run is resumed as its own directory specifies.
    """
    return _train(path, corpus, lambda: resolved, record, reporter, (), saving, start)


def resume(
    path: Path,
    *,
    reporter: Reporter | None = None,
    trackers: Sequence[MakeTracker] = (),
    saving: Saving | None = None,
    cache: Path | None = None,
) -> RunResult:
    """Resume a run as its directory says.

    Parameters
    ----------
    path
        The folder of the run.
    reporter
        Told the progress; None tells nothing.
    trackers
        Functions that create trackers, such as TensorBoard.
    saving
        How often the run is saved; None uses the default.
    cache
        The folder of prepared corpora; None uses the default.
    """
    directory = RunDirectory.open(path)
    if directory.result is not None:
        return RunResult.of_ended(directory)
    corpus = open_corpus(_corpus_of(directory), cache)
    return _train(path, corpus, lambda: resolved_of(directory), {}, reporter, trackers, saving)


def _train(
    path: Path,
    corpus: Corpus,
    resolve: Callable[[], ResolvedRun],
    record: Mapping[str, Any],
    reporter: Reporter | None,
    trackers: Sequence[MakeTracker],
    saving: Saving | None,
    start: Callable[[], Weights] | None = None,
) -> RunResult:
    """Train in the directory `path`; `resolve` says what, unless a run was begun there."""
    keep_memory()
    new: ResolvedRun | None = None
    if RunDirectory.exists(path):
        directory = RunDirectory.open(path)
        check_variants(directory)
        if directory.result is not None:
            return RunResult.of_ended(directory)
        execution = resolved_of(directory).execution
    else:
        asked = resolve()
        check_least(asked)
        new = fitted(asked)
        check_run(new)
        _check_lengths(new, corpus)
        execution = new.execution
    group = make_process_group(execution.workers, execution.device)
    try:
        if group.leads and new is not None:
            _write_record(path, record, new, corpus)
        group.sum([0.0])  # the other processes wait until the directory exists
        return _continue(path, corpus, group, reporter or Silent(), trackers, saving or Saving(), start)
    finally:
        group.stop()


def _corpus_of(directory: RunDirectory) -> CorpusSpec:
    try:
        return CorpusSpec(**directory.record["spec"]["corpus"])
    except (KeyError, TypeError):
        again = directory.record.get("command", "the command that began it")
        raise FileError(f"{directory.path} was not trained on a corpus by name", hint=f"use {again}") from None


def _write_record(path: Path, asked: Mapping[str, Any], resolved: ResolvedRun, corpus: Corpus) -> None:
    """Write down everything before the first step."""
    machine = describe_machine()
    record = {
        **asked,
        "resolved": resolved.model_dump(mode="json"),
        "corpus": {
            "hash": corpus.hash,
            "training_tokens": corpus.training_tokens,
            "tokenizer_sha256": hash_text(corpus.tokenizer.to_json()),
        },
        "versions": {"python": machine.python, "torch": machine.torch, "attnlab": machine.attnlab},
        "machine": {"processor": machine.processor, "cores": machine.cores, "system": machine.system},
        "started": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    }
    try:
        RunDirectory.create(path, record)
    except FileError:
        if not RunDirectory.exists(path):
            raise


def _check_lengths(run: ResolvedRun, corpus: Corpus) -> None:
    """Refuse before anything is written what the first step or the first evaluation would refuse."""
    length = run.model.context_length
    corpus.batch(seed=run.seed, step=0, batch_size=run.batch_size, context_length=length)
    if next(iter(corpus.validation_batches(batch_size=1, context_length=length, limit=1)), None) is None:
        raise SpecError(
            f"the validation text has {corpus.validation_tokens} tokens, and a context of {length} needs more",
            hint="use a longer text, a larger validation share or a shorter context",
        )


def _continue(
    path: Path,
    corpus: Corpus,
    group: ProcessGroup,
    reporter: Reporter,
    trackers: Sequence[MakeTracker],
    saving: Saving,
    start: Callable[[], Weights] | None,
) -> RunResult:
    directory = RunDirectory.open(path)
    run = resolved_of(directory)
    if run.execution.device.startswith("cuda") and not torch.cuda.is_available():
        raise UnsupportedError(
            f"{path} was begun on a graphics card, and there is none here",
            hint="resume it where there is one, or train it anew here in another folder by `out=FOLDER`",
        )
    if directory.record["corpus"]["hash"] != corpus.hash:
        raise FileError(
            f"the text of {path} has changed since the run began",
            hint="restore the old text, or train the new text as a run of its own",
        )
    with directory.hold() if group.leads else contextlib.nullcontext():
        if directory.result is not None:
            return RunResult.of(directory, already=True)
        if group.leads:
            directory.write_tokenizer(corpus.tokenizer.to_json())
        torch.set_num_threads(run.execution.threads)
        loop = Loop(directory, run, corpus, group, reporter, saving, start or recorded_start(directory.record))
        group.start(loop.optimizer)
        if isinstance(group, LocalProcesses) and not group.leads:
            group.run_worker(loop.run)
        try:
            with contextlib.ExitStack() as stack:
                if group.leads:
                    loop.trackers = [make(path, loop.done) for make in trackers]
                    for tracker in loop.trackers:
                        stack.callback(tracker.close)
                with _explaining_compiler():
                    return loop.run()
        finally:
            reporter.end()


@contextlib.contextmanager
def _explaining_compiler() -> Iterator[None]:
    """Say what to do where PyTorch's compiler fails."""
    try:
        yield
    except RuntimeError as error:
        if not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        raise UnsupportedError(
            f"PyTorch cannot compile this model here: {str(error).splitlines()[0]}",
            hint="train without compiling; or let TORCHINDUCTOR_CACHE_DIR name a folder that you may write",
        ) from error
