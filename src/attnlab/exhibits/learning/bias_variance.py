# %% [markdown]
# # Bias, variance and noise
# The error of a learner has three causes: noise that cannot be predicted, what its model cannot express (bias), and
# which training set it happened to see (variance). They add up exactly. More flexibility trades bias for variance, so
# that the error curve is U-shaped; and the decomposition works for seeds of a language model as well.
#
# E (y − f)² = E (y − ȳ)² + (ȳ − f̄)² + E (f − f̄)²

# %%
from __future__ import annotations

import numpy as np
import torch
from pydantic import Field

from attnlab.corpora import IGNORED, Batch, CorpusSpec, open_corpus
from attnlab.exhibits import Parameters, Stage, exhibit, line, points
from attnlab.models import LanguageModel
from attnlab.statistics import ErrorSplit, polynomial_smoother, split_log_loss, split_squared_error
from attnlab.training import Learner, RunSpec

POINTS = 16  # points x at which y is observed
DEGREES = range(POINTS - 1)
FRESH = 40  # draws of the noise for evaluating the fits


class BiasVariance(Parameters):
    noise: float = Field(0.5, ge=0.1, le=1, description="standard deviation of the noise in y")
    training_sets: int = Field(400, ge=100, le=20_000, description="training sets that are drawn, each fitted anew")
    seeds: int = Field(5, ge=2, le=20, description="language models that differ in their seed alone")
    steps: int = Field(120, ge=8, le=5000, description="training steps of each")
    seed: int = Field(0, ge=0, description="of the noise, and the first of the models' seeds")


# %% [markdown]
# First an example with a closed form: polynomials through noisy points, over many training sets. Least squares is
# linear, f = H y, so bias and variance are known: mean ((I − H) t)² and σ² tr(H) / n.


# %%
@exhibit(
    "bias-variance",
    "Bias, variance and noise",
    chapter="learning",
    claims=("0.9",),
    equation="E (y − f)² = E (y − ȳ)² + (ȳ − f̄)² + E (f − f̄)²\nerror = noise + bias² + variance",
    place=4,
    trains=True,
    smoke={"seeds": 2, "steps": 8, "training_sets": 200},
)
def bias_variance(show: Stage, parameters: BiasVariance) -> None:
    """A mean squared error is noise + bias² + variance exactly, and over model complexity it has the shape of a U."""
    rng = np.random.default_rng(parameters.seed)
    x = np.linspace(-1, 1, POINTS)
    truth = np.sin(5 * x + 0.7)
    observed = truth + parameters.noise * rng.normal(size=(parameters.training_sets, POINTS))
    fresh = truth + parameters.noise * rng.normal(size=(FRESH, POINTS))
    splits: list[ErrorSplit] = []
    derived: list[tuple[float, float, float]] = []  # bias², variance, error
    errors = []  # of each training set, compared with the truth
    for degree in DEGREES:
        smoother = polynomial_smoother(x, degree)
        fits = observed @ smoother  # (training sets, points)
        splits.append(split_squared_error(fits, fresh))
        bias, variance = np.square(truth - smoother @ truth).mean(), parameters.noise**2 * (degree + 1) / POINTS
        derived.append((bias, variance, bias + variance + parameters.noise**2))
        errors.append(np.square(truth - fits).mean(-1))
    show.plot(
        "The error against the freedom of the model",
        *(
            line(name, DEGREES, column)
            for name, column in zip(("bias²", "variance", "error"), zip(*derived, strict=True), strict=True)
        ),
        points("error, sampled", DEGREES, [split.error for split in splits]),
        x="degree of the polynomial",
        y="mean squared error",
        caption=f"Lines are derived. The points are {parameters.training_sets} training sets with fresh noise.",
    )
    best = int(np.argmin([error for *_, error in derived]))
    show.table(
        "Three of the degrees, sampled",
        ("degree", "error", "noise", "bias²", "variance", "what is left"),
        [
            (degree, split.error, split.noise, split.bias, split.variance, split.rest)
            for degree, split in ((degree, splits[degree]) for degree in sorted({0, best, DEGREES[-1]}))
        ],
    )
    show.check(
        "what noise, bias² and variance leave of the error, for every degree",
        found=[split.rest / split.error for split in splits],
        expected=0,
        within=1e-12,
    )
    for degree in sorted({0, best, DEGREES[-1]}):
        bias, variance, _ = derived[degree]
        show.sampled(f"bias² + variance at degree {degree}", samples=errors[degree], derived=float(bias + variance))
    show.require(
        "a U: the least error is neither at the lowest degree nor at the highest",
        holds=0 < best < DEGREES[-1],
        figure=f"degree {best} of 0 … {DEGREES[-1]}",
    )
    seeds_of_a_model(show, parameters)


# %% [markdown]
# Then small language models that differ only in their seed: in the initial weights and the order of the data. For the
# loss of a language model, −log p, the decomposition has another form: the loss of the average model (the average of
# log p, normalised), plus the Kullback–Leibler divergence of the individual models from it.


# %%
def log_probabilities(model: LanguageModel, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """Return log p of every choice (targets, vocabulary), and the targets."""
    asked = batch.targets != IGNORED
    with torch.no_grad():
        logits = model.eval()(batch.inputs)[asked]
    return torch.log_softmax(logits.double(), dim=-1).numpy(), batch.targets[asked].numpy()


def seeds_of_a_model(show: Stage, parameters: BiasVariance) -> None:
    corpus = open_corpus(CorpusSpec(name="kinship", tokenizer="word", options={"families": 4, "sentences": 3000}))
    shape = {"num_layers": 1, "model_width": 32, "num_heads": 2, "context_length": 16}
    spec = RunSpec(size="pico", recipe="fast", batch_size=16, corpus=corpus.spec, **shape)
    batch = next(iter(corpus.validation_batches(batch_size=32, context_length=16)))
    marks = sorted({max(1, parameters.steps * part // 8) for part in (1, 2, 4, 8)})
    seen: dict[int, list[np.ndarray]] = {mark: [] for mark in marks}
    for number in range(parameters.seeds):
        learner = Learner(spec.replace(seed=parameters.seed + number, steps=parameters.steps), corpus)
        for _ in show.progress(learner, f"training, seed {number + 1} of {parameters.seeds}"):
            if learner.done in seen:
                logs, targets = log_probabilities(learner.model, batch)
                seen[learner.done].append(logs)
    splits = {mark: split_log_loss(logs, targets) for mark, logs in seen.items()}
    show.table(
        f"The loss of {parameters.seeds} seeds, in nats",
        ("after step", "mean loss", "bias: that of the average model", "variance: what the seed decides"),
        [(mark, split.error, split.bias, split.variance) for mark, split in splits.items()],
    )
    show.plot(
        "Bias and variance while a model learns",
        line("bias", marks, [split.bias for split in splits.values()]),
        line("variance", marks, [split.variance for split in splits.values()]),
        x="training steps",
        y="nats",
        log_y=True,
        caption="Most of the loss is common to all seeds. The variance is what averaging them saves.",
    )
    show.check(
        "what bias and variance leave of the mean loss, at every mark",
        found=[split.rest for split in splits.values()],
        expected=0,
        within=1e-9,
    )
    last = torch.tensor(np.stack(seen[marks[-1]]))  # (seeds, targets, vocabulary)
    ensemble = torch.nn.functional.cross_entropy(last.mean(0), torch.tensor(targets))
    show.check(
        "the bias is the loss of all seeds together, their log p averaged",
        found=float(ensemble),
        expected=splits[marks[-1]].bias,
        within=1e-9,
    )
    truth = torch.nn.functional.one_hot(torch.tensor(targets), last.shape[-1])
    squared = split_squared_error(last.exp(), truth[None])
    show.check(
        "squared errors of the probabilities: what bias² and variance leave",
        found=squared.rest / squared.error,
        expected=0,
        within=1e-12,
    )
    show.bound("seeds decide something: variance of the loss, in nats", found=splits[marks[-1]].variance, at_least=1e-6)


# %%
if __name__ == "__main__":
    bias_variance.main()
