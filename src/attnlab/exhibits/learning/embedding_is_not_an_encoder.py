# %% [markdown]
# # A word embedding is not an encoder
# An embedding gives a word the same vector in every sentence: it depends only on the word. The layers of a model turn
# it into an encoding: the same word after other words becomes another vector. Here a briefly trained model reads "the
# hungry fox" and "the tired fox".
#
# E(fox | hungry) = E(fox | tired) before the first block, h_l(fox | hungry) ≠ h_l(fox | tired) after each block l

# %%
from __future__ import annotations

import torch
import torch.nn.functional as F
from pydantic import Field

from attnlab.corpora import AdjectivesCorpus
from attnlab.errors import SpecError
from attnlab.exhibits import Parameters, Stage, exhibit, line, points
from attnlab.exhibits.learning import toy_corpus, toy_learner
from attnlab.lens import evaluating, same_token
from attnlab.models import LanguageModel

LONGEST = 10  # words of a prefix


def text(seed: int = 0) -> AdjectivesCorpus:
    """Return a corpus about hungry foxes that eat and tired hens that sleep."""
    return toy_corpus(AdjectivesCorpus, name="adjectives", seed=seed)


class EmbeddingIsNotAnEncoder(Parameters):
    one: str = Field("the old hungry fox", description="a beginning of a sentence of the made-up text")
    two: str = Field("the old tired fox", description="another of as many words, with the same last word")
    layers: int = Field(2, ge=1, le=6, description="blocks of the model")
    steps: int = Field(200, ge=10, le=10_000, description="training steps")
    seed: int = Field(0, ge=0, le=10_000, description="of weights and sentences")

    def check(self) -> None:
        one, two, corpus = self.one.split(), self.two.split(), text()
        known = corpus.tokenizer.decode(range(1, corpus.vocabulary_size)).split()
        for word in (*one, *two):
            if word not in known:
                raise SpecError(f"the made-up text has no word {word!r}", hint=f"use {' '.join(known)}")
        if not 2 <= len(one) == len(two) <= LONGEST or one[-1] != two[-1] or one == two:
            raise SpecError(
                f"{self.one!r} and {self.two!r} do not have one word at the same place after other words",
                hint=f"give two beginnings of as many words, 2 to {LONGEST}, that differ but end with the same word",
            )

    @property
    def decided(self) -> bool:
        """Return whether the two differ in adjectives that the model has learned to use by then."""
        meanings = [set(words.split()) & set(ADJECTIVES) for words in (self.one, self.two)]
        return self.steps >= 200 and self.layers <= 2 and meanings[0] != meanings[1]


ADJECTIVES = text().tokenizer.decode(AdjectivesCorpus.adjectives).split()

# %% [markdown]
# The vectors of the last word, read by name: as an embedding, with its position embedding, after each block.


# %%
def vectors(model: LanguageModel, tokens: torch.Tensor, word: int) -> dict[str, torch.Tensor]:
    """Return the word's vector in each row of tokens (rows, words), at each stage: (rows, width)."""
    stages = {"embedding": "embedding", "with its place": "residual"}
    stages |= {f"behind block {n + 1}": f"blocks.{n}.residual" for n in range(model.spec.num_layers)}
    with evaluating(model), model.tap(*stages.values()) as seen:
        model(tokens)
    return {stage: seen[name][:, word].double() for stage, name in stages.items()}


@exhibit(
    "embedding-is-not-an-encoder",
    "A word embedding is not an encoder",
    chapter="learning",
    claims=("0.7",),
    equation="E(w) is the same in every sentence;  h_l(w | sentence) is not, behind every block l",
    place=1,
    trains=True,
    smoke={"steps": 20},
)
def embedding_is_not_an_encoder(show: Stage, parameters: EmbeddingIsNotAnEncoder) -> None:
    """An embedding is the same vector in every sentence; each layer makes of it a vector that has read the others."""
    corpus = text(parameters.seed)
    learner = toy_learner(
        corpus,
        position="learned",
        num_layers=parameters.layers,
        num_heads=2,
        model_width=32,
        context_length=corpus.options.longest - 1,
        steps=parameters.steps,
        seed=parameters.seed,
    )
    for _ in show.progress(learner, "learning to read"):
        pass
    model = learner.model
    sentences = [corpus.tokenizer.encode(words) for words in (parameters.one, parameters.two)]
    tokens, last = torch.tensor(sentences), len(sentences[0]) - 1
    _show_stages(show, model, sentences)
    _show_next(show, model, corpus, tokens)
    _show_contexts(show, model, corpus, tokens[0])

    stages = vectors(model, tokens, last)
    for stage, (a, b) in stages.items():
        apart = float((a - b).norm() / a.norm())
        if stage in ("embedding", "with its place"):
            show.check(f"{stage}: how far apart the two vectors are", found=apart, expected=0)
        else:
            least = 0.05 if parameters.decided else 1e-6
            show.bound(f"{stage}: how far apart they are (of their length)", found=apart, at_least=least)
    again = torch.cat([tokens[:1], tokens[:1]]).repeat(1, 2)  # the same words, followed by other ones
    again[1, last + 1 :] = tokens[1]
    same = vectors(model, again, last)
    furthest = max(float((a - b).norm() / a.norm()) for a, b in same.values())
    what = "the word after the same words: how far apart it is at most, at any stage, whatever comes later"
    show.check(what, found=furthest, expected=0, within=1e-5)


def _show_stages(show: Stage, model: LanguageModel, sentences: list[list[int]]) -> None:
    found = same_token(model, sentences[0], sentences[1], sentences[0][-1])
    names = ["embedding", "with its place", *(f"behind block {n + 1}" for n in range(model.spec.num_layers))]
    show.table(
        "The same word in both, stage by stage",
        ("stage", "cosine of its two vectors", "cosine of different words"),
        zip(names, found.similarity, found.others, strict=True),
    )
    numbers = range(len(names))
    show.plot(
        "One vector becomes two",
        points("the same word in both", numbers, found.similarity),
        line("different words", numbers, found.others),
        x="stage (0 embedding, 1 with its place, then behind each block)",
        y="cosine (1: the same direction)",
    )


def _show_next(show: Stage, model: LanguageModel, corpus: AdjectivesCorpus, tokens: torch.Tensor) -> None:
    with evaluating(model):
        chances = model(tokens)[:, -1].softmax(-1)
    rows = []
    for sentence, chance in zip(tokens.tolist(), chances, strict=True):
        best = int(chance.argmax())
        rows.append((corpus.tokenizer.decode(sentence), corpus.tokenizer.decode([best]), float(chance[best])))
    show.table("What the last vector is good for", ("sentence", "likeliest next word", "its probability"), rows)


def _show_contexts(show: Stage, model: LanguageModel, corpus: AdjectivesCorpus, sentence: torch.Tensor) -> None:
    """Show the cosines between the vectors of a sentence's last word after each of the adjectives."""
    last = len(sentence) - 1
    tokens = sentence.repeat(len(ADJECTIVES), 1)
    tokens[:, last - 1] = torch.tensor(corpus.adjectives)
    stages = vectors(model, tokens, last)
    unit = F.normalize(stages[f"behind block {model.spec.num_layers}"], dim=-1)
    word = corpus.tokenizer.decode([int(sentence[-1])])
    show.heatmap(
        f"“{word}” after each adjective: cosines behind the last block",
        (unit @ unit.t()).round(decimals=2),
        rows=ADJECTIVES,
        x=f"{word} after …",
        y=f"{word} after …",
        unit="cosine",
        caption="As an embedding all of them are one vector, and every cell would be 1.",
    )


# %%
if __name__ == "__main__":
    embedding_is_not_an_encoder.main()
