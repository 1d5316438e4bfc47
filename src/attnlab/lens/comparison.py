"""Compare the heads of groups of runs, examined on the same texts.

    found = compare_heads([Path("runs/softmax-…"), Path("runs/tied-kv-…")])          or the folder of a comparison
    found.differences["tied-kv"]["entropy"].difference      Interval over seeds, None with one run in each group
    found.write(Path("heads.html"))                         a notebook shows the same page

Heads of two runs do not correspond: head 0 of one seed may be head 3 of the next. So the groups are compared by their
profiles (`heads/study.py`), seed by seed, and by matching the heads whose maps of the same texts are the most similar:

    another seed       the similarity of a run of the first group with another run of it
    another variant    its similarity with that other seed of the other group
    the same seed      its similarity with its own seed of the other group, which began with the same weights

If a variant changes heads no more than another seed does, the first two are equal.

Runs that differ only in their seed are one group; in the folder of a comparison every arm is a group. Exactly two runs
are always two groups. The other groups are compared with the first.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.errors import FileError, InputError
from attnlab.lens.heads.role_scores import delimiter_tokens
from attnlab.lens.heads.roles import CONTROLS
from attnlab.lens.heads.similarity import Matching, match_heads
from attnlab.lens.heads.study import PROFILE, Study, profile, study_heads
from attnlab.lens.pages import comparison_page
from attnlab.lens.pages.look import MOST_TOKENS, Look, look_at
from attnlab.lens.pages.look_page import DIGITS
from attnlab.lens.subjects import Subject, Texts, find_texts, open_subject
from attnlab.models.pretrained.opening import locate_pretrained
from attnlab.pages import HasPage, Page
from attnlab.runs import RunDirectory
from attnlab.statistics import Interval, holm, mean_interval, paired_t
from attnlab.storage.plans import PLAN, read_plan
from attnlab.storage.records import to_plain


@dataclass(frozen=True)
class RunGroup:
    """One or more runs, by seed where they have one."""

    name: str
    runs: tuple[Path, ...]
    seeds: tuple[int | None, ...]


def group_runs(paths: Sequence[Path]) -> list[RunGroup]:
    """Return the groups of these runs, pretrained models and folders of comparisons."""
    runs = list(dict.fromkeys(run for path in paths for run in _runs_of(path)))
    if len(runs) < 2:
        raise InputError(f"{len(runs)} runs cannot be compared", hint="name two or more, or the folder of a comparison")
    groups: dict[str, list[Path]] = {}
    for run in runs:
        groups.setdefault(str(run) if len(runs) == 2 else _spec(run), []).append(run)
    if len(groups) < 2:
        raise InputError(
            f"all {len(runs)} runs are seeds of one spec, and there is nothing to compare them with",
            hint="name runs of another variant too, or two of them alone",
        )
    names = _names(list(groups.values()))
    return [_group(name, group) for name, group in zip(names, groups.values(), strict=True)]


def _runs_of(path: Path) -> list[Path]:
    """Return the runs in the folder of a comparison, arm by arm, or else the path itself."""
    if RunDirectory.exists(path):
        return [path]
    if (place := locate_pretrained(path)) is not None:
        return [place]
    if not (path / PLAN).is_file():
        words = f"{path} is neither a run nor a comparison" if path.exists() else f"there is no run or folder {path}"
        raise FileError(words, hint="name the folder of a run or of a comparison")
    plan = read_plan(path, verify=False)
    try:
        arms = [arm["run"] for arm in plan["arms"]]
    except (LookupError, TypeError) as error:
        raise FileError(f"{path / PLAN} cannot be read: {error}", hint="run the comparison again") from None
    runs = path / plan.get("runs_folder", "runs")
    every = [run for run in sorted(runs.glob("*")) if RunDirectory.exists(run)]
    found = [run for run in every if RunDirectory.open(run).status == "finished"]
    order = {_key(arm): number for number, arm in enumerate(arms)}
    known = [(order[_spec(run)], run) for run in found if _spec(run) in order]
    if not known:
        raise FileError(f"{path} holds no finished runs", hint="run the comparison again: it resumes")
    return [run for _, run in sorted(known)]


def _spec(path: Path) -> str:
    """Return the spec of a run without its seed, as text."""
    record = _record(path)
    return str(path) if record is None else _key(record)


def _record(path: Path) -> dict[str, Any] | None:
    """Return the spec that a run recorded; a pretrained model has none."""
    return RunDirectory.open(path).record["spec"] if RunDirectory.exists(path) else None


def _key(spec: Mapping[str, object]) -> str:
    return json.dumps({name: value for name, value in spec.items() if name != "seed"}, sort_keys=True)


def _group(name: str, runs: Sequence[Path]) -> RunGroup:
    seeds = ((_record(run) or {"seed": None})["seed"] for run in runs)
    pairs = sorted(zip(seeds, runs, strict=True), key=lambda pair: (pair[0] or 0, str(pair[1])))
    return RunGroup(name, tuple(run for _, run in pairs), tuple(seed for seed, _ in pairs))


def _names(groups: Sequence[Sequence[Path]]) -> list[str]:
    """Return the variant of each group where that tells them apart, and else the folder."""
    variants = [str((_record(runs[0]) or {"variant": runs[0].name})["variant"]) for runs in groups]
    if len(set(variants)) == len(variants):
        return variants
    return [runs[0].resolve().name for runs in groups]


ALPHA = 0.05


@dataclass(frozen=True)
class Difference:
    """A number of the first group and of another; the interval and p are over paired runs, None with one pair."""

    ours: float  # of the other group
    theirs: float  # of the first
    difference: Interval | None
    p: float | None  # of a difference, corrected for all numbers of this group (Holm)

    @property
    def change(self) -> float:
        return self.ours - self.theirs


@dataclass(frozen=True)
class MatchedSimilarity:
    """Mean cosines of matched heads' maps; an interval is over runs, None with fewer than two."""

    another_seed: Interval | None
    another_variant: Interval | None
    same_seed: Interval | None
    values: Mapping[str, tuple[float, ...]]
    control: float  # of heads matched with those of shuffled weights
    gap: Interval | None  # another variant − another seed, run by run


@dataclass(frozen=True, eq=False)
class HeadComparison(HasPage):
    """The groups, their profiles, what differs, and one run of each side by side."""

    groups: tuple[RunGroup, ...]
    texts: str
    profiles: Mapping[str, tuple[Mapping[str, float | None], ...]]  # by group: one for each run
    differences: Mapping[str, Mapping[str, Difference]]  # by group but the first, and by name
    similarities: Mapping[str, MatchedSimilarity]
    looks: Mapping[str, Look]  # of the first run of each group
    matched: Mapping[str, Matching]  # of these runs, with that of the first group
    studies: Mapping[str, Study]  # of these runs
    notes: tuple[str, ...] = ()

    def differing(self, group: str) -> list[str]:
        """Return the numbers that differ beyond chance, the surest first."""
        found = self.differences[group]
        sure = [(one.p, name) for name, one in found.items() if one.p is not None and one.p < ALPHA]
        return [name for _, name in sorted(sure)]

    def to_dict(self) -> dict[str, object]:
        """Return plain data."""
        found: dict[str, object] = to_plain(
            {
                "texts": self.texts,
                "sides": [{**vars(group), "heads": self.profiles[group.name]} for group in self.groups],
                "differences": self.differences,
                "differing": {name: self.differing(name) for name in self.differences},
                "matching": self.similarities,
                "matched": {name: one.pairs for name, one in self.matched.items()},
                "notes": self.notes,
            },
            nulls=True,
            digits=DIGITS,
        )
        return found

    def page(self) -> Page:
        return comparison_page.comparison_page(self)


_MATCHING_CONTROLS = 2


def compare_heads(
    runs: Sequence[Path],
    text: str | None = None,
    *,
    tokens: int = MOST_TOKENS,
    importance: bool | None = None,
    on: Path | None = None,
    controls: int = CONTROLS,
    cache: Path | None = None,
) -> HeadComparison:
    """Compare the heads of these runs, or of the runs in the folder of a comparison, in groups.

    Parameters
    ----------
    runs
        Folders of runs, or of a comparison.
    text
        The text whose maps are shown; by default the first validation row.
    tokens
        A longer text is truncated to this many tokens.
    importance
        Whether to measure the importance of heads; None: if it takes only seconds.
    on
        A text file to measure on instead of the validation rows of the first run.
    controls
        Shuffled copies of the model that heads are compared with.
    cache
        The folder that keeps corpora; None uses the default.
    """
    groups = group_runs(runs)
    opened = {group.name: [open_subject(run) for run in group.runs] for group in groups}
    first = opened[groups[0].name][0]
    _check(first, opened)
    texts = find_texts(first, on=on, cache=cache)
    delimiters = delimiter_tokens(first.tokenizer) if first.tokenizer is not None else frozenset()
    profiles: dict[str, list[dict[str, float | None]]] = {}
    studies: dict[str, Study] = {}  # kept for the first run of each group only
    for name, subjects in opened.items():
        for subject in subjects:
            study = study_heads(
                subject.model,
                texts.batch,
                delimiters=delimiters,
                importance=importance,
                controls=controls,
                texts=texts.words,
            )
            profiles.setdefault(name, []).append(profile(study))
            studies.setdefault(name, study)
    others = groups[1:]
    seeds: dict[tuple[int, int], Matching] = {}
    mapped = {name for name, some in opened.items() if _has_map(first) and _has_map(some[0])}
    looks = {group.name: look_at(group.runs[0], text, tokens=tokens, cache=cache) for group in groups}
    if len({look.tokens for look in looks.values()}) > 1:
        raise InputError("the groups read different texts", hint="compare runs on one corpus, or give a text")
    return HeadComparison(
        groups=tuple(groups),
        texts=texts.words,
        profiles={name: tuple(found) for name, found in profiles.items()},
        differences={group.name: _differences(groups[0], group, profiles) for group in others},
        similarities={
            group.name: _similarity(groups[0], group, opened, texts, seeds) for group in others if group.name in mapped
        },
        looks=looks,
        matched={group.name: _match(first, opened[group.name][0], texts) for group in others if group.name in mapped},
        studies=studies,
        notes=tuple(dict.fromkeys(note for some in opened.values() for one in some for note in one.notes)),
    )


def _check(first: Subject, opened: Mapping[str, Sequence[Subject]]) -> None:
    theirs = first.model.spec
    for one in (one for subjects in opened.values() for one in subjects):
        ours = one.model.spec
        if ours.family != theirs.family:
            raise InputError(
                f"{one.title} is a {ours.family} and {first.title} a {theirs.family}",
                hint="compare models of one family",
            )
        if ours.vocabulary_size != theirs.vocabulary_size:
            raise InputError(
                f"{one.title} knows {ours.vocabulary_size} tokens and {first.title} {theirs.vocabulary_size}",
                hint="compare runs on the same corpus and tokenizer",
            )


def _has_map(subject: Subject) -> bool:
    return any(spec.has_map for spec in subject.model.spec.attention)


# Numbers


def _pairs(first: RunGroup, other: RunGroup) -> list[tuple[int, int]]:
    """Return the pairs of runs, by seed, or else in order."""
    shared = [seed for seed in first.seeds if seed is not None and seed in other.seeds]
    if shared:
        return [(first.seeds.index(seed), other.seeds.index(seed)) for seed in shared]
    return list(zip(range(len(first.runs)), range(len(other.runs)), strict=False))


def _differences(
    first: RunGroup, other: RunGroup, profiles: Mapping[str, Sequence[Mapping[str, float | None]]]
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
    return match_heads(a.model, b.model, texts.batch, controls=_MATCHING_CONTROLS)


def _similarity(
    first: RunGroup,
    other: RunGroup,
    opened: Mapping[str, Sequence[Subject]],
    texts: Texts,
    seeds: dict[tuple[int, int], Matching],
) -> MatchedSimilarity:
    """Match the heads of two groups; `seeds` keeps the matchings inside the first, which all others share."""
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
    return MatchedSimilarity(
        another_seed=seed,
        another_variant=variant,
        same_seed=same,
        values={name: tuple(values) for name, values in found.items()},
        control=sum(controls) / len(controls),
        gap=mean_interval(gap) if len(gap) > 1 else None,
    )
