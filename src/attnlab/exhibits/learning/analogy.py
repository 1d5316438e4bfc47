# %% [markdown]
# # Man is to woman as nephew is to niece
# In a text about families and courts only the words that agree with them distinguish "king" from "queen", and the same
# words distinguish "nephew" from "niece". A model that learns to continue such a text gives all these pairs nearly the
# same difference, though it was not trained for that. The control is the same text with the gender of every gendered
# word drawn independently.
#
# E(man) − E(woman) ≈ E(nephew) − E(niece), so that E(nephew) − E(man) + E(woman) lies nearest to E(niece)

# %%
from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from pydantic import Field

from attnlab.corpora import Kinship, TextCorpus, WordTokenizer
from attnlab.exhibits import Parameters, Stage, exhibit, line, points
from attnlab.exhibits.learning import toy_corpus, toy_learner
from attnlab.lens import Analogies, analogies
from attnlab.models import LanguageModel

Question = tuple[int, int, int, int]


class KinshipAnalogy(Parameters):
    families: int = Field(8, ge=2, le=20, description="families that the text tells of")
    sentences: int = Field(20_000, ge=500, le=200_000, description="sentences of the text")
    width: int = Field(32, ge=8, le=256, description="numbers in an embedding")
    steps: int = Field(600, ge=10, le=10_000, description="training steps, on the text and on its control")
    seed: int = Field(0, ge=0, le=10_000, description="of weights and text")

    @property
    def learns(self) -> bool:
        """Return whether the offset is there by then, as tried with many seeds."""
        return self.steps >= 600 and self.families <= 8 and self.sentences >= 20_000 and self.width == 32


# %% [markdown]
# Every two pairs form an analogy: the rank of d among all words by its cosine with c − a + b. As a control, the rank by
# its cosine with c alone, without any offset, is measured too.


# %%
@dataclass(frozen=True)
class KinshipText:
    """A corpus, and the analogies whose words it contains, as words and as tokens."""

    corpus: TextCorpus
    words: list[tuple[str, str, str, str]]
    questions: list[Question]


def kinship_text(parameters: KinshipAnalogy, shuffled: bool) -> KinshipText:
    options = {"families": parameters.families, "sentences": parameters.sentences, "shuffled": shuffled}
    corpus = toy_corpus(TextCorpus, name="kinship", tokenizer="word", seed=parameters.seed, options=options)
    assert isinstance(corpus.tokenizer, WordTokenizer)
    known = {piece.strip(): token for token, piece in enumerate(corpus.tokenizer.pieces) if piece.startswith(" ")}
    every = Kinship.generate(parameters.seed, families=parameters.families).analogies
    words = [one for one in every if all(word in known for word in one)]
    return KinshipText(corpus, words, [(known[a], known[b], known[c], known[d]) for a, b, c, d in words])


def asked(model: LanguageModel, text: KinshipText) -> Analogies:
    return analogies(model.embedding.weight, text.questions, draws=1)


def offset_cosine(found: Analogies) -> float:
    """Return the mean cosine of b − a and d − c."""
    return sum(one.parallel for one in found.found) / len(found.found)


@exhibit(
    "analogy",
    "Man is to woman as nephew is to niece",
    chapter="learning",
    claims=("1.1",),
    equation="E(man) − E(woman) ≈ E(nephew) − E(niece)\nd = argmax over words of cos(E, E(c) − E(a) + E(b))",
    place=3,
    trains=True,
    smoke={"families": 2, "sentences": 1000, "width": 16, "steps": 10},
)
def analogy(show: Stage, parameters: KinshipAnalogy) -> None:
    """Pairs of words that differ in the same way come to differ by the same vector; in a shuffled text they do not."""
    curves: dict[str, list[tuple[int, Analogies]]] = {}
    for name, shuffled in (("text", False), ("shuffled text", True)):
        text = kinship_text(parameters, shuffled)
        learner = toy_learner(
            text.corpus,
            num_layers=1,
            num_heads=2,
            model_width=parameters.width,
            context_length=16,
            batch_size=128,
            learning_rate=0.02,
            weight_decay=0.3,
            steps=parameters.steps,
            seed=parameters.seed,
        )
        curve = curves.setdefault(name, [(0, asked(learner.model, text))])
        every = max(20, parameters.steps // 10)
        for _ in show.progress(learner, f"training on the {name}"):
            if learner.done % every == 0 or not len(learner):
                curve.append((learner.done, asked(learner.model, text)))
        if not shuffled:
            _show_examples(show, text, curve[-1][1])
            _show_offsets(show, learner.model, text)
    _show_curves(show, curves)
    _check(show, parameters, curves)


def _show_examples(show: Stage, text: KinshipText, found: Analogies) -> None:
    lines = text.corpus.tokenizer.decode(text.corpus.train[:80]).splitlines()
    show.say(f"The text: {' '.join(lines[:4])}")
    ranks = dict(zip(text.words, found.found, strict=True))
    shown = [one for one in ranks if one[:2] == ("man", "woman")][::2]
    show.table(
        "man is to woman as …",
        ("c", "is to d", "rank of d by c − man + woman", "by c alone", "cosine of the two offsets"),
        [
            (c, d, ranks[a, b, c, d].rank, ranks[a, b, c, d].rank_alone, ranks[a, b, c, d].parallel)
            for a, b, c, d in shown
        ],
    )


def _show_offsets(show: Stage, model: LanguageModel, text: KinshipText) -> None:
    """Show the cosine of every two offsets, each b − a of vectors of length 1."""
    tokens = dict.fromkeys(pair for a, b, c, d in text.questions for pair in ((a, b), (c, d)))
    names = dict.fromkeys(pair for a, b, c, d in text.words for pair in ((a, b), (c, d)))
    unit = F.normalize(model.embedding.weight.detach().double(), dim=-1)
    offsets = F.normalize(torch.stack([unit[b] - unit[a] for a, b in tokens]), dim=-1)
    labels = [first for first, _ in names]
    show.heatmap(
        "How nearly two pairs differ by the same vector",
        offsets @ offsets.t(),
        rows=labels,
        x="pair, by its first word",
        y="pair, by its first word",
        unit="cosine",
        caption="1: the same direction; about 0: two random directions.",
    )


def _show_curves(show: Stage, curves: dict[str, list[tuple[int, Analogies]]]) -> None:
    told, control = curves["text"], curves["shuffled text"]
    steps = [step for step, _ in told]
    show.plot(
        "The offset emerges",
        points("text", steps, [offset_cosine(one) for _, one in told]),
        line("shuffled text, the control", steps, [offset_cosine(one) for _, one in control]),
        x="training step",
        y="mean cosine of two pairs' offsets",
    )
    show.plot(
        "Analogies that come out right",
        points("c − a + b, text", steps, [one.first for _, one in told]),
        line("c alone, text", steps, [one.first_alone for _, one in told]),
        line("c − a + b, shuffled text", steps, [one.first for _, one in control]),
        line("c alone, shuffled text", steps, [one.first_alone for _, one in control]),
        x="training step",
        y="d comes first (share)",
        caption="In the shuffled text both words of a pair mean the same and lie close together: c alone finds d, and "
        "the offset adds nothing.",
    )


def _check(show: Stage, parameters: KinshipAnalogy, curves: dict[str, list[tuple[int, Analogies]]]) -> None:
    before, after, control = curves["text"][0][1], curves["text"][-1][1], curves["shuffled text"][-1][1]
    show.sampled(
        "before training two offsets have a mean cosine of", samples=[one.parallel for one in before.found], derived=0.0
    )
    show.numbers(
        f"After {parameters.steps} steps, over {len(after.found)} analogies",
        {
            "mean cosine of two offsets": offset_cosine(after),
            "the same in the shuffled text": offset_cosine(control),
            "d comes first, by c − a + b": after.first,
            "by c alone": after.first_alone,
            "by c − a + b in the shuffled text": control.first,
            "by c alone in the shuffled text": control.first_alone,
        },
    )
    if not parameters.learns:
        show.say(
            "How far the offset has come is checked from 600 steps and 20 000 sentences on, for up to 8 families and a "
            "width of 32: with these parameters it may not be there yet."
        )
        return
    show.bound("mean cosine of two offsets", found=offset_cosine(after), at_least=0.3)
    show.bound("in the shuffled text, at most", found=offset_cosine(control), at_most=0.1)
    what = "right analogies by c − a + b more than by c alone"
    show.bound(f"{what} (share)", found=after.first - after.first_alone, at_least=0.1)
    show.bound(f"{what}, shuffled text", found=control.first - control.first_alone, at_most=0.1)


# %%
if __name__ == "__main__":
    analogy.main()
