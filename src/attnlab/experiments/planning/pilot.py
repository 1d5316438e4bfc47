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
                "0.0881 0.1124 0.0967 0.1022 0.0498 0.0410 0.0752 0.0688 0.1007 0.0221"
                " 0.0654 0.0757 0.1105 0.0780 0.0519 0.0453"
            ),
            "cosine": _seeds(
                "0.3837 0.3650 0.4029 0.3853 0.3663 0.3984 0.3859 0.3961 0.3661 0.3838"
                " 0.3888 0.3696 0.4020 0.3907 0.3758 0.3783"
            ),
            "cosine-learned": _seeds(
                "-0.0300 -0.0114 -0.0260 -0.0169 -0.0473 -0.0244 -0.0443 -0.0293 0.0056 -0.0282"
                " -0.0186 -0.0214 -0.0092 -0.0477 -0.0253 -0.0264"
            ),
            "sigmoid": _seeds(
                "0.0219 0.0311 0.0566 0.0545 -0.0052 0.0522 0.0233 0.0256 0.0194 0.0635"
                " 0.0584 0.0859 0.0505 0.0422 0.0134 0.0404"
            ),
        },
        "25k": {
            "tied-kv": _seeds(
                "0.0258 0.0357 0.0461 0.0233 0.0564 0.0283 0.0408 0.0271 0.0373 0.0124"
                " 0.0024 0.0177 0.0195 0.0256 0.0568 0.0209"
            ),
            "cosine": _seeds(
                "0.3544 0.3777 0.3601 0.3501 0.3839 0.3648 0.3858 0.3777 0.3846 0.3689"
                " 0.3726 0.3422 0.3696 0.3741 0.3651 0.3384"
            ),
            "cosine-learned": _seeds(
                "-0.0115 -0.0253 -0.0167 -0.0229 -0.0171 -0.0336 -0.0165 -0.0254 -0.0082 -0.0144"
                " -0.0416 -0.0365 -0.0167 -0.0302 -0.0322 -0.0561"
            ),
            "sigmoid": _seeds(
                "0.0084 0.0096 0.0241 0.0197 0.0142 -0.0053 0.0270 0.0057 0.0407 0.0071"
                " -0.0072 -0.0009 0.0166 0.0059 0.0252 -0.0218"
            ),
        },
    },
    pilot_seeds=tuple(range(100, 116)),
)

_TOKENS = "tokens_per_parameter"
# Fields of a request that the recorded numbers depend on.
_SAME = (
    "recipe",
    "size",
    "rungs",
    _TOKENS,
    "least_tokens",
    "steps",
    "corpus",
    "corpus_options",
    "tokenizer",
    "vocabulary_size",
    "changes",
    "starts",
)


def recorded_rates(request: Request, size: str) -> Mapping[str, float]:
    """Return the recorded rates of a size by arm: those of the default setting, also with more or fewer tokens."""
    known = request.tokens_per_parameter is not None and _keeps(request, [name for name in _SAME if name != _TOKENS])
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
    return _keeps(request, _SAME) and not request.tune and request.baseline == Request().baseline


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
