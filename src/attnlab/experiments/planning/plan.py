"""The plan of a comparison: everything that is decided before the first run, written down where it can be checked.

A plan is made once (`planner.py`), kept as plan.json with its own hash, and read from there ever after. What it says
about arms, seeds, metric and tests is what happens; a file that was edited by hand is refused.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field

from attnlab.errors import AttnlabError, FileError
from attnlab.experiments.planning.procedure import Procedure
from attnlab.experiments.request import Request
from attnlab.specification import Specification
from attnlab.statistics import Noise
from attnlab.storage.plans import PLAN, read_plan, write_plan
from attnlab.training import RunSpec

METRIC = "validation loss in nats after the last step"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Trial(_Record):
    """One learning rate that was tried for an arm: the mean loss, None if a seed diverged, and those of the seeds."""

    learning_rate: float
    loss: float | None
    losses: tuple[float | None, ...] = ()


class CostMatch(_Record):
    """How an arm was made equal to the baseline, and how nearly."""

    what: Literal["parameters", "flops", "cache"]
    field: str  # what was solved for
    value: int
    target: float
    reached: float

    @property
    def error(self) -> float:
        """Return the share that is missing or too much."""
        return self.reached / self.target - 1


class Arm(_Record):
    """One thing that is compared: a name, what it means, and the run without its seed."""

    name: str
    meaning: str
    run: RunSpec
    rate_from: str  # where its learning rate comes from
    parameters: int
    training_flops: int  # of one step
    cache_bytes: int  # of a full context
    step_seconds: float  # measured before the first run, one thread
    trials: tuple[Trial, ...] = ()
    matching: CostMatch | None = None

    def at(self, seed: int) -> RunSpec:
        return self.run.replace(seed=seed)

    @property
    def rate_at_edge(self) -> bool:
        """Return whether the learning rate is the lowest or the highest of several that were tried."""
        rates = [trial.learning_rate for trial in self.trials]
        return len(rates) > 1 and self.run.learning_rate in (min(rates), max(rates))

    @property
    def hash(self) -> str:
        """Return the hash of the run's spec: the same for all seeds."""
        return hashlib.sha256(self.run.model_dump_json(exclude={"seed"}).encode()).hexdigest()[:12]


class Pilot(_Record):
    """What is known beforehand about the noise of a paired difference.

    `differences` are those of a pilot, by size and arm, at the same `seeds` for every size.
    """

    sd: float  # nats
    degrees: int
    source: str
    differences: dict[str, dict[str, tuple[float, ...]]] = {}
    seeds: tuple[int, ...] = ()

    def apart_from(self, seeds: Sequence[int]) -> Pilot:
        """Return the pilot of a comparison at these seeds, without its differences if it has one of the seeds too."""
        shared = not {*self.seeds}.isdisjoint(seeds)
        return self.model_copy(update={"differences": {}}) if shared else self

    def noise(self, size: str) -> dict[str, Noise]:
        """Return the noise of every arm that the pilot has at this size."""
        return {arm: Noise.of(values) for arm, values in self.differences.get(size, {}).items() if len(values) > 1}


class Rung(_Record):
    """One size, or the same with half the tokens: its arms (the baseline first), and how they are judged."""

    name: str
    size: str
    parameters: int  # of the baseline, embeddings included
    non_embedding: int
    tokens: int  # that each run is trained on
    halved: bool  # whether this is the rung of its size with half the tokens
    arms: tuple[Arm, ...]
    procedure: Procedure

    @property
    def baseline(self) -> Arm:
        return self.arms[0]

    @property
    def tokens_per_step(self) -> int:
        """Return the tokens of a batch, which all arms share; at least 1."""
        return max(1, self.tokens // (self.baseline.run.steps or 1))


class Plan(Specification):
    """Arms (the baseline first), seeds, metric, procedure, and what can be expected of them.

    `arms` are those of the largest size, which decides; `lower` are the rungs below it.
    """

    model_config = ConfigDict(allow_inf_nan=True)  # too few seeds detect no difference, however large
    what: ClassVar[str] = "a plan"

    request: Request
    arms: tuple[Arm, ...]
    lower: tuple[Rung, ...] = ()
    non_embedding: int = 0
    tokens: int = 0  # that each run at the largest size is trained on
    context_length: int = 0
    bytes_per_token: float | None = None
    seeds: tuple[int, ...]  # of the first interim analysis
    steps: int
    metric: str
    procedure: Procedure
    pilot: Pilot
    detectable: float  # nats
    smallest_p: float
    equivalence_power: float = 0.0  # chance that an arm that does not differ is shown to be equivalent
    seeds_for_margin: int | None
    predicted_minutes: float
    processes: int
    threads: int
    corpus_hash: str
    bigram_loss: float | None  # nats; None where the corpus is no text
    warnings: tuple[str, ...]
    runs_folder: str = "runs"  # beside the plan, or where comparisons of one study share their runs
    python: str
    sources: dict[str, str] = Field(default={})  # files that the text was read from, with their SHA-256
    made: str

    @property
    def baseline(self) -> Arm:
        return self.arms[0]

    @property
    def others(self) -> tuple[Arm, ...]:
        return self.arms[1:]

    def arm(self, name: str) -> Arm:
        return next(arm for arm in self.arms if arm.name == name)

    @property
    def variants(self) -> tuple[str, ...]:
        """Return the names of all variants, those included that are trained on lower rungs only."""
        lower = (arm.name for rung in self.lower for arm in rung.arms)
        names = dict.fromkeys([*(arm.name for arm in self.arms), *lower])
        return tuple(name for name in names if name != self.baseline.name)

    @property
    def rungs(self) -> tuple[Rung, ...]:
        """Return all sizes, ascending; the last is the largest, which decides."""
        largest = Rung(
            name=self.request.size,
            size=self.request.size,
            parameters=self.baseline.parameters,
            non_embedding=self.non_embedding,
            tokens=self.tokens,
            halved=False,
            arms=self.arms,
            procedure=self.procedure,
        )
        return (*self.lower, largest)

    def is_largest(self, rung: Rung) -> bool:
        return rung.size == self.request.size

    def runs(self, seeds: Sequence[int]) -> Iterator[tuple[Rung, Arm, int]]:
        """Yield every arm at every seed, seed by seed, so that what is there after an interruption is paired.

        Within a seed the longest runs come first, so that the short ones fill the last gaps.
        """
        rungs = self.rungs[::-1]
        return ((rung, arm, seed) for seed in seeds for rung in rungs for arm in rung.arms)

    def run_path(self, folder: Path, spec: RunSpec) -> Path:
        """Return the directory of a run of this plan, whose own folder is `folder`."""
        return folder / self.runs_folder / spec.name(self.corpus_hash)

    def save(self, folder: Path) -> None:
        """Write the plan into the folder of its comparison."""
        write_plan(folder, self.model_dump(mode="json"))

    @classmethod
    def load(cls, folder: Path) -> Plan:
        """Return the plan in a comparison's folder, as it was made."""
        data = read_plan(folder)
        try:
            return cls.from_plain(data)
        except AttnlabError as error:
            raise FileError(
                f"{folder / PLAN} cannot be read: {error.message}", hint="compare again in another folder"
            ) from None
