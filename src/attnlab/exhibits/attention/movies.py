# %% [markdown]
# # Asking a table of movies
# Every movie is a row of standardised features, and a person's wish is a query in the same features. The result is the
# best match (hard), or a mixture of the best few (soft). The values may differ from the keys that are matched: the
# answer can then be the price of the evening; with K = V it is a movie that does not exist.
#
# o = Σ_j softmax(q·k_j / T)_j v_j, and as T → 0 the v of the largest q·k_j

# %%
from __future__ import annotations

import math

import torch
from pydantic import Field

from attnlab.attention import Cosine, Dot, Matched, SquaredDistance, one_head
from attnlab.exhibits import Parameters, Stage, bars, exhibit, line, points

FEATURES = ("year", "critics", "minutes", "action", "romance", "humour")
# All invented. Critics give 0 … 100; action, romance and humour are rated 0 … 10. The last number is the price.
MOVIES: dict[str, tuple[float, ...]] = {
    "The Lamp at Quay Nine": (1958, 88, 104, 2, 7, 3, 6.5),
    "Seven Minutes to Orbit": (2021, 61, 138, 9, 1, 2, 14.0),
    "My Cousin's Wedding Band": (2014, 72, 96, 1, 8, 9, 9.0),
    "Cartographers": (2003, 93, 151, 3, 4, 2, 8.0),
    "Thunder Parish": (1987, 44, 99, 8, 2, 4, 5.0),
    "A Goat in Parliament": (2018, 79, 88, 1, 2, 10, 9.5),
    "Winter Ferry": (1996, 85, 117, 2, 9, 1, 7.0),
    "Double Ledger": (2009, 68, 109, 6, 3, 5, 8.5),
    "Nobody Told the Robots": (2023, 74, 101, 7, 3, 8, 13.0),
    "The Long Silence of Ada P.": (1972, 96, 176, 0, 5, 0, 7.5),
    "Karaoke Heist": (2016, 57, 94, 7, 4, 9, 9.0),
    "Orchard Street, Summer": (2001, 77, 106, 1, 7, 5, 8.0),
}


# %%
class Movies(Parameters):
    year: float = Field(2015, ge=1900, le=2100, description="the year that the person wishes for")
    critics: float = Field(75, ge=0, le=100, description="the critics' score that they wish for, 0 … 100")
    minutes: float = Field(95, ge=30, le=300, description="how long it should be, in minutes")
    action: float = Field(4, ge=0, le=10, description="how much action, 0 … 10")
    romance: float = Field(4, ge=0, le=10, description="how much romance, 0 … 10")
    humour: float = Field(9, ge=0, le=10, description="how much humour, 0 … 10")
    temperature: float = Field(1.0, gt=0.01, le=100, description="T, how soft the retrieval is")


# %% [markdown]
# Standardised: every feature has mean 0 and standard deviation 1 over the table; else minutes would outweigh ratings.


# %%
def standardise(wish: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    return (wish - table.mean(0)) / table.std(0, correction=0)


@exhibit(
    "movies",
    "Asking a table of movies",
    chapter="magnitude",
    claims=("0.6",),
    equation="o = Σ_j softmax(q·k_j / T)_j v_j,  and as T → 0 the v_j of the largest q·k_j",
    place=2,
)
def movies(show: Stage, parameters: Movies) -> None:
    """A person's wish is a query, movies are keys, and the best match is returned: softly or hard, K = V or K ≠ V."""
    table = torch.tensor(list(MOVIES.values()), dtype=torch.float64)
    features, prices = table[:, :-1], table[:, -1:]
    K = standardise(features, features)
    wish = torch.tensor([getattr(parameters, name) for name in FEATURES], dtype=torch.float64)
    q = standardise(wish, features)
    moments = torch.stack([K.mean(0), K.std(0, correction=0) - 1])
    show.check("features have mean 0 and deviation 1", found=moments, expected=0, within=1e-12)

    T = parameters.temperature
    paid, weights = one_head(q / T, K, prices, score=Dot())
    names, scores = list(MOVIES), K @ q
    show.plot(
        f"Weights at T = {T:g}",
        bars("weight", weights),
        labels=names,
        x="",
        y="weight (share of 1)",
        caption=f"The best match is {names[int(scores.argmax())]}.",
    )
    retrieval(show, T, q, K, prices)
    fictitious(show, features, one_head(q / T, K, K, score=Dot())[0], scores, q)
    disagreement(show, K)
    show.check("K ≠ V: the price, a mean by the weights", found=paid, expected=weights @ prices, within=1e-12)


def retrieval(show: Stage, T: float, q: torch.Tensor, K: torch.Tensor, prices: torch.Tensor) -> None:
    """Show that the soft answer becomes the hard one as the temperature falls."""
    scores = K @ q
    best, second = scores.topk(2).values.tolist()
    hard = float(prices[scores.argmax()])
    colder = [T * share for share in (1, 0.3, 0.1, 0.03, 0.01)]
    found = [float(one_head(q / t, K, prices, score=Dot())[0]) for t in colder]
    show.plot(
        "From soft to hard",
        points("soft, K ≠ V", colder, found),
        line("hard: the best match", colder, [hard] * len(colder)),
        x="temperature T (no unit)",
        y="price returned (€)",
        caption="The colder, the nearer to the one best match.",
        log_x=True,
    )
    spread = float((prices - hard).abs().max())
    most = spread * (len(K) - 1) * math.exp(-(best - second) / colder[-1])
    off = abs(found[-1] - hard)
    show.bound(f"€ off the hard answer at T = {colder[-1]:.3g}", found=off, at_most=most + 1e-12)


def fictitious(show: Stage, features: torch.Tensor, mixed: torch.Tensor, scores: torch.Tensor, q: torch.Tensor) -> None:
    """Show that with K = V the output is a mixture of the movies that match."""
    returned = mixed * features.std(0, correction=0) + features.mean(0)
    best = features[scores.argmax()]
    rows = [(name, float(best[i]), float(returned[i])) for i, name in enumerate(FEATURES)]
    show.table("K = V", ("feature", "the best match", "what is returned"), rows)
    show.say("With K = V a movie comes back that is in no table: softly between those that match.")
    matched, low, high = float(q @ mixed), float(scores.mean()), float(scores.max()) + 1e-12
    show.bound("q·o, between the scores' mean and the best", found=matched, at_least=low, at_most=high)


def disagreement(show: Stage, K: torch.Tensor) -> None:
    """Show a wish for which dot and cosine differ: a little more humour than usual, and a little newer."""
    q = torch.tensor([0.6, 0.1, -0.3, 0.2, -0.1, 0.8], dtype=torch.float64)
    given = Matched(q[None, None, None], K[None, None], 1, len(K))
    names, rows, chosen = list(MOVIES), [], {}
    for name, score in (("dot", Dot()), ("cosine", Cosine()), ("distance", SquaredDistance())):
        place = int(score.define(given).flatten().argmax())
        chosen[name] = place
        length, cosine = float(K[place].norm()), float(Cosine().define(given).flatten()[place])
        rows.append((name, names[place], float(K[place] @ q), cosine, length))
    show.table("A wish for which they disagree", ("by", "best match", "q·k", "cos(q, k)", "|k|"), rows)
    dot, cosine = chosen["dot"], chosen["cosine"]
    show.require(
        "dot and cosine choose differently, and dot the longer",
        holds=dot != cosine and bool(K[dot].norm() > K[cosine].norm()),
        figure=f"{names[dot]}, |k| = {rows[0][4]:.3g}, against {names[cosine]}, |k| = {rows[1][4]:.3g}",
    )


# %%
if __name__ == "__main__":
    movies.main()
