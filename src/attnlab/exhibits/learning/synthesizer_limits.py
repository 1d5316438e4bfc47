# %% [markdown]
# # What a synthesizer cannot do in one layer
# A synthesizer computes its scores from the query token alone, without the other tokens. So it cannot find the token
# that matches. Here one layer of each kind learns a pure matching task: symbols in a random order, then each of them
# again, and the answer is the position of its first occurrence.
#
# Q–K–V: z_ij = q_i·k_j / √D_k; dense: z_ij = (ReLU(x_i A + b₁) B + b₂)_j; random: z_ij = R_ij

# %%
from __future__ import annotations

import math

import torch
from pydantic import Field

from attnlab.corpora import MatchingCorpus
from attnlab.exhibits import Parameters, Stage, bars, exhibit, line
from attnlab.exhibits.learning import toy_corpus, toy_learner
from attnlab.lens import accuracy, attention_maps
from attnlab.models import LanguageModel
from attnlab.statistics import mean_interval

VARIANTS = {"Q–K–V": "softmax", "dense synthesizer": "synthesizer-dense", "random synthesizer": "synthesizer-random"}


class SynthesizerLimits(Parameters):
    places: int = Field(16, ge=2, le=64, description="places that symbols stand at, and questions after them")
    heads: int = Field(1, ge=1, le=8, description="heads of the one layer")
    head_width: int = Field(32, ge=4, le=128, description="numbers in a query of each head")
    steps: int = Field(300, ge=10, le=5000, description="training steps of each model")
    seeds: int = Field(5, ge=2, le=20, description="models of each kind")
    seed: int = Field(0, ge=0, le=10_000, description="of the first model; the others follow")

    @property
    def learns(self) -> bool:
        """Return whether Q–K–V has learned the task by then, as tried with many seeds."""
        return self.steps >= 300 and self.places <= 16 and self.heads == 1 and self.head_width >= 32


# %% [markdown]
# The exact part needs no training: change the tokens at the key positions, and see whether the weights of the queries
# change. Then the trained part: how often each kind is right.


# %%
def moved_weights(model: LanguageModel, tokens: torch.Tensor, places: int) -> float:
    """Return the largest change of the questions' weights when the symbols before them exchange their places."""
    others = tokens.clone()
    others[:, :places] = tokens[:, :places].roll(1, dims=1)
    before, after = (attention_maps(model, one)[0].map[:, :, places:] for one in (tokens, others))
    return float((before - after).abs().max())


@exhibit(
    "synthesizer-limits",
    "What a synthesizer cannot do in one layer",
    chapter="synthesizer",
    claims=("syn",),
    equation="Q–K–V   z_ij = q_i · k_j / √D_k\ndense   z_ij = (ReLU(x_i A + b₁) B + b₂)_j\nrandom  z_ij = R_ij",
    trains=True,
    smoke={"places": 4, "head_width": 16, "steps": 10, "seeds": 2},
)
def synthesizer_limits(show: Stage, parameters: SynthesizerLimits) -> None:
    """Scores that come from one token alone cannot find the token that matches, which Q–K–V does in a single layer."""
    places, steps = parameters.places, parameters.steps
    corpus = toy_corpus(MatchingCorpus, name="matching", options={"places": places})
    batches = list(corpus.validation_batches(batch_size=256, context_length=2 * places))
    example = batches[0]
    words = corpus.tokenizer.decode(example.inputs[0].tolist()).split()
    answer = corpus.tokenizer.decode(example.targets[0, places : places + 1].tolist())
    show.say(
        f"For instance: {' '.join(words[:places])}; then {words[places]} is asked for, and {answer} is right. Symbols "
        f"and their order are random, so that guessing is right once in {places} times."
    )
    right: dict[str, list[float]] = {}
    curves: dict[str, list[float]] = {}
    for kind, variant in VARIANTS.items():
        for seed in range(parameters.seed, parameters.seed + parameters.seeds):
            learner = toy_learner(
                corpus,
                position="learned",
                variant=variant,
                num_layers=1,
                num_heads=parameters.heads,
                model_width=parameters.heads * parameters.head_width,
                context_length=2 * places,
                steps=steps,
                seed=seed,
            )
            losses = list(show.progress(learner, f"{kind}, seed {seed}"))
            right.setdefault(kind, []).append(accuracy(learner.model, batches) or 0.0)
            curves.setdefault(kind, losses)
        moved = moved_weights(learner.model, example.inputs, places)
        if kind == "Q–K–V":
            what = "Q–K–V: the weights of the questions change when the symbols before them change places, by up to"
            show.bound(what, found=moved, at_least=1e-6)
        else:
            show.check(f"{kind}: the weights do not change at all", found=moved, expected=0)
    _show_curves(show, curves, places, steps)
    _show_accuracy(show, right, parameters)


def _show_curves(show: Stage, curves: dict[str, list[float]], places: int, steps: int) -> None:
    every = max(1, steps // 50)
    series = [
        line(kind.removesuffix(" synthesizer"), range(1, steps + 1, every), losses[::every])
        for kind, losses in curves.items()
    ]
    show.plot(
        "How each kind learns to match (first seed)",
        *series,
        line("guessing: log N", [1, steps], [math.log(places)] * 2),
        x="training step",
        y="loss of the answer (nats)",
        caption="Q–K–V falls to 0; the synthesizers stay near what guessing costs.",
    )


def _show_accuracy(show: Stage, right: dict[str, list[float]], parameters: SynthesizerLimits) -> None:
    chance = 1 / parameters.places
    found = {kind: mean_interval(shares) for kind, shares in right.items()}
    show.table(
        f"Right answers after {parameters.steps} steps, over {parameters.seeds} seeds",
        ("kind of layer", "mean", "95 % from", "to"),
        [(kind, one.mean, max(0.0, one.low), min(1.0, one.high)) for kind, one in found.items()]
        + [("guessing", chance, "", "")],
    )
    show.plot(
        "Right answers",
        bars("share of the answers that are right", [*(one.mean for one in found.values()), chance]),
        labels=[*found, "guessing"],
        x="",
        y="right answers (share)",
    )
    show.say(
        "A dense synthesizer gets a little above guessing without comparing pairs: each symbol can choose a place for "
        "each head, and the perceptron behind can tell whether it stands there. Such looks are right "
        f"(H + 1) / N = {(parameters.heads + 1) / parameters.places:.3g} of the time."
    )
    if not parameters.learns:
        show.say(
            "How large the gap is, is checked from 300 steps on, for up to 16 places and one head of width 32 or more: "
            "with these parameters Q–K–V itself may not have learned it yet."
        )
        return
    for kind in ("dense synthesizer", "random synthesizer"):
        gaps = [one - other for one, other in zip(right["Q–K–V"], right[kind], strict=True)]
        show.bound(
            f"Q–K–V is right more often than the {kind}, by at least (lower end of the 95 % interval over seeds)",
            found=mean_interval(gaps).low,
            at_least=0.5,
        )


# %%
if __name__ == "__main__":
    synthesizer_limits.main()
