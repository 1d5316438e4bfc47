"""Segments of training, drawn at random and replayed.

A segment is the part of a run between two linked states. It is replayed from the nearest saved state before it (from
new weights if there is none), so the segments in between are replayed too. If a share s of all N segments was never
trained, K segments drawn at random miss all of them with the probability

    C(N − sN, K) / C(N, K)  ≤  (1 − s)^K

The verifier draws from all segments; the states that were kept only determine how long a replay takes.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from attnlab.formats import plural
from attnlab.runs.metrics import encode_entry
from attnlab.runs.receipts import kept_steps, read_state, state_path
from attnlab.training.replaying import Replay, replay
from attnlab.verification.checks import CheckList, MismatchError, Note, UncheckedError
from attnlab.verification.run_checks import OpenedCorpora, RecordedRun

# On another machine or build rounding differs, and training amplifies it: see docs/decisions/0018-receipts.md.
MEAN_TOLERANCE, MOST_TOLERANCE = 0.01, 0.1  # nats: mean and largest difference of the training losses of a replay
SHARES = (0.01, 0.05, 0.1, 0.25, 0.5)


@dataclass(frozen=True)
class Segment:
    """The steps of a run after `start` up to `stop`."""

    run: RecordedRun
    start: int
    stop: int

    def __str__(self) -> str:
        return f"{self.run}, steps {self.start + 1} … {self.stop}"


@dataclass
class ReplayedSegments:
    """The replayed segments: how many exist, which were drawn, and how exactly they could be compared."""

    population: int = 0
    drawn: list[str] = field(default_factory=list)
    covered: int = 0  # segments, including those in between
    steps: int = 0
    bit_for_bit: int = 0  # replays
    within_tolerance: int = 0
    mean_difference: float = 0.0  # in nats, the largest over replays that were not bit for bit
    largest_difference: float = 0.0

    def missed(self) -> list[tuple[float, float, float]]:
        """Return for some shares of forged segments the chance that all were missed, and its bound (1 − s)^K."""
        drawn = len(self.drawn)
        return [
            (s, chance_missed(self.population, math.ceil(s * self.population), drawn), (1 - s) ** drawn) for s in SHARES
        ]


def chance_missed(population: int, forged: int, drawn: int) -> float:
    """Return the probability that none of `forged` segments is among those drawn without replacement."""
    return math.comb(population - forged, drawn) / math.comb(population, drawn) if drawn <= population else 0.0


def segments_of(run: RecordedRun) -> list[Segment]:
    """Return the segments of a run; where it diverged, the last one ends there."""
    steps = [link.step for link in run.states]
    ends = [*steps[1:], *([run.chain[-1].step] if run.chain[-1].step > steps[-1] else [])]
    return [Segment(run, start, stop) for start, stop in zip([*steps[: len(ends)]], ends, strict=True)]


def replay_segments(
    runs: Iterable[RecordedRun],
    count: int,
    corpora: OpenedCorpora,
    checks: CheckList,
    chosen: random.Random | None = None,
    note: Note = lambda _: None,
) -> ReplayedSegments:
    """Draw so many segments of all runs, by the system's randomness unless told otherwise, and replay them."""
    everything = [segment for run in runs for segment in segments_of(run)]
    found = ReplayedSegments(population=len(everything))
    drawn = (chosen or random.SystemRandom()).sample(everything, min(count, len(everything)))
    found.drawn = sorted(map(str, drawn))
    by_start: dict[tuple[str, int], list[Segment]] = defaultdict(list)
    for segment in drawn:
        by_start[segment.run.name, _nearest_state(segment)].append(segment)
    for number, ((_, start), together) in enumerate(sorted(by_start.items()), start=1):
        note(f"replaying training, part {number} of {len(by_start)}")
        run, stop = together[0].run, max(segment.stop for segment in together)
        with checks.checking("replayed segments", f"{run}, steps {start + 1} … {stop}"):
            _replay(run, start, stop, corpora, found)
    return found


def _nearest_state(segment: Segment) -> int:
    """Return the last step before a segment whose state is there; 0 needs none unless weights were another run's."""
    path = segment.run.directory.path
    kept = (step for step in kept_steps(segment.run.resolved.steps) if step <= segment.start)
    return max((step for step in kept if state_path(path, step).exists()), default=0)


def _replay(run: RecordedRun, start: int, stop: int, corpora: OpenedCorpora, found: ReplayedSegments) -> None:
    corpus = corpora.open(run.directory.record)
    state = read_state(run.directory.path, start) if state_path(run.directory.path, start).exists() else None
    if state is None and run.directory.record["spec"].get("start") is not None:
        raise UncheckedError("it began with the weights of another run, and that state was not kept")
    links = [link for link in run.states if start <= link.step <= stop]
    again = replay(run.resolved, corpus, start, stop, state=state, at=[link.step for link in links])
    found.steps += stop - start
    found.covered += sum(start <= one.start and one.stop <= stop for one in segments_of(run))
    problem = next(
        (
            f"the state after step {link.step} is another"
            for link in links
            if again.hashes[link.step] != link.state_hashes
        ),
        None,
    )
    problem = _other_metrics(run, start, stop, again) or problem
    if problem is None:
        found.bit_for_bit += 1
        return
    if run.same_environment(start, stop):
        raise MismatchError(f"replayed from step {start}, {problem}")
    mean, largest = _check_tolerance(run, start, stop, again)
    found.within_tolerance += 1
    found.mean_difference = max(found.mean_difference, mean)
    found.largest_difference = max(found.largest_difference, largest)


def _recorded(run: RecordedRun, start: int, stop: int) -> list[dict[str, float]]:
    return [entry for entry in run.directory.metrics() if start < entry["step"] <= stop]


def _other_metrics(run: RecordedRun, start: int, stop: int, again: Replay) -> str | None:
    """Return the first difference of the metrics, if there is one."""
    for ours, theirs in zip(again.metrics, _recorded(run, start, stop), strict=True):
        same = {name: ours[name] for name in theirs}  # the last step of a run that diverged was not evaluated
        if encode_entry(same) != encode_entry(theirs):
            name = next(name for name in theirs if encode_entry({"_": ours[name]}) != encode_entry({"_": theirs[name]}))
            return f"step {ours['step']} has the {name} {ours[name]:.9g}, recorded is {theirs[name]:.9g}"
    return None


def _check_tolerance(run: RecordedRun, start: int, stop: int, again: Replay) -> tuple[float, float]:
    """Refuse training losses that differ by more than rounding; return the mean and the largest difference."""
    recorded: Sequence[dict[str, float]] = _recorded(run, start, stop)
    apart = [abs(ours["loss"] - theirs["loss"]) for ours, theirs in zip(again.metrics, recorded, strict=True)]
    mean = math.fsum(apart) / len(apart)
    if not (mean <= MEAN_TOLERANCE and max(apart) <= MOST_TOLERANCE):
        raise MismatchError(
            f"over {plural(len(apart), 'step')} the training loss differs by {mean:.4f} nats on average and "
            f"{max(apart):.4f} at most; {MEAN_TOLERANCE:g} and {MOST_TOLERANCE:g} are allowed on other machines"
        )
    return mean, max(apart)
