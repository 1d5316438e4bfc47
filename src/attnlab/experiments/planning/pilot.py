"""How noisy a paired difference is, before anything is compared, and what is recorded of the default comparison.

The noise is recorded of a known setting, or seen in the trials of learning rates, or in a few runs of a pilot. The
recorded rates were chosen by a search over sizes, the recorded noise was seen in a pilot, both with seeds that the
default does not use. docs/log.md has the commands and the figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from attnlab.errors import AttnlabError, SpecError
from attnlab.experiments.launching.jobs import Job, Launcher, LaunchListener
from attnlab.experiments.planning.plan import Arm, Pilot, Rung
from attnlab.experiments.request import DEFAULT_SIZE, Request
from attnlab.statistics import pooled_sd

Differences = dict[str, dict[str, tuple[float, ...]]]  # in nats, by size and arm

PILOT_SEED = 2_000_000  # and those after it, which no comparison uses
_SEEDS, _ARMS = 3, 2
_RECORDED = "a recorded pilot of this setting (docs/log.md)"
_FOREIGN = "no pilot was run: this is the noise recorded of the default setting, and here it may be quite another"


@dataclass(frozen=True)
class RecordedSetting:
    """The recorded rates, and the differences to softmax in nats of a pilot's seeds, both by size and arm."""

    rates: Mapping[str, Mapping[str, float]]
    differences: Differences
    pilot_seeds: tuple[int, ...]


def _seeds(differences: str) -> tuple[float, ...]:
    """Return the differences of all seeds, which stand in their order."""
    return tuple(map(float, differences.split()))


DEFAULT = RecordedSetting(
    rates={
        "14k": {
            "softmax": 0.0095,
            "tied-kv": 0.006718,
            "cosine": 0.0095,
            "cosine-learned": 0.0095,
            "sigmoid": 0.0095,
        },
        "25k": {
            "softmax": 0.01344,
            "tied-kv": 0.0095,
            "cosine": 0.01344,
            "cosine-learned": 0.0095,
            "sigmoid": 0.01344,
        },
    },
    differences={
        "14k": {
            "tied-kv": _seeds(
                "0.0241 0.0607 0.0630 0.0452 -0.0028 0.0253 0.0431 0.0643 0.0178 0.0381"
                " 0.0340 0.0584 0.0394 0.0327 0.0510 0.0407"
            ),
            "cosine": _seeds(
                "0.3454 0.3556 0.3898 0.3750 0.3537 0.3756 0.3625 0.3805 0.3363 0.3677"
                " 0.3685 0.3786 0.3808 0.3681 0.3864 0.3824"
            ),
            "cosine-learned": _seeds(
                "-0.0555 -0.0415 -0.0138 -0.0136 -0.0531 -0.0262 -0.0432 -0.0312 -0.0414 -0.0339"
                " -0.0418 -0.0228 -0.0382 -0.0333 -0.0252 -0.0255"
            ),
            "sigmoid": _seeds(
                "-0.0114 0.0083 0.0293 0.0315 -0.0215 0.0164 0.0080 0.0109 -0.0099 0.0224"
                " 0.0169 0.0377 0.0105 0.0291 0.0189 0.0128"
            ),
        },
        "25k": {
            "tied-kv": _seeds(
                "0.0301 0.0449 0.0191 0.0377 0.0199 0.0215 0.0505 0.0221 0.0397 0.0177"
                " 0.0369 0.0317 0.0011 0.0095 0.0359 0.0361"
            ),
            "cosine": _seeds(
                "0.3233 0.3628 0.3404 0.3396 0.3411 0.3373 0.3675 0.3307 0.3113 0.3196"
                " 0.3405 0.3402 0.3188 0.3255 0.3266 0.3325"
            ),
            "cosine-learned": _seeds(
                "-0.0008 0.0041 -0.0291 0.0074 -0.0290 -0.0143 -0.0135 -0.0122 -0.0080 -0.0145"
                " -0.0007 -0.0033 -0.0263 -0.0232 -0.0166 -0.0218"
            ),
            "sigmoid": _seeds(
                "0.0231 0.0233 0.0151 0.0206 0.0099 0.0182 0.0389 0.0129 0.0344 0.0062"
                " 0.0253 0.0243 0.0153 0.0154 0.0247 0.0151"
            ),
        },
    },
    pilot_seeds=tuple(range(100, 116)),
)

# Fields of a request that the recorded rates of a size depend on, and those that the recorded noise depends on.
_SAME_RATES = (
    "recipe",
    "least_tokens",
    "steps",
    "corpus",
    "corpus_options",
    "tokenizer",
    "vocabulary_size",
    "changes",
    "starts",
)
_SAME_NOISE = ("size", "rungs", "tokens_per_parameter", *_SAME_RATES)


def recorded_rates(request: Request, size: str) -> Mapping[str, float]:
    """Return the recorded rates of a size by arm: those of the default setting, also with more or fewer tokens."""
    known = request.tokens_per_parameter is not None and _keeps(request, _SAME_RATES)
    return DEFAULT.rates.get(size, {}) if known else {}


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
    if request.pilot == 0 or (_is_recorded(request) and request.pilot is None):
        return recorded_noise(request)
    count = _SEEDS if request.pilot is None else request.pilot
    if count < 2:
        raise SpecError("a pilot of one seed shows no noise", hint="use `pilot=3`, or `pilot=0` for none")
    chosen = arms[: 1 + _ARMS]
    listener.note(f"a pilot: {count} seeds of {', '.join(arm.name for arm in chosen)}")
    specs = [arm.at(PILOT_SEED + number) for arm in chosen for number in range(count)]
    ends = launcher.run([Job(number, spec, folder) for number, spec in enumerate(specs)], listener=listener)
    found = [end.loss("a run of the pilot") for end in ends]
    losses = [found[row * count : (row + 1) * count] for row in range(len(chosen))]
    groups = {arm.name: _differences(ours, losses[0]) for arm, ours in zip(chosen[1:], losses[1:], strict=True)}
    paired = {name: tuple(group) for name, group in groups.items() if len(group) > 1}
    if not paired:
        raise AttnlabError(
            "the pilot diverged, so its noise is unknown", hint="lower `learning_rate`, or use `pilot=0`"
        )
    return _pilot(f"a pilot of {count} seeds × {len(chosen)} arms", {request.size: paired}, request.size)


def recorded_noise(request: Request) -> Pilot:
    """Return the noise recorded of the default setting, which may be quite another for this request."""
    pilot = _pilot(_RECORDED, DEFAULT.differences, DEFAULT_SIZE, DEFAULT.pilot_seeds)
    if _is_recorded(request):
        return pilot
    return pilot.model_copy(update={"source": _FOREIGN, "differences": {}, "seeds": ()})


def _is_recorded(request: Request) -> bool:
    """Return whether noise was recorded of this request: at the recorded rates, against the usual baseline."""
    return _keeps(request, _SAME_NOISE) and not request.tune and request.baseline == Request().baseline


def _keeps(request: Request, names: Sequence[str]) -> bool:
    """Return whether these fields of the request are those of the default setting."""
    usual = Request()
    return all(getattr(request, name) == getattr(usual, name) for name in names)


def _pilot(source: str, differences: Differences, size: str, seeds: tuple[int, ...] = ()) -> Pilot:
    """Return a pilot with the noise of the differences at one size."""
    sd, degrees = pooled_sd(differences[size].values())
    return Pilot(sd=sd, degrees=degrees, source=source, differences=differences, seeds=seeds)


def _from_trials(rungs: Mapping[str, Sequence[Arm]]) -> Pilot | None:
    """Return what the trials at the rates that were taken show, with the noise of the largest size that has them."""
    differences: Differences = {}
    for size, (baseline, *others) in rungs.items():
        theirs = _trial_losses(baseline)
        pairs = {arm.name: tuple(_differences(_trial_losses(arm), theirs)) for arm in others}
        if paired := {name: values for name, values in pairs.items() if len(values) > 1}:
            differences[size] = paired
    if not differences:
        return None
    largest = next(reversed(differences))
    return _pilot(f"the search for rates at {largest}", differences, largest)


def _trial_losses(arm: Arm) -> Sequence[float | None]:
    """Return the losses by seed of the trial at the rate that the arm takes; none if there was none."""
    return next((one.losses for one in arm.trials if one.learning_rate == arm.run.learning_rate), ())


def _differences(arm: Sequence[float | None], baseline: Sequence[float | None]) -> list[float]:
    return [
        ours - theirs for ours, theirs in zip(arm, baseline, strict=False) if ours is not None and theirs is not None
    ]
