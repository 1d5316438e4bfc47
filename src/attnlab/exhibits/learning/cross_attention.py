# %% [markdown]
# # Which word corresponds to which
# In cross-attention the queries come from one sequence and the keys and values from another, as in translation. A
# small encoder–decoder learns to translate between two made-up languages whose word order differs. It is not told which
# words correspond; after training its weights show it, and the generator of the sentences knows the true alignment.
#
# a_ij = softmax_j(q_i·k_j / √D_k), q_i of target word i, k_j of source word j
#
# alignment error = the share of target words i for which argmax_j a_ij is not the word that i translates

# %%
from __future__ import annotations

import torch
from pydantic import Field

from attnlab.corpora import IGNORED, Batch, TranslationCorpus
from attnlab.exhibits import Parameters, Stage, exhibit, line, points
from attnlab.exhibits.learning import toy_corpus, toy_learner
from attnlab.lens import Pointed, accuracy, attention_maps, pointing
from attnlab.models import LanguageModel


class CrossAttention(Parameters):
    clauses: int = Field(2, ge=1, le=3, description="at most so many clauses in a sentence")
    words: int = Field(28, ge=4, le=200, description="words of each language")
    heads: int = Field(1, ge=1, le=8, description="heads of each layer")
    head_width: int = Field(32, ge=4, le=128, description="numbers in a query of each head")
    steps: int = Field(300, ge=10, le=10_000, description="training steps")
    seed: int = Field(0, ge=0, le=10_000, description="of weights and sentences")

    @property
    def learns(self) -> bool:
        """Return whether the model translates by then, as tried with many seeds."""
        return self.steps >= 300 and self.clauses <= 2 and self.words <= 28 and self.head_width >= 32


# %% [markdown]
# The correct source word of every target word is known: `corpus.alignment`. The full stop at the end of a clause is
# left out: it always follows the verb, so that the model need not look it up.


# %%
KINDS = {"N": "nouns", "A": "adjectives", "V": "verbs", ".": "stops"}


def places_of(corpus: TranslationCorpus, batch: Batch, kinds: str = "NAV") -> torch.Tensor:
    """Return the source place of every target word of these kinds, −1 for all other words, ends and padding."""
    names = corpus.tokenizer.decode(range(corpus.vocabulary_size)).split()
    wanted = torch.tensor([name[0] in kinds for name in names])
    return corpus.alignment(batch).masked_fill(~wanted[batch.targets.clamp(min=0)], -1)


def best_head(model: LanguageModel, corpus: TranslationCorpus, batch: Batch) -> Pointed:
    """Return the head of the cross-attention that attends to the translated word the most."""
    return pointing(model, [(batch, places_of(corpus, batch))], of="cross").best


@exhibit(
    "cross-attention",
    "Which word corresponds to which",
    chapter="cross-attention",
    claims=("1.10",),
    equation="a_ij = softmax_j(q_i · k_j / √D_k),  q from the target, k from the source\n"
    "alignment error = share of target words i with argmax_j a_ij ≠ the word that i translates",
    trains=True,
    smoke={"clauses": 1, "words": 8, "head_width": 16, "steps": 20},
)
def cross_attention(show: Stage, parameters: CrossAttention) -> None:
    """With queries from one language and keys from the other, the weights say which word translates which."""
    corpus = toy_corpus(
        TranslationCorpus,
        name="translation",
        vocabulary_size=4 + 2 * parameters.words,
        options={"clauses": parameters.clauses, "validation_examples": 256},
        seed=parameters.seed,
    )
    (batch,) = corpus.validation_batches(batch_size=256, context_length=corpus.options.longest + 1)
    learner = toy_learner(
        corpus,
        position="learned",
        num_layers=1,
        num_heads=parameters.heads,
        model_width=parameters.heads * parameters.head_width,
        context_length=corpus.options.longest + 1,
        steps=parameters.steps,
        seed=parameters.seed,
    )
    untrained = best_head(learner.model, corpus, batch)
    seen: list[tuple[int, float, float]] = [(0, untrained.error.mean, 1 - (accuracy(learner.model, [batch]) or 0.0))]
    every = max(20, parameters.steps // 15)
    for _ in show.progress(learner, "learning to translate"):
        if learner.done % every == 0 or not len(learner):
            error = best_head(learner.model, corpus, batch).error.mean
            seen.append((learner.done, error, 1 - (accuracy(learner.model, [batch]) or 0.0)))
    found = best_head(learner.model, corpus, batch)
    _show_map(show, learner.model, corpus, batch, found)
    steps, errors, wrong = zip(*seen, strict=True)
    show.plot(
        "Alignment appears as translation is learned",
        points("alignment error of the weights", steps, errors),
        line("words translated wrongly", steps, wrong),
        line("alignment error by chance", [0, parameters.steps], [1 - found.chance] * 2),
        x="training step",
        y="error (share of words)",
    )
    _show_errors(show, learner.model, corpus, batch, untrained, found)
    _check(show, parameters, found)


def _interval(head: Pointed) -> tuple[float, float, float]:
    return head.error.mean, max(0.0, head.error.low), min(1.0, head.error.high)


def _show_map(show: Stage, model: LanguageModel, corpus: TranslationCorpus, batch: Batch, found: Pointed) -> None:
    """Show the weights of one sentence, and check what must hold for those of all sentences."""
    assert batch.source is not None
    assert batch.source_padding is not None
    maps = attention_maps(model, batch, of="cross")[found.layer]
    weights = maps.map[:, found.head]  # (sentences, target, source)
    lengths = batch.source_padding.sum(1)
    row = int(lengths.argmax())
    length = int(lengths[row])
    source, target = (
        corpus.tokenizer.decode(words[row, :length].tolist()).split() for words in (batch.source, batch.targets)
    )
    show.heatmap(
        f"The weights of {found.name}, for one sentence",
        weights[row, :length, :length],
        rows=target,
        columns=source,
        x="source word (keys)",
        y="target word that is predicted (queries)",
        unit="weight",
        caption="Nouns n come before their adjectives a in the target, and the verb v at the end of the clause.",
    )
    order = corpus.alignment(batch)[row, :length].tolist()
    rows = list(zip(target, (source[place] for place in order), weights[row, :length].argmax(-1).tolist(), strict=True))
    show.table(
        "Word by word",
        ("target word", "translates", "looks most at"),
        [(word, right, source[looked] if looked < length else "padding") for word, right, looked in rows],
    )
    real = batch.targets != IGNORED
    padded = weights.masked_fill(batch.source_padding[:, None, :], 0.0)[real]
    show.check("all weight on padding of the source", found=padded.abs().max(), expected=0)
    sums = weights.sum(-1)[real]
    show.check("each target word's weights over the source words sum to 1", found=sums, expected=1, within=1e-5)


def _show_errors(
    show: Stage, model: LanguageModel, corpus: TranslationCorpus, batch: Batch, untrained: Pointed, found: Pointed
) -> None:
    by_kind = {
        name: pointing(model, [(batch, places_of(corpus, batch, kind))], of="cross")[found.layer, found.head]
        for kind, name in KINDS.items()
    }
    show.table(
        "Alignment error over 256 sentences that were held back",
        ("weights", "error", "95 % from", "to"),
        [
            ("of the best head, all words", *_interval(found)),
            *((f"of these, {name}", *_interval(one)) for name, one in by_kind.items() if name != "stops"),
            ("all words, judged by another sentence's alignment", 1 - found.swapped, "", ""),
            ("before training", *_interval(untrained)),
            ("equal weights: 1 − 1/n for n source words", 1 - found.chance, "", ""),
            ("stops, which are not counted as words", *_interval(by_kind["stops"])),
        ],
    )
    show.say(
        "Weights say where a word is looked up, which need not be where it stands: the encoder has read the whole "
        "sentence and may put what the verb means at the end of its clause, where the decoder then looks for it."
    )


def _check(show: Stage, parameters: CrossAttention, found: Pointed) -> None:
    if not parameters.learns:
        show.say(
            "How small the error is, is checked from 300 steps on, for up to two clauses, up to 28 words and heads of "
            "width 32 or more: with these parameters the model may not have learned to translate yet."
        )
        return
    show.bound("alignment error of all words (upper end of the 95 % interval)", found=found.error.high, at_most=0.4)
    show.bound(
        "and by how much it is below that of a control that knows the usual word order, but not the sentence",
        found=1 - found.swapped - found.error.mean,
        at_least=0.25,
    )


# %%
if __name__ == "__main__":
    cross_attention.main()
