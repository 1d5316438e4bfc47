"""Answers: in order, alone as together, with honest probabilities, and never an exception for a strange question."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from tests.support.knowledge import finetuned, fresh, small, world_material

from attnlab.errors import FileError, InputError
from attnlab.knowledge import KnowledgeModel, Pair, evaluate
from attnlab.knowledge.answers.decoding import complete
from attnlab.knowledge.answers.evaluation import Proportion, exposure_words, write_predictions
from attnlab.knowledge.pipeline import keeping

MATERIAL = world_material()


@pytest.fixture(scope="module")
def model() -> KnowledgeModel:
    return fresh(MATERIAL)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeModel:
    return KnowledgeModel.open(finetuned(tmp_path_factory.mktemp("runs"), MATERIAL, steps=25))


def test_answers_come_in_order_and_alone_as_together(trained: KnowledgeModel) -> None:
    questions = [pair.question for pair in (*MATERIAL.heldout, *MATERIAL.train)]
    together = trained.answer(questions)
    assert [answer.question for answer in together] == questions
    for question, answer in list(zip(questions, together, strict=True))[::5]:
        (alone,) = trained.answer([question])
        assert alone.text == answer.text
        assert alone.probability == pytest.approx(answer.probability, rel=1e-4)


def test_the_probability_is_that_of_the_whole_answer(trained: KnowledgeModel) -> None:
    questions = [pair.question for pair in MATERIAL.train]
    prompts = [trained.codec.prompt(question) for question in questions]
    said = complete(trained.model, prompts, trained.codec.mask)
    answers = trained.answer(questions)
    assert any(one.ended for one in said)
    for prompt, one, answer in zip(prompts, said, answers, strict=True):
        if not one.ended:
            assert answer.probability == answer.length_normalised == 0
            continue
        tokens = (*prompt, *one.tokens, trained.codec.mask)
        with torch.no_grad():
            logits = trained.model(torch.tensor([tokens[:-1]]))[0].log_softmax(-1)
        chances = [logits[place - 1, tokens[place]].item() for place in range(len(prompt), len(tokens))]
        assert answer.probability == pytest.approx(math.exp(sum(chances)), rel=1e-3)
        assert answer.length_normalised == pytest.approx(math.exp(sum(chances) / len(chances)), rel=1e-3)


def test_agreement_is_a_share_of_drawn_answers(trained: KnowledgeModel) -> None:
    questions = [pair.question for pair in MATERIAL.train]
    answers = trained.answer(questions, samples=4, seed=1)
    assert all(answer.agreement in {0, 0.25, 0.5, 0.75, 1.0} for answer in answers)
    assert trained.answer(questions, samples=4, seed=1) == answers
    assert trained.answer(questions)[0].agreement is None
    with pytest.raises(InputError, match="-1 samples"):
        trained.answer(questions, samples=-1)
    with pytest.raises(InputError, match="1000000 samples"):
        trained.answer(questions, samples=1_000_000)
    with pytest.raises(InputError, match="the seed is 9223372036854775807"):
        trained.answer(questions, samples=1, seed=2**63 - 1)


def test_strange_questions_are_answered_or_explained(trained: KnowledgeModel) -> None:
    odd = ["", "   ", "Who are you?", f"Where was {'x' * 10_000} born?", "Where was 🦊 محمود \u2047\u25a1 born?"]
    answers = trained.answer([*odd, MATERIAL.heldout[0].question], samples=2)
    assert len(answers) == len(odd) + 1
    empty, blank, other, long, signs, plain = answers
    assert empty.problem == blank.problem == "the question is empty"
    assert other.problem is None
    assert not other.fits
    assert "tokens" in str(long.problem)
    assert long.probability == 0
    assert signs.problem is None
    assert signs.fits
    assert plain == trained.answer([MATERIAL.heldout[0].question], samples=2)[0] or plain.fits


def test_unknown_characters_are_named() -> None:
    (answer,) = fresh(MATERIAL, small("assignment")).answer(["Where was 🦊 born?"])
    assert "🦊" in str(answer.problem)
    assert answer.text == ""


def test_no_questions(model: KnowledgeModel) -> None:
    assert model.answer([]) == []
    with pytest.raises(InputError, match="nothing to ask"):
        evaluate(model, [])


def test_exposure_counts_documents(model: KnowledgeModel) -> None:
    named = MATERIAL.template.name(MATERIAL.train[0].question)
    assert named is not None
    assert model.exposure(named) == sum(named in document for document in MATERIAL.documents) > 0
    assert model.exposure("Nemo Nobody") == 0


def test_an_evaluation_counts_right(model: KnowledgeModel, tmp_path: Path) -> None:
    said = model.answer([pair.question for pair in MATERIAL.train])
    pairs = [Pair(one.question, one.text or "nothing") for one in said[:5]]
    pairs += [Pair(one.question, "Nowhere at all") for one in said[5:8]]
    found = evaluate(model, [*pairs, Pair("twice?", "A"), Pair("twice?", "B")])
    right = sum(bool(one.text) for one in said[:5])
    assert (found.exact_match.correct, found.exact_match.total) == (right, 8)
    assert found.contradictions == 1
    assert found.accuracy.low <= right / 8 <= found.accuracy.high
    assert found.commonest is not None
    assert sum(score.total for score in found.by_exposure.values()) == 8
    plain = found.plain()
    assert len(plain["answers"]) == 8
    write_predictions(tmp_path / "answers.tsv", found)
    lines = (tmp_path / "answers.tsv").read_text().splitlines()
    assert len(lines) == 9
    assert {line.count("\t") for line in lines} == {7}


def test_scores_and_words() -> None:
    assert Proportion(0, 10).share.low == 0
    assert Proportion(10, 10).share.high == 1
    assert [exposure_words(1, 1), exposure_words(3, 4), exposure_words(17, None)] == ["1", "3–4", "17+"]


def test_the_threshold_that_keeps_a_share() -> None:
    values = [number / 10 for number in range(10)]
    assert keeping(values, 0.9) == 0.1
    assert sum(value >= keeping(values, 0.9) for value in values) == 9
    assert keeping([0.5] * 4, 0.9) == 0.5


def test_what_is_no_knowledge_run(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no run directory"):
        KnowledgeModel.open(tmp_path / "nothing")
