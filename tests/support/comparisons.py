"""Made-up comparisons of any size, with all that a real one has and nothing trained."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

from attnlab.experiments.judging.judgement import judge
from attnlab.experiments.planning.plan import METRIC, Arm, CostMatch, Pilot, Plan, Trial
from attnlab.experiments.planning.procedure import Procedure, planned_effect
from attnlab.experiments.request import Request
from attnlab.experiments.results import ArmResult, ArmRun, Comparison, InterimAnalysis
from attnlab.training import RunSpec

# What each variant adds to the loss, in nats.
EFFECTS: Mapping[str, float] = {
    "tied-kv": 0.02,
    "cosine": 0.35,
    "cosine-learned": -0.012,
    "softmax-plus-one": 0.0005,
    "sigmoid": 0.006,
    "relu": 0.05,
    "sparsemax": 0.015,
    "entmax15": -0.001,
    "squared-relu": 0.03,
    "softpick": 0.01,
    "tied-qk": 0.08,
}
STEPS = 330
_EVALUATIONS = 6
_BATCH = 12 * 64  # tokens


def make_comparison(
    names: Sequence[str] = ("tied-kv", "cosine", "cosine-learned"),
    *,
    seeds: int = 8,
    first_look: int | None = None,
    diverged: Mapping[str, Sequence[int]] | None = None,
    match: bool = False,
    tuned: bool = False,
    noise: float = 0.005,
    bigram_loss: float | None = 2.02,
    bytes_per_token: float | None = None,
    path: Path = Path("runs/compare-made-up"),
) -> Comparison:
    """A comparison with `softmax`; `first_look` seeds were there at a first look, if this is not the first."""
    lost = {name: set(found) for name, found in (diverged or {}).items()}
    arms = [_arm(name, tuned) for name in ("softmax", *names)]
    if match:
        arms += [_matched(arm) for arm in arms if arm.name == "tied-kv"]
    results = tuple(
        ArmResult(arm, tuple(_cell(arm, seed, noise, path, seed in lost.get(arm.name, set())) for seed in range(seeds)))
        for arm in arms
    )
    request = Request(
        variants=tuple(names),
        size="nano",
        steps=STEPS,
        seeds=first_look or seeds,
        margin=0.01,
        looks=2,
        match="parameters" if match else None,
    )
    plan = _plan(request, arms, noise, bigram_loss).model_copy(update={"bytes_per_token": bytes_per_token})
    judgements = judge(_losses(results, seeds), "softmax", plan.procedure)
    counts = [seeds] if first_look is None else [first_look, seeds]
    looks = []
    for number, count in enumerate(counts, start=1):
        found = judge(_losses(results, count), "softmax", plan.procedure, witnesses=False)
        looks.append(InterimAnalysis(number, tuple(range(count)), {one.arm: one.verdict for one in found}))
    return Comparison(plan, path, results, judgements, tuple(looks), seconds=13.0 * seeds * len(arms) / 2)


def _losses(results: Sequence[ArmResult], seeds: int) -> dict[str, dict[int, float | None]]:
    return {arm.name: {cell.seed: cell.loss for cell in arm.runs if cell.seed < seeds} for arm in results}


def _plan(request: Request, arms: Sequence[Arm], noise: float, bigram_loss: float | None) -> Plan:
    procedure = Procedure(looks=request.looks, margin=request.margin_nats)
    expected = planned_effect(noise, request.seeds, len(arms) - 1, procedure)
    return Plan(
        request=request,
        arms=tuple(arms),
        non_embedding=12 * 4 * 128**2,
        tokens=STEPS * _BATCH,
        context_length=64,
        seeds=tuple(range(request.seeds)),
        steps=STEPS,
        metric=METRIC,
        procedure=procedure,
        pilot=Pilot(sd=noise, degrees=16, source="3 seeds of each arm, trained for this plan"),
        detectable=expected.detectable,
        smallest_p=expected.smallest_p,
        equivalence_power=expected.equivalence_power,
        seeds_for_margin=expected.seeds_for_margin,
        predicted_minutes=8.4,
        processes=2,
        threads=1,
        corpus_hash="c" * 64,
        bigram_loss=bigram_loss,
        warnings=expected.warnings,
        python="3.11.0",
        made="2026-01-02T03:04:05+00:00",
    )


def _arm(name: str, tuned: bool) -> Arm:
    tied = name.startswith("tied")
    rates = (3e-4, 1e-3, 3e-3, 1e-2)
    effect = EFFECTS.get(name, 0.0)
    trials = tuple(
        Trial(learning_rate=rate, loss=1.74 + effect + 0.1 * math.log(rate / 2e-3) ** 2) for rate in rates[:3]
    )
    return Arm(
        name=name,
        meaning=f"What {name} is.",
        run=RunSpec(variant=name, size="nano", steps=STEPS, learning_rate=3e-3),
        rate_from="a recorded search (docs/log.md)",
        parameters=230_000 - 18_000 * tied,
        training_flops=1_200_000_000 - 60_000_000 * tied,
        cache_bytes=98_304 // (2 if tied else 1),
        step_seconds=0.04,
        trials=(*trials, Trial(learning_rate=rates[3], loss=None)) if tuned else (),
    )


def _matched(arm: Arm) -> Arm:
    matching = CostMatch(what="parameters", field="mlp_width", value=430, target=230_000, reached=230_120)
    return arm.model_copy(update={"name": f"{arm.name} [parameters]", "matching": matching, "parameters": 230_120})


def _cell(arm: Arm, seed: int, noise: float, path: Path, diverged: bool) -> ArmRun:
    draw = random.Random(f"{arm.name} {seed}")
    shared = random.Random(seed).gauss(0, 0.02)
    last = 1.74 + EFFECTS.get(arm.name.partition(" [")[0], 0.0) + shared + draw.gauss(0, noise)
    steps = [round(STEPS * number / _EVALUATIONS) for number in range(1, _EVALUATIONS + 1)]
    curve = [(step, last + 1.6 * (1 - step / STEPS) ** 2 * (1 + 0.05 * draw.random())) for step in steps]
    if diverged:
        curve = [(steps[0], 3.4), (steps[1], 5.9)]
    seconds = 13.0 + draw.random() + 3 * (arm.name in {"sparsemax", "entmax15"})
    return ArmRun(
        arm=arm.name,
        seed=seed,
        outcome="diverged" if diverged else "finished",
        path=path / "runs" / f"{arm.run.variant}-nano-gpt2-seed{seed}-{arm.hash[:8]}",
        command=f"attnlab train --variant {arm.run.variant} --size nano --steps {STEPS} --seed {seed} "
        "--threads 1 --workers 1 --change learning_rate=0.003 --change evaluate_every=55",
        loss=None if diverged else last,
        message="the loss was not a number at step 117" if diverged else None,
        curve=tuple(curve),
        training_curve=tuple((step, loss - 0.03) for step, loss in curve),
        seconds=seconds,
        tokens_per_second=STEPS * _BATCH / seconds,
        peak_bytes=410_000_000,
        weights_sha256=None if diverged else hashlib.sha256(f"{arm.name} {seed}".encode()).hexdigest(),
        measures={} if diverged else _measures(arm.name, draw),
    )


def _measures(name: str, draw: random.Random) -> dict[str, float]:
    found = {
        "row mass": 1.0 if name not in {"sigmoid", "softmax-plus-one", "relu"} else 0.8 + 0.1 * draw.random(),
        "entropy": 0.6 + 0.02 * draw.random(),
        "first-token share": 0.2 + 0.02 * draw.random(),
        "sparsity": 0.4 + 0.02 * draw.random() if name in {"sparsemax", "entmax15", "relu"} else 0.0,
        "train loss": 1.70 + 0.01 * draw.random(),
        "gap": 0.04 - 0.01 * draw.random(),
    }
    if not name.startswith("cosine"):  # whose keys have no length
        found["norm explains"] = 0.3 + 0.05 * draw.random()
    return found
