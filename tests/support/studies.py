"""Studies over sizes that are small enough for a test, carried out or planted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from attnlab.experiments.planning import planner, rate_search
from attnlab.experiments.planning.plan import Trial
from attnlab.experiments.request import ScaleRequest
from attnlab.experiments.scale.rates import RatePoint, RateTable
from attnlab.experiments.scale.study import CorpusStudy, RungCost, ScaleStudy, StudyPlan
from support.ladders import Effects, make_ladder

SMALL: dict[str, Any] = {
    "variants": ("tied-kv",),
    "rungs": ("6k", "14k", "25k"),
    "corpora": ("kinship",),
    "tokens_per_parameter": 0.3,
    "changes": ("context_length=8", "validation_rows=8"),
    "seeds": 2,
    "rate_count": 3,
    "rate_seeds": 1,
}


@contextmanager
def short_search() -> Iterator[None]:
    """Keep the search for rates short: runs of a few steps want ever higher ones, and need not be timed well."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rate_search, "_EXTENSIONS", 0)
        patch.setattr(planner, "_TIMING_SECONDS", 0.001)
        yield


def small_study(**changes: Any) -> ScaleRequest:
    return ScaleRequest(**{**SMALL, **changes})


def planted_study(
    effects: Effects,
    *,
    sizes: tuple[str, ...] = ("6k", "14k", "25k", "55k"),
    half: Effects | None = None,
    held_out: bool = False,
    diverged: Mapping[tuple[str, str], Sequence[int]] | None = None,
    claims: bool = False,
) -> ScaleStudy:
    """Return a study with planted differences, as if carried out, on one corpus or with a second that is held out."""
    corpora = ("python", "docstrings") if held_out else ("python",)
    request = ScaleRequest(
        variants=tuple(effects),
        rungs=sizes,
        seeds=5,
        half_tokens=half is not None,
        corpora=corpora,
        held_out=corpora[1] if held_out else None,
        claims=claims,
    )
    comparison = make_ladder(effects, sizes=sizes, half=half, diverged=diverged, claims=claims)
    table = _rates(("softmax", *effects), sizes)
    costs = tuple(
        RungCost(size, 10_000, 6000, 800_000, ("softmax", *effects), (3.0,) * 2, (1e9,) * 2, halved=False)
        for size in sizes
    )
    plan = StudyPlan(request, request, costs, 0.5, 1.0, 2, ())
    studies = [CorpusStudy(name, name == request.held_out, table, comparison) for name in corpora]
    return ScaleStudy(plan, Path("runs/scale-made-up"), tuple(studies), 84_934_656)


def _rates(arms: tuple[str, ...], sizes: tuple[str, ...]) -> RateTable:
    points = []
    for place, size in enumerate(sizes):
        for arm in arms:
            rates = (0.008, 0.016, 0.032) if place < 2 else ()
            losses = (2.02, 2.0, 2.05 + 0.01 * (arm != "softmax"))
            trials = tuple(
                Trial(learning_rate=rate, loss=loss, losses=(loss - 0.01, loss + 0.01))
                for rate, loss in zip(rates, losses, strict=False)
            )
            points.append(RatePoint(size, 10_000 * 2**place, arm, 0.016, "searched" if trials else "law", trials))
    return RateTable(tuple(points), dict.fromkeys(arms, (-4.0, 0.0)))
