"""The receipts of a run: a hash chain that binds its weights to everything that they were computed from.

runs/<id>/  receipts.jsonl                  one link per line
            states/step-000955.safetensors  weights and optimizer at two of the links, from which others can be replayed
                                            (and at step 0 if the run started from the weights of another)

Every link contains its step, the hash of the previous link, and its own hash. There are four kinds:

first        the record (specification, resolved values, versions, corpus), the tokenizer, the environment, the state
state        the state after this step, and the metrics since the last link
environment  the run was resumed here by another machine, build or version
result       the result, and the metrics since the last link

States are linked at fixed steps, regardless of interruptions, so a run that was killed and resumed has the same chain
as one that was not. A link is written after the metrics that it covers and before a checkpoint of the same step; links
newer than the checkpoint that a run resumes from are removed and written again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from torch import Tensor

from attnlab.errors import FileError
from attnlab.processes.machine import describe_environment
from attnlab.runs.checkpoints import digest
from attnlab.storage import disk
from attnlab.storage.files import hash_file
from attnlab.storage.records import content_hash
from attnlab.storage.tensors import read_tensors, write_tensors

FORMAT = 1
RECEIPTS, STATES = "receipts.jsonl", "states"
METRICS, TOKENIZER = "metrics.jsonl", "tokenizer.json"
SEGMENTS = 16  # per run: the number of links with a state
_KEPT = (5, 10)  # the links whose states are kept
_MOST_KEPT = 64 << 20  # largest size in bytes of a state that is kept
_GROUPS = ("weights", "optimizer")

State = Mapping[str, Mapping[str, Tensor]]  # the tensors of "weights" and "optimizer"


class BrokenChainError(FileError):
    """A chain of receipts is inconsistent, or does not match the files on disk."""


@dataclass(frozen=True)
class Link:
    """One link: its content without its hash, and its hash."""

    content: Mapping[str, Any]
    sha256: str

    @property
    def step(self) -> int:
        return int(self.content["step"])

    @property
    def has_state(self) -> bool:
        return "weights" in self.content

    @property
    def state_hashes(self) -> dict[str, str]:
        """Return the hashes of weights and optimizer."""
        return {group: self.content[group] for group in _GROUPS}


def link_steps(steps: int) -> list[int]:
    """Return the steps, after step 0, at which the state of a run of so many steps is linked."""
    return sorted({-(-steps * number // SEGMENTS) for number in range(1, SEGMENTS + 1)})


def kept_steps(steps: int) -> list[int]:
    """Return the steps whose states are kept to replay from."""
    return sorted({-(-steps * number // SEGMENTS) for number in _KEPT} - {steps})


def state_hashes(state: State) -> dict[str, str]:
    """Return the hash of each group of tensors."""
    return {group: digest(state[group]) for group in _GROUPS}


def state_path(folder: Path, step: int) -> Path:
    """Return the path of the kept state of a step, whether it exists or not."""
    return folder / STATES / f"step-{step:06d}.safetensors"


def read_state(folder: Path, step: int) -> dict[str, dict[str, Tensor]]:
    """Return the kept state of a step."""
    state: dict[str, dict[str, Tensor]] = {group: {} for group in _GROUPS}
    path = state_path(folder, step)
    for name, tensor in read_tensors(path).items():
        group, _, own = name.partition(".")
        if group not in state:
            raise FileError(f"{path} is damaged: it holds a tensor called {name!r}")
        state[group][own] = tensor
    return state


def read_chain(folder: Path) -> list[Link]:
    """Return the links in a run's folder, each checked against the one before; none if there are no receipts.

    Half a line at the end, as a crash leaves it, is left out.
    """
    path = folder / RECEIPTS
    try:
        *lines, _ = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise disk.refusal(f"{path} cannot be read", error) from error
    chain: list[Link] = []
    for number, line in enumerate(lines, start=1):
        chain.append(_link(line, f"link {number} of {path}", chain[-1] if chain else None))
    return chain


def _link(line: bytes, what: str, before: Link | None) -> Link:
    try:
        content = json.loads(line)
        found = Link(content, content.pop("sha256"))
        step = found.step
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise BrokenChainError(f"{what} cannot be read") from None
    if found.sha256 != content_hash(content):
        raise BrokenChainError(f"{what} was changed after it was written")
    if content.get("previous") != (before.sha256 if before else ""):
        raise BrokenChainError(f"{what} does not follow the one before it")
    if before is not None and ("result" in before.content or step < before.step):
        raise BrokenChainError(f"{what} is out of order")
    if before is None and (content.get("format") != FORMAT or step != 0):
        raise BrokenChainError(f"{what} is no first link of format {FORMAT}")
    return found


def check_contents(folder: Path, record: Mapping[str, Any], chain: Sequence[Link]) -> None:
    """Refuse a record, a tokenizer or metrics that the chain of the run does not fit."""
    first = chain[0].content
    if first.get("record") != content_hash(record):
        raise BrokenChainError(f"run.json in {folder} was changed after the run began")
    tokenizer = folder / TOKENIZER
    if not tokenizer.is_file() or first.get("tokenizer") != hash_file(tokenizer):
        raise BrokenChainError(f"{tokenizer} is not the tokenizer that the run began with")
    lines = _metric_lines(folder)
    done = 0
    for link in chain:
        if "metrics" not in link.content:
            continue
        covered = [line for _, line in takewhile(lambda one: one[0] <= link.step, lines[done:])]  # noqa: B023
        if link.content["metrics"] != hashlib.sha256(b"".join(covered)).hexdigest():
            raise BrokenChainError(f"{folder / METRICS} was changed at or before step {link.step}")
        done += len(covered)
    if "result" in chain[-1].content and done != len(lines):
        raise BrokenChainError(f"{folder / METRICS} has lines that no receipt covers")


def _metric_lines(folder: Path) -> list[tuple[int, bytes]]:
    """Return every whole line of the metrics with its step."""
    path = folder / METRICS
    try:
        raw = path.read_bytes() if path.exists() else b""
    except OSError as error:
        raise disk.refusal(f"{path} cannot be read", error) from error
    found = []
    for line in raw.splitlines(keepends=True):
        try:
            found.append((int(json.loads(line)["step"]), line))
        except (ValueError, LookupError, TypeError, RecursionError):
            raise BrokenChainError(f"{path} has a line that cannot be read") from None
    return found


class ReceiptWriter:
    """Adds links to the chain of a run that this process holds."""

    def __init__(self, folder: Path, record: Mapping[str, Any], steps: int) -> None:
        self._folder, self._record = folder, record
        self._due, self._kept = {*link_steps(steps)}, {*kept_steps(steps)}
        self._last = ""
        self._offset = 0  # bytes of the metrics covered by links
        self._writes = True

    def is_due(self, step: int) -> bool:
        """Return whether the state after this step is to be linked."""
        return self._writes and step in self._due

    def begin(self, state: State) -> None:
        """Write the first link, in place of any that are there."""
        (self._folder / RECEIPTS).unlink(missing_ok=True)
        self._last, self._offset = "", 0
        if self._record.get("spec", {}).get("start") is not None:
            self._keep(0, state)  # it does not follow from the seed
        self._append(
            {
                "format": FORMAT,
                "step": 0,
                "record": content_hash(self._record),
                "tokenizer": hash_file(self._folder / TOKENIZER),
                "environment": describe_environment(),
                **state_hashes(state),
                "metrics": self._metrics_hash(),
            }
        )

    def resume(self, step: int, state: State) -> None:
        """Remove links after `step`, check the others, and note another environment.

        A run that was started without receipts never gets any.
        """
        chain = read_chain(self._folder)
        if not chain:
            self._writes = False
            return
        kept = [link for link in chain if link.step <= step and "result" not in link.content]
        check_contents(self._folder, self._record, kept)
        if kept[-1].step == step and kept[-1].has_state and kept[-1].state_hashes != state_hashes(state):
            raise BrokenChainError(
                f"the checkpoint of step {step} in {self._folder} is not the state that the run had then",
                hint="remove that checkpoint, or train the run anew in another folder by `out=FOLDER`",
            )
        if len(kept) < len(chain):
            lines = (self._folder / RECEIPTS).read_bytes().splitlines(keepends=True)[: len(kept)]
            disk.replace_file(self._folder / RECEIPTS, b"".join(lines))
        self._last = kept[-1].sha256
        self._offset = sum(len(line) for at, line in _metric_lines(self._folder) if at <= kept[-1].step)
        environment = describe_environment()
        if environment != next(link for link in reversed(kept) if "environment" in link.content).content["environment"]:
            self._append({"step": kept[-1].step, "environment": environment})

    def add(self, step: int, state: State) -> None:
        """Link the state after a step, and keep it if it is one of those to replay from."""
        if step in self._kept:
            self._keep(step, state)
        self._append({"step": step, **state_hashes(state), "metrics": self._metrics_hash()})

    def finish(self, step: int, result: Mapping[str, Any]) -> None:
        """Link the result, before it is written."""
        if self._writes:
            self._append({"step": step, "result": content_hash(result), "metrics": self._metrics_hash()})

    def _keep(self, step: int, state: State) -> None:
        if _size(state) > _MOST_KEPT:
            return
        path = state_path(self._folder, step)
        disk.make_folders(path.parent)
        named = {f"{group}.{name}": tensor for group in _GROUPS for name, tensor in state[group].items()}
        write_tensors(path, named)

    def _metrics_hash(self) -> str:
        path = self._folder / METRICS
        if not path.exists():
            return hashlib.sha256().hexdigest()
        with path.open("rb") as file:
            file.seek(self._offset)
            added = file.read()
        self._offset += len(added)
        return hashlib.sha256(added).hexdigest()

    def _append(self, content: Mapping[str, Any]) -> None:
        linked = {**content, "previous": self._last}
        self._last = content_hash(linked)
        path = self._folder / RECEIPTS
        try:
            disk.append(path, (json.dumps({**linked, "sha256": self._last}) + "\n").encode())
        except OSError as error:
            raise disk.refusal(f"{path} cannot be written", error) from error


def _size(state: State) -> int:
    return sum(tensor.numel() * tensor.element_size() for group in state.values() for tensor in group.values())
