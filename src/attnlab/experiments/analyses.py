"""The interim analyses of a comparison: what was planned, begun and done, and the time that training took.

They are kept in looks.json, beside the plan:

    {"looks": [{"seeds": [0, 1, 2, 3], "verdicts": {"tied-kv": "worse"}}, …], "seconds": 512.3}
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from attnlab.errors import FileError, SpecError
from attnlab.experiments.judging.judgement import Judgement
from attnlab.experiments.planning.plan import Plan
from attnlab.storage.records import read_json, write_json

LOOKS = "looks.json"


@dataclass(frozen=True)
class InterimAnalysis:
    """One of the planned analyses: its seeds, and its verdicts by arm; None as long as it is only begun."""

    number: int
    seeds: tuple[int, ...]
    verdicts: Mapping[str, str] | None


@dataclass
class AnalysisLog:
    """All analyses that were begun, and the seconds of training."""

    analyses: list[InterimAnalysis]
    seconds: float = 0.0

    @classmethod
    def load(cls, folder: Path, plan: Plan) -> AnalysisLog:
        """Return the log of a comparison; of a new one, the first analysis is begun."""
        return cls._read(folder) if (folder / LOOKS).exists() else cls([InterimAnalysis(1, plan.seeds, None)])

    @classmethod
    def peek(cls, folder: Path) -> AnalysisLog:
        """Return the log for a reader that has no plan; without a log that can be read, an analysis without seeds."""
        try:
            return cls._read(folder)
        except (FileError, LookupError, TypeError):
            return cls([InterimAnalysis(1, (), None)])

    @classmethod
    def _read(cls, folder: Path) -> AnalysisLog:
        record = read_json(folder / LOOKS)
        if not record["looks"]:
            raise FileError(
                f"{folder / LOOKS} is damaged: it holds no analysis", hint="compare again in another folder"
            )
        found = [
            InterimAnalysis(number, tuple(one["seeds"]), one["verdicts"])
            for number, one in enumerate(record["looks"], start=1)
        ]
        return cls(found, record["seconds"])

    def save(self, folder: Path) -> None:
        looks = [{"seeds": list(one.seeds), "verdicts": one.verdicts} for one in self.analyses]
        write_json(folder / LOOKS, {"looks": looks, "seconds": self.seconds})

    @property
    def seeds(self) -> tuple[int, ...]:
        """Return the seeds of the analysis that was begun last."""
        return self.analyses[-1].seeds

    @property
    def is_done(self) -> bool:
        """Return whether the analysis that was begun last is done."""
        return self.analyses[-1].verdicts is not None

    def extend(self, count: int, plan: Plan) -> None:
        """Begin another analysis with more seeds, unless the last one is not done yet."""
        if not self.is_done:
            return
        if len(self.analyses) >= plan.procedure.looks:
            raise SpecError(
                f"all planned interim analyses ({plan.procedure.looks}) are done: more would show a difference sooner "
                "or later, whether it is there or not",
                hint="plan anew with other seeds and more analyses: `first_seed=1000` and `looks=3`",
            )
        last = max(self.seeds)
        seeds = (*self.seeds, *range(last + 1, last + 1 + count))
        self.analyses.append(InterimAnalysis(len(self.analyses) + 1, seeds, None))

    @contextmanager
    def timed(self, folder: Path) -> Iterator[None]:
        """Count the time inside, also if it is interrupted; not if there is nothing left to do."""
        if self.is_done:
            yield
            return
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - begin
            self.save(folder)

    def complete(self, judgements: Sequence[Judgement]) -> None:
        """Record the verdicts of the analysis that was begun last, unless it was done before."""
        if not self.is_done:
            verdicts = {judgement.arm: judgement.verdict for judgement in judgements}
            self.analyses[-1] = replace(self.analyses[-1], verdicts=verdicts)
