"""A fact that was written into one perceptron is found there, and in a random model nothing is."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor

from attnlab.corpora import CharTokenizer, WordTokenizer, World
from attnlab.corpora.generated.world import QUESTION
from attnlab.corpora.tokenizer import WORD
from attnlab.errors import InputError, UnknownNameError, UnsupportedError
from attnlab.lens import Fact, Tracing, known_facts, trace, world_facts
from attnlab.lens.facts import GROUPS
from attnlab.models import LanguageModel, ModelSpec, build_model
from support.planted_facts import CARRIER, FACT_LAYER, all_facts, planted_model, random_model

WHERE = {
    ("mlp", FACT_LAYER, "subject end"),
    ("attention", CARRIER, "end"),
    ("residual", 0, "subject end"),
    ("residual", FACT_LAYER, "subject end"),
    ("residual", CARRIER, "end"),
}


def places(found: Tracing, what: str = "restored") -> set[tuple[str, int, str]]:
    return {(cell.part, cell.layer, cell.group) for cell in found.found(what)}


@pytest.mark.parametrize("corruption", ["name", "noise"])
def test_the_planted_fact_is_found_where_it_is(corruption: str) -> None:
    model, facts = planted_model(), all_facts()
    assert known_facts(model, facts) == facts
    found = trace(model, facts, corruption=corruption)
    assert found.clean.min() > 0.9
    assert found.total.low > 0.5
    assert places(found) == WHERE
    assert places(found, "ablated") == WHERE
    elsewhere = [cell.effect.mean for cell in found.cells() if (cell.part, cell.layer, cell.group) not in WHERE]
    # A blurred first name looks a little like a family name; another first name does not.
    assert max(abs(effect) for effect in elsewhere) < (1e-6 if corruption == "name" else 0.1 * found.total.mean)
    loudest = list(found.speakers())[:2]
    assert set(loudest) == {f"blocks.{CARRIER}.attention", f"blocks.{CARRIER}.attention.heads.1"}
    assert found.speakers()[loudest[0]].low > 2
    assert not any(model.taps.open)


def test_a_random_model_knows_nothing_and_nothing_is_found_beyond_the_stated_rate() -> None:
    facts = all_facts()
    alarms = sum(bool(places(trace(random_model(seed), facts))) for seed in range(20))
    assert alarms <= 4, "at most 1 is expected, and 5 or more come once in 400"
    assert len(known_facts(random_model(1), facts)) < 8


def test_effects_of_chance_alone_are_found_as_often_as_stated() -> None:
    """Of places that have nothing to do with each other, where a correction is needed most."""

    def by_chance() -> Tracing:
        effects = {part: torch.randn(3, 4, 20).double() for part in ("attention", "mlp", "residual")}
        nothing = torch.zeros(20, dtype=torch.float64)
        return Tracing(nothing, nothing, effects, effects, {}, {}, "")

    assert sum(bool(by_chance().found()) for _ in range(60)) <= 8, "3 at most are expected, 36 without a correction"


@torch.no_grad()
def probability(model: LanguageModel, fact: Fact, subject: tuple[int, ...] | None = None, **changes: object) -> float:
    first, end = fact.subject
    tokens = list(fact.inputs)
    tokens[first:end] = fact.prompt[first:end] if subject is None else subject
    with model.tap(changes):
        chances = model(torch.tensor([tokens]))[0, len(fact.prompt) - 1 :].double().softmax(-1)
    return float(torch.stack([row[token] for row, token in zip(chances, fact.answer, strict=True)]).prod())


@pytest.mark.parametrize("variant", ["softmax", "value-residual"])
def test_effects_are_those_of_whole_passes_with_something_replaced(variant: str) -> None:
    """Facts of different lengths, with answers of one token and of two; layers may need the values of the first."""
    model = random_model(3, variant=variant)
    facts = [Fact((1, 4, 5, 10, 12), (1, 3), (13,)), Fact((6, 7, 8, 12), (0, 2), (14, 15))]
    found = trace(model, facts)
    for number, fact in enumerate(facts):
        other = facts[1 - number]
        subject = other.prompt[slice(*other.subject)]
        clean, corrupted = probability(model, fact), probability(model, fact, subject)
        assert found.clean[number].item() == pytest.approx(clean, rel=1e-4)
        assert found.corrupted[number].item() == pytest.approx(corrupted, rel=1e-4)
        for part, point in (("attention", "attention.output"), ("mlp", "mlp.output"), ("residual", "residual")):
            name = f"blocks.1.{point}"
            with model.tap(name) as seen, torch.no_grad():
                model(torch.tensor([fact.inputs]))
            made = seen[name]
            for group, group_name in enumerate(GROUPS):
                where = fact.places[group_name]

                def put_back(now: Tensor, made: Tensor = made, where: list[int] = where) -> Tensor:
                    return now.index_copy(1, torch.tensor(where, dtype=torch.long), made[:, where])

                wanted = probability(model, fact, subject, **{name: put_back}) - corrupted
                effect = found.effects(part)[1, group, number].item()
                assert effect == pytest.approx(wanted, rel=1e-3, abs=1e-6) if where else effect != effect
    # Ablated at the end: by the mean over the three tokens at which answers are said.
    name, made = "blocks.0.mlp.output", []
    for fact in facts:
        with model.tap(name) as seen, torch.no_grad():
            model(torch.tensor([fact.inputs]))
        made.append(seen[name][0, fact.places["end"]])
    mean = torch.cat(made).mean(0)

    def average(now: Tensor) -> Tensor:
        return now.index_fill(1, torch.tensor([4]), 0.0).index_add(1, torch.tensor([4]), mean[None, None])

    wanted = found.clean[0].item() - probability(model, facts[0], **{name: average})
    assert found.effects("mlp", "ablated")[0, 3, 0].item() == pytest.approx(wanted, rel=1e-3, abs=1e-6)


def test_what_is_said_adds_up_to_the_logits() -> None:
    model, facts = random_model(2), all_facts()
    found = trace(model, facts)
    with torch.no_grad():
        logits = model(torch.tensor([fact.inputs for fact in facts]))[:, -1].double()
    answers = torch.tensor([fact.answer[0] for fact in facts])
    mine = logits.gather(1, answers[:, None])[:, 0]
    parts = [values for name, values in found.said.items() if not name.endswith("attention")]
    torch.testing.assert_close(sum(parts), mine - logits.mean(1), rtol=0, atol=1e-4)
    apart = [values for name, values in found.told_apart.items() if not name.endswith("attention")]
    torch.testing.assert_close(sum(apart), mine - logits[:, answers].mean(1), rtol=0, atol=1e-4)
    heads = [found.said[f"blocks.1.attention.{rest}"] for rest in ("heads.0", "heads.1", "bias")]
    torch.testing.assert_close(found.said["blocks.1.attention"], sum(heads))


def test_tables_and_json() -> None:
    facts = [Fact((1, 5, 12), (0, 2), (13,)), Fact((2, 6, 12), (0, 2), (14,))]  # nothing between the name and the end
    found = trace(random_model(1), facts)
    assert found.table("mlp").shape == (3, 4)
    assert found.table("mlp")[:, 2].isnan().all()
    content = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert len(content["restored"]) == len(content["ablated"]) == 3 * 3 * 4
    assert content["restored"][2] == {
        "part": "attention", "layer": 0, "group": "between", "facts": 0, "mean": None, "low": None, "high": None
    }  # fmt: skip
    assert content["restored"][0]["low"] < content["restored"][0]["mean"] < content["restored"][0]["high"]
    with pytest.raises(UnknownNameError):
        found.table("mpl")


@pytest.mark.parametrize("phrasing", ["{name} was born in {place}.", f"\n{QUESTION} {{place}}"])
def test_facts_of_the_world(phrasing: str) -> None:
    world = World.generate(people=12, unseen=2, places=5, phrasings=1, details=0, questions=True)
    text = world.text() + "".join(f"{person.name} {person.question} {person.birthplace}\n" for person in world.truth)
    words = WordTokenizer(dict.fromkeys(WORD.findall(text)))
    facts = world_facts(world, words, phrasing=phrasing)
    assert len(facts) == 12
    people = [person for person in world.truth if person.role != "unseen"]
    for tokenizer, size in ((words, 1), (CharTokenizer(text), None)):
        for fact, person in zip(world_facts(world, tokenizer, phrasing=phrasing), people, strict=True):
            assert tokenizer.decode(fact.prompt[slice(*fact.subject)]).strip() == person.name == fact.name
            assert tokenizer.decode(fact.answer) == f" {person.birthplace}"
            assert len(fact.answer) == (size or len(person.birthplace) + 1)
            told = [place for group in fact.places.values() for place in group]
            assert told == list(range(fact.subject[0], len(fact.inputs)))
    assert world_facts(world, words, world.truth[:1], phrasing=phrasing)[0].name == world.truth[0].name


def test_bad_input() -> None:
    model, facts = random_model(0), all_facts()
    with pytest.raises(InputError, match="facts: 1"):
        trace(model, facts[:1])
    with pytest.raises(InputError, match="no other fact has a name of 2 tokens"):
        trace(model, [fact for fact in facts if fact.answer == facts[0].answer])
    with pytest.raises(InputError, match="noise of 0"):
        trace(model, facts, corruption="noise", noise=0.0)
    with pytest.raises(InputError, match="corruption"):
        trace(model, facts, corruption="silence")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="subject"):
        Fact((1, 2), (1, 3), (4,))
    with pytest.raises(InputError, match="no facts"):
        known_facts(model, [])
    with pytest.raises(InputError, match="model knows"):
        trace(model, [Fact((1, 2), (0, 1), (99,)), facts[0]])
    with pytest.raises(InputError, match="followed by"):
        world_facts(World.generate(people=2), CharTokenizer("a"), phrasing="{place} knows {name}")
    spec = ModelSpec.build("nano", vocabulary_size=9, num_layers=1, model_width=8, num_heads=1, family="encoder")
    with pytest.raises(UnsupportedError):
        trace(build_model(spec), facts)
