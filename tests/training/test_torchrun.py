"""Under `torchrun`: the same samples and, but for rounding, the same losses, with any number of processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from attnlab.corpora import MqarCorpus
from attnlab.errors import SpecError
from attnlab.runs import RunDirectory
from attnlab.training import LostWorkerError, RunSpec, execution
from attnlab.training.engine import Engine
from support.training import At, ending, fork, kill_self, losses, make_engine, rounding, smoke, train_in, wait

SPEC = smoke(steps=8, recipe="fast", batch_size=5)
FACTOR = 32  # as in test_engine


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def start_ranks(size: int, work: Callable[[int], object]) -> list[int]:
    """Processes as `torchrun` starts them."""
    port = free_port()

    def as_rank(rank: int) -> None:
        os.environ |= {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(size),
            "LOCAL_WORLD_SIZE": str(size),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        work(rank)

    return [fork(lambda rank=rank: as_rank(rank)) for rank in range(size)]


def train_under(size: int, folder: Path, stop_after: int | None = None, spec: RunSpec = SPEC) -> list[int]:
    """Train with so many processes, perhaps until they are asked to stop; how each ended."""

    def work(rank: int) -> None:
        ask = None
        if stop_after is not None and rank == 0:
            ask = At(stop_after - 1, lambda: os.kill(os.getpid(), signal.SIGTERM))
        result = train_in(folder, spec, reporter=ask, workers=None, precision="float32", threads=1)
        assert result.outcome == ("finished" if stop_after is None else "stopped")
        if result.outcome == "finished":
            ending(result)  # every process knows the whole result

    return [wait(process) for process in start_ranks(size, work)]


def assert_explained(found: list[float], expected: list[float]) -> None:
    spread = rounding(lambda: make_engine(SPEC), len(expected))
    floor = 4 * torch.finfo(torch.float32).eps * max(expected)
    assert all(abs(a - b) <= FACTOR * s + floor for a, b, s in zip(found, expected, spread, strict=True))


@pytest.fixture
def alone(tmp_path: Path) -> list[float]:
    return losses(train_in(tmp_path / "alone", SPEC))


def test_one_then_two_then_one(tmp_path: Path, alone: list[float]) -> None:
    assert train_under(1, tmp_path, stop_after=3) == [0]
    (path,) = (tmp_path / "runs").iterdir()
    assert RunDirectory.open(path).checkpoints.steps()[-1] == 3
    assert train_under(2, tmp_path, stop_after=6) == [0, 0]
    assert RunDirectory.open(path).checkpoints.steps()[-1] == 6
    result = train_in(tmp_path, SPEC)
    assert result.path == path
    assert_explained(losses(result), alone)


def test_two_from_the_beginning_and_three_on_a_small_batch(tmp_path: Path, alone: list[float]) -> None:
    assert train_under(2, tmp_path) == [0, 0]
    result = train_in(tmp_path, SPEC)
    assert result.already
    assert_explained(losses(result), alone)
    assert train_under(2, tmp_path) == [0, 0], "a finished run is found by all"
    small = SPEC.replace(batch_size=2)
    assert train_under(3, tmp_path, spec=small) == [0, 0, 0], "a process without rows adds nothing"


def test_every_process_takes_its_rows_of_the_same_batch(tmp_path: Path) -> None:
    """What is asked of the corpus does not depend on how many ask."""

    def asked_by(size: int) -> list[set[str]]:
        log = tmp_path / f"asked-{size}"
        log.mkdir()

        def work(rank: int) -> None:
            batch = MqarCorpus.batch

            def noting(self: MqarCorpus, **how: object) -> object:
                with (log / str(rank)).open("a") as file:
                    file.write(repr(sorted(how.items())) + "\n")
                return batch(self, **how)  # type: ignore[arg-type]

            MqarCorpus.batch = noting  # type: ignore[method-assign,assignment]
            train_in(tmp_path / str(size), SPEC, workers=None)

        assert [wait(process) for process in start_ranks(size, work)] == [0] * size
        return [set((log / str(rank)).read_text().splitlines()) for rank in range(size)]

    (one,) = asked_by(1)
    assert len(one) == SPEC.steps
    assert asked_by(2) == [one, one]


@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_process_ends_the_others_and_nothing_is_lost(tmp_path: Path, victim: int) -> None:
    def work(rank: int) -> None:
        if rank == 0 and victim == 0:
            train_in(tmp_path, SPEC, workers=None, reporter=At(5, kill_self))
        step = Engine.step

        def mortal(self: Engine, number: int, stop: bool = False) -> object:
            if rank == 1 and victim == 1 and number == 5:
                kill_self()
            return step(self, number, stop)

        Engine.step = mortal  # type: ignore[method-assign,assignment]
        try:
            train_in(tmp_path, SPEC, workers=None)
        except LostWorkerError as lost:
            assert "resume from the last checkpoint" in str(lost)  # noqa: PT017 (in another process)
            os._exit(3)

    ends = [wait(process) for process in start_ranks(2, work)]
    assert ends == ([-signal.SIGKILL, 3] if victim == 0 else [3, -signal.SIGKILL])
    (path,) = (tmp_path / "runs").iterdir()
    directory = RunDirectory.open(path)
    assert directory.checkpoints.steps() == [2, 4]
    assert directory.holder is None
    assert train_under(2, tmp_path) == [0, 0]
    assert train_under(2, tmp_path / "whole") == [0, 0]
    assert ending(train_in(tmp_path, SPEC)) == ending(train_in(tmp_path / "whole", SPEC))


def test_workers_are_not_for_torchrun(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(execution, "under_torchrun", lambda: True)
    with pytest.raises(SpecError, match="workers are for a CPU") as caught:
        train_in(tmp_path, workers=2)
    assert "torchrun has its own" in str(caught.value.hint)
    assert not (tmp_path / "runs").exists()


SCRIPT = """
import os
import sys
from pathlib import Path
from support.training import At, kill_self, smoke, train_in

dying = At(5, kill_self) if "die" in sys.argv else None
spec = smoke(steps=8, recipe="fast", batch_size=5)
result = train_in(Path(sys.argv[1]), spec, workers=None, reporter=dying)
os.write(1, f"{result.outcome} {result.weights_sha256}\\n".encode())  # in one piece: both processes write
"""


def torchrun(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the script by the real launcher, and see that it leaves no process."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    launcher = ["-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    paths = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, *launcher, str(script), str(folder), *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert [path for path in Path("/proc").glob("[0-9]*/cmdline") if str(script).encode() in read(path)] == []
    return done


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:  # it ended meanwhile
        return b""


def test_torchrun_itself(tmp_path: Path, alone: list[float]) -> None:
    done = torchrun(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "destroy_process_group" not in done.stderr
    result = train_in(tmp_path, SPEC)
    assert result.already
    assert done.stdout.split() == ["finished", result.weights_sha256] * 2
    assert_explained(losses(result), alone)


@pytest.mark.slow
def test_torchrun_with_a_killed_process(tmp_path: Path) -> None:
    """The job ends, and the next one goes on."""
    assert torchrun(tmp_path, "die").returncode != 0
    (path,) = (tmp_path / "runs").iterdir()
    assert RunDirectory.open(path).checkpoints.steps() == [2, 4]
    done = torchrun(tmp_path)
    assert done.returncode == 0, done.stderr
    assert train_under(2, tmp_path / "whole") == [0, 0]
    assert ending(train_in(tmp_path, SPEC)) == ending(train_in(tmp_path / "whole", SPEC))
