"""What the directions of a model's embedding mean, as a part of a look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

import torch
import torch.nn.functional as F

from attnlab.corpora import Tokenizer
from attnlab.lens.embeddings.contexts import same_token
from attnlab.lens.embeddings.embeddings import analogies, dimensions, nearest, orthogonality, token_of
from attnlab.lens.maps.looks import printable
from attnlab.lens.pages.views import View, number, percent, plain
from attnlab.models import LanguageModel
from attnlab.pages import Points, Table

Question = tuple[str, str, str, str]
_NEIGHBOURS = 6
_ANSWERS = 5


def embeddings_view(model: LanguageModel, tokenizer: Tokenizer, tokens: Sequence[int]) -> View:
    """How the vectors lie, and the neighbours of some tokens."""
    vectors = model.embedding.weight.detach()
    apart, used = orthogonality(vectors), dimensions(vectors)
    points = [
        f"{used.effective:.1f} effective dimensions of {used.width}; as many random vectors would have "
        f"{used.random:.1f}.",
        f"Two tokens have |cos| = {apart.mean:.3f} on average, {apart.centred:.3f} without the mean vector that all "
        f"share; two random directions {apart.expected:.3f}.",
        f"One pair in a hundred is above {dict(apart.quantiles)[0.99]:.2f}, where random ones are above "
        f"{apart.expected_quantile:.2f}.",
    ]
    found = {token: nearest(vectors, token, count=_NEIGHBOURS) for token in tokens}
    rows = [
        [
            printable(tokenizer, [token])[0],
            ", ".join(f"{printable(tokenizer, [one.token])[0]} {number(one.similarity)}" for one in neighbours),
        ]
        for token, neighbours in found.items()
    ]
    table = Table(("token", "nearest by cosine"), rows, text_columns=(0, 1), wrap_columns=(1,))
    data = {
        "dimensions": asdict(used),
        "orthogonality": asdict(apart),
        "nearest": {str(token): [one._asdict() for one in neighbours] for token, neighbours in found.items()},
    }
    return View("embeddings", "Embeddings", [Points(points), table], plain(data))


def analogies_view(model: LanguageModel, tokenizer: Tokenizer, questions: Sequence[Question]) -> View:
    """a is to b as c is to d, with the ranks that controls give d."""
    vectors = model.embedding.weight.detach()
    asked: list[tuple[int, int, int, int]] = []
    for question in questions:
        a, b, c, d = (token_of(tokenizer, word) for word in question)
        asked.append((a, b, c, d))
    found = analogies(vectors, asked)
    unit = F.normalize(vectors.double(), dim=-1)
    rows, answers = [], []
    for question, one, exchanged in zip(questions, found.found, found.shuffled_ranks.double().t(), strict=True):
        a, b, c, _ = one.tokens
        similarity = unit @ F.normalize(unit[c] - unit[a] + unit[b], dim=0)
        similarity[[a, b, c]] = -torch.inf
        best = printable(tokenizer, similarity.topk(min(_ANSWERS, len(unit) - 3)).indices.tolist())
        answers.append(best)
        w, x, y, z = (word.strip() or word for word in question)
        rows.append(
            [
                f"{w} : {x} = {y} : {z}",
                str(one.rank),
                str(one.rank_alone),
                number(float(exchanged.median()), 0),
                number(one.parallel),
                ", ".join(best),
            ]
        )
    count = len(unit) - 3
    words = (
        f"a is to b as c is to d: the rank of d by its cosine with c − a + b among {count} tokens; by c alone; and "
        f"with the pairs exchanged (median). {percent(found.first)} come first, {percent(found.first_alone)} by c "
        f"alone and {percent(found.first_shuffled)} with pairs exchanged, which do as well with "
        f"p = {found.p:.2f}."
    )
    headings = ("analogy", "rank", "by c alone", "exchanged", "cos of b − a and d − c", "nearest")
    table = Table(headings, rows, text_columns=(0, 5), wrap_columns=(5,))
    data = {
        **found.to_dict(),
        "nearest": [list(best) for best in answers],
        "questions": [list(question) for question in questions],
    }
    return View("analogies", "Analogies", [words, table], plain(data))


def beside_view(model: LanguageModel, tokenizer: Tokenizer, one: Sequence[int], other: str) -> View:
    """The last token that the text shares with another sentence, layer by layer."""
    context = model.spec.context_length
    found = same_token(model, one[:context], tokenizer.encode(other)[:context])
    names = ["embedding", "with position", *(f"behind layer {layer}" for layer in range(model.spec.num_layers))]
    columns = zip(names, found.similarity, found.others, found.kept, strict=True)
    rows = [[name, *(number(value) for value in values)] for name, *values in columns]
    said = printable(tokenizer, [found.token])[0]
    words = (
        f"“{said}” is token {found.places[0]} of the text and token {found.places[1]} of “{other.strip()}”. Its "
        "embedding is the same in both. Further up it takes on its sentence: “kept” is 1 where the two vectors are "
        "still the token alone, and 0 where they are as alike as any two different tokens."
    )
    table = Table(("where", "cosine of the two", "of other tokens", "kept"), rows)
    return View("same_token", "The same token in another sentence", [words, table], plain(found.to_dict()))
