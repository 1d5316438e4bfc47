"""The fact store among processes: killed at any moment, and written by several at once."""

from __future__ import annotations

import os
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from attnlab.knowledge.pairs import Pair
from attnlab.knowledge.store import benchmark
from attnlab.knowledge.store.store import FactStore

BATCH = 40


def import_people(path: Path, who: str, count: int, ready: Callable[[], object]) -> None:
    with FactStore(path) as store:
        pairs = [Pair(f"Where was {who} {number} born?", f"Town {number % 9}") for number in range(count)]
        texts = [f"{who} {number} was born in Town {number % 9}." for number in range(count)]
        ready()
        store.import_facts(pairs, who=who, source="list", batch=BATCH)
        store.import_documents(texts, who=who, source="text", batch=BATCH)


def start(path: Path, who: str, count: int) -> tuple[int, int]:
    """Another process that imports; its number, and where it says that it begins."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of threads, which the child has no need of
        process = os.fork()
    if process == 0:
        code = 1
        try:
            signal.alarm(120)
            import_people(path, who, count, lambda: os.write(writer, b"!"))
            code = 0
        finally:
            os._exit(code)  # never back into the tests
    os.close(writer)
    return process, reader


def end(process: int, reader: int) -> int:
    os.close(reader)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


@pytest.mark.parametrize("delay", [0.0, 0.003, 0.01, 0.03, 0.06, 0.1, 0.2])
def test_a_killed_import_leaves_whole_batches_and_goes_on(tmp_path: Path, delay: float) -> None:
    path = tmp_path / "facts.sqlite"
    process, reader = start(path, "Ada", 20_000)  # more than it ever gets done
    assert os.read(reader, 1) == b"!"
    time.sleep(delay)
    os.kill(process, signal.SIGKILL)
    assert end(process, reader) == -signal.SIGKILL
    with FactStore(path) as store:
        assert store.check() == []
        counts = store.counts()
        assert counts["facts"] == BATCH * counts["batches"]
        before = counts["facts"]
    import_people(path, "Ada", before + BATCH, lambda: None)
    with FactStore(path) as store:
        assert store.counts()["facts"] == store.counts()["documents"] == before + BATCH
        assert store.check() == []


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "facts.sqlite"
    others = [start(path, who, 400) for who in ("Ada", "Bo", "Cy")]  # the first of them makes the file
    with FactStore(path) as store:
        for number in range(50):
            store.add(f"Question {number}?", "yes", who="Dee", source="told")
    assert [end(*other) for other in others] == [0, 0, 0]
    with FactStore(path) as store:
        assert store.check() == []
        counts = store.counts()
        assert (counts["facts"], counts["documents"], counts["told"]) == (3 * 400 + 50, 3 * 400, 50)
        assert {one.who for one in store.facts()} == {"Ada", "Bo", "Cy", "Dee"}


def test_the_benchmark_measures_with_real_processes(tmp_path: Path) -> None:
    assert not benchmark._kill(tmp_path / "killed.sqlite", 0.2)
    kept, lost = benchmark._write_at_once(tmp_path / "shared.sqlite", 2)
    assert (kept, lost) == (2 * benchmark._WRITTEN, 0)
