"""Retrofits as arms of a comparison: each variant and method against the original finetuned on the same tokens.

    judged(retrofit(run, request_of(variants=("tied-kv", "mqa"), tokens=2_000_000))).verdicts

The final losses are paired by seed and judged by the procedure of every comparison, at its only analysis. The family of
arms that Holm's correction is for has one arm for each variant and method.
"""

from __future__ import annotations

from dataclasses import replace

from attnlab.experiments.judging.judgement import judge
from attnlab.experiments.planning.procedure import Procedure
from attnlab.retrofit.healing.curves import Healing
from attnlab.retrofit.result import ArmVerdict, RetrofitResult

_BASELINE = "original"


def judged(result: RetrofitResult, procedure: Procedure | None = None) -> RetrofitResult:
    """Return a result with its verdicts; without healing, or with one seed, there is nothing to judge."""
    if result.control is None or len(result.control.runs) < 2:
        return result
    arms = {(one.name, healing.method): healing for one in result.variants for healing in one.healing}
    losses = {f"{name}, {method}": _finals(healing) for (name, method), healing in arms.items()}
    found = judge({_BASELINE: _finals(result.control), **losses}, _BASELINE, procedure or Procedure(looks=1))
    verdicts = tuple(
        ArmVerdict(name, method, one.verdict, one.reason) for (name, method), one in zip(arms, found, strict=True)
    )
    return replace(result, verdicts=verdicts)


def _finals(healing: Healing) -> dict[int, float | None]:
    return {run.seed: None if run.diverged else run.final for run in healing.runs}
