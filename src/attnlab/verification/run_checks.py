"""The checks of one run: its receipts, its record, its metrics, its result and its weights."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from attnlab.corpora import Corpus, CorpusSpec, open_corpus
from attnlab.errors import AttnlabError
from attnlab.processes.machine import describe_environment
from attnlab.runs import RunDirectory
from attnlab.runs.checkpoints import digest
from attnlab.runs.directory import MODEL
from attnlab.runs.receipts import (
    STATES,
    Link,
    check_contents,
    kept_steps,
    link_steps,
    read_chain,
    read_state,
    state_hashes,
    state_path,
)
from attnlab.storage.records import content_hash
from attnlab.storage.tensors import read_tensors
from attnlab.training import ResolvedRun, RunSpec
from attnlab.training.loading import resolved_of
from attnlab.training.replaying import evaluate_again
from attnlab.verification.checks import CheckList, MismatchError, UncheckedError

# On another machine or build, sums are computed in another order. The mean loss of a final model then changes by some
# 1e-6.
EVALUATION_TOLERANCE = 1e-4  # nats


class OpenedCorpora:
    """Corpora by their specification, each opened once."""

    def __init__(self, cache: Path | None = None) -> None:
        self._cache, self._known = cache, dict[str, Corpus]()

    def open(self, record: Mapping[str, Any]) -> Corpus:
        """Return the text of a run, if it is here."""
        try:
            spec = CorpusSpec(**record["spec"]["corpus"])
        except (LookupError, TypeError):
            raise UncheckedError("it was not trained on a corpus by name") from None
        key = spec.model_dump_json()
        if key not in self._known:
            try:
                self._known[key] = open_corpus(spec, self._cache)
            except AttnlabError as error:
                raise UncheckedError(f"its text is not here: {error.message}") from None
        corpus = self._known[key]
        if corpus.hash != record["corpus"]["hash"]:
            raise UncheckedError(f"the text {spec.name!r} is another one here than where the run was trained")
        return corpus


@dataclass(frozen=True)
class RecordedRun:
    """A run to be verified, read from its folder."""

    name: str
    directory: RunDirectory
    chain: Sequence[Link]

    @cached_property
    def resolved(self) -> ResolvedRun:
        return resolved_of(self.directory)

    @cached_property
    def result(self) -> dict[str, Any]:
        found = self.directory.result
        if found is None:
            raise UncheckedError("it has not ended")
        return found

    @property
    def states(self) -> list[Link]:
        """Return the links with a state, in order."""
        return [link for link in self.chain if link.has_state]

    def same_environment(self, start: int, stop: int) -> bool:
        """Return whether the steps after `start` up to `stop` were taken on this kind of machine, build and version.

        A change is recorded at the last link before it, so the steps after that link may have been taken on either.
        """
        noted = [link for link in self.chain if "environment" in link.content]
        before = [link for link in noted if link.step < start][-1:]
        within = [link for link in noted if start <= link.step < stop]
        here = describe_environment()
        return all(link.content["environment"] == here for link in (*before, *within))

    def __str__(self) -> str:
        return self.name


def check_run(path: Path, corpora: OpenedCorpora, checks: CheckList) -> RecordedRun | None:
    """Check everything of a run that needs no training; return the run if it can be replayed."""
    name = path.name
    opened: list[RecordedRun] = []
    with checks.checking("receipts", name):
        directory = RunDirectory.open(path)
        chain = read_chain(path)
        if not chain:
            raise UncheckedError("it has no receipts; it was trained by an older version, or they were removed")
        opened.append(RecordedRun(name, directory, chain))
        _check_links(opened[0])
        check_contents(path, directory.record, chain)
    if not opened or checks.fails(name):
        return None
    run = opened[0]
    with checks.checking("specification", name):
        _check_record(run)
    with checks.checking("resolved values", name):
        _check_resolved(run, corpora)
    with checks.checking("metrics", name):
        _check_metrics(run)
    with checks.checking("result", name):
        _check_result(run)
    with checks.checking("final weights", name):
        _check_weights(run)
    with checks.checking("kept states", name):
        _check_states(run)
    if run.result.get("outcome") == "finished":
        with checks.checking("final loss, evaluated again", name):
            _check_loss(run, corpora)
    return run


def _check_links(run: RecordedRun) -> None:
    last = run.chain[-1]
    if "result" not in last.content:
        raise MismatchError("its receipts end before its result")
    if last.content["result"] != content_hash(run.result):
        raise MismatchError("result.json was changed after the run ended")
    wanted = [0, *(step for step in link_steps(run.resolved.steps) if step <= _last_state(run))]
    if [link.step for link in run.states] != wanted:
        raise MismatchError(f"its receipts have states at {[link.step for link in run.states]} instead of {wanted}")


def _last_state(run: RecordedRun) -> int:
    """Return the last step that can have a state: a step at which a run diverged has none."""
    diverged = run.result["outcome"] == "diverged"
    return int(run.result["steps"]) - (1 if diverged else 0)


def _check_record(run: RecordedRun) -> None:
    record, environment = run.directory.record, run.chain[0].content["environment"]
    spec = RunSpec(**record["spec"])
    if run.directory.path.name != (expected := spec.name(record["corpus"]["hash"])):
        raise MismatchError(f"a run of this specification on this text is called {expected}")
    recorded = {**record["versions"], **record["machine"]}
    for name in ("python", "torch", "attnlab", "processor", "system"):
        if recorded[name] != environment[name]:
            raise MismatchError(f"run.json names {name} {recorded[name]!r}, and its receipts {environment[name]!r}")


def _check_resolved(run: RecordedRun, corpora: OpenedCorpora) -> None:
    """Resolve the specification again, with the recorded execution, and steps where they followed from minutes."""
    corpus = corpora.open(run.directory.record)
    spec, recorded = RunSpec(**run.directory.record["spec"]), run.resolved
    steps = recorded.steps if spec.minutes is not None else None
    again = spec.resolve(corpus, recorded.execution, steps).model_dump(mode="json")
    for name, value in recorded.model_dump(mode="json").items():
        if value != again[name]:
            raise MismatchError(f"its specification gives {name} {_short(again[name])}, recorded is {_short(value)}")


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else f"{text[:77]}…"


def _check_metrics(run: RecordedRun) -> None:
    """Compare steps, evaluations and learning rates with what the run was to do."""
    resolved, entries = run.resolved, run.directory.metrics()
    steps = int(run.result["steps"])
    if [entry["step"] for entry in entries] != [*range(1, steps + 1)]:
        raise MismatchError(f"its metrics do not have each of the steps 1 … {steps} once")
    for entry in entries:
        step = entry["step"]
        rate = resolved.optimizer.learning_rate * resolved.schedule.factor(step - 1, resolved.steps)
        if entry["learning_rate"] != rate:
            raise MismatchError(f"the learning rate of step {step} is {entry['learning_rate']:g} instead of {rate:g}")
        evaluated = resolved.is_evaluated(step) and not (run.result["outcome"] == "diverged" and step == steps)
        if ("validation_loss" in entry) is not evaluated:
            raise MismatchError(f"step {step} is {'not ' if evaluated else ''}evaluated")


def _check_result(run: RecordedRun) -> None:
    result, entries = run.result, run.directory.metrics()
    losses = [entry["validation_loss"] for entry in entries if "validation_loss" in entry]
    last = losses[-1] if losses and math.isfinite(losses[-1]) else None
    if result["validation_loss"] != last:
        raise MismatchError(f"result.json has a loss of {result['validation_loss']}, and the metrics end with {last}")
    if result["outcome"] == "finished":
        if result["steps"] != run.resolved.steps:
            raise MismatchError(f"it has {result['steps']} of {run.resolved.steps} steps and is called finished")
        if not all(math.isfinite(entry["loss"]) for entry in entries):
            raise MismatchError("a loss is not finite, and it is called finished")
    elif result["outcome"] != "diverged":
        raise MismatchError(f"its outcome is {result['outcome']!r}")


def _check_weights(run: RecordedRun) -> None:
    if run.result["outcome"] == "diverged":
        return
    last = run.states[-1].content["weights"]
    if run.result["weights_sha256"] != last:
        raise MismatchError("result.json names other weights than its receipts end with")
    if digest(read_tensors(run.directory.path / MODEL)) != last:
        raise MismatchError(f"{MODEL} does not hold the weights that the run ended with")


def _check_states(run: RecordedRun) -> None:
    """Compare the states that are there with their links."""
    known = {link.step: link.state_hashes for link in run.states}
    for step in (0, *kept_steps(run.resolved.steps)):
        if state_path(run.directory.path, step).exists() and (
            step not in known or state_hashes(read_state(run.directory.path, step)) != known[step]
        ):
            raise MismatchError(f"the state of step {step} in {STATES} is not the one that its receipts name")


def _check_loss(run: RecordedRun, corpora: OpenedCorpora) -> None:
    corpus = corpora.open(run.directory.record)
    recorded = run.result["validation_loss"]
    again = evaluate_again(run.resolved, corpus, read_tensors(run.directory.path / MODEL))
    exact = run.same_environment(run.chain[-1].step, run.chain[-1].step + 1)
    if again != recorded and (exact or not abs(again - recorded) <= EVALUATION_TOLERANCE):
        raise MismatchError(f"its weights have a validation loss of {again:.6f}, recorded is {recorded:.6f}")
