# %% [markdown]
# # Adjectives change their noun
# Earlier words pass their meaning on to later ones. In a made-up text the adjective decides the verb: "the old hungry
# fox eats". A model of two layers learns such text. One of its heads turns out to attend from each noun to its
# adjective; without that head the model can no longer predict the verb, without another head it still can.
#
# E_noun ← E_noun + Σ_j a_noun,j W_V E_j; importance of a head = loss(its output ← its mean) − loss

# %%
from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from pydantic import Field

from attnlab.corpora import IGNORED, AdjectivesCorpus, Batch
from attnlab.exhibits import Parameters, Stage, bars, exhibit
from attnlab.exhibits.learning import toy_corpus, toy_learner
from attnlab.lens import Ablation, Pointed, Pointing, ablate, attention_maps, evaluating, pointing
from attnlab.models import LanguageModel


class AdjectiveNoun(Parameters):
    others: int = Field(
        2, ge=0, le=6, description="at most so many adjectives that mean nothing, beside the one that does"
    )
    heads: int = Field(2, ge=2, le=8, description="heads of each of the two layers")
    steps: int = Field(250, ge=10, le=10_000, description="training steps")
    seed: int = Field(0, ge=0, le=10_000, description="of weights and sentences")

    @property
    def learns(self) -> bool:
        """Return whether the model reads the adjective by then, as tried with many seeds."""
        return self.steps >= 250 and self.others <= 2 and self.heads == 2


# %% [markdown]
# For each noun of the text it is known which adjective decides its verb. So the head can be found by how much of its
# attention goes from nouns to these adjectives, and the loss can be split: at verbs, and everywhere else.


# %%
def asked_only(batch: Batch, where: torch.Tensor) -> Batch:
    """Return the same texts, with the loss counted in these places alone."""
    return Batch(batch.inputs, batch.targets.masked_fill(~where, IGNORED))


@exhibit(
    "adjective-noun",
    "Adjectives change their noun",
    chapter="learning",
    claims=("1.2",),
    equation="E_noun ← E_noun + Σ_j a_noun,j W_V E_j\nimportance of a head = loss(its output ← its mean) − loss",
    place=2,
    trains=True,
    smoke={"steps": 20},
)
def adjective_noun(show: Stage, parameters: AdjectiveNoun) -> None:
    """A head learns to carry the adjective's meaning to its noun: it is found, shown, and missed when it is removed."""
    options = {"others": parameters.others, "validation_examples": 256}
    corpus = toy_corpus(AdjectivesCorpus, name="adjectives", options=options, seed=parameters.seed)
    length = corpus.options.longest - 1
    (batch,) = corpus.validation_batches(batch_size=256, context_length=length)
    deciding = corpus.deciding(batch)  # for each noun the position of its adjective, −1 elsewhere
    show.say(f"The text: {corpus.tokenizer.decode(batch.inputs[0].tolist()).split(' <pad>')[0]}")
    learner = toy_learner(
        corpus,
        position="learned",
        num_layers=2,
        num_heads=parameters.heads,
        model_width=16 * parameters.heads,
        context_length=length,
        steps=parameters.steps,
        seed=parameters.seed,
    )
    for _ in show.progress(learner, "learning to read"):
        pass
    found = pointing(learner.model, [(batch, deciding)])
    _show_map(show, learner.model, corpus, batch, found.best)
    verbs, rest = (ablate(learner.model, [asked_only(batch, where)]) for where in (deciding >= 0, deciding < 0))
    _show_importance(show, found.heads, verbs, rest)
    _check_reading(show, learner.model, corpus, asked_only(batch, deciding >= 0), verbs.loss)
    if parameters.learns:
        _check_importance(show, found, verbs, rest)
        return
    show.say(
        "The importance of the heads is checked from 250 steps on, for two heads and up to two other adjectives: with "
        "these parameters the model may not read the adjective yet, or several heads may share the work."
    )


def _show_map(show: Stage, model: LanguageModel, corpus: AdjectivesCorpus, batch: Batch, head: Pointed) -> None:
    """Show where the head attends in the first text, up to its second full stop."""
    words = corpus.tokenizer.decode(batch.inputs[0].tolist()).split()
    end = [place for place, word in enumerate(words) if word == "."][1] + 1
    weights = attention_maps(model, batch.inputs[:1])[head.layer].map[0, head.head, :end, :end]
    show.heatmap(
        f"Where {head.name} looks",
        weights.round(decimals=2),
        rows=words[:end],
        x="word that is looked at (key)",
        y="word that looks (query)",
        unit="weight",
        caption="In the row of each noun, its adjective.",
    )


def _show_importance(show: Stage, heads: tuple[Pointed, ...], verbs: Ablation, rest: Ablation) -> None:
    names = [head.name for head in heads]
    # To 1e-4 nats; smaller differences are rounding.
    rises = [[round(float(found.heads()[head.layer, head.head]), 4) for head in heads] for found in (verbs, rest)]
    show.table(
        "The heads",
        (
            "head",
            "attention noun → its adjective",
            "by chance",
            "loss at verbs without it",
            "loss elsewhere without it",
        ),
        [
            (head.name, head.share.mean, head.chance, f"+{verb:.3f} nats", f"{other:+.3f} nats")
            for head, verb, other in zip(heads, *rises, strict=True)
        ],
    )
    show.plot(
        "What is lost without a head",
        bars("at the verb after a noun", rises[0]),
        bars("at every other word", rises[1]),
        labels=names,
        x="head that is removed",
        y="rise of the loss (nats)",
    )


def _check_reading(show: Stage, model: LanguageModel, corpus: AdjectivesCorpus, batch: Batch, loss: float) -> None:
    """Check that without attention the model, which sees the noun alone, is no better than the verbs' entropy."""
    asked = batch.targets != IGNORED
    with evaluating(model), model.tap({"blocks.*.attention.output": torch.zeros_like}):
        losses = F.cross_entropy(model(batch.inputs)[asked], batch.targets[asked], reduction="none")
    without, error = float(losses.mean()), float(losses.std()) / math.sqrt(len(losses))
    least = math.log(len(corpus.verbs))
    show.numbers(
        f"The loss at {len(losses)} verbs, in nats",
        {
            "with all heads": loss,
            "without any attention": without,
            f"at least, for one who does not know the adjective: log {len(corpus.verbs)}": least,
        },
    )
    show.bound(
        f"without any attention the verb cannot be told: its loss against log {len(corpus.verbs)} − 4 standard errors",
        found=without,
        at_least=least - 4 * error,
    )


def _check_importance(show: Stage, found: Pointing, verbs: Ablation, rest: Ablation) -> None:
    """Check that removing the head found hurts at verbs, far less elsewhere, and far more than removing the control."""
    best, control = found.best, found.least
    path = "blocks.{0.layer}.attention.heads.{0.head}"
    there, elsewhere, other = verbs[path.format(best)], rest[path.format(best)], verbs[path.format(control)]
    show.bound(f"{best.name}: attention from a noun to its adjective", found=best.share.low, at_least=0.35)
    show.bound(f"without {best.name} the loss at verbs rises by (nats)", found=there.importance.low, at_least=0.5)
    show.bound(
        "and elsewhere by so much of that (share)",
        found=elsewhere.importance.high / there.importance.mean,
        at_most=0.35,
    )
    show.bound(
        f"without {control.name}, the control, it rises at verbs by so much of that (share)",
        found=other.importance.high / there.importance.mean,
        at_most=0.35,
    )


# %%
if __name__ == "__main__":
    adjective_noun.main()
