"""A study of all heads of a model: roles, importance, similarity, and what draws their attention.

    found = study_heads(model, batch, delimiters=delimiter_tokens(tokenizer))
    found["self"].roles[1, 3].roles            ("induction",)
    found.importance_of("self", 1, 3)          Interval(mean, low, high) in nats
    found["self"].similarity.copies()          heads that are copies of each other
    found["self"].explained[1][3].norm.share   how much of the attention that a key receives follows its length

Measuring the importance of heads takes a pass through half of the model for every head; by default it is done if that
takes only seconds.

A profile summarises a study in a few numbers, so that models can be compared whose heads do not correspond. Each role
appears three times: how many heads are named for it, the excess of the strongest head, and the mean excess over heads.
All other numbers are means over heads.

    profile(found)["previous token, strongest"]      the excess of the head that plays the role the most
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from attnlab.corpora import IGNORED, Batch
from attnlab.errors import UnknownNameError
from attnlab.lens.heads.ablation import Ablation, ablate, up_to_last
from attnlab.lens.heads.role_scores import ROLES
from attnlab.lens.heads.roles import CONTROLS, NUMBERS, HeadRoles, head_roles
from attnlab.lens.heads.similarity import HeadSimilarity, head_similarity
from attnlab.lens.length_direction import Explained, length_or_direction
from attnlab.lens.measures import Described
from attnlab.lens.taps import Inputs, Place, Progress, places, silent
from attnlab.models import LanguageModel
from attnlab.statistics import Interval

ABLATED_LENGTH = 128  # tokens of the texts that heads are removed on
ABLATED_TOKENS = 1024  # of all texts, unless eight have more
_SECONDS_OF_WORK = 2e12  # multiplications and additions that take only seconds
_PARTS: dict[Place, str] = {"self": "attention", "cross": "cross_attention"}


@dataclass(frozen=True, eq=False)
class PlaceStudy:
    """The heads of all layers that attend in one place."""

    place: Place
    roles: HeadRoles
    similarity: HeadSimilarity
    explained: list[list[Explained | None]]  # by layer and head


@dataclass(frozen=True, eq=False)
class Study:
    """All heads of a model on some texts, which `texts` describes."""

    texts: str
    places: tuple[PlaceStudy, ...]
    ablation: Ablation | None  # None where it was not measured

    def __getitem__(self, place: Place) -> PlaceStudy:
        for one in self.places:
            if one.place == place:
                return one
        raise UnknownNameError("place", place, [one.place for one in self.places])

    def importance_of(self, place: Place, layer: int, head: int) -> Interval | None:
        """Return how much the loss rises without a head; None where it was not measured, as in an encoder."""
        name = f"blocks.{layer}.{_PARTS.get(place, '')}.heads.{head}"
        found = None if self.ablation is None else self.ablation.removed.get(name)
        return None if found is None else found.importance


def study_heads(
    model: LanguageModel,
    batch: Batch,
    *,
    delimiters: Collection[int] = (),
    importance: bool | None = None,
    controls: int = CONTROLS,
    texts: str = "",
    progress: Progress = silent,
) -> Study:
    """Study the heads on the rows of a batch, in every place where the model attends.

    The importance of heads is measured if that takes only seconds, or as `importance` says. Without controls no head
    is named.

    Parameters
    ----------
    model
        The model.
    batch
        Tokens to study the heads on.
    delimiters
        Tokens that separate words or sentences.
    importance
        Whether to measure the importance of heads; None: if it takes only seconds.
    controls
        Shuffled copies of the model as controls; with 0, no head is named.
    texts
        A description of the rows.
    progress
        Called with a description of each step.
    """
    padding = None if batch.source is None else up_to_last(batch.targets != IGNORED)
    inputs = Inputs(batch.inputs, padding, batch.source, batch.source_padding)
    known = {token for token in delimiters if token < model.spec.vocabulary_size}
    found = []
    for place in places(model):
        roles = head_roles(model, inputs, delimiters=known, of=place, controls=controls, progress=progress)
        progress("comparing heads with each other")
        alike = head_similarity(model, batch, of=place)
        progress("finding what draws attention")
        found.append(PlaceStudy(place, roles, alike, length_or_direction(model, inputs, of=place)))
    some = ablated_batch(batch)
    wanted = importance if importance is not None else ablation_work(model, some) < _SECONDS_OF_WORK
    return Study(texts, tuple(found), ablate(model, [some], progress=progress) if wanted else None)


def ablated_batch(batch: Batch) -> Batch:
    """Return the rows to ablate heads on: some of the batch, truncated unless that would remove all targets of a
    row."""
    length = batch.inputs.shape[1] if batch.source is not None else min(batch.inputs.shape[1], ABLATED_LENGTH)
    rows = max(8, ABLATED_TOKENS // length)
    inputs, targets = batch.inputs, batch.targets
    if bool((targets[:rows, :length] == IGNORED).all(1).any()):  # the targets come later
        length = inputs.shape[1]
    kept = [None if one is None else one[:rows] for one in (batch.source, batch.source_padding)]
    return Batch(inputs[:rows, :length], targets[:rows, :length], *kept)


def ablation_work(model: LanguageModel, batch: Batch) -> float:
    """Return the approximate number of multiplications and additions that removing every part takes."""
    spec = model.spec
    parts = sum(one.observed_heads + 2 for one in (*spec.attention, *spec.cross_attention))
    blocks = sum(parameter.numel() for parameter in model.stack.blocks.parameters())
    head = spec.vocabulary_size * spec.model_width
    return float(2 * parts * batch.inputs.numel() * (blocks / 2 + head))


# The profile

STRONGEST, MEAN, COUNT = "strongest", "mean", "heads"
_DRAWN = {"norm": "length draws", "direction": "direction draws", "position": "position draws"}


def _described() -> dict[str, Described]:
    found = {}
    for role in ROLES:
        found[f"{role}, {COUNT}"] = Described(f"heads that are named for it: {ROLES[role].meaning}", "heads")
        found[f"{role}, {STRONGEST}"] = Described("the excess over chance of the head that does it the most", "excess")
        found[f"{role}, {MEAN}"] = Described("the excess over chance, over all heads", "excess")
    found |= {
        **NUMBERS,
        "alike in maps": Described("the cosine of a head's map with that of the most similar head", "cosine"),
        "alike in effects": Described("the same for what heads write", "cosine"),
        "length draws": Described("of the attention that keys receive, what follows their length", "share"),
        "direction draws": Described("what follows their direction", "share"),
        "position draws": Described("what follows their position", "share"),
        "importance, strongest": Described("how much the loss rises without the most important head", "nats"),
        "importance, second": Described("the same for the second most important", "nats"),
        "importance, mean": Described("the mean over all heads, each removed alone", "nats"),
        "importance, heads": Described("heads without which the loss rises, at 95 % over texts", "heads"),
    }
    return found


PROFILE: Mapping[str, Described] = MappingProxyType(_described())


def profile(study: Study, place: Place = "self") -> dict[str, float | None]:
    """Return every one of `PROFILE`; None where nothing can be measured."""
    own = study[place]
    found: dict[str, float | None] = {**role_profile(own.roles)}
    for name in NUMBERS:
        found[name] = mean([one.numbers[name] for one in own.roles.heads])
    found["alike in maps"] = own.similarity.redundancy("maps")
    found["alike in effects"] = own.similarity.redundancy("effects")
    drawn = [one for layer in own.explained for one in layer if one is not None]
    for part, name in _DRAWN.items():
        found[name] = mean([getattr(one, part).share for one in drawn])
    measured = [study.importance_of(place, one.layer, one.head) for one in own.roles.heads]
    known = sorted((one for one in measured if one is not None), key=lambda one: -one.mean)
    found["importance, strongest"] = known[0].mean if known else None
    found["importance, second"] = known[1].mean if len(known) > 1 else None
    found["importance, mean"] = mean([one.mean for one in known])
    found["importance, heads"] = float(sum(one.low > 0 for one in known)) if known else None
    return {name: found.get(name) for name in PROFILE}


def role_profile(roles: HeadRoles) -> dict[str, float | None]:
    """Return the numbers of the roles; without controls there are no named heads to count."""
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
