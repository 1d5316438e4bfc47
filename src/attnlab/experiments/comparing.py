"""The main job: a plan, its runs, a verdict.

    comparison = compare(variants=("tied-kv", "cosine-learned"), seeds=8)
    comparison.judgements[0].verdict
    comparison = compare(variants=("tied-kv", "cosine-learned"), seeds=8, add_seeds=8)      the second planned look

The same request finds what is there: a finished comparison trains nothing, an interrupted one goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.attention import load_variants
from attnlab.corpora import Corpus, open_corpus
from attnlab.errors import AttnlabError, FileError, SpecError
from attnlab.experiments.judging.collecting import check_runs, collect, collect_rung, jobs_of, judge_rung
from attnlab.experiments.judging.judgement import Judgement
from attnlab.experiments.launching.launcher import JobEnd, Launcher, LaunchListener, launcher
from attnlab.experiments.planning.plan import Plan
from attnlab.experiments.planning.planner import Trials, corpus_spec, make_plan
from attnlab.experiments.request import PLAN, Request
from attnlab.experiments.results import Comparison, Look
from attnlab.runs.ledger import DEFAULT_ROOT
from attnlab.storage.disk import make_folders, refusal
from attnlab.storage.locks import holding
from attnlab.storage.records import read_json, write_json

LOOKS = "looks.json"
_AFTER = "attnlab.lens.runs:measure_run"


@dataclass
class _Progress:
    """The looks that were taken or begun, and the time that training took; kept in looks.json."""

    looks: list[dict[str, Any]]
    seconds: float

    @classmethod
    def load(cls, folder: Path, plan: Plan) -> _Progress:
        path = folder / LOOKS
        if not path.exists():
            return cls([{"seeds": list(plan.seeds), "verdicts": None}], 0.0)
        record = read_json(path)
        return cls(record["looks"], record["seconds"])

    def save(self, folder: Path) -> None:
        write_json(folder / LOOKS, {"looks": self.looks, "seconds": self.seconds})

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(self.looks[-1]["seeds"])

    def extend(self, count: int, plan: Plan) -> None:
        """Begin another look with more seeds, unless the last one has not been taken yet."""
        if self.looks[-1]["verdicts"] is None:
            return
        if len(self.looks) >= plan.procedure.looks:
            raise SpecError(
                f"the plan has {plan.procedure.looks} looks, and all of them were taken: more would find something "
                "sooner or later, whether it is there or not",
                hint="plan anew with other seeds and more looks, such as --first-seed 1000 --looks 3",
            )
        seeds = list(self.seeds)
        seeds += range(max(seeds) + 1, max(seeds) + 1 + count)
        self.looks.append({"seeds": seeds, "verdicts": None})

    @contextmanager
    def timed(self, folder: Path) -> Iterator[None]:
        """Count the time inside, also if it is interrupted; not if there is nothing left to do."""
        if self.looks[-1]["verdicts"] is not None:
            yield
            return
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.seconds += time.perf_counter() - begin
            self.save(folder)

    def take(self, judgements: Sequence[Judgement]) -> None:
        """The last look is taken, unless it was before."""
        if self.looks[-1]["verdicts"] is None:
            self.looks[-1]["verdicts"] = {judgement.arm: judgement.verdict for judgement in judgements}

    @property
    def taken(self) -> tuple[Look, ...]:
        return tuple(
            Look(number, tuple(look["seeds"]), look["verdicts"]) for number, look in enumerate(self.looks, start=1)
        )


@dataclass(frozen=True)
class _Ready:
    """Everything that is there before the first run."""

    plan: Plan
    corpus: Corpus
    folder: Path
    works: Launcher
    listener: LaunchListener
    cache: Path | None


def compare(
    request: Request | None = None,
    *,
    add_seeds: int = 0,
    planned: Callable[[Plan], None] | None = None,
    out: Path = Path(DEFAULT_ROOT),
    runs_folder: str = "runs",
    trials: Trials | None = None,
    on: str | Launcher = "local",
    where: Mapping[str, Any] | None = None,
    cache: Path | None = None,
    listener: LaunchListener | None = None,
    **fields: Any,
) -> Comparison:
    """Carry out a request, or resume it.

    `fields` are those of a `Request`, `where` those of the launcher `on`. `planned` is told the plan before the first
    run. Runs lie in `runs_folder`, relative to the comparison's own folder; comparisons of one study share theirs.
    `trials` are those by which the request's learning rates were found.
    """
    if request is not None and fields:
        raise SpecError("a request was given, and fields of one too", hint="give one or the other")
    if add_seeds < 0:
        raise SpecError(f"{add_seeds} seeds cannot be added", hint="give a number above 0")
    with _made_ready(request or Request(**fields), out, on, where, cache, listener, runs_folder, trials) as ready:
        progress = _Progress.load(ready.folder, ready.plan)
        if add_seeds:
            progress.extend(add_seeds, ready.plan)
            progress.save(ready.folder)
        if planned is not None:
            planned(ready.plan)
        return _carry_out(ready, progress)


def plan_comparison(
    request: Request,
    *,
    out: Path = Path(DEFAULT_ROOT),
    on: str | Launcher = "local",
    where: Mapping[str, Any] | None = None,
    cache: Path | None = None,
    listener: LaunchListener | None = None,
) -> Plan:
    """The plan alone, which `compare` would carry out; learning rates and a pilot are tried if it needs them."""
    with _made_ready(request, out, on, where, cache, listener) as ready:
        return ready.plan


@contextmanager
def _made_ready(
    request: Request,
    out: Path,
    on: str | Launcher,
    where: Mapping[str, Any] | None,
    cache: Path | None,
    listener: LaunchListener | None,
    runs_folder: str = "runs",
    trials: Trials | None = None,
) -> Iterator[_Ready]:
    """The plan in its folder, which is held meanwhile."""
    listener = listener or LaunchListener()
    variants = None if request.variants_from is None else Path(request.variants_from)
    if variants is not None:
        load_variants(variants)
    works = on
    if isinstance(works, str):
        works = launcher(works, after=_AFTER, cache=cache, variants_from=variants, **(where or {}))
    corpus = open_corpus(corpus_spec(request), cache)
    folder = out / request.folder
    try:
        make_folders(folder)
    except OSError as error:
        raise refusal(f"{folder} cannot be made", error) from error
    with holding(folder):
        plan = _plan(request, corpus, folder, works, listener, runs_folder, trials)
        yield _Ready(plan, corpus, folder, works, listener, cache)


def _plan(
    request: Request,
    corpus: Corpus,
    folder: Path,
    works: Launcher,
    listener: LaunchListener,
    runs_folder: str,
    trials: Trials | None,
) -> Plan:
    if not (folder / PLAN).exists():
        plan = make_plan(request, corpus, folder, works, listener, runs_folder, trials)
        plan.save(folder)
    else:
        plan = Plan.load(folder)
    if plan.request != request:
        raise FileError(f"{folder} holds the plan of another request", hint="compare in another folder with --out DIR")
    if plan.corpus_hash != corpus.hash:
        raise FileError(
            f"the text of {request.corpus} has changed since the plan in {folder} was made",
            hint="bring the old text back, or compare on the new one in another folder with --out DIR",
        )
    return plan


def _carry_out(ready: _Ready, progress: _Progress) -> Comparison:
    plan, folder, seeds = ready.plan, ready.folder, progress.seeds
    check_runs(plan, folder, seeds, ready.corpus)
    with progress.timed(folder):
        ends = ready.works.run(jobs_of(plan, folder, seeds), listener=ready.listener)
    _check_ends(ends)
    arms = collect(plan, folder, seeds, ready.corpus, ready.cache)
    lower = tuple(collect_rung(plan, rung, folder, seeds, ready.corpus) for rung in plan.lower)
    judgements = judge_rung(plan, plan.request.size, plan.procedure, arms)
    progress.take(judgements)
    progress.save(folder)
    return Comparison(plan, folder, arms, judgements, progress.taken, progress.seconds, lower)


def _check_ends(ends: Sequence[JobEnd]) -> None:
    failed = [end for end in ends if end.result is None or end.result.outcome == "stopped"]
    if failed:
        raise AttnlabError(
            f"{len(failed)} of {len(ends)} runs have not ended; the first: {failed[0].problem or 'it was stopped'}",
            hint="call it again: what was trained is kept, and it goes on from there",
        )
