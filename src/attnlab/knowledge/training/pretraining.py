"""Pretraining: a model reads the text.

    pretrain(gather(Path("biographies.txt")), recipe("assignment"))

Where the recipe reads with questions, a document that answers a pair of the training split is followed by that pair.
"""

from __future__ import annotations

from attnlab.knowledge.material.codec import Codec, Row, make_tokenizer
from attnlab.knowledge.material.material import Material
from attnlab.knowledge.training.reading import Reading, answered_documents
from attnlab.knowledge.training.recipes import KnowledgeRecipe
from attnlab.knowledge.training.rows import Documents, RowCorpus, Source
from attnlab.knowledge.training.staging import Length, Options, run_path, train_stage
from attnlab.training import RunResult

_SAMPLE = 200  # documents whose loss is told where there is no heldout pair


def pretrain(
    material: Material, recipe: KnowledgeRecipe, length: Length | None = None, options: Options | None = None
) -> RunResult:
    """Train a fresh model on the text, or go on with it; the same request has the same folder."""
    length, options = length or Length(), options or Options()
    material = material.with_changes(practice=())
    path = run_path(options, "pretrain", recipe, length, material.hash)
    return train_stage(
        path,
        "pretrain",
        recipe,
        recipe.pretraining,
        length,
        material,
        lambda: pretraining_corpus(material, recipe),
        options,
    )


def make_codec(material: Material, recipe: KnowledgeRecipe) -> Codec:
    """The tokens of a text, and of the questions that will be learned."""
    pairs = [text for pair in material.train for text in (pair.question, pair.answer)]
    return Codec(make_tokenizer(recipe.tokenizer, [*material.documents, *pairs], recipe.vocabulary_size))


def pretraining_corpus(material: Material, recipe: KnowledgeRecipe) -> RowCorpus:
    """The documents, by the recipe's objective; those that answer a training pair perhaps with it."""
    codec, context = make_codec(material, recipe), recipe.context_length
    documents = [codec.encode(document) for document in material.documents]
    answered = answered_documents(material) if recipe.reading else {}
    plain = [document for number, document in enumerate(documents) if number not in answered]
    sources: list[Source] = [
        Documents(plain, recipe.span_share, codec.mask, context),
        Reading(material, answered, codec, context),
    ]
    validation = [codec.pair(pair) for pair in material.heldout if codec.known(pair.question + pair.answer) is None]
    sample = [Row(document[: context + 1]) for document in documents[:_SAMPLE] if len(document) > 1]
    shown = [row for row in validation if len(row.tokens) <= context] or sample or [Row((codec.mask, codec.mask))]
    return RowCorpus("knowledge-text", codec, sources, shown, bucketed=recipe.bucketed)
