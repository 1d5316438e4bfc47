"""Comparisons over several sizes with planted differences, and nothing trained."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence

from attnlab.experiments.judging.collecting import losses_of
from attnlab.experiments.judging.judgement import judge
from attnlab.experiments.planning.plan import Arm, Rung
from attnlab.experiments.request import Request
from attnlab.experiments.results import ArmResult, ArmRun, Comparison, RungResult
from attnlab.models.sizes import non_embedding, size
from support.comparisons import make_comparison

SIZES = ("6k", "14k", "25k")
Effects = Mapping[str, Sequence[float | None]]  # of each arm on each rung, in nats; None where it is not trained


def make_ladder(
    effects: Effects,
    *,
    sizes: Sequence[str] = SIZES,
    half: Effects | None = None,
    seeds: int = 5,
    noise: float = 0.002,
    diverged: Mapping[tuple[str, str], Sequence[int]] | None = None,
    claims: bool = False,
) -> Comparison:
    """Return a comparison of arms with softmax; `half` are differences with half the tokens, below the largest size.

    `diverged` are seeds by arm and rung.
    """
    top = [name for name, found in effects.items() if found[-1] is not None]
    base = make_comparison(top, seeds=seeds)
    lost = diverged or {}
    lower = []
    for place, name in enumerate(sizes[:-1]):
        for halved in (True, False) if half else (False,):
            here = {arm: found[place] for arm, found in (half if half and halved else effects).items()}
            rung = f"{name}, half the tokens" if halved else name
            arms = _arms(base, {arm: effect for arm, effect in here.items() if effect is not None}, name, rung)
            lower.append(_rung(base, arms, rung, name, halved, _results(arms, here, rung, seeds, noise, lost)))
    largest = {arm: found[-1] for arm, found in effects.items()}
    arms = _arms(base, dict.fromkeys(top, 0.0), sizes[-1], sizes[-1])
    results = _results(arms, largest, sizes[-1], seeds, noise, lost)
    request = Request(
        variants=tuple(effects),
        size=sizes[-1],
        rungs=tuple(sizes[:-1]),
        tokens_per_parameter=80,
        seeds=seeds,
        margin=base.plan.request.margin,
        half_tokens=half is not None,
        claims=claims,
    )
    facts = {
        "request": request,
        "arms": arms,
        "lower": tuple(one.rung for one in lower),
        "non_embedding": non_embedding(size(sizes[-1])),
        "tokens": 80 * arms[0].parameters,
    }
    plan = base.plan.model_copy(update=facts)
    judgements = judge(losses_of(results), "softmax", plan.procedure, witnesses=False)
    return dataclasses.replace(base, plan=plan, arms=results, judgements=judgements, lower=tuple(lower))


def _arms(base: Comparison, effects: Mapping[str, object], size_name: str, label: str) -> tuple[Arm, ...]:
    count = non_embedding(size(size_name)) + 6000
    changes = {"parameters": count}
    one = base.plan.baseline
    run = one.run.replace(size=size_name, steps=50 if "half" in label else 100)
    return tuple(
        one.model_copy(update={**changes, "name": name, "run": run.replace(variant=name)})
        for name in ("softmax", *effects)
    )


def _rung(
    base: Comparison, arms: tuple[Arm, ...], name: str, size_name: str, halved: bool, results: tuple[ArmResult, ...]
) -> RungResult:
    tokens = 80 * arms[0].parameters // (2 if halved else 1)
    rung = Rung(
        name=name,
        size=size_name,
        parameters=arms[0].parameters,
        non_embedding=non_embedding(size(size_name)),
        tokens=tokens,
        halved=halved,
        arms=arms,
        procedure=base.plan.procedure,
    )
    return RungResult(rung, results, judge(losses_of(results), "softmax", rung.procedure, witnesses=False))


def _results(
    arms: Sequence[Arm],
    effects: Mapping[str, float | None],
    rung: str,
    seeds: int,
    noise: float,
    diverged: Mapping[tuple[str, str], Sequence[int]],
) -> tuple[ArmResult, ...]:
    results = []
    for arm in arms:
        cells = []
        for seed in range(seeds):
            shared = random.Random(f"{rung} {seed}").gauss(0, 0.02)
            own = noise * random.Random(f"{arm.name} {arm.run.size} {seed}").gauss(0, 1)
            own += 0.2 * noise * random.Random(f"{arm.name} {rung} {seed}").gauss(0, 1)  # what the tokens change
            loss = 2.4 - 0.01 * arm.parameters / 1000 + (effects.get(arm.name) or 0.0) + shared + own
            cells.append(make_cell(arm, seed, None if seed in diverged.get((arm.name, rung), ()) else loss))
        results.append(ArmResult(arm, tuple(cells)))
    return tuple(results)


def make_cell(arm: Arm, seed: int, loss: float | None, late: float | None = None) -> ArmRun:
    """Return a run that ends at `loss`, None if it diverged, and was at `late` after three quarters of it."""
    template = make_comparison(("tied-kv",), seeds=2).arms[0].runs[0]
    steps = arm.run.steps or 100
    before = (loss or 3.0) if late is None else late
    curve = ((steps // 2, before + 0.1), (3 * steps // 4, before), *([] if loss is None else [(steps, loss)]))
    return dataclasses.replace(
        template,
        arm=arm.name,
        seed=seed,
        outcome="diverged" if loss is None else "finished",
        loss=loss,
        curve=curve,
        training_curve=curve,
        message="the loss was not a number" if loss is None else None,
        measures={},
    )
