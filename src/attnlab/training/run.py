"""A run from its spec to its result, whatever happens on the way.

    result = train(RunSpec(variant="tied-kv", steps=500))
    result = resume(Path("runs/softmax-nano-gpt2-seed0-…"))

The same spec on the same text has the same directory: calling `train` again goes on where the run was interrupted, and
a finished run is not trained again.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from attnlab.corpora import Corpus, CorpusSpec, open_corpus
from attnlab.errors import FileError, SpecError, UnsupportedError
from attnlab.processes.machine import describe_machine
from attnlab.runs.directory import RunDirectory
from attnlab.runs.ledger import DEFAULT_ROOT
from attnlab.storage.records import write_json
from attnlab.training.execution import Execution, choose_execution, keep_memory
from attnlab.training.fitting import fitted
from attnlab.training.loading import TOKENIZER, resolved_of
from attnlab.training.loop import Loop, RunResult, Saving
from attnlab.training.progress import Reporter, Silent
from attnlab.training.spec import ResolvedRun, RunSpec
from attnlab.training.team import LocalTeam, Team, make_team
from attnlab.training.timing import steps_in
from attnlab.training.tracking import Tracker

__all__ = ["RunResult", "Saving", "resume", "train", "train_on"]


def train(
    spec: RunSpec,
    out: Path = Path(DEFAULT_ROOT),
    *,
    reporter: Reporter | None = None,
    trackers: Sequence[Callable[[Path, int], Tracker]] = (),
    saving: Saving | None = None,
    cache: Path | None = None,
    **wishes: Any,
) -> RunResult:
    """Train what `spec` says below the folder `out`, or go on with it. `wishes` are those of `choose_execution`."""
    keep_memory()
    reporter = reporter or Silent()
    corpus = open_corpus(spec.corpus, cache)
    path = out / spec.name(corpus.hash)
    resolved = None
    if RunDirectory.exists(path):
        directory = RunDirectory.open(path)
        if directory.result is not None:
            return RunResult.of(directory, already=True)
        execution = resolved_of(directory).execution
        team = make_team(execution.workers, execution.device)
    else:
        chosen = choose_execution(spec.resolve(corpus, Execution()).batch_size, **wishes)
        torch.set_num_threads(chosen.threads)
        steps = None if spec.minutes is None else steps_in(spec, corpus, chosen)
        resolved = fitted(spec.resolve(corpus, chosen, steps))
        _check_lengths(resolved, corpus)
        team = make_team(chosen.workers, chosen.device)
    try:
        if team.leads and resolved is not None:
            _create(path, spec, resolved, corpus)
        team.add_up([0.0])  # whoever does not lead finds the directory there
        return _go_on(path, corpus, team, reporter, trackers, saving or Saving())
    finally:
        team.stop()


def train_on(
    corpus: Corpus,
    path: Path,
    resolved: ResolvedRun,
    record: Mapping[str, Any],
    *,
    start: Callable[[], Mapping[str, torch.Tensor]] | None = None,
    reporter: Reporter | None = None,
    saving: Saving | None = None,
) -> RunResult:
    """Train on a corpus that somebody built, in a directory that they name, or go on with it there.

    `record` is what run.json says besides; `start` gives the weights to begin with, in place of fresh ones. A run that
    is there already goes on as its own directory says.
    """
    keep_memory()
    if RunDirectory.exists(path):
        directory = RunDirectory.open(path)
        if directory.result is not None:
            return RunResult.of(directory, already=True)
        resolved = resolved_of(directory)
    else:
        resolved = fitted(resolved)
        _check_lengths(resolved, corpus)
    team = make_team(resolved.execution.workers, resolved.execution.device)
    try:
        if team.leads and not RunDirectory.exists(path):
            _write_record(path, record, resolved, corpus)
        team.add_up([0.0])  # whoever does not lead finds the directory there
        return _go_on(path, corpus, team, reporter or Silent(), (), saving or Saving(), start)
    finally:
        team.stop()


def resume(
    path: Path,
    *,
    reporter: Reporter | None = None,
    trackers: Sequence[Callable[[Path, int], Tracker]] = (),
    saving: Saving | None = None,
    cache: Path | None = None,
) -> RunResult:
    """Go on with a run that is there, as its directory says."""
    keep_memory()
    directory = RunDirectory.open(path)
    if directory.result is not None:
        return RunResult.of(directory, already=True)
    corpus = open_corpus(_corpus_of(directory), cache)
    execution = resolved_of(directory).execution
    team = make_team(execution.workers, execution.device)
    try:
        return _go_on(path, corpus, team, reporter or Silent(), trackers, saving or Saving())
    finally:
        team.stop()


def _corpus_of(directory: RunDirectory) -> CorpusSpec:
    try:
        return CorpusSpec(**directory.record["spec"]["corpus"])
    except (KeyError, TypeError):
        again = directory.record.get("command", "the command that began it")
        raise FileError(f"{directory.path} was not trained on a corpus by name", hint=f"use {again}") from None


def _create(path: Path, spec: RunSpec, resolved: ResolvedRun, corpus: Corpus) -> None:
    """Write down everything before the first step."""
    _write_record(path, {"spec": spec.model_dump(mode="json")}, resolved, corpus)


def _write_record(path: Path, asked: Mapping[str, Any], resolved: ResolvedRun, corpus: Corpus) -> None:
    machine = describe_machine()
    record = {
        **asked,
        "resolved": resolved.model_dump(mode="json"),
        "corpus": {"hash": corpus.hash, "training_tokens": corpus.training_tokens},
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


def _go_on(
    path: Path,
    corpus: Corpus,
    team: Team,
    reporter: Reporter,
    trackers: Sequence[Callable[[Path, int], Tracker]],
    saving: Saving,
    start: Callable[[], Mapping[str, torch.Tensor]] | None = None,
) -> RunResult:
    directory = RunDirectory.open(path)
    run = resolved_of(directory)
    if run.execution.device.startswith("cuda") and not torch.cuda.is_available():
        raise UnsupportedError(
            f"{path} was begun on a graphics card, and there is none here",
            hint="go on with it where there is one, or train it anew here in another folder with --out",
        )
    if directory.record["corpus"]["hash"] != corpus.hash:
        raise FileError(
            f"the text of {path} has changed since the run began",
            hint="bring the old text back, or train the new text as a run of its own",
        )
    with directory.hold() if team.leads else contextlib.nullcontext():
        if directory.result is not None:
            return RunResult.of(directory, already=True)
        if team.leads and not (path / TOKENIZER).exists():
            write_json(path / TOKENIZER, {"tokenizer": corpus.tokenizer.to_json()})
        torch.set_num_threads(run.execution.threads)
        loop = Loop(directory, run, corpus, team, reporter, saving, start)
        team.start(loop.optimizer)
        if isinstance(team, LocalTeam) and not team.leads:
            team.abandon(loop.run)
        try:
            with contextlib.ExitStack() as stack:
                if team.leads:
                    loop.trackers = [make(path, loop.done) for make in trackers]
                    for tracker in loop.trackers:
                        stack.callback(tracker.close)
                return loop.run()
        finally:
            reporter.end()
