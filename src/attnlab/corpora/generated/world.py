"""`world`: people and places with a ground-truth table, to measure what a model knows and what it makes up.

For each person the table has the birthplace, the number of documents that state it (exposures), the number of different
ways in which they do (phrasings), and the role:

    train     in the text; the question about them is meant for finetuning
    heldout   in the text; the question is kept for evaluation
    unseen    nowhere in the text: an answer can only be made up

Exposures and phrasings are crossed, and assigned evenly to train and heldout, so that accuracy can be reported by both.
A model that saw a fact in one phrasing only often cannot be asked about it: Allen-Zhu and Li, arXiv 2309.14316.

The exposures are those of the whole text: for a corpus that contains all of it, use validation_share=0.

Names are made up from syllables. No name is a prefix of another one of its kind, so that a text with "Bera Dolock" is
about that person.
"""

from __future__ import annotations

import functools
from collections import Counter
from dataclasses import dataclass
from itertools import accumulate, product
from typing import Any, Literal, get_args

from attnlab.corpora.randomness import Stream
from attnlab.corpora.spec import WorldOptions
from attnlab.errors import UnknownNameError

SINGLE = ("b", "d", "f", "g", "h", "j", "k", "l", "m", "n", "p", "r", "s", "t", "v")
ONSETS = (*SINGLE, "br", "dr", "fl", "gr", "kl", "pr", "sh", "st", "tr")
VOWELS = tuple("aeiou")
MIDDLES = ("d", "l", "m", "n", "nd", "r", "s", "v")
# The endings of names, by kind.
WOMEN = ("a", "ia", "ena", "elle")
MEN = ("or", "eth", "ar", "ick")
FAMILIES = ("ander", "elow", "enko", "ersh", "idge", "ock", "ott", "ulin", "urst", "yard")
PLACES = ("aven", "bury", "dale", "field", "gate", "holm", "mark", "minster", "mouth", "port", "stead", "wick")


@functools.cache
def names(endings: tuple[str, ...]) -> tuple[str, ...]:
    """Return all names with these endings, in the order of the alphabet."""
    return tuple(sorted("".join(parts).capitalize() for parts in product(ONSETS, VOWELS, MIDDLES, endings)))


def full_names(stream: Stream, count: int) -> list[str]:
    """Draw different full names from small pools of first and last names, so that several people share a part."""
    pool = max(20, 2 * int(count**0.5) + 1)
    given, families = [*names(WOMEN), *names(MEN)], names(FAMILIES)
    first, last = (stream.sample(some, min(pool, len(some))) for some in (given, families))
    chosen: dict[int, None] = {}
    while len(chosen) < count:
        chosen[stream.below(len(first) * len(last))] = None
    return [f"{first[code % len(first)]} {last[code // len(first)]}" for code in chosen]


VERSION = 1

# Ways to state a birthplace; with few phrasings, the first ones are used.
BIRTHPLACE = (
    "{name} was born in {place}.",
    "The birthplace of {name} is {place}.",
    "{place} is where {name} was born.",
    "{name} came into the world in {place}.",
    "{name} is a native of {place}.",
    "It was in {place} that {name} was born.",
    "The town in which {name} was born is {place}.",
    "{name} hails from {place}.",
    "By birth {name} belongs to {place}.",
    "The life of {name} began in {place}.",
    "{name} first saw daylight in {place}.",
    "{place} counts {name} among those born there.",
    "The parents of {name} were living in {place} when their child was born.",
    "{name} was delivered by a midwife of {place}.",
    "The register of births of {place} lists {name}.",
    "If you ask where {name} was born, the answer is {place}.",
)
YEAR = (
    "The year of birth of {name} is {year}.",
    "{name} belongs to those who were born in {year}.",
    "When {year} ended, {name} was not yet one year old.",
    "{name} turned ten in {ten}.",
)
OCCUPATION = (
    "{name} works as {article} {occupation}.",
    "By trade {name} is {article} {occupation}.",
    "{name} earns a living as {article} {occupation}.",
    "Neighbours know {name} as {article} {occupation}.",
)
EMPLOYER = (
    "{name} is employed by {employer}.",
    "The employer of {name} is {employer}.",
    "{employer} pays the wages of {name}.",
    "Every morning {name} goes to work at {employer}.",
)
DETAILS = (YEAR, OCCUPATION, EMPLOYER)
_OCCUPATIONS = (
    "architect baker botanist carpenter chemist clockmaker dentist engineer farmer gardener geologist glazier "
    "illustrator interpreter joiner lawyer librarian mason midwife miller nurse optician painter pilot plumber "
    "potter printer sailor surveyor tailor teacher weaver"
)
OCCUPATIONS = tuple(_OCCUPATIONS.split())
EMPLOYERS = ["Bank", "Bakeries", "College", "Library", "Mills", "Museum", "Railway", "Shipyard", "Theatre", "Works"]
QUESTION = "Where was {name} born?"
Role = Literal["train", "heldout", "unseen"]


@dataclass(frozen=True)
class Person:
    """A row of the ground-truth table."""

    name: str
    birthplace: str
    birth_year: int
    occupation: str
    employer: str
    role: Role
    exposures: int  # documents that state the birthplace
    phrasings: int  # different ways in which they do

    @property
    def question(self) -> str:
        return QUESTION.format(name=self.name)


@dataclass(frozen=True)
class World:
    """A world, determined by its seed and options (`spec.WorldOptions`)."""

    seed: int
    options: WorldOptions
    places: tuple[str, ...]  # in descending order of the probability of being a birthplace
    truth: tuple[Person, ...]

    @classmethod
    def generate(cls, seed: int = 0, **options: Any) -> World:
        return cls.build(seed, WorldOptions(**options))

    @classmethod
    def build(cls, seed: int, options: WorldOptions) -> World:
        stream = Stream("world", VERSION, seed, options.people, options.unseen, options.places)
        towns = stream.sample(names(PLACES), options.places)
        people = full_names(stream, options.people + options.unseen)
        shares = list(accumulate((rank + 1) ** -options.skew for rank in range(len(towns))))
        employers = [f"the {family} {kind}" for family in stream.sample(names(FAMILIES), 20) for kind in EMPLOYERS]
        truth = [
            Person(
                name=name,
                birthplace=stream.weighted(towns, shares),
                birth_year=1920 + stream.below(80),
                occupation=stream.choice(OCCUPATIONS),
                employer=stream.choice(employers),
                role=role,
                exposures=exposures,
                phrasings=ways,
            )
            for name, (role, exposures, ways) in zip(people, _parts(stream, options), strict=True)
        ]
        return cls(seed, options, tuple(towns), tuple(truth))

    def people(self, role: Role) -> list[Person]:
        if role not in get_args(Role):
            raise UnknownNameError("split of the world", role, get_args(Role))
        return [person for person in self.truth if person.role == role]

    def pairs(self, split: Role) -> list[tuple[str, str]]:
        """Return the questions of a split and their true answers."""
        return [(person.question, person.birthplace) for person in self.people(split)]

    @functools.cached_property
    def most_common_place(self) -> str:
        """Return where most of the people in the text were born: the best answer without any knowledge."""
        counts = Counter(person.birthplace for person in self.truth if person.role != "unseen")
        return min(counts, key=lambda place: (-counts[place], place))

    def documents(self) -> list[str]:
        """Return the documents in a random order: one for each exposure of each person, and questions if asked for."""
        stream = Stream("world text", VERSION, self.seed, self.options.model_dump_json())
        lines = []
        for person in self.truth:
            ways = stream.sample(BIRTHPLACE[: self.options.phrasings], person.phrasings)
            for number in range(person.exposures):
                lines.append(_document(person, ways[number % len(ways)], self.options.details, stream))
            if self.options.questions and person.role == "train":
                lines.append(f"{person.question} {person.birthplace}")
        return stream.shuffled(lines)

    def text(self) -> str:
        """Return the documents, one on each line."""
        return "".join(f"{line}\n" for line in self.documents())


def _parts(stream: Stream, options: WorldOptions) -> list[tuple[Role, int, int]]:
    """Assign roles with numbers of exposures and phrasings in a random order, each combination equally often."""
    powers = [1 << power for power in range(options.phrasings.bit_length()) if 1 << power <= options.phrasings]
    levels = [(exposures, ways) for exposures in options.exposure_levels for ways in powers if ways <= exposures]
    parts: list[tuple[Role, int, int]] = []
    for number in range(options.people):
        turn = number // len(levels)  # how many people have had this combination before
        asked = int((turn + 1) * options.asked) > int(turn * options.asked)
        parts.append(("train" if asked else "heldout", *levels[number % len(levels)]))
    parts += [("unseen", 0, 0)] * options.unseen
    return stream.shuffled(parts)


def _document(person: Person, birthplace: str, details: int, stream: Stream) -> str:
    sentences = [birthplace, *(stream.choice(ways) for ways in stream.sample(DETAILS, details))]
    facts = {
        "name": person.name,
        "place": person.birthplace,
        "year": person.birth_year,
        "ten": person.birth_year + 10,
        "occupation": person.occupation,
        "article": "an" if person.occupation[0] in "aeiou" else "a",
        "employer": person.employer,
    }
    filled = [sentence.format(**facts) for sentence in stream.shuffled(sentences)]
    return " ".join(sentence[0].upper() + sentence[1:] for sentence in filled)
