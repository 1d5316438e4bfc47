"""What a change did to the heads: several runs on each side, looked at on the same texts.

    found = compare_heads([Path("runs/softmax-…"), Path("runs/tied-kv-…")])          or the folder of a comparison
    found.differences["tied-kv"]["entropy"].difference      Interval over seeds, None with one run on each side
    found.write(Path("heads.html"))                         a notebook shows the same page

Heads of two runs do not correspond: head 0 of one seed may be head 3 of the next. So the sides are compared by their
`profiles.py`, seed by seed, and by matching the heads that look at the same texts in the most alike ways:

    another seed       the likeness of a run of the first side with another run of it
    another variant    its likeness with that other seed of the other side
    the same seed      its likeness with its own seed of the other side, which began with the same weights

If a variant only makes other heads as another seed does, the first two are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from attnlab.errors import InputError
from attnlab.lens.comparison.compared import Difference, HeadComparison, Likenesses
from attnlab.lens.comparison.profiles import PROFILE, profile
from attnlab.lens.comparison.sides import Side, sides_of
from attnlab.lens.heads.redundancy import Matching, match_heads
from attnlab.lens.heads.role_reading import delimiter_tokens
from attnlab.lens.heads.roles import CONTROLS
from attnlab.lens.heads.studying import Study, study_heads
from attnlab.lens.maps.looking import MOST_TOKENS, look_at
from attnlab.lens.maps.looks import Look
from attnlab.lens.subjects import Subject, open_subject
from attnlab.lens.texts import Texts, find_texts
from attnlab.statistics import holm, mean_interval, paired_t

_MATCHING_CONTROLS = 2


def compare_heads(
    runs: Sequence[Path],
    text: str | None = None,
    *,
    tokens: int = MOST_TOKENS,
    worth: bool | None = None,
    on: Path | None = None,
    controls: int = CONTROLS,
    cache: Path | None = None,
) -> HeadComparison:
    """Compare the heads of these runs, or of the runs in the folder of a comparison; `sides.py` says what is a side.

    `text` is what the maps are shown on. Everything else is measured on the validation rows of the first run, or `on` a
    text file; `worth` is that of `study_heads`.
    """
    sides = sides_of(runs)
    opened = {side.name: [open_subject(run) for run in side.runs] for side in sides}
    first = opened[sides[0].name][0]
    _check(first, opened)
    texts = find_texts(first, on=on, cache=cache)
    delimiters = delimiter_tokens(first.tokenizer) if first.tokenizer is not None else frozenset()
    studied = _Studied()
    for name, subjects in opened.items():
        for subject in subjects:
            study = study_heads(
                subject.model, texts.batch, delimiters=delimiters, worth=worth, controls=controls, texts=texts.words
            )
            studied.add(name, study)
    others = sides[1:]
    seeds: dict[tuple[int, int], Matching] = {}
    mapped = {name for name, some in opened.items() if _has_map(first) and _has_map(some[0])}
    looks = {side.name: look_at(side.runs[0], text, tokens=tokens, cache=cache) for side in sides}
    _check_texts(looks)
    return HeadComparison(
        sides=tuple(sides),
        texts=texts.words,
        profiles={name: tuple(found) for name, found in studied.profiles.items()},
        differences={side.name: _differences(sides[0], side, studied.profiles) for side in others},
        likenesses={
            side.name: _likenesses(sides[0], side, opened, texts, seeds) for side in others if side.name in mapped
        },
        looks=looks,
        matched={side.name: _match(first, opened[side.name][0], texts) for side in others if side.name in mapped},
        studies=studied.first,
        notes=tuple(dict.fromkeys(note for some in opened.values() for one in some for note in one.notes)),
    )


@dataclass
class _Studied:
    """What is kept of the studies: a profile of each run, and all of the first of each side."""

    profiles: dict[str, list[dict[str, float | None]]] = field(default_factory=dict)
    first: dict[str, Study] = field(default_factory=dict)

    def add(self, side: str, study: Study) -> None:
        self.profiles.setdefault(side, []).append(profile(study))
        self.first.setdefault(side, study)


def _check(first: Subject, opened: Mapping[str, Sequence[Subject]]) -> None:
    for subjects in opened.values():
        for one in subjects:
            if one.model.spec.family != first.model.spec.family:
                raise InputError(
                    f"{one.title} is a {one.model.spec.family} and {first.title} a {first.model.spec.family}",
                    hint="compare models of one family",
                )
            ours, theirs = (x.model.spec.vocabulary_size for x in (one, first))
            if ours != theirs:
                raise InputError(
                    f"{one.title} knows {ours} tokens and {first.title} {theirs}",
                    hint="compare runs on the same corpus and tokenizer",
                )


def _has_map(subject: Subject) -> bool:
    return any(spec.has_map for spec in subject.model.spec.attention)


def _check_texts(looks: Mapping[str, Look]) -> None:
    if len({look.tokens for look in looks.values()}) > 1:
        raise InputError("the sides read another text", hint="compare runs on one corpus, or give a text")


# Numbers


def _pairs(first: Side, other: Side) -> list[tuple[int, int]]:
    """Which run goes with which: those of one seed, or else in order."""
    shared = [seed for seed in first.seeds if seed is not None and seed in other.seeds]
    if shared:
        return [(first.seeds.index(seed), other.seeds.index(seed)) for seed in shared]
    return list(zip(range(len(first.runs)), range(len(other.runs)), strict=False))


def _differences(
    first: Side, other: Side, profiles: Mapping[str, Sequence[Mapping[str, float | None]]]
) -> dict[str, Difference]:
    found: dict[str, tuple[list[float], list[float]]] = {}
    for a, b in _pairs(first, other):
        for name in PROFILE:
            theirs, ours = profiles[first.name][a][name], profiles[other.name][b][name]
            if theirs is not None and ours is not None:
                kept = found.setdefault(name, ([], []))
                kept[0].append(ours)
                kept[1].append(theirs)
    gaps = {name: [x - y for x, y in zip(*both, strict=True)] for name, both in found.items()}
    tested = [name for name, values in gaps.items() if len(values) > 1]
    p_values = dict(zip(tested, holm([paired_t(gaps[name]) for name in tested]) if tested else (), strict=True))
    return {
        name: Difference(
            sum(ours) / len(ours),
            sum(theirs) / len(theirs),
            mean_interval(gaps[name]) if name in p_values else None,
            p_values.get(name),
        )
        for name, (ours, theirs) in found.items()
    }


# Heads


def _match(a: Subject, b: Subject, texts: Texts) -> Matching:
    given: dict[str, Any] = {"source": texts.batch.source, "source_padding": texts.batch.source_padding}
    return match_heads(a.model, b.model, texts.batch.inputs, controls=_MATCHING_CONTROLS, **given)


def _likenesses(
    first: Side,
    other: Side,
    opened: Mapping[str, Sequence[Subject]],
    texts: Texts,
    seeds: dict[tuple[int, int], Matching],
) -> Likenesses:
    """`seeds` keeps what runs of the first side have in common, which is the same for all other sides."""
    pairs = _pairs(first, other)
    theirs, ours = opened[first.name], opened[other.name]
    found: dict[str, list[float]] = {"another seed": [], "another variant": [], "the same seed": []}
    controls = []
    for (a, b), (next_a, next_b) in zip(pairs, pairs[1:] + pairs[:1], strict=True):
        matchings = {"the same seed": _match(theirs[a], ours[b], texts)}
        if len(pairs) > 1:
            if (a, next_a) not in seeds:
                seeds[a, next_a] = _match(theirs[a], theirs[next_a], texts)
            matchings["another seed"] = seeds[a, next_a]
            matchings["another variant"] = _match(theirs[a], ours[next_b], texts)
        for name, one in matchings.items():
            found[name].append(one.mean)
            controls.append(one.control)
    gap = [x - y for x, y in zip(found["another variant"], found["another seed"], strict=True)]
    seed, variant, same = (mean_interval(values) if len(values) > 1 else None for values in found.values())
    return Likenesses(
        another_seed=seed,
        another_variant=variant,
        same_seed=same,
        values={name: tuple(values) for name, values in found.items()},
        control=sum(controls) / len(controls),
        gap=mean_interval(gap) if len(gap) > 1 else None,
    )
