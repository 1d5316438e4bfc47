"""How noisy a paired difference is, before anything is compared.

It is recorded of a known setting, or seen in the trials of learning rates, or in a few runs of a pilot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from attnlab.errors import AttnlabError, SpecError
from attnlab.experiments.launching.launcher import Job, JobEnd, Launcher, LaunchListener
from attnlab.experiments.planning.defaults import DEFAULT, setting_of
from attnlab.experiments.planning.plan import Arm, Pilot, Rung
from attnlab.experiments.request import DEFAULT_SIZE, Request
from attnlab.statistics import pooled_sd

PILOT_SEED = 2_000_000  # and those after it, which no comparison uses
_SEEDS, _ARMS = 3, 2
_RECORDED = "a recorded pilot of this setting (docs/log.md)"
_FOREIGN = "no pilot was run: this is the noise recorded of the default setting, and here it may be quite another"


def find_noise(
    arms: Sequence[Arm],
    lower: Sequence[Rung],
    request: Request,
    folder: Path,
    launcher: Launcher,
    listener: LaunchListener,
) -> Pilot:
    """Return the standard deviation of a difference between an arm and the baseline at one seed."""
    searched = _from_trials({**{rung.size: rung.arms for rung in lower if not rung.halved}, request.size: arms})
    if searched is not None and not request.pilot:
        return searched
    # Recorded at the recorded rates, against the usual baseline.
    known = setting_of(request) is not None and not request.tune and request.baseline == Request().baseline
    if request.pilot == 0 or (known and request.pilot is None):
        sd, degrees = pooled_sd(DEFAULT.differences[DEFAULT_SIZE].values())
        return Pilot(
            sd=sd,
            degrees=degrees,
            source=_RECORDED if known else _FOREIGN,
            differences=DEFAULT.differences if known else {},
            seeds=DEFAULT.pilot_seeds if known else (),
        )
    count = _SEEDS if request.pilot is None else request.pilot
    if count < 2:
        raise SpecError("a pilot of one seed shows no noise", hint="use --pilot 3, or --pilot 0 for none")
    chosen = arms[: 1 + _ARMS]
    listener.note(f"a pilot: {count} seeds of {', '.join(arm.name for arm in chosen)}")
    specs = [arm.at(PILOT_SEED + number) for arm in chosen for number in range(count)]
    ends = launcher.run([Job(number, spec, folder) for number, spec in enumerate(specs)], listener=listener)
    losses = [_losses(ends[row * count : (row + 1) * count]) for row in range(len(chosen))]
    groups = {arm.name: _differences(ours, losses[0]) for arm, ours in zip(chosen[1:], losses[1:], strict=True)}
    paired = {name: tuple(group) for name, group in groups.items() if len(group) > 1}
    if not paired:
        raise AttnlabError("the pilot diverged, so that its noise is unknown", hint="lower learning_rate, or --pilot 0")
    sd, degrees = pooled_sd(paired.values())
    source = f"a pilot of {count} seeds × {len(chosen)} arms"
    return Pilot(sd=sd, degrees=degrees, source=source, differences={request.size: paired})


def _from_trials(rungs: Mapping[str, Sequence[Arm]]) -> Pilot | None:
    """Return what the trials at the rates that were taken show, with the noise of the largest size that has them."""
    differences: dict[str, dict[str, tuple[float, ...]]] = {}
    for size, (baseline, *others) in rungs.items():
        theirs = _trial_losses(baseline)
        pairs = {arm.name: tuple(_differences(_trial_losses(arm), theirs)) for arm in others}
        if paired := {name: values for name, values in pairs.items() if len(values) > 1}:
            differences[size] = paired
    if not differences:
        return None
    largest = next(reversed(differences))
    sd, degrees = pooled_sd(differences[largest].values())
    return Pilot(sd=sd, degrees=degrees, source=f"the search for rates at {largest}", differences=differences)


def _trial_losses(arm: Arm) -> Sequence[float | None]:
    """Return the losses by seed of the trial at the rate that the arm takes; none if there was none."""
    return next((one.losses for one in arm.trials if one.learning_rate == arm.run.learning_rate), ())


def _losses(ends: Sequence[JobEnd]) -> list[float | None]:
    losses = []
    for end in ends:
        if end.result is None:
            raise AttnlabError(f"a run of the pilot failed: {end.problem}", hint="call it again to go on")
        losses.append(end.result.validation_loss if end.result.outcome == "finished" else None)
    return losses


def _differences(arm: Sequence[float | None], baseline: Sequence[float | None]) -> list[float]:
    return [
        ours - theirs for ours, theirs in zip(arm, baseline, strict=False) if ours is not None and theirs is not None
    ]
