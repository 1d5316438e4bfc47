"""The heads of a model in a few numbers, so that models can be compared whose heads do not correspond.

    profile(study)["previous token, strongest"]      the excess of the head that plays the role the most

A role appears three times: how many heads have its name, how far the strongest head plays it, and how far all heads do
on average. All else are means over heads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from attnlab.lens.heads.role_scores import ROLES
from attnlab.lens.heads.roles import NUMBERS, HeadRoles
from attnlab.lens.heads.studying import Study
from attnlab.lens.maps.attention_maps import Place
from attnlab.lens.maps.measures import Described

STRONGEST, MEAN, COUNT = "strongest", "mean", "heads"
_DRAWN = {"norm": "length draws", "direction": "direction draws", "position": "position draws"}


def _described() -> dict[str, Described]:
    found = {}
    for role in ROLES:
        found[f"{role}, {COUNT}"] = Described(f"heads that are named for it: {ROLES[role].meaning}", "heads")
        found[f"{role}, {STRONGEST}"] = Described("the excess over chance of the head that does it the most", "excess")
        found[f"{role}, {MEAN}"] = Described("the excess over chance, over all heads", "excess")
    found |= {name: Described(one.meaning, one.unit) for name, one in NUMBERS.items()}
    found |= {
        "alike in maps": Described("the cosine of a head's map with that of the head most like it", "cosine"),
        "alike in effects": Described("the same for what heads write", "cosine"),
        "length draws": Described("of the attention that keys receive, what follows their length", "share"),
        "direction draws": Described("what follows their direction", "share"),
        "position draws": Described("what follows their position", "share"),
        "worth, strongest": Described("how much the loss rises without the head that is worth most", "nats"),
        "worth, second": Described("the same for the one worth second most", "nats"),
        "worth, mean": Described("the mean over all heads, each removed alone", "nats"),
        "worth, heads": Described("heads without which the loss rises, at 95 % over texts", "heads"),
    }
    return found


PROFILE: Mapping[str, Described] = MappingProxyType(_described())


def profile(study: Study, place: Place = "self") -> dict[str, float | None]:
    """Every one of `PROFILE`; None where there is nothing to measure."""
    own = study[place]
    found: dict[str, float | None] = {**role_profile(own.roles)}
    for name in NUMBERS:
        found[name] = mean([one.numbers[name] for one in own.roles.heads])
    for of in ("maps", "effects"):
        found[f"alike in {of}"] = own.likeness.redundancy("maps" if of == "maps" else "effects")
    drawn = [one for layer in own.explained for one in layer if one is not None]
    for part, name in _DRAWN.items():
        found[name] = mean([getattr(one, part).share for one in drawn])
    worths = [study.worth_of(place, one.layer, one.head) for one in own.roles.heads]
    known = sorted((one for one in worths if one is not None), key=lambda one: -one.mean)
    found["worth, strongest"] = known[0].mean if known else None
    found["worth, second"] = known[1].mean if len(known) > 1 else None
    found["worth, mean"] = mean([one.mean for one in known])
    found["worth, heads"] = float(sum(one.low > 0 for one in known)) if known else None
    return {name: found.get(name) for name in PROFILE}


def role_profile(roles: HeadRoles) -> dict[str, float | None]:
    """What is told of the roles; without controls no head has a name to count."""
    found: dict[str, float | None] = {}
    for role in ROLES:
        scores = [score.excess.mean for one in roles.heads if (score := one.scores[role]) is not None]
        named = sum(role in one.roles for one in roles.heads)
        found[f"{role}, {COUNT}"] = float(named) if roles.controls and scores else None
        found[f"{role}, {STRONGEST}"] = max(scores, default=None)
        found[f"{role}, {MEAN}"] = mean(scores)
    return found


def mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
