"""Kinship text: the families are consistent, and gendered words stand in the same contexts."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from attnlab.corpora import CorpusSpec, Kinship, open_corpus
from attnlab.corpora.generated.kinship import PAIRS, RELATIONS


@pytest.fixture(scope="module")
def kinship() -> Kinship:
    return Kinship.generate(seed=0, families=6, sentences=6000)


def related(kinship: Kinship, name: str) -> set[tuple[int, int]]:
    number = [pair[0] for pair in RELATIONS].index(name)
    return {(who, whom) for who, relation, whom in kinship.relations if relation == number}


def test_pure(kinship: Kinship) -> None:
    again = Kinship.generate(seed=0, families=6, sentences=6000)
    assert again == kinship
    assert again.text() == kinship.text()
    assert Kinship.generate(seed=1, families=6, sentences=6000).text() != kinship.text()


def test_relations_agree_with_each_other(kinship: Kinship) -> None:
    parent, child = related(kinship, "father"), related(kinship, "son")
    assert child == {(b, a) for a, b in parent}
    grandparents = {(a, d) for a, b in parent for c, d in parent if b == c}
    assert related(kinship, "grandfather") == grandparents
    assert related(kinship, "grandson") == {(b, a) for a, b in grandparents}
    siblings = {(b, d) for a, b in parent for c, d in parent if a == c and b != d}
    assert related(kinship, "brother") == siblings
    uncles = {(a, d) for a, b in siblings for c, d in parent if b == c}
    assert related(kinship, "uncle") == uncles
    assert related(kinship, "nephew") == {(b, a) for a, b in uncles}
    couples = related(kinship, "husband")
    assert couples == {(b, a) for a, b in couples}
    assert all(kinship.people[a].female != kinship.people[b].female for a, b in couples)
    for father, mother in filter(None, (person.parents for person in kinship.people)):
        assert not kinship.people[father].female
        assert kinship.people[mother].female
    assert len({person.name for person in kinship.people}) == len(kinship.people)


def test_the_text_tells_the_truth(kinship: Kinship) -> None:
    numbers = {person.name: number for number, person in enumerate(kinship.people)}
    words = {word: (place, female) for place, pair in enumerate(RELATIONS) for female, word in enumerate(pair)}
    told = re.findall(r"^(\w+) is the (\w+) of (\w+)\.$", kinship.text(), flags=re.MULTILINE)
    assert len(told) > 200
    for name, word, other in told:
        place, female = words[word]
        assert (numbers[name], place, numbers[other]) in kinship.relations
        assert kinship.people[numbers[name]].female == bool(female)
    for name, word in re.findall(r"^(\w+) is a (man|woman|boy|girl)\.$", kinship.text(), flags=re.MULTILINE):
        person = kinship.people[numbers[name]]
        assert person.female == (word in ("woman", "girl"))
        assert person.adult == (word in ("man", "woman"))


def swapped(line: str) -> str:
    """A line with every gendered word replaced by its partner, and names left out."""
    partner = {word: other for one, two in PAIRS for word, other in ((one, two), (two, one))}
    return " ".join(partner.get(word, "NAME" if word[0].isupper() else word) for word in re.findall(r"\w+", line))


def test_both_genders_stand_in_the_same_contexts(kinship: Kinship) -> None:
    lines = Counter(re.sub(r"[A-Z]\w+", "NAME", re.sub(r"[.,]", "", line)) for line in kinship.sentences())
    mirrored = Counter(swapped(line) for line in kinship.sentences())
    common = {line for line, count in lines.items() if count >= 30}
    assert len(common) > 30
    assert common <= mirrored.keys()


def test_each_sentence_has_one_gender_unless_shuffled(kinship: Kinship) -> None:
    def mixed(sentences: list[str]) -> int:
        sides = [{word for pair in PAIRS for word in [pair[side]]} for side in (0, 1)]
        return sum(all(side & set(re.findall(r"\w+", line)) for side in sides) for line in sentences)

    assert mixed(kinship.sentences()) == 0
    shuffled = Kinship.generate(seed=0, families=6, sentences=6000, shuffled=True)
    assert shuffled.people == kinship.people
    assert mixed(shuffled.sentences()) > 1000


def test_analogies(kinship: Kinship) -> None:
    assert ("man", "woman", "king", "queen") in kinship.analogies
    assert ("man", "woman", "nephew", "niece") in kinship.analogies
    assert len(set(kinship.analogies)) == len(PAIRS) * (len(PAIRS) - 1) // 2
    counts = Counter(re.findall(r"\w+", kinship.text()))
    assert min(counts[word] for pair in PAIRS for word in pair) >= 20


def test_as_a_corpus_every_gendered_word_is_one_token(tmp_path: Path) -> None:
    spec = CorpusSpec(name="kinship", tokenizer="word", options={"families": 6, "sentences": 3000})
    corpus = open_corpus(spec, tmp_path)
    for pair in PAIRS:
        for word in pair:
            assert len(corpus.tokenizer.encode(f" {word}")) == 1
    pieces = corpus.tokenizer.pieces  # type: ignore[attr-defined]
    assert not {word for pair in PAIRS for word in pair} & set(pieces)  # never without its space
    batch = corpus.batch(seed=0, step=0, batch_size=2, context_length=16)
    assert corpus.tokenizer.decode(batch.inputs[0].tolist())
