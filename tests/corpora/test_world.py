"""The world: what its table of truth says is what its text says."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest

from attnlab.corpora import CorpusSpec, TextCorpus, World, open_corpus
from attnlab.corpora.generated import world as phrases
from attnlab.corpora.spec import MOST_PHRASINGS
from attnlab.errors import SpecError, UnknownNameError


@pytest.fixture(scope="module")
def world() -> World:
    return World.generate(seed=1, people=280, unseen=60, places=20, questions=False)


def documents_of(world: World, name: str) -> list[str]:
    return [line for line in world.documents() if name in line]


def test_pure(world: World) -> None:
    again = World.generate(seed=1, people=280, unseen=60, places=20)
    assert again == world
    assert again.text() == world.text()
    assert World.generate(seed=2, people=280, unseen=60, places=20).truth != world.truth


def test_everybody_has_one_part(world: World) -> None:
    counts = Counter(person.role for person in world.truth)
    assert counts == {"train": 140, "heldout": 140, "unseen": 60}
    assert len({person.name for person in world.truth}) == 340
    for split in ("train", "heldout", "unseen"):
        assert len(world.pairs(split)) == counts[split]
    questions = [question for split in ("train", "heldout", "unseen") for question, _ in world.pairs(split)]
    assert len(set(questions)) == 340


def test_questions(world: World) -> None:
    person = world.people("heldout")[0]
    assert world.pairs("heldout")[0] == (f"Where was {person.name} born?", person.birthplace)
    with pytest.raises(UnknownNameError, match="'held-out'"):
        world.pairs("held-out")  # type: ignore[arg-type]


def test_the_text_says_what_the_truth_says(world: World) -> None:
    lines = world.documents()
    assert len(lines) == sum(person.exposures for person in world.truth)
    patterns = [re.escape(way) for way in phrases.BIRTHPLACE]
    for person in world.truth:
        about = [line for line in lines if person.name in line]
        assert len(about) == person.exposures
        ways = set()
        for line in about:
            stated = [
                number
                for number, pattern in enumerate(patterns)
                if re.search(pattern.replace(r"\{name\}", person.name).replace(r"\{place\}", person.birthplace), line)
            ]
            assert len(stated) == 1, line
            ways.add(stated[0])
            assert not [place for place in world.places if place in line and place != person.birthplace]
        assert len(ways) == person.phrasings


def test_who_is_unseen_is_nowhere_but_their_names_parts_are(world: World) -> None:
    text = world.text()
    unseen = world.people("unseen")
    assert not [person.name for person in unseen if person.name in text]
    known = [person for person in unseen if all(part in text for part in person.name.split())]
    assert len(known) > 0.9 * len(unseen)


def test_exposures_and_phrasings_are_crossed_and_even(world: World) -> None:
    for role in ("train", "heldout"):
        counts = Counter((person.exposures, person.phrasings) for person in world.people(role))
        expected = {(e, p) for e in (1, 2, 4, 8, 16) for p in (1, 2, 4, 8) if p <= e}
        assert counts.keys() == expected
        assert set(counts.values()) == {10}


def test_birthplaces_are_skewed() -> None:
    world = World.generate(people=4000, unseen=1000, exposures="1")
    assert world.most_common_place == world.places[0]
    for role in ("train", "heldout", "unseen"):
        people = world.people(role)
        share = sum(person.birthplace == world.most_common_place for person in people) / len(people)
        assert 0.03 < share < 0.08  # 5.4 % as drawn; the course's "London" was 5.0 %
    even = Counter(p.birthplace for p in World.generate(people=2000, places=5, skew=0.0).truth)
    assert max(even.values()) < 1.3 * min(even.values())


def test_details() -> None:
    bare = World.generate(people=20, unseen=0, details=0, exposures="2")
    assert all(line.count(".") == 1 for line in bare.documents())
    rich = World.generate(people=20, unseen=0, details=3, exposures="2")
    for person in rich.truth:
        for line in documents_of(rich, person.name):
            assert line.count(".") == 4
            assert person.occupation in line
            assert person.employer.removeprefix("the ") in line
            assert re.search(rf"\b({person.birth_year}|{person.birth_year + 10})\b", line)
            assert " a a" not in line
            assert " an b" not in line


def test_questions_may_be_in_the_text() -> None:
    world = World.generate(people=20, unseen=5, questions=True, asked=0.25, exposures="1")
    lines = [line for line in world.documents() if "?" in line]
    assert sorted(lines) == sorted(f"{question} {answer}" for question, answer in world.pairs("train"))
    assert len(lines) == 5


@pytest.mark.parametrize(("asked", "train"), [(0.0, 0), (1.0, 30), (0.1, 3)])
def test_share_of_the_asked(asked: float, train: int) -> None:
    world = World.generate(people=30, unseen=0, asked=asked, exposures="1")
    assert len(world.pairs("train")) == train
    assert len(world.pairs("heldout")) == 30 - train


def test_names_begin_no_other_name() -> None:
    for pool in (phrases.names(phrases.PLACES), phrases.names(phrases.FAMILIES)):
        ordered = sorted(pool)
        assert len(set(pool)) == len(pool)
        assert not [one for one, two in pairwise(ordered) if two.startswith(one)]
    assert not set(phrases.names(phrases.WOMEN)) & set(phrases.names(phrases.MEN))
    assert len(phrases.BIRTHPLACE) == MOST_PHRASINGS


def test_refuses_what_it_cannot_make() -> None:
    with pytest.raises(SpecError, match="has no field 'persons'"):
        World.generate(persons=3)
    with pytest.raises(SpecError, match="places of the world is 0"):
        World.generate(places=0)
    with pytest.raises(SpecError, match="phrasings"):
        World.generate(phrasings=17)


def test_one_person() -> None:
    world = World.generate(people=1, unseen=0, places=1)
    assert world.most_common_place == world.truth[0].birthplace == world.places[0]


def test_as_a_corpus(world: World, tmp_path: Path) -> None:
    options = {"people": 280, "unseen": 60, "places": 20}
    corpus = open_corpus(CorpusSpec(name="world", seed=1, options=options, validation_share=0), tmp_path)
    assert isinstance(corpus, TextCorpus)
    assert corpus.tokenizer.decode(corpus.train) == world.text()
    assert corpus.vocabulary_size < 70
    other = open_corpus(CorpusSpec(name="world", seed=2, options=options, validation_share=0), tmp_path)
    assert other.hash != corpus.hash
