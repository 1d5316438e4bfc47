"""The other side of `run_side_by_side`: a process that trains the runs it is given, one after the other."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from attnlab.processes.child import Answer, serve
from attnlab.training.run import train
from attnlab.training.spec import RunSpec

_LOOK = 1.0  # seconds between two looks for whoever asked


def answer(question: dict[str, Any]) -> dict[str, Any]:
    """Train one run."""
    cache = question["cache"]
    result = train(
        RunSpec(**question["spec"]),
        Path(question["out"]),
        cache=None if cache is None else Path(cache),
        threads=question["threads"],
        workers=1,
    )
    return {**asdict(result), "path": str(result.path)}


def serve_until_alone(answer: Answer) -> None:
    """Answer questions as long as whoever asks, the process named on the command line, is there."""
    threading.Thread(target=stop_when_alone, args=[int(sys.argv[1])], daemon=True).start()
    serve(answer)


def stop_when_alone(parent: int) -> None:
    """When whoever asked is gone, have the run saved and stopped: somebody will go on with it."""
    while os.getppid() == parent:
        time.sleep(_LOOK)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    serve_until_alone(answer)
