"""Whole commands, timed in processes of their own."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from attnlab.bench.results.memory import TreePeak
from attnlab.errors import AttnlabError

_TAIL = 5  # lines of what a command said before it failed


@dataclass(frozen=True)
class CommandRun:
    """How long a command took, what it printed and after how many seconds, and its peak memory if that was sampled."""

    seconds: float
    lines: list[tuple[float, str]]
    peak_bytes: int = 0


def run_command(
    words: Sequence[str],
    folder: Path,
    name: str,
    environment: Mapping[str, str] | None = None,
    *,
    sample_every: float | None = None,
) -> CommandRun:
    """Run a command in a folder to its end; one that fails is an error with the last lines that it said.

    `sample_every` so many seconds the memory of the command and its children is looked at.
    """
    begin = time.perf_counter()
    lines: list[tuple[float, str]] = []
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(
            words,
            cwd=folder,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
            encoding="utf-8",
            errors="replace",
        ) as process,
        nullcontext() if sample_every is None else TreePeak(process.pid, every=sample_every) as peak,
    ):
        assert process.stdout is not None
        lines.extend((time.perf_counter() - begin, line.rstrip("\n")) for line in process.stdout)
        code = process.wait()
        seconds = time.perf_counter() - begin
        if code:
            said.seek(0)
            last = said.read().decode(errors="replace").strip().splitlines()[-_TAIL:]
            raise AttnlabError(f"{name} ended with code {code}" + "".join(f"\n  {line}" for line in last))
    return CommandRun(seconds, lines, 0 if peak is None else peak.bytes)
