"""`kinship`: families and courts, in sentences that differ between women and men only in the gendered words.

Only these words distinguish "king" from "queen", and the same difference distinguishes "nephew" from "niece": a model
of such text should learn E(king) − E(man) + E(woman) ≈ E(queen) (Mikolov et al., 2013). The families are consistent: a
person who is called an aunt is one. With `shuffled`, the control, the gender of each gendered word is drawn
independently, so that nothing agrees.

No gendered word begins a line, so that with tokenizer="word" each is one token, including the space before it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from attnlab.corpora.generated.world import MEN, WOMEN
from attnlab.corpora.generated.world import names as invented
from attnlab.corpora.randomness import Stream
from attnlab.corpora.spec import KinshipOptions

VERSION = 1
RELATIONS = (
    ("father", "mother"),
    ("son", "daughter"),
    ("brother", "sister"),
    ("husband", "wife"),
    ("grandfather", "grandmother"),
    ("grandson", "granddaughter"),
    ("uncle", "aunt"),
    ("nephew", "niece"),
)
TITLES = (
    ("king", "queen"),
    ("prince", "princess"),
    ("duke", "duchess"),
    ("lord", "lady"),
    ("actor", "actress"),
    ("hero", "heroine"),
    ("host", "hostess"),
    ("waiter", "waitress"),
)
AGES = (("man", "woman"), ("boy", "girl"))
PRONOUNS = (("he", "she"), ("his", "her"))
PAIRS = (*AGES, *TITLES, *RELATIONS, *PRONOUNS)

# No "a" or "an" that would depend on a gendered word stands before one, except before AGES, which all take "a".
# {name} is the person described, {other} a relative; the other fields are words of the right gender.
KIN = (
    "{name} is the {relation} of {other}.",
    "the {relation} of {other} is {name}.",
    "{other} has the {relation} {name} and {he} is well.",
    "{other} visits the {relation} {name} in {his} house.",
    "{name} is a {age} and also the {relation} of {other}.",
    "every {relation} knows {his} own family, and {name} knows {other}.",
)
COURT = (
    "{name} is the {title}.",
    "the {title} is a {age} and {his} name is {name}.",
    "the {title} {name} said that {he} was tired.",
    "{name} is a {age} who became the {title}.",
    "every {title} loves {his} mirror, says {name}.",
    "when {he} is the {title}, the {age} {name} wears {his} best clothes.",
)
PLAIN = (
    "{name} is a {age}.",
    "the {age} {name} says that {he} lost {his} keys.",
    "people see {name} and know that {he} is a {age}.",
)


@dataclass(frozen=True)
class Relative:
    """A person, identified by the index in `Kinship.people`; `parents` holds the indices of father and mother."""

    name: str
    female: bool
    adult: bool
    title: int  # index in TITLES
    parents: tuple[int, int] | None = None


@dataclass(frozen=True)
class Kinship:
    """The families of a seed, and the text about them."""

    seed: int
    options: KinshipOptions
    people: tuple[Relative, ...]
    relations: tuple[tuple[int, int, int], ...]  # (who, which of RELATIONS, of whom)

    @classmethod
    def generate(cls, seed: int = 0, **options: Any) -> Kinship:
        return cls.build(seed, KinshipOptions(**options))

    @classmethod
    def build(cls, seed: int, options: KinshipOptions) -> Kinship:
        stream = Stream("kinship", VERSION, seed, options.families)
        names = tuple(iter(stream.shuffled(invented(endings))) for endings in (MEN, WOMEN))
        people: list[Relative] = []
        for number in range(options.families):
            _add_family(people, names, stream, title=0 if number % 2 == 0 else 4)
        return cls(seed, options, tuple(people), tuple(dict.fromkeys(_find_relations(people))))

    @property
    def analogies(self) -> tuple[tuple[str, str, str, str], ...]:
        """Return (a, b, c, d), where a is to b as c is to d, for every two gendered pairs: man, woman, king, queen …"""
        return tuple((*one, *other) for one, other in combinations(PAIRS, 2))

    def sentences(self) -> list[str]:
        stream = Stream("kinship text", VERSION, self.seed, self.options.model_dump_json())
        return [self._sentence(stream) for _ in range(self.options.sentences)]

    def text(self) -> str:
        """Return the sentences, one on each line."""
        return "".join(f"{line}\n" for line in self.sentences())

    def _sentence(self, stream: Stream) -> str:
        who, relation, whom = stream.choice(self.relations)
        person = self.people[who]

        def word(pair: tuple[str, str]) -> str:
            return pair[stream.below(2) if self.options.shuffled else person.female]

        template = stream.choice(stream.choice((KIN, KIN, COURT, PLAIN)))
        return template.format(
            name=person.name,
            other=self.people[whom].name,
            relation=word(RELATIONS[relation]),
            title=word(TITLES[person.title]),
            age=word(AGES[0 if person.adult else 1]),
            he=word(PRONOUNS[0]),
            his=word(PRONOUNS[1]),
        )


def _add_family(people: list[Relative], names: tuple[Iterator[str], ...], stream: Stream, *, title: int) -> None:
    """Add two couples; a son of one marries a daughter of the other. Each has two siblings, and they have children."""

    def add(female: bool, rank: int = 0, parents: tuple[int, int] | None = None, adult: bool = True) -> int:
        people.append(Relative(next(names[female]), female, adult, title + rank, parents))
        return len(people) - 1

    first, second = ((add(False), add(True)) for _ in range(2))
    couple = (add(False, parents=first), add(True, parents=second))
    for parents in (first, second):
        add(stream.chance(0.5), rank=2, parents=parents)
        add(stream.chance(0.5), rank=3, parents=parents)
    for _ in range(2 + stream.below(3)):
        add(stream.chance(0.5), rank=1, parents=couple, adult=False)


def _find_relations(people: list[Relative]) -> Iterator[tuple[int, int, int]]:
    """Yield the relations that follow from who is whose child; the parents of a child are married."""
    number = {pair[0]: place for place, pair in enumerate(RELATIONS)}
    married: dict[int, int] = {}
    children: dict[int, list[int]] = {}
    for child, person in enumerate(people):
        if person.parents is not None:
            father, mother = person.parents
            married[father], married[mother] = mother, father
            children.setdefault(father, []).append(child)
            children.setdefault(mother, []).append(child)
    for one, other in married.items():
        yield one, number["husband"], other
    for parent, offspring in children.items():
        for child in offspring:
            yield parent, number["father"], child
            yield child, number["son"], parent
            yield from ((child, number["brother"], other) for other in _siblings(people, children, child))
            for grandchild in children.get(child, []):
                yield parent, number["grandfather"], grandchild
                yield grandchild, number["grandson"], parent
    for child, person in enumerate(people):
        for parent in person.parents or ():
            for relative in _siblings(people, children, parent):
                yield relative, number["uncle"], child
                yield child, number["nephew"], relative


def _siblings(people: list[Relative], children: dict[int, list[int]], person: int) -> list[int]:
    parents = people[person].parents
    return [] if parents is None else [other for other in children[parents[0]] if other != person]
