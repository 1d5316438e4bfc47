"""How noisy a paired difference is, before anything is compared: recorded of a known setting, or seen in a few runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from attnlab.errors import AttnlabError, SpecError
from attnlab.experiments.defaults import DEFAULT, setting_of
from attnlab.experiments.launching import Job, JobEnd, Launcher, LaunchListener
from attnlab.experiments.plan import Arm, Pilot
from attnlab.experiments.request import Request
from attnlab.statistics import pooled_sd

PILOT_SEED = 2_000_000  # and those after it, which no comparison uses
_SEEDS, _ARMS = 3, 2
_RECORDED = "a recorded search of this setting (docs/log.md)"
_FOREIGN = "no pilot was run: this is the noise recorded of the default setting, and here it may be quite another"


def find_noise(
    arms: Sequence[Arm], request: Request, folder: Path, launcher: Launcher, listener: LaunchListener
) -> Pilot:
    """The standard deviation of a difference between an arm and the baseline at one seed."""
    known = setting_of(request) is not None
    if request.pilot == 0 or (known and request.pilot is None):
        return Pilot(sd=DEFAULT.noise, degrees=DEFAULT.degrees, source=_RECORDED if known else _FOREIGN)
    count = _SEEDS if request.pilot is None else request.pilot
    if count < 2:
        raise SpecError("a pilot of one seed shows no noise", hint="use --pilot 3, or --pilot 0 for none")
    chosen = arms[: 1 + _ARMS]
    listener.note(f"a pilot: {count} seeds of {', '.join(arm.name for arm in chosen)}")
    specs = [arm.at(PILOT_SEED + number) for arm in chosen for number in range(count)]
    ends = launcher.run([Job(number, spec, folder) for number, spec in enumerate(specs)], listener=listener)
    losses = [_losses(ends[row * count : (row + 1) * count]) for row in range(len(chosen))]
    groups = [_differences(arm, losses[0]) for arm in losses[1:]]
    paired = [group for group in groups if len(group) > 1]
    if not paired:
        raise AttnlabError("the pilot diverged, so that its noise is unknown", hint="lower learning_rate, or --pilot 0")
    sd, degrees = pooled_sd(paired)
    return Pilot(sd=sd, degrees=degrees, source=f"a pilot of {count} seeds × {len(chosen)} arms")


def _losses(ends: Sequence[JobEnd]) -> list[float | None]:
    losses = []
    for end in ends:
        if end.result is None:
            raise AttnlabError(f"a run of the pilot failed: {end.problem}", hint="call it again to go on")
        losses.append(end.result.validation_loss if end.result.outcome == "finished" else None)
    return losses


def _differences(arm: Sequence[float | None], baseline: Sequence[float | None]) -> list[float]:
    return [
        ours - theirs for ours, theirs in zip(arm, baseline, strict=True) if ours is not None and theirs is not None
    ]
