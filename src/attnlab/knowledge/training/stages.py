"""The stages of training: a model is pretrained on the text, finetuned on questions, and later taught new pairs.

pretrain(gather(text), recipe("assignment"))   a fresh model on the documents, optionally with document-conditioned QA
finetune(pretrained, gather(text, pairs))      a run that starts from the weights of another
finetune(None, gather(text, pairs))            without pretraining, for comparison
learn(run, new_pairs)                          new pairs for a finetuned model, mixed with the old ones

Synthetic QA: a pretrained model generates a question about each document, and its answer.

    document MASK question           the template with a name, which is copied from the document
    document MASK question MASK      → answer, also copied from the document, with its probability

The training split shows where names are: if nearly all of its documents begin with the name and continue in the same
way, a name begins at the start of a document and ends where the document continues in that way. An answer is left out
if its probability among all spans of the document is too low.

This uses only the text and the training split. Documents about people of the heldout and calibration splits are read
like all others; the answers of these splits are never used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from attnlab.errors import InputError
from attnlab.knowledge.answers.decoding import CopySource, copy_from
from attnlab.knowledge.answers.model import KnowledgeModel
from attnlab.knowledge.codec import Codec, Row, make_tokenizer
from attnlab.knowledge.material import Material, SyntheticPair
from attnlab.knowledge.pairs import Pair, sort_out
from attnlab.knowledge.training.recipes import KnowledgeRecipe, StageSettings
from attnlab.knowledge.training.rows import RowCorpus
from attnlab.knowledge.training.sources import (
    DocumentQA,
    Documents,
    FixedRows,
    Source,
    SyntheticPairs,
    UnseenEntities,
    answered_documents,
)
from attnlab.knowledge.training.stage_run import Length, Options, train_stage, weights_digest
from attnlab.models import LanguageModel
from attnlab.storage.records import read_json, write_json
from attnlab.training import Reporter, RunResult, Schedule

_SAMPLE = 200  # documents for the validation loss if there is no heldout pair
_WRITTEN = "practice.json"  # in the folder of the pretrained run: the synthetic pairs, and the key of their material
_VERSION = 2  # of their generation
_LEARN_EPOCHS = 8
_LEARN_REPEATS = 4  # how often an epoch takes a new pair; it takes an old one once
_LEARN_RATE = 0.25  # as a fraction of the learning rate of finetuning
_FOR_QUESTION, _FOR_ANSWER = 48, 32  # tokens reserved for them after a document
_NEARLY_ALL = 0.9
_LEAST = 0.5  # minimum probability of an answer among all spans of its document
_BEHIND = 2  # characters after the name that are compared


def pretrain(
    material: Material, recipe: KnowledgeRecipe, length: Length | None = None, options: Options | None = None
) -> RunResult:
    """Train a fresh model on the text, or resume it; the same request has the same folder.

    Parameters
    ----------
    material
        The text, the pairs and their splits.
    recipe
        The shape of the model, its tokenizer and its training settings.
    length
        The length of each stage; None takes the recipe's own.
    options
        The folder for runs, processes, seed and progress; None takes the defaults.
    """
    material = replace(material, synthetic=())
    return train_stage(
        "pretrain",
        recipe,
        recipe.pretraining,
        length or Length(),
        material,
        lambda: pretraining_corpus(material, recipe),
        options or Options(),
    )


def pretraining_corpus(material: Material, recipe: KnowledgeRecipe) -> RowCorpus:
    """Return the documents, by the recipe's objective; those that answer a training pair perhaps with it."""
    codec, context = make_codec(material, recipe), recipe.context_length
    documents = [codec.encode(document) for document in material.documents]
    answered = answered_documents(material) if recipe.document_qa else {}
    plain = [document for number, document in enumerate(documents) if number not in answered]
    sources: list[Source] = [
        Documents(plain, recipe.span_share, codec.mask, context),
        DocumentQA(material, answered, codec, context),
    ]
    sample = [Row(document[: context + 1]) for document in documents[:_SAMPLE] if len(document) > 1]
    rows = [row for row in _heldout_rows(codec, material) if len(row.tokens) <= context]
    validation = rows or sample or [Row((codec.mask, codec.mask))]
    return RowCorpus("knowledge-text", codec, sources, validation, bucketed=recipe.bucketed)


def make_codec(material: Material, recipe: KnowledgeRecipe) -> Codec:
    """Build a codec for the documents, and for the questions and answers that will be learned."""
    pairs = [text for pair in material.train for text in (pair.question, pair.answer)]
    return Codec(make_tokenizer(recipe.tokenizer, [*material.documents, *pairs], recipe.vocabulary_size))


def finetune(
    parent: Path | None,
    material: Material,
    recipe: KnowledgeRecipe,
    length: Length | None = None,
    options: Options | None = None,
) -> RunResult:
    """Finetune a pretrained run on the training split, or a fresh model if there is no parent.

    Parameters
    ----------
    parent
        The folder of a pretrained run; None finetunes a fresh model.
    material
        The text, the pairs and their splits.
    recipe
        The shape of the model, its tokenizer and its training settings.
    length
        The length of each stage; None takes the recipe's own.
    options
        The folder for runs, processes, seed and progress; None takes the defaults.
    """
    options, settings, begun = options or Options(), recipe.finetuning, None
    if not material.train:
        raise InputError("there are no pairs to learn", hint="give `pairs=…`")
    if parent is None:
        codec, settings = make_codec(material, recipe), settings.replace(epochs=recipe.epochs_alone)
    else:
        begun = KnowledgeModel.open(parent)
        codec = begun.codec
        if recipe.synthetic_qa:
            material = replace(material, synthetic=_synthetic_pairs(begun, material, options))
    usable = _usable(codec, material, recipe.context_length)
    return train_stage(
        "finetune",
        recipe,
        settings,
        length or Length(),
        material,
        lambda: pair_corpus(codec, usable, material, recipe),
        options,
        parent=begun,
    )


def learn(
    run: Path,
    pairs: Sequence[Pair],
    *,
    out: Path | None = None,
    epochs: int | None = None,
    reporter: Reporter | None = None,
    **wishes: object,
) -> Path:
    """Teach a finetuned model new pairs, mixed with all that it learned before, in a new run beside the old one.

    A new pair replaces an old one with the same question. New questions are removed from the other splits.

    Parameters
    ----------
    run
        The folder of a finetuned run.
    pairs
        New pairs.
    out
        The folder in which the new run is created; None creates it beside the old one.
    epochs
        Passes over the pairs; None takes the recipe's own.
    reporter
        Called with the progress; None reports nothing.
    wishes
        The arguments of `choose_execution`.
    """
    new = sort_out(pairs)
    if new.contradictions:
        question = new.contradictions[0].question
        raise InputError(f"the pairs to learn contradict each other: {question!r}", hint="decide for one answer")
    if not new.pairs:
        raise InputError("there are no pairs to learn", hint="give some")
    begun = KnowledgeModel.open(run)
    recipe, codec, old = KnowledgeRecipe(**begun.record["settings"]), begun.codec, begun.material
    asked = {pair.question for pair in new.pairs}
    material = replace(
        old,
        train=(*(pair for pair in old.train if pair.question not in asked), *new.pairs),
        heldout=tuple(pair for pair in old.heldout if pair.question not in asked),
        calibration=tuple(pair for pair in old.calibration if pair.question not in asked),
        synthetic=tuple(pair for pair in old.synthetic if pair.question not in asked),
    )
    for pair in new.pairs:
        problem = _problem(codec, pair, recipe.context_length)
        if problem is not None:
            raise InputError(f"a pair cannot be learned: {problem}", hint="leave it out; nothing else is lost")
    learned = [pair for pair in _usable(codec, material, recipe.context_length) if pair.question not in asked]
    return train_stage(
        "learn",
        recipe,
        _gently(recipe.finetuning),
        Length(epochs=epochs),
        material,
        lambda: pair_corpus(codec, learned, material, recipe, new.pairs),
        Options(out=out or run.parent, reporter=reporter, wishes=wishes),
        parent=begun,
    ).path


def pair_corpus(
    codec: Codec, learned: Sequence[Pair], material: Material, recipe: KnowledgeRecipe, new: Sequence[Pair] = ()
) -> RowCorpus:
    """Return the pairs to learn, those that the model wrote, and new ones more often than old."""
    context = recipe.context_length
    written = [pair for pair in material.synthetic if _problem(codec, pair.pair, context) is None]
    unseen = round(recipe.unseen_entities * (len(learned) + len(written)))
    sources: list[Source] = [
        FixedRows([codec.pair(pair) for pair in learned]),
        SyntheticPairs(written, [pair.answer for pair in learned], codec),
        UnseenEntities(material, codec, unseen, context),
        FixedRows([codec.pair(pair) for pair in new], repeats=_LEARN_REPEATS),
    ]
    rows = _heldout_rows(codec, material) or [codec.pair(pair) for pair in learned or new]
    validation = [row for row in rows if len(row.tokens) <= context] or rows
    return RowCorpus("knowledge-pairs", codec, sources, validation, bucketed=recipe.bucketed)


def _heldout_rows(codec: Codec, material: Material) -> list[Row]:
    return [codec.pair(pair) for pair in material.heldout if codec.known(pair.question + pair.answer) is None]


def _gently(settings: StageSettings) -> StageSettings:
    """Return settings of finetuning for a model that has much to lose."""
    optimizer = settings.optimizer
    rates = {name: _LEARN_RATE * getattr(optimizer, name) for name in ("learning_rate", "matrix_learning_rate")}
    schedule = Schedule(kind="trapezoid", warmup_steps=5, decay=0.5, end=0.0)
    return settings.replace(epochs=_LEARN_EPOCHS, optimizer=optimizer.model_copy(update=rates), schedule=schedule)


def _synthetic_pairs(begun: KnowledgeModel, material: Material, options: Options) -> tuple[SyntheticPair, ...]:
    """Return what the pretrained model writes; it is kept beside it, for it takes a moment."""
    key = f"{_VERSION} {replace(material, synthetic=()).hash} {weights_digest(begun.path)}"
    file = begun.path / _WRITTEN
    kept = read_json(file) if file.exists() else {}
    if kept.get("key") != key:
        if options.reporter is not None:
            options.reporter.note(f"generating synthetic question–answer pairs on {len(material.documents)} documents")
        written = write_synthetic_pairs(begun.model, begun.codec, material)
        kept = {"key": key, "pairs": [[pair.question, pair.answer, pair.probability] for pair in written]}
        write_json(file, kept)
    return tuple(SyntheticPair(*row) for row in kept["pairs"])


def _usable(codec: Codec, material: Material, context: int) -> list[Pair]:
    """Return the training pairs that fit into the context and have no unknown character."""
    found = [pair for pair in material.train if _problem(codec, pair, context) is None]
    if not found:
        raise InputError(
            f"none of the {len(material.train)} pairs can be learned: {_problem(codec, material.train[0], context)}",
            hint="use a tokenizer that knows every text (bpe), or a longer context",
        )
    return found


def _problem(codec: Codec, pair: Pair, context: int) -> str | None:
    unknown = codec.known(pair.question + pair.answer)
    if unknown is not None:
        return unknown
    length = len(codec.pair(pair).tokens)
    return None if length <= context + 1 else f"a pair has {length} tokens, and the model reads {context}"


def write_synthetic_pairs(model: LanguageModel, codec: Codec, material: Material) -> list[SyntheticPair]:
    """Return the pairs that the model writes about the documents."""
    room = model.spec.context_length - _FOR_QUESTION - _FOR_ANSWER
    if room < 1:
        raise InputError(
            f"a context of {model.spec.context_length} is too short for a document and a question",
            hint=f"use `context_length={_FOR_QUESTION + _FOR_ANSWER + 1}` or more, or `synthetic_qa=False`",
        )
    answered = answered_documents(material)
    texts = {
        number: CopySource.of_words(codec.tokenizer, codec.encode(document)[:room])
        for number, document in enumerate(material.documents)
        if number not in answered
    }
    questions = write_questions(model, codec, material, texts)
    read = [texts[number] for number in questions]
    tails = [(codec.mask, *codec.prompt(question)) for question in questions.values()]
    likeliest = copy_from(model, read, tails, codec.mask, _FOR_ANSWER)
    best: dict[str, SyntheticPair] = {}
    for question, said in zip(questions.values(), likeliest, strict=True):
        answer = codec.decode(said.tokens)
        known = best.get(question)  # of several documents about a person, the most probable answer counts
        if answer and said.among_stretches >= _LEAST and (known is None or known.probability < said.probability):
            best[question] = SyntheticPair(question, answer, said.probability)
    return list(best.values())


def write_questions(
    model: LanguageModel, codec: Codec, material: Material, texts: Mapping[int, CopySource]
) -> dict[int, str]:
    """Return the question that each document answers, by document number, except those of the training split."""
    asked = {pair.question for pair in material.train}
    before, after = codec.around_name(material.template)
    behind = what_follows_names(material)
    narrow = [text if behind is None else _at_the_start(codec, text, behind) for text in texts.values()]
    tails = [(codec.mask, *before)] * len(texts)
    copied = copy_from(model, narrow, tails, after[0], _FOR_QUESTION - len(before) - len(after))
    found = {}
    for number, said in zip(texts, copied, strict=True):
        name = codec.decode(said.tokens)
        question = material.template.ask(name)
        if said.ended and name and question not in asked and number in material.index.find(name):
            found[number] = question
    return found


def what_follows_names(material: Material) -> str | None:
    """Return what follows the name if nearly all documents of the training split begin with it; else None."""
    answered = answered_documents(material)
    follow: Counter[str] = Counter()
    for number, pair in answered.items():
        name = material.template.name(pair.question)
        if name is not None and material.documents[number].startswith(name):
            follow[material.documents[number][len(name) : len(name) + _BEHIND]] += 1
    behind, count = max(follow.items(), key=lambda item: item[1], default=("", 0))
    return behind if count and count >= _NEARLY_ALL * len(answered) else None


def _at_the_start(codec: Codec, text: CopySource, behind: str) -> CopySource:
    """Limit the stretches to those that begin the text, and end before `behind`."""
    decode, tokens = codec.tokenizer.decode, text.tokens
    return text.narrowed({0}, {end for end in text.ends if decode(tokens[end : end + 4]).startswith(behind)})
