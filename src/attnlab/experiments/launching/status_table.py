"""What every launcher needs: the status table of a grid, and libraries that only some installations have."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnlab.corpora import Corpus, CorpusSpec, open_corpus
from attnlab.errors import AttnlabError, FileError, Terminated
from attnlab.experiments.launching.jobs import Job, JobEnd, LaunchListener, Place, Watch, Work
from attnlab.experiments.launching.worker import read_peak
from attnlab.runs import RunDirectory
from attnlab.runs.directory import RESULT
from attnlab.training import Execution, RunResult

RETAKES = 3  # times that a job is taken up again after whatever did it was lost
POLL = 1.0  # seconds between two readings of all runs


class StatusTable:
    """Jobs by their place in the list. Those that had ended before, and those that cannot be, are ended at once."""

    def __init__(self, jobs: Sequence[Job], work: Work, listener: LaunchListener | None) -> None:
        self.jobs, self._work, self.listener = jobs, work, listener or LaunchListener()
        self._ends: dict[int, JobEnd] = {}
        self._retakes: dict[int, int] = {}
        self._names: dict[int, str] = {}
        self.listener.planned(jobs)
        places = self._find_places()
        self.left = sorted(places)
        self._watched = {number: watched for watched, number in enumerate(self.left)}
        # What costs a moment for each run is done only for a listener that wants it.
        silent = type(self.listener).progressed is LaunchListener.progressed
        self._watch = None if silent or not places else Watch([places[number] for number in self.left])
        self._looked = time.monotonic()
        before = sum(end.result is not None for end in self._ends.values())
        if before:
            self.listener.note(f"{before} of {len(jobs)} runs had ended before")

    def order(self, number: int) -> Mapping[str, Any]:
        """Return what a worker is told."""
        return self._work.order(self.jobs[number], self._names[number])

    def path(self, number: int) -> Path:
        """Return the directory of a job's run."""
        return self.jobs[number].out / self._names[number]

    def is_over(self, number: int) -> bool:
        """Return whether a job's run has a result."""
        return (self.path(number) / RESULT).exists()

    def answer(self, number: int, content: Mapping[str, Any]) -> bool:
        """Note the answer of a worker; return whether the job is to be taken up again."""
        if "error" in content:
            self.fail(number, content["error"])
            return False
        result = RunResult.from_plain(content["result"])
        if result.why_unfinished is not None:
            return self.lose(number, result.why_unfinished)
        self._end(JobEnd(self.jobs[number], result, content["problem"], content["peak_bytes"]), number)
        return False

    def fail(self, number: int, problem: str) -> None:
        """Note that a job cannot be done."""
        self._end(JobEnd(self.jobs[number], None, problem, None), number)

    def find(self, number: int) -> None:
        """Note that a run is over though no worker answered."""
        try:
            self._end(self._found(number), number)
        except FileError as error:  # what it left cannot be read
            self.fail(number, str(error))

    def lose(self, number: int, reason: str) -> bool:
        """Note that the worker of a job is lost; return whether it is to be taken up again. If not, it has failed."""
        retake = self._retakes[number] = self._retakes.get(number, 0) + 1
        if retake > RETAKES:
            self.fail(number, f"{reason}\n\nit was tried {retake} times, and each time the process was lost")
            return False
        self.note_loss(number, reason, retake)
        return True

    def note_loss(self, number: int, reason: str, retake: int) -> None:
        first = reason.strip().splitlines()[0] if reason.strip() else "it is gone"
        self.listener.note(f"{self.jobs[number]} is taken up again ({retake} of {RETAKES}): {first}")

    def look(self, words: Mapping[int, str] | None = None) -> None:
        """Tell the listener how far all are, if it is time for that."""
        if self._watch is None or time.monotonic() - self._looked < POLL:
            return
        self._looked = time.monotonic()
        watched = {self._watched[number]: word for number, word in (words or {}).items()}
        self.listener.progressed(self._watch.look(watched))

    def ends(self) -> list[JobEnd]:
        return [self._ends[number] for number in range(len(self.jobs))]

    def _end(self, end: JobEnd, number: int) -> None:
        self._ends[number] = end
        if self._watch is not None:
            self._watch.end(self._watched[number])
        self.listener.ended(end)

    def _find_places(self) -> dict[int, Place]:
        """Return the place of every job that is left to do."""
        texts: dict[str, Corpus | AttnlabError] = {}
        places = {}
        for number, job in enumerate(self.jobs):
            key = job.spec.corpus.model_dump_json()
            if key not in texts:
                texts[key] = self._open(job.spec.corpus)
            text = texts[key]
            try:
                if isinstance(text, AttnlabError):
                    raise text
                self._names[number] = job.spec.name(text.hash)
                end = self._found(number) if self.is_over(number) else None
                if end is None:
                    places[number] = _place(job, self.path(number), text)
            except AttnlabError as error:
                end = JobEnd(job, None, str(error), None)
            if end is not None:
                self._ends[number] = end
                self.listener.ended(end)
        return places

    def _open(self, spec: CorpusSpec) -> Corpus | AttnlabError:
        try:
            return open_corpus(spec, self._work.cache)
        except AttnlabError as error:
            return error

    def _found(self, number: int) -> JobEnd:
        directory = RunDirectory.open(self.path(number))
        return JobEnd(self.jobs[number], RunResult.of_ended(directory), None, read_peak(directory.path))


def _place(job: Job, path: Path, text: Corpus) -> Place:
    resolved = job.spec.resolve(text, Execution())
    return Place(str(job), path, None if job.spec.minutes else resolved.steps, resolved.tokens_per_step)


@contextmanager
def interruptible(*, heard: bool = True) -> Iterator[None]:
    """Let a system that asks this process to end be heard like Ctrl-C, if this is the main thread, which alone may.

    How this process takes SIGTERM is as before afterwards; if not `heard`, that is all.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    if heard and before is not signal.SIG_IGN:
        signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(*_: object) -> None:
    raise Terminated
