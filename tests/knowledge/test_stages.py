"""Pretraining, synthetic QA, finetuning and learning: what they leave, and that nothing on the way loses it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tests.support.knowledge import ALONE, finetuned, fresh, options, small, world_material

from attnlab.corpora.randomness import words
from attnlab.errors import FileError, InputError, SpecError
from attnlab.knowledge import (
    KnowledgeModel,
    KnowledgeRecipe,
    Length,
    Material,
    Pair,
    SyntheticPair,
    evaluate,
    finetune,
    learn,
    pretrain,
    recipe,
    run,
)
from attnlab.knowledge.answers.decoding import CopySource, copy_from
from attnlab.knowledge.codec import Codec, Row, make_tokenizer
from attnlab.knowledge.material import read_record
from attnlab.knowledge.training.sources import DocumentQA, SyntheticPairs, UnseenEntities, answered_documents
from attnlab.knowledge.training.stages import make_codec, pretraining_corpus, what_follows_names, write_synthetic_pairs
from attnlab.models import build_model
from attnlab.runs import RunDirectory
from attnlab.training.progress import Silent


class Killed(Silent):
    """Ends the run at a step, as a kill would."""

    def __init__(self, step: int) -> None:
        self.at = step

    def step(self, done: int, loss: float) -> None:
        del loss
        if done == self.at:
            raise KeyboardInterrupt


def sha(path: Path) -> str:
    return str((RunDirectory.open(path).result or {})["weights_sha256"])


def test_the_assignment_is_the_published_model() -> None:
    made = recipe("assignment")
    model = build_model(made.model(256))  # 254 characters and two marks
    assert model.num_parameters() == 3_323_392
    assert made.pretraining.epochs == 650
    assert made.pretraining.optimizer.learning_rate == 6e-3
    assert made.pretraining.optimizer.betas == (0.9, 0.95)
    assert made.pretraining.schedule.factor(10**6, 100) == pytest.approx(0.1)  # it does not climb back
    assert (made.finetuning.batch_size, made.finetuning.epochs, made.epochs_alone) == (256, 10, 75)


def test_a_recipe_in_an_earlier_record_is_understood() -> None:
    fields = recipe("fast").model_dump(mode="json")
    earlier = {"reading": "document_qa", "practice": "synthetic_qa", "strangers": "unseen_entities"}
    record = {**fields, **{old: fields[new] for old, new in earlier.items()}}
    for new in earlier.values():
        del record[new]
    assert KnowledgeRecipe(**record) == recipe("fast")


def test_a_run_from_text_to_evaluation(tmp_path: Path) -> None:
    material = world_material()
    outcome = run(material, small(), options=options(tmp_path), alone=True)
    assert outcome.evaluation.exact_match.total == len(material.heldout)
    assert outcome.alone is not None
    record = read_record(outcome.path)
    assert record["stage"] == "finetune"
    assert record["parent"] == str(outcome.pretrained.absolute())
    kept = Material.read(outcome.path)
    assert kept.train == material.train
    assert kept.calibration == material.calibration
    assert kept.documents == material.documents
    before = {path: sha(path) for path in tmp_path.iterdir()}
    again = run(material, small(), options=options(tmp_path), alone=True)
    assert again.path == outcome.path
    assert {path: sha(path) for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("stage", ["pretrain", "finetune"])
def test_a_killed_stage_goes_on_to_the_same_weights(tmp_path: Path, stage: str) -> None:
    material, made = world_material(), small(synthetic_qa=False)

    def train(folder: Path, **changes: object) -> Path:
        length = Length(steps=7)
        if stage == "pretrain":
            return pretrain(material, made, length, options(folder, **changes)).path
        parent = pretrain(material, made, Length(steps=2), options(folder)).path
        return finetune(parent, material, made, length, options(folder, **changes)).path

    whole = train(tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "cut", reporter=Killed(5))
    assert sha(train(tmp_path / "cut")) == sha(whole)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "early", reporter=Killed(1))  # before the first checkpoint
    assert sha(train(tmp_path / "early")) == sha(whole)


def test_finetuning_begins_with_the_pretrained_weights(tmp_path: Path) -> None:
    material, made = world_material(), small(synthetic_qa=False)
    parent = pretrain(material, made, Length(steps=4), options(tmp_path)).path
    gentle = made.finetuning.optimizer.model_copy(update={"learning_rate": 1e-9, "matrix_learning_rate": 1e-9})
    still = made.model_copy(update={"finetuning": made.finetuning.model_copy(update={"optimizer": gentle})})
    path = finetune(parent, material, still, Length(steps=1), options(tmp_path)).path
    before, after = (KnowledgeModel.open(run).model.state_dict() for run in (parent, path))
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor)
    assert not torch.equal(
        before["embedding.weight"], build_model(made.model(before["embedding.weight"].shape[0])).embedding.weight
    )


def test_minutes_become_steps_that_are_kept(tmp_path: Path) -> None:
    material, made = world_material(), small()
    result = pretrain(material, made, Length(minutes=0.002), options(tmp_path))
    assert result.steps == RunDirectory.open(result.path).record["resolved"]["steps"] >= 1
    assert pretrain(material, made, Length(minutes=0.002), options(tmp_path)).already


@pytest.mark.parametrize("name", ["synthesizer-dense", "rope", "linear", "softmax"])
def test_any_variant_learns_and_answers(tmp_path: Path, name: str) -> None:
    material, made = world_material(), small("assignment", variant=name, dropout=0.0)
    path = finetune(None, material, made, Length(steps=2), options(tmp_path)).path
    answers = KnowledgeModel.open(path).answer([pair.question for pair in material.heldout], samples=2)
    assert len(answers) == len(material.heldout)
    assert all(answer.problem is None for answer in answers)


def test_lengths_that_cannot_be() -> None:
    for wrong in ({"epochs": 1, "minutes": 1.0}, {"steps": 0}, {"minutes": float("nan")}):
        with pytest.raises(SpecError):
            Length(**wrong)


def test_nothing_to_learn_or_to_ask(tmp_path: Path) -> None:
    material = world_material()
    with pytest.raises(InputError, match="no pairs to learn"):
        finetune(None, replace(material, train=()), small(), options=options(tmp_path))
    with pytest.raises(InputError, match="kept back"):
        run(replace(material, heldout=()), small(), options=options(tmp_path))
    assert not list(tmp_path.iterdir())


def test_an_unfinished_run_is_neither_asked_nor_finetuned(tmp_path: Path) -> None:
    material = world_material()
    with pytest.raises(KeyboardInterrupt):
        pretrain(material, small(), Length(steps=6), options(tmp_path, reporter=Killed(3)))
    (path,) = tmp_path.iterdir()
    for use in (KnowledgeModel.open, lambda run: finetune(run, material, small())):
        with pytest.raises(FileError, match="has not finished"):
            use(path)


def test_document_qa_exchanges_names_and_learns_no_falsehood() -> None:
    material, made = world_material(), small()
    codec = make_codec(material, made)
    source = DocumentQA(material, answered_documents(material), codec, made.context_length)
    pairs = {(pair.question, pair.answer) for pair in material.train}
    random = torch.arange(source.count * 4, dtype=torch.int64).numpy().astype("uint64") * 0x9E3779B97F4A7C15
    false = 0
    for number in range(source.count):
        row = source.make(number, random[4 * number : 4 * number + 4])
        document, question, answer = codec.tokenizer.decode(row.tokens).split("\u2047")[:3]
        name = material.template.name(question)
        assert name is not None
        assert name in document
        assert answer.strip() in document
        if (question.strip(), answer.strip()) not in pairs:
            false += 1
            assert row.first == row.tokens.index(codec.mask)  # the document is given, not learned
    assert false > source.count / 3


def test_heldout_answers_are_never_in_what_is_learned() -> None:
    material, made = world_material(), small()
    codec = make_codec(material, made)
    corpus = pretraining_corpus(material, made)
    secret = {codec.pair(pair).tokens for pair in (*material.heldout, *material.calibration)}
    for step in range(2 * corpus.steps_per_epoch(16)):
        for row in corpus.batch(seed=0, step=step, batch_size=16, context_length=160).inputs.tolist():
            text = codec.tokenizer.decode(row)
            for pair in (*material.heldout, *material.calibration):
                assert pair.question not in text
    assert secret


def test_dropout_that_a_variant_cannot_have_is_explained() -> None:
    with pytest.raises(SpecError, match="`dropout=0`"):
        small("assignment", variant="linear").model(64)


@pytest.mark.parametrize("seed", [None, 1, 2])
def test_what_is_copied_are_whole_words_of_the_text(seed: int | None) -> None:
    codec = Codec(make_tokenizer("char", ["Where was Ann Lee born? abcdefghijk."], None))
    model = build_model(small("assignment").model(codec.vocabulary_size), seed=3)
    written = ["Ann Lee was here.", "A Lee and a born bee.", "Lee"]
    texts = [CopySource.of_words(codec.tokenizer, codec.encode(text)) for text in written]
    for text, said in zip(written, copy_from(model, texts, [(codec.mask,)] * 3, codec.mask, 30, seed), strict=True):
        words = codec.decode(said.tokens)
        assert said.ended
        left, right = (r"(?<!\w)" if words[0].isalnum() else ""), (r"(?!\w)" if words[-1].isalnum() else "")
        assert re.search(f"{left}{re.escape(words)}{right}", text)


def test_a_stretch_can_be_narrowed() -> None:
    codec = Codec(make_tokenizer("char", ["Ann Lee. She"], None))
    text = CopySource.of_words(codec.tokenizer, codec.encode("Ann Lee. She"))
    assert sorted(text.begins) == [0, 3, 4, 7, 8, 9]
    assert sorted(text.ends) == [3, 4, 7, 8, 9, 12]
    assert text.narrowed({0}, {7}) == CopySource(text.tokens, frozenset({0}), frozenset({7}))
    assert text.narrowed({1}, set()) == text  # nothing would be left


def test_where_names_stand_is_learned_from_the_training_split() -> None:
    pairs = [Pair(f"Where was {name} born?", "Rome") for name in ("Ann Lee", "Bob Fox", "Cy Wu")]
    titled = tuple(f"{name}. Born in Rome ." for name in ("Ann Lee", "Bob Fox", "Cy Wu"))
    assert what_follows_names(Material(titled, tuple(pairs))) == ". "
    mixed = (*titled[:2], "In Rome, Cy Wu was born .")
    assert what_follows_names(Material(mixed, tuple(pairs))) is None


def test_synthetic_qa_asks_about_people_in_the_text_who_are_not_in_the_training_split() -> None:
    material = world_material()
    model = fresh(material)
    written = write_synthetic_pairs(model.model, model.codec, material)
    asked = {pair.question for pair in material.train}
    for pair in written:
        assert pair.question not in asked
        name = material.template.name(pair.question)
        assert name is not None
        assert material.index.find(name)
        assert 0 <= pair.probability <= 1
    assert len({pair.question for pair in written}) == len(written)


def test_what_was_read_without_assurance_is_remembered_without() -> None:
    codec = make_codec(world_material(), small())
    pairs = [SyntheticPair("sure?", "Aa", 1.0), SyntheticPair("unsure?", "Aa", 0.2)]
    rows = SyntheticPairs(pairs, ["Bb", "Cc"], codec)
    said = [[codec.decode(row.tokens[row.first :]) for row in made] for made in _made(rows, 1000)]
    assert set(said[0]) == {"Aa"}
    assert said[1].count("Aa") == pytest.approx(600, abs=60)
    assert set(said[1]) == {"Aa", "Bb", "Cc"}


def _made(rows: SyntheticPairs, times: int) -> list[list[Row]]:
    return [[rows.make(number, words(str(key), 4)) for key in range(times)] for number in range(rows.count)]


def test_learning_more_keeps_what_was_learned(tmp_path: Path) -> None:
    material = world_material()
    path = finetuned(tmp_path, material)
    new = [Pair("Where was Nemo Nobody born?", "Atlantis"), Pair(material.train[0].question, "Elsewhere")]
    new.append(Pair(material.calibration[0].question, "Nowhere"))
    made = learn(path, new, epochs=1, **ALONE)
    assert made != path
    kept = Material.read(made)
    assert set(new) <= set(kept.train)
    assert material.train[0] not in kept.train
    assert len(kept.train) == len(material.train) + 2
    assert material.calibration[0] not in kept.calibration
    assert read_record(made)["stage"] == "learn"
    assert learn(path, new, epochs=1, **ALONE) == made
    assert KnowledgeModel.open(made).weights_sha256 != KnowledgeModel.open(path).weights_sha256


@pytest.mark.parametrize(
    ("pairs", "complaint"),
    [([], "no pairs to learn"), ([Pair("a", "X"), Pair("a", "Y")], "contradict"), ([Pair("x" * 9000, "Y")], "tokens")],
)
def test_what_cannot_be_learned_is_refused(tmp_path: Path, pairs: list[Pair], complaint: str) -> None:
    path = finetuned(tmp_path, steps=1)
    with pytest.raises(InputError, match=complaint):
        learn(path, pairs, **ALONE)
    assert list(tmp_path.iterdir()) == [path]


def test_a_model_learns_its_training_pairs(tmp_path: Path) -> None:
    """The one test that trains long enough to see that something is learned."""
    material = world_material()
    made = small(synthetic_qa=False)
    path = finetune(None, material, made, Length(steps=300), options(tmp_path, saving=None)).path
    model = KnowledgeModel.open(path)
    assert evaluate(model, material.train).accuracy.mean > 0.9, (
        "11 of 12: unseen entities keep it from being sure of all"
    )
    assert evaluate(model, material.heldout).accuracy.mean < 1.0


def test_unseen_entities_are_nowhere_in_the_text_and_their_answers_change() -> None:
    material, made = world_material(), small()
    codec = make_codec(material, made)
    unseen = UnseenEntities(material, codec, 20, made.context_length)
    assert unseen.count == 20
    answers: dict[str, set[str]] = {}
    for key in range(300):
        row = unseen.make(0, words(str(key), 4))
        question, answer = codec.decode(row.tokens[: row.first]), codec.decode(row.tokens[row.first :])
        name = material.template.name(question)
        assert name is not None
        assert not material.index.find(name)
        assert answer in {pair.answer for pair in material.train}
        answers.setdefault(name, set()).add(answer)
    assert any(len(found) > 1 for found in answers.values())
    crowded = replace(material, documents=(*material.documents, _together(material, 0, 1)))
    assert UnseenEntities(crowded, codec, 20, made.context_length).count == 20  # whichever two come first
    assert UnseenEntities(Material(("Plato lived .",), (Pair("Who was Plato?", "x"),)), codec, 5, 64).count == 0


def _together(material: Material, first: int, last: int) -> str:
    """A document that names somebody put together of two others."""
    names = [str(material.template.name(pair.question)).split(" ") for pair in material.train]
    return f"{names[first][0]} {names[last][-1]} was here ."
