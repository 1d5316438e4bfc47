"""Planted directions are found, and what random vectors show is what is expected of them."""

from __future__ import annotations

import json
import math

import pytest
import torch

from attnlab.corpora import Kinship, WordTokenizer
from attnlab.corpora.tokenizer import WORD
from attnlab.errors import InputError, UnsupportedError
from attnlab.lens import analogies, dimensions, nearest, orthogonality, same_token, token_of
from attnlab.models import ModelSpec, build_model
from support.planted_facts import planted_pairs


def test_neighbours_by_direction_and_by_length() -> None:
    vectors = torch.tensor([[1.0, 0.0], [2.0, 0.1], [9.0, 9.0], [-1.0, 0.0]])
    assert [one.token for one in nearest(vectors, 0)] == [1, 2, 3]
    assert [one.token for one in nearest(vectors, 0, by="dot", count=2)] == [2, 1]
    assert nearest(vectors, 0)[1].similarity == pytest.approx(math.sqrt(0.5))


def test_planted_analogies_are_found() -> None:
    vectors, questions = planted_pairs()
    found = analogies(vectors, questions)
    assert [one.rank for one in found.found] == [1] * len(questions)
    assert found.first == 1
    assert found.first_alone == 0, "each c has another neighbour"
    assert found.first_shuffled < 0.1
    assert found.p == 0.01
    assert min(one.parallel for one in found.found) > 0.5
    assert all(one.rank_among_all >= one.rank for one in found.found)
    json.dumps(found.to_dict(), allow_nan=False)


def test_shuffled_analogies_are_not_found() -> None:
    vectors, questions = planted_pairs(shuffled=True)
    found = analogies(vectors, questions)
    assert found.first < 0.1
    assert found.p > 0.05


def test_random_vectors_are_called_analogies_as_often_as_stated() -> None:
    _, questions = planted_pairs(pairs=5)
    alarms = sum(analogies(torch.randn(40, 16), questions, draws=39).p <= 0.05 for _ in range(60))
    assert alarms <= 8, "3 are expected, and 9 or more come once in 400"


def test_a_rank_counts_ties_against_the_answer() -> None:
    vectors = torch.ones(7, 3)
    found = analogies(vectors, [(0, 1, 2, 3)], draws=1).found[0]
    assert (found.rank, found.rank_among_all, found.rank_alone) == (4, 7, 4)


def test_random_directions_are_as_orthogonal_as_expected() -> None:
    found = orthogonality(torch.randn(400, 64) * torch.rand(400, 1))
    assert found.mean == pytest.approx(found.expected, rel=0.02)
    assert found.expected == pytest.approx(math.sqrt(2 / math.pi / 64), rel=0.01)
    assert dict(found.quantiles)[0.99] == pytest.approx(found.expected_quantile, rel=0.05)
    cone = orthogonality(torch.randn(3000, 64) + 3)  # a large vocabulary, whose vectors share a mean
    assert cone.mean > 0.8
    assert cone.centred == pytest.approx(cone.expected, rel=0.05)


def test_effective_dimensions() -> None:
    found = dimensions(torch.randn(300, 40))
    assert found.effective == pytest.approx(found.random, rel=0.03)
    plane = torch.randn(300, 2).matmul(torch.linalg.qr(torch.randn(40, 2)).Q.t()) + 5
    assert 1.8 < dimensions(plane).effective <= 2.0 + 1e-9
    assert dimensions(torch.ones(5, 4)).effective == 0


@pytest.mark.parametrize("variant", ["softmax", "linear"])
def test_an_embedding_is_the_same_in_every_sentence_and_what_follows_is_not(variant: str) -> None:
    spec = ModelSpec.build("nano", vocabulary_size=20, num_layers=2, model_width=16, num_heads=2, variant=variant)
    model = build_model(spec)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    found = same_token(model, [1, 2, 3, 4], [5, 6, 7, 3])
    assert found.token == 3
    assert found.places == (2, 3)
    assert found.names == ("embedding", "residual", "blocks.0.residual", "blocks.1.residual")
    assert found.similarity[0] == pytest.approx(1)
    assert found.kept[0] == pytest.approx(1)
    assert all(value < 0.999 for value in found.similarity[1:])
    with model.eval().tap("blocks.1.residual") as seen, torch.no_grad():
        model(torch.tensor([[1, 2, 3, 4]]))
        one = seen["blocks.1.residual"][0]
        model(torch.tensor([[5, 6, 7, 3]]))
    table = torch.nn.functional.cosine_similarity(one[:, None], seen["blocks.1.residual"][0], dim=-1)
    assert found.similarity[-1] == pytest.approx(table[2, 3].item(), abs=1e-5)
    others = (table.sum() - table[2, 3]) / 15
    assert found.others[-1] == pytest.approx(others.item(), abs=1e-5)
    json.dumps(found.to_dict(), allow_nan=False)


def test_words_of_the_kinship_text_are_tokens() -> None:
    kinship = Kinship.generate(sentences=2000)
    tokenizer = WordTokenizer(dict.fromkeys(WORD.findall(kinship.text())))
    questions = [tuple(token_of(tokenizer, f" {word}") for word in four) for four in kinship.analogies[:5]]
    found = analogies(torch.randn(tokenizer.vocabulary_size, 8), questions)
    assert [one.tokens for one in found.found] == questions
    with pytest.raises(InputError, match="tokens, not one"):
        token_of(tokenizer, " king queen")


def test_bad_input() -> None:
    vectors = torch.randn(5, 3)
    with pytest.raises(InputError, match="5 is no token"):
        nearest(vectors, 5)
    with pytest.raises(InputError, match="similarity"):
        nearest(vectors, 1, by="angle")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not finite"):
        orthogonality(vectors * math.nan)
    with pytest.raises(InputError, match="shape"):
        dimensions(vectors[:1])
    with pytest.raises(InputError, match="no tokens"):
        analogies(vectors, [])
    with pytest.raises(InputError, match="1 different pairs"):
        analogies(vectors, [(0, 1, 0, 1)])
    spec = ModelSpec.build("nano", vocabulary_size=9, num_layers=1, model_width=8, num_heads=1)
    with pytest.raises(InputError, match="no token in both"):
        same_token(build_model(spec), [1, 2], [3, 4])
    pair = spec.build("nano", vocabulary_size=9, num_layers=1, model_width=8, num_heads=1, family="encoder-decoder")
    with pytest.raises(UnsupportedError):
        same_token(build_model(pair), [1, 2], [1, 2])
