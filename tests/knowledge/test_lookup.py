"""Reading answers out of texts: what stands where, what is learned from known facts, and what is not trusted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from attnlab.corpora import World
from attnlab.knowledge import Pair, QuestionTemplate
from attnlab.knowledge.store.lookup import TextReader, find_cut
from attnlab.knowledge.store.passages import asking_words, find_passages, known_answers, sentence_at
from attnlab.knowledge.store.store import FactStore

TEMPLATE = QuestionTemplate("Where was ", " born?")
TOWNS = ("Bray", "Cork", "Sligo", "Tralee", "Ennis", "Galway")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[FactStore]:
    with FactStore(tmp_path / "facts.sqlite") as opened:
        yield opened


def fill(store: FactStore, count: int = 180) -> None:
    """People who were born in a town, said in one of three ways; the last way is mostly wrong."""
    texts, pairs = [], []
    for number in range(count):
        name, town, other = f"Ann Lee{number}", TOWNS[number % 6], TOWNS[(number + 1) % 6]
        town = (
            f"Ballin{chr(97 + number // 8)}{number % 7 * 'a'}" if number % 4 == 0 else town
        )  # a place that no other fact knows
        said = (
            f"{name} (born 3 May {1700 + number} in {town}, Ireland) is a poet.",
            f"{name}. Born in {town}, Lee moved to {other} in 1990.",
            f"{name} lived happily near {' and in '.join((town, other) if number % 9 == 2 else (other, town))}.",
        )[number % 3]
        texts.append(said)
        pairs.append(Pair(TEMPLATE.ask(name), town))
    store.import_documents(texts, who="Ada", source="lives")
    store.import_facts(pairs, who="Ada", source="list")


def test_what_a_question_asks_with() -> None:
    cue = asking_words("Where was ", " born?")
    assert cue is not None
    assert [found.group() for found in cue.finditer("She was born, a native of Cork.")] == ["born", "native of"]
    assert asking_words("Where is ", "?") is None
    club = asking_words("Which club does ", " play for?")
    assert club is not None
    assert club.search("She plays for the Club of Cork")


@pytest.mark.parametrize(
    ("text", "link", "candidates"),
    [
        ("_ (born 3 May 1950 in Bray, Ireland) is a poet", "in", ["Bray", "Ireland"]),
        ("_ was born on the island of Crete", "in", ["Crete"]),
        ("_ was born at St. Ives in Cornwall, England", "at", ["St. Ives", "Cornwall", "England"]),
        ("_ (born 1950, New York) sings", ",", ["New York"]),
        ("_ is a native of Frankfurt am Main", "here", ["Frankfurt am Main"]),
        ("Born in Hereford, Ward was educated", "in", ["Hereford"]),
    ],
)
def test_passages(text: str, link: str, candidates: list[str]) -> None:
    first = next(iter(find_passages(text, "Harry Ward", asking_words("Where was ", " born?"))))
    assert (first.kind, first.rank, first.link) == ("cue", 0, link)
    assert [one.text for one in first.candidates] == candidates
    assert all(text[one.start :].startswith(one.text) for one in first.candidates)


def test_a_name_at_birth_is_no_place() -> None:
    text = "King was born Jerome Poe in Bray, Ireland"
    found = list(find_passages(text, "Kip King", asking_words("Where was ", " born?")))
    assert [(one.rank, one.link, [each.text for each in one.candidates]) for one in found] == [
        (0, "here", ["Jerome Poe"]),
        (0, "in", ["Bray", "Ireland"]),
    ]


def test_dates_of_a_life() -> None:
    text = "_ (16 June 1820 Amsterdam - 24 July 1875 Fismes (Marne)) was a theologian"
    first = next(iter(find_passages(text, "A Poe", asking_words("Where was ", " born?"))))
    assert (first.kind, first.link, first.candidates[0].text) == ("dates", "date", "Amsterdam")


def test_known_answers_are_found_as_whole_words() -> None:
    text = "From Corkum to New Cork, then Cork."
    assert [(one.text, one.start) for one in known_answers(text, {"Cork", "New Cork"}, 2)] == [
        ("New Cork", 15),
        ("Cork", 30),
    ]


def test_sentences() -> None:
    text = "Ann Lee. She was born in 1950 in Bray. Dr. A. Poe knew her! The end"
    assert sentence_at(text, text.index("Bray")) == "She was born in 1950 in Bray."
    assert sentence_at(text, text.index("end")) == "The end"
    assert sentence_at("x" * 1000, 5) == "x" * 400 + " …"


def test_it_learns_which_ways_of_saying_it_can_be_trusted(store: FactStore) -> None:
    fill(store)
    store.import_documents(
        [
            "Bo Poe (born 1 June 1931 in Kerry, Ireland) is a poet.",
            "Cy Poe. Born in Cork, Poe moved to Galway in 1970.",
            "Di Poe lived happily near Sligo and in Bray.",
            "Ed Poe is a poet.",
        ],
        who="Ada",
        source="more",
    )
    reader = TextReader(store, TEMPLATE)
    assert reader.is_measured
    (kerry,) = reader.read("Bo Poe")
    assert (kerry.answer, kerry.source) == ("Kerry", "more")  # a place that no fact knows
    assert kerry.quote == "Bo Poe (born 1 June 1931 in Kerry, Ireland) is a poet."
    assert kerry.precision is not None
    assert kerry.precision > 0.9
    assert [one.answer for one in reader.read("Cy Poe")] == ["Cork"]
    assert reader.read("Di Poe") == ()  # such sentences mostly named another town first
    assert reader.read("Ed Poe") == ()
    assert reader.read("Fay Poe") == ()


def test_how_far_down_is_trusted() -> None:
    sure = [(0.99, True)] * 95 + [(0.99, False)] * 2
    assert find_cut(sure, 0.05) == 0.99
    assert find_cut([*sure, *[(0.8, True)] * 8, *[(0.8, False)] * 2], 0.05) == 0.8  # 4 of 107 are wrong
    assert find_cut([*sure, *[(0.8, False)] * 5], 0.05) == 0.99  # 7 of 102
    assert find_cut([*sure, (0.3, False)], 0.05) == 0.99  # seldom, but never more often right than wrong
    assert find_cut([(0.9, False)] * 40, 0.05) > 1  # nothing at all


def test_it_remembers_until_something_is_imported(store: FactStore) -> None:
    fill(store)
    first = TextReader(store, TEMPLATE)
    assert store.reading_statistics(str(TEMPLATE)) is not None
    store.add(TEMPLATE.ask("Told One"), "Bray", who="Ada", source="told")
    second = TextReader(store, TEMPLATE)
    assert (second.cut, second.estimates) == (first.cut, first.estimates)
    store.import_documents(["Another text."], who="Ada", source="text")
    assert store.reading_statistics(str(TEMPLATE)) is None


@pytest.mark.parametrize("damaged", ["[]", '{"habits": {}}', '{"habits": [], "estimates": 3}'])
def test_what_it_remembers_may_be_damaged(store: FactStore, damaged: str) -> None:
    fill(store)
    first = TextReader(store, TEMPLATE)
    store.keep_reading_statistics(str(TEMPLATE), json.loads(damaged))
    second = TextReader(store, TEMPLATE)
    assert (second.cut, second.estimates) == (first.cut, first.estimates)


def test_with_nothing_to_learn_from_only_the_plainest_way_is_read(store: FactStore) -> None:
    store.import_documents(["Bo Poe was born in Cork.", "Cy Poe was born 1950, Cork."], who="Ada", source="text")
    reader = TextReader(store, TEMPLATE)
    (found,) = reader.read("Bo Poe")
    assert (found.answer, found.precision) == ("Cork", None)
    assert reader.read("Cy Poe") == ()


def test_a_text_about_somebody_else_does_not_count_beside_their_own(store: FactStore) -> None:
    texts = ["Bo Poe was born in Cork.", "Al Poe, a brother of Bo Poe, was born in Bray."]
    store.import_documents(texts, who="Ada", source="text")
    assert [one.answer for one in TextReader(store, TEMPLATE).read("Bo Poe")] == ["Cork"]


def test_texts_that_disagree_both_come_back(store: FactStore) -> None:
    store.import_documents(["Bo Poe was born in Cork.", "Bo Poe was born in Bray."], who="Ada", source="text")
    assert {one.answer for one in TextReader(store, TEMPLATE).read("Bo Poe")} == {"Cork", "Bray"}


def test_the_generated_world_is_read(store: FactStore) -> None:
    """Sixteen phrasings, half of them without a word of the question; those asked about are in no fact."""
    world = World.generate(0, people=120, unseen=5, places=12, exposures="2", details=1)
    store.import_documents(world.documents(), who="Ada", source="world")
    store.import_facts([Pair(*pair) for pair in world.pairs("train")], who="Ada", source="pairs")
    reader = TextReader(store, TEMPLATE)
    found = [(reader.read(person.name), person.birthplace) for person in world.people("heldout")]
    right = sum(len(read) == 1 and read[0].answer == place for read, place in found)
    wrong = sum(len(read) == 1 and read[0].answer != place for read, place in found)
    assert right >= 0.9 * len(found)
    assert wrong <= 0.05 * len(found)
    assert all(reader.read(person.name) == () for person in world.people("unseen"))
