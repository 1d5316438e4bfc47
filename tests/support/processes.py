"""Another process that holds a run directory, for tests of what the others are told."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attnlab.runs.directory import RunDirectory


@contextmanager
def held_elsewhere(path: Path, command: str = "attnlab train") -> Iterator[int]:
    """Another process, started by `command`, holds the run as long as this lasts, and is then killed; its number."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # newer Pythons warn of threads, which the child has no need of
        process = os.fork()
    if process == 0:
        try:
            signal.alarm(60)
            sys.argv = command.split()
            with RunDirectory.open(path).hold():
                os.write(writer, b"!")
                signal.pause()
        finally:
            os._exit(7)  # never back into the tests
    os.close(writer)
    try:
        assert os.read(reader, 1) == b"!", "the other process does not hold it"
        yield process
    finally:
        os.close(reader)
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
