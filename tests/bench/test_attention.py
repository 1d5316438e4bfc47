"""The table of variants: what is measured, what is left out, and what is said about it."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from attnlab.attention import variant
from attnlab.bench import BenchListener, CallSize, bench_attention, describe_machine, using_threads
from attnlab.bench import attention as attention_module
from attnlab.bench.attention import usable
from attnlab.errors import SpecError
from attnlab.processes.machine import Machine, available_cores

SMOKE = CallSize.smoke()


class Ears(BenchListener):
    def __init__(self) -> None:
        self.steps: list[tuple[str, int, int]] = []
        self.notes: list[str] = []

    def step(self, what: str, done: int, total: int) -> None:
        self.steps.append((what, done, total))

    def note(self, text: str) -> None:
        self.notes.append(text)


def with_memory(monkeypatch: pytest.MonkeyPatch, count: int | None) -> None:
    machine: Machine = replace(describe_machine(), memory_bytes=count)
    monkeypatch.setattr(attention_module, "describe_machine", lambda: machine)


def test_a_run() -> None:
    pytest.importorskip("entmax")
    ears = Ears()
    found = bench_attention([variant("sigmoid"), variant("entmax15"), variant("linear")], SMOKE, 2, ears)
    assert [(row.name, row.kernel) for row in found.variants] == [
        ("sigmoid", "blocked"),
        ("entmax15", "blocked"),
        ("linear", "operator"),
    ]
    assert ears.steps == [("sigmoid", 0, 3), ("entmax15", 1, 3), ("linear", 2, 3)]
    assert ears.notes == []
    for row in found.variants:
        for times in (row.forward, row.forward_backward):
            assert times.baseline_seconds > 0
            assert times.variant.rounds == 2
            assert times.reference is not None
            assert times.reference_over_variant is not None
            assert (times.peer is not None) == (times.peer_over_variant is not None) == (row.name == "entmax15")
        assert row.peak_bytes.reference is not None
        assert row.peak_bytes.reference > SMOKE.scores_bytes
        assert (row.peak_bytes.peer is not None) == (row.name == "entmax15")


def test_without_the_package_the_rest_is_measured_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attention_module, "peer_is_installed", lambda: False)
    ears = Ears()
    found = bench_attention([variant("sparsemax"), variant("softmax")], SMOKE, 1, ears)
    assert found.variants[0].forward.peer is None
    assert ears.notes == ["the entmax package is not installed, so nothing is measured against it: pip install entmax"]
    ears = Ears()
    bench_attention([variant("softmax")], SMOKE, 1, ears)
    assert ears.notes == []


def test_references_that_do_not_fit_are_left_out_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with_memory(monkeypatch, 8 * SMOKE.scores_bytes)
    ears = Ears()
    found = bench_attention([variant("sparsemax")], SMOKE, 1, ears)
    assert found.variants[0].forward.reference is None
    assert found.variants[0].forward.peer is None
    assert found.variants[0].peak_bytes.reference is None
    assert len(ears.notes) == 1
    assert ears.notes[0].startswith("the references are left out: 128 tokens")


def test_a_variant_that_does_not_fit_is_left_out_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    with_memory(monkeypatch, 8 * SMOKE.scores_bytes)
    ears = Ears()
    found = bench_attention([variant("softmax"), variant("synthesizer-random")], SMOKE, 1, ears)
    assert [row.name for row in found.variants] == ["softmax"]
    assert ears.notes[0].startswith("synthesizer-random is left out: at batch 1, 2 heads of width 16, 128 tokens")


def test_a_size_where_nothing_fits_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with_memory(monkeypatch, 1000)
    with pytest.raises(SpecError, match="does not fit into memory"):
        bench_attention([variant("softmax")], SMOKE, 1)


def test_a_system_that_does_not_say_how_much_memory_it_has() -> None:
    assert usable(replace(describe_machine(), memory_bytes=None)) == math.inf


def test_an_impossible_spec_is_refused_before_anything_is_measured() -> None:
    ears = Ears()
    with pytest.raises(SpecError, match="rope rotates pairs of numbers"):
        bench_attention([variant("softmax"), variant("rope")], replace(SMOKE, width=7), 1, ears)
    assert ears.steps == []


def test_threads_are_set_and_put_back() -> None:
    before = torch.get_num_threads()
    with using_threads(1):
        assert torch.get_num_threads() == 1
        assert describe_machine().threads == 1
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("count", [0, -1, available_cores() + 1])
def test_impossible_threads_are_refused(count: int) -> None:
    with pytest.raises(SpecError, match=f"^{count} threads cannot be measured"), using_threads(count):
        pass


def test_the_machine_names_itself() -> None:
    machine = describe_machine()
    assert machine.processor
    assert machine.cores >= 1
    assert machine.torch == torch.__version__
    assert str(replace(machine, processor="A", threads=2, torch="9")) == "A, 2 threads, PyTorch 9"


@pytest.mark.parametrize(("load", "busy"), [(None, False), (0.1, False), (2.0, False), (2.6, True)])
def test_a_busy_machine_is_told(load: float | None, busy: bool) -> None:
    warning = replace(describe_machine(), cores=2, load=load).warning
    assert (warning is not None) == busy
    assert warning is None or "load 2.6 on 2 cores" in warning
