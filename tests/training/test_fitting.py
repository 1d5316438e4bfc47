"""How a run is cut to the machine: rows at a time, processes and threads, and a precision."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from attnlab.corpora import CorpusSpec, open_corpus
from attnlab.cost import model_cost
from attnlab.errors import SpecError
from attnlab.processes import machine
from attnlab.training import Execution, RunSpec
from attnlab.training import execution as execution_module
from attnlab.training.engine import Engine
from attnlab.training.execution import choose_execution, default_precision, divide_cores
from attnlab.training.fitting import fitted, step_seconds
from attnlab.training.spec import ResolvedRun

CORPUS = open_corpus(CorpusSpec(name="mqar"))


def resolved(size: str, execution: Execution | None = None, **changes: int) -> ResolvedRun:
    return RunSpec(size=size, corpus=CORPUS.spec, **changes).resolve(CORPUS, execution or Execution())


def test_a_large_batch_is_taken_in_pieces() -> None:
    run = fitted(resolved("gpt2", batch_size=4))
    assert run.execution.micro_batch_size == 1  # a context of 1024 is enough for products at full speed
    shorter = fitted(resolved("gpt2", batch_size=16, context_length=256))
    assert shorter.execution.micro_batch_size == 4
    half = fitted(resolved("gpt2", Execution(workers=2), batch_size=2))
    assert half.execution.micro_batch_size is None  # each process has one row


@pytest.mark.parametrize("batch_size", [500, 512, 700])
def test_pieces_are_no_smaller_than_they_need_to_be(batch_size: int) -> None:
    run = resolved("micro", batch_size=batch_size)
    size = fitted(run).execution.micro_batch_size
    assert size is not None
    most = (512 << 20) // model_cost(run.model).activation_bytes
    pieces = -(-batch_size // size)
    assert size <= most
    assert pieces == -(-batch_size // most), "no more pieces than there must be"
    assert size * pieces - batch_size < pieces, "and about the same number of rows in each"


def test_what_is_small_or_said_or_elsewhere_is_left_as_it_is() -> None:
    for run in (
        resolved("nano"),
        resolved("gpt2", Execution(micro_batch_size=3), batch_size=4),
        resolved("gpt2", Execution(device="cuda"), batch_size=4),
    ):
        assert fitted(run) == run


def test_one_piece_of_a_large_batch_is_timed_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    taken: list[int] = []

    def build(run: ResolvedRun, _: object) -> SimpleNamespace:
        built.append(run.batch_size)
        return SimpleNamespace(step=taken.append)

    monkeypatch.setattr(Engine, "build", build)
    monkeypatch.setattr("attnlab.training.fitting.time.perf_counter", lambda: 10.0 * len(taken))
    assert step_seconds(resolved("gpt2", batch_size=4), CORPUS) == 4 * 10.0
    assert built == [1]
    assert taken == [0]


@pytest.mark.parametrize(("seconds", "steps"), [(0.5, 5), (100.0, 1)])
def test_a_long_step_is_timed_once(monkeypatch: pytest.MonkeyPatch, seconds: float, steps: int) -> None:
    taken: list[int] = []
    monkeypatch.setattr(Engine, "step", lambda _, number: taken.append(number))
    monkeypatch.setattr("attnlab.training.fitting.time.perf_counter", lambda: seconds * len(taken))
    assert step_seconds(resolved("nano"), CORPUS) == seconds
    assert len(taken) == steps


@pytest.mark.parametrize(
    ("device", "supported", "expected"),
    [("cpu", True, "float32"), ("cuda", True, "bfloat16"), ("cuda", False, "float32")],
)
def test_cpus_train_in_float32_whatever_they_are_fast_at(
    monkeypatch: pytest.MonkeyPatch, device: str, supported: bool, expected: str
) -> None:
    """A comparison on one CPU was in bfloat16 and on another in float32, by a measurement of products."""
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **_: supported)
    assert default_precision(device) == expected


@pytest.mark.parametrize(
    ("system", "architecture", "quota", "expected"),
    [
        ("linux", "x86_64", None, (4, 1)),
        ("linux", "AMD64", 4.0, (4, 1)),
        ("linux", "x86_64", 2.0, (1, 4)),  # the workers would take time from each other
        ("linux", "aarch64", None, (1, 4)),  # no total store order
        ("darwin", "x86_64", None, (1, 4)),  # forking is not safe
        ("darwin", "arm64", None, (1, 4)),
    ],
)
def test_worker_processes_are_the_default_only_where_they_are_safe(
    monkeypatch: pytest.MonkeyPatch, system: str, architecture: str, quota: float | None, expected: tuple[int, int]
) -> None:
    monkeypatch.setattr(execution_module.sys, "platform", system)
    monkeypatch.setattr(machine.platform, "machine", lambda: architecture)
    monkeypatch.setattr(execution_module, "cpu_quota", lambda: quota)
    monkeypatch.setattr(execution_module, "available_cores", lambda: 4)
    found = choose_execution(8, precision="float32")
    assert (found.workers, found.threads) == expected
    assert choose_execution(8, workers=2, precision="float32").workers == 2, "they can be asked for"
    with_threads = choose_execution(8, threads=2, precision="float32")
    assert (with_threads.workers, with_threads.threads) == (2 if expected[0] > 1 else 1, 2)


def test_cores_are_divided() -> None:
    assert divide_cores(2, 3) == (2, 3)
    with pytest.raises(SpecError, match="processes is 0"):
        divide_cores(0, None)
    with pytest.raises(SpecError, match="threads is 0"):
        divide_cores(1, 0)
