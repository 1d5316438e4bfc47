"""Planted maps have the measures that they must have, also where rows do not sum to 1."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from attnlab.attention import Sparsemax
from attnlab.corpora import CorpusSpec, open_corpus
from attnlab.errors import InputError, SpecError
from attnlab.lens import MEASURES, Inputs, LayerMaps, attention_maps, measure, measure_heads
from attnlab.lens.measures import received
from attnlab.models import LanguageModel, ModelSpec, build_model

N = 12
CAUSAL = torch.ones(N, N, dtype=torch.bool).tril()
COUNT = CAUSAL.sum(-1, keepdim=True)
EVEN = CAUSAL / COUNT


def maps_of(weights: Tensor, visible: Tensor = CAUSAL, keys: Tensor | None = None) -> LayerMaps:
    """One text and one head, or as many as the weights have."""
    return LayerMaps(weights.expand(*(1,) * (4 - weights.dim()), *weights.shape), keys, visible)


def measured(name: str, maps: LayerMaps) -> float:
    (value,) = MEASURES[name](maps).tolist()
    return value


def test_even_attention() -> None:
    maps = maps_of(EVEN)
    later = range(1, N)
    assert measured("row mass", maps) == pytest.approx(1)
    assert measured("entropy", maps) == pytest.approx(1)
    assert measured("entropy left out", maps) == pytest.approx(1 / N), "the first query sees one key"
    assert measured("effective keys", maps) == pytest.approx(sum(i + 1 for i in later) / (N - 1))
    assert measured("first-token share", maps) == pytest.approx(sum(1 / (i + 1) for i in later) / (N - 1))
    assert measured("sparsity", maps) == 0
    assert measured("keys without attention", maps) == 0


def test_all_on_the_first_token() -> None:
    weights = torch.zeros(N, N)
    weights[:, 0] = 0.3  # the mass is not 1 either
    maps = maps_of(weights)
    assert measured("row mass", maps) == pytest.approx(0.3)
    assert measured("entropy", maps) == 0
    assert measured("effective keys", maps) == 1
    assert measured("first-token share", maps) == 1
    assert measured("sparsity", maps) == pytest.approx(sum(i / (i + 1) for i in range(N)) / N)
    assert measured("keys without attention", maps) == pytest.approx((N - 2) / (N - 1)), "none sees the last but itself"


def test_sigmoid_without_a_bias() -> None:
    maps = maps_of(0.5 * CAUSAL)
    assert measured("row mass", maps) == pytest.approx((N + 1) / 4)
    assert measured("entropy", maps) == pytest.approx(1)


def test_only_the_mass_knows_how_much_a_row_weighs() -> None:
    weights = torch.rand(3, 2, N, N) * CAUSAL
    keys = torch.randn(3, 2, N, 5)
    factors = 0.01 + 5 * torch.rand(3, 2, N, 1)
    one, other = maps_of(weights, keys=keys), maps_of(weights * factors, keys=keys)
    for name, instrument in MEASURES.items():
        same = torch.allclose(instrument(one), instrument(other), rtol=1e-4)
        assert same == (name != "row mass"), name


def test_rows_without_mass_are_left_out_and_counted() -> None:
    weights = EVEN.clone()
    weights[5:8] = 0
    maps = maps_of(weights)
    assert measured("row mass", maps) == pytest.approx((N - 3) / N)
    assert measured("entropy", maps) == pytest.approx(1)
    assert measured("entropy left out", maps) == pytest.approx(4 / N)
    assert measured("sparsity", maps) == pytest.approx(3 / N)
    nothing = maps_of(torch.zeros(N, N), keys=torch.randn(1, 1, N, 4))
    for name in MEASURES:
        expected = {"row mass": 0.0, "entropy left out": 1.0, "sparsity": 1.0}.get(name, math.nan)
        assert measured(name, nothing) == pytest.approx(expected, nan_ok=True), name


def test_sparsemax_has_exact_zeros() -> None:
    scores = torch.full((1, 1, N, N), -3.0)
    scores[..., torch.arange(N), torch.arange(N)] = 0.0
    scores[..., :, 0] = 0.0
    maps = LayerMaps(Sparsemax().weights(scores, CAUSAL[None, None]), None, CAUSAL)
    kept = [min(i + 1, 2) for i in range(N)]  # itself and the first
    assert measured("sparsity", maps) == pytest.approx(sum(1 - kept[i] / (i + 1) for i in range(N)) / N)
    assert measured("effective keys", maps) == pytest.approx(2)
    assert measured("row mass", maps) == pytest.approx(1)


def test_a_window_counts_what_it_shows() -> None:
    window = CAUSAL & ~CAUSAL.tril(-3)  # three keys
    maps = maps_of(window / window.sum(-1, keepdim=True), window)
    assert measured("entropy", maps) == pytest.approx(1)
    assert measured("sparsity", maps) == 0, "what is hidden is not sparse"
    assert measured("first-token share", maps) == pytest.approx((1 / 2 + 1 / 3) / 2), "of the two others that see it"
    alone = torch.eye(N, dtype=torch.bool)
    assert math.isnan(measured("first-token share", maps_of(alone.float(), alone)))
    assert math.isnan(measured("entropy", maps_of(alone.float(), alone)))


# Does length draw attention?


def test_what_a_key_receives() -> None:
    """In fair shares: even attention gives every key 1, whatever the rows weigh and wherever the key stands."""
    found = received(maps_of(EVEN * torch.rand(N, 1)))[0, 0]
    assert found[:-1].tolist() == pytest.approx([1.0] * (N - 1))
    assert found[-1].isnan(), "no other token sees the last"
    weights = torch.tensor([[1.0, 0, 0, 0], [3, 1, 0, 0], [0, 0, 0, 0], [2, 2, 4, 0]])
    found = received(maps_of(weights, CAUSAL[:4, :4]))[0, 0]
    # The third query has no mass and no vote: the first key is seen by the second and the fourth.
    assert found[:3].tolist() == pytest.approx([(2 * 3 / 4 + 4 * 2 / 8) / 2, 4 * 2 / 8, 4 * 4 / 8])
    assert found[3].isnan()


TEXTS, HEADS, TOKENS, WIDTH = 64, 4, 24, 8
SPREAD = 0.5  # of the logarithm of the lengths


def directions(heads: int = HEADS, texts: int = TEXTS) -> Tensor:
    return torch.nn.functional.normalize(torch.randn(texts, heads, TOKENS, WIDTH), dim=-1)


def lengths(heads: int = HEADS, texts: int = TEXTS) -> Tensor:
    return torch.randn(texts, heads, TOKENS, 1).mul(SPREAD).exp()


def softmax(scores: Tensor, visible: Tensor) -> Tensor:
    return scores.masked_fill(~visible, -math.inf).softmax(-1)


@pytest.mark.parametrize("power", [1.0, -2.0])
def test_length_alone(power: float) -> None:
    """Weights ∝ |k|^power. What is left unexplained is that the keys of one text compete for the same mass.

    With X_j = log |k_j|^power normal of variance s, log r_j = X_j − log mean e^X. To the first order in 1 / n the last
    term has the variance (e^s − 1) / n and the covariance s / n with X_j, from which ρ² follows.
    """
    visible = torch.ones(TOKENS, TOKENS, dtype=torch.bool)
    size = lengths()
    scores = power * size.log().transpose(-2, -1).expand(-1, -1, TOKENS, -1)
    maps = LayerMaps(softmax(scores, visible), size * directions(), visible)
    s, n = (power * SPREAD) ** 2, TOKENS
    expected = (s - s / n) ** 2 / (s * (s + (math.exp(s) - 1) / n - 2 * s / n))
    assert MEASURES["norm explains"](maps).tolist() == pytest.approx([expected] * HEADS, abs=0.04)
    assert (MEASURES["norm correlation"](maps) * power > 0.9).all(), "whether it draws or repels"
    causal = LayerMaps(softmax(scores, visible.tril()), maps.keys, visible.tril())
    assert (MEASURES["norm explains"](causal) > 0.85).all()


def test_direction_alone_is_not_length() -> None:
    """As many heads as show the rate of false alarms: each has an independent 5 % to exceed the χ² bound."""
    heads, texts = 300, 16
    visible = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
    key = directions(heads, texts)
    weights = softmax(3 * directions(heads, texts) @ key.transpose(-2, -1), visible)
    maps = LayerMaps(weights, key * lengths(heads, texts), visible)
    explained = MEASURES["norm explains"](maps)
    free = (texts - 1) * (TOKENS - 1)  # the last key is seen by none other
    assert explained.mean() < 2 / free
    alarms = int((explained * free > 3.841).sum())
    assert 3 <= alarms <= 30, "15 are expected of 300; beyond these lies less than 1 in 3 000"


def test_position_is_not_length() -> None:
    """Early keys are long and receive more, but at the same position length does nothing."""
    visible = torch.ones(TOKENS, TOKENS, dtype=torch.bool)
    place = torch.arange(TOKENS, 0, -1) / TOKENS
    noise = 0.05 * torch.randn(TEXTS, HEADS, TOKENS)
    weights = softmax((place + noise)[..., None, :].expand(-1, -1, TOKENS, -1), visible)
    size = (place + 0.05 * torch.randn(TEXTS, HEADS, TOKENS)).exp()
    maps = LayerMaps(weights, size[..., None] * directions(), visible)
    assert (MEASURES["norm explains, with position"](maps) > 0.9).all()
    assert (MEASURES["norm explains"](maps) < 0.02).all()


def test_what_does_not_vary_explains_nothing() -> None:
    visible = torch.ones(TOKENS, TOKENS, dtype=torch.bool)
    even = torch.full((TEXTS, HEADS, TOKENS, TOKENS), 1 / TOKENS)
    names = ["norm explains", "norm correlation", "norm explains, with position"]
    for weights, keys in (
        (even, lengths() * directions()),
        (softmax(torch.randn(TEXTS, HEADS, TOKENS, TOKENS), visible), directions()),
        (even, None),
    ):
        for name in names:
            assert MEASURES[name](LayerMaps(weights, keys, visible)).isnan().all()
    one = LayerMaps(softmax(torch.randn(1, 2, TOKENS, TOKENS), visible), torch.randn(1, 2, TOKENS, 4), visible)
    assert MEASURES["norm explains"](one).isnan().all(), "one text alone has no other at the same position"


def test_keys_that_receive_nothing_have_no_logarithm() -> None:
    visible = torch.ones(TOKENS, TOKENS, dtype=torch.bool)
    size = lengths()
    weights = size.transpose(-2, -1).expand(-1, -1, TOKENS, -1).clone()
    weights[:, :, :, ::3] = 0
    maps = LayerMaps(weights, size * directions(), visible)
    assert MEASURES["keys without attention"](maps).tolist() == pytest.approx([1 / 3] * HEADS)
    assert (MEASURES["norm explains"](maps) > 0.9).all()


# On models

MQAR = CorpusSpec(name="mqar", vocabulary_size=16, options={"pairs": 2, "validation_examples": 20})


def make_model(variant: str, **changes: object) -> LanguageModel:
    shape = {"num_layers": 2, "model_width": 16, "num_heads": 4, "context_length": 16, **changes}
    model = build_model(ModelSpec.build("nano", vocabulary_size=16, variant=variant, **shape))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn(parameter.shape))
    return model


def test_batches_do_not_matter() -> None:
    corpus, model = open_corpus(MQAR), make_model("softmax")
    whole, parts = (measure_heads(model, corpus, batch_size=size) for size in (20, 3))
    for one, other in zip(whole, parts, strict=True):
        assert one.keys() == MEASURES.keys()
        for name in MEASURES:
            assert one[name].shape == (4,)
            torch.testing.assert_close(one[name], other[name], rtol=1e-4, atol=1e-6)
    assert measure(model, corpus) == measure(model, corpus)
    assert measure(model, corpus, rows=5) != measure(model, corpus)


def test_one_number_is_the_mean_of_the_heads_that_have_one() -> None:
    corpus, model = open_corpus(MQAR), make_model("single-head,linear,softmax", num_layers=3)
    heads = measure_heads(model, corpus)
    assert [layer["entropy"].shape for layer in heads] == [(1,), (4,), (4,)]
    assert heads[1]["entropy"].isnan().all()
    expected = (heads[0]["entropy"].sum() + heads[2]["entropy"].sum()) / 5
    assert measure(model, corpus)["entropy"] == pytest.approx(expected.item())
    (tokens,) = (batch.inputs for batch in corpus.validation_batches(batch_size=20, context_length=16))
    direct = MEASURES["norm explains"](attention_maps(model, tokens)[2])
    torch.testing.assert_close(direct, heads[2]["norm explains"])


def test_what_a_variant_has_nothing_of_is_none() -> None:
    corpus = open_corpus(MQAR)
    assert measure(make_model("linear"), corpus) == dict.fromkeys(MEASURES)
    found = measure(make_model("synthesizer-dense"), corpus)
    assert {name for name, value in found.items() if value is None} == {n for n in MEASURES if n.startswith("norm")}
    assert found["row mass"] == pytest.approx(1)
    sigmoid, plus_one = (measure(make_model(name), corpus) for name in ("sigmoid-no-bias", "softmax-plus-one"))
    assert sigmoid["row mass"] is not None
    assert sigmoid["row mass"] > 2
    assert plus_one["row mass"] is not None
    assert plus_one["row mass"] < 1


def test_padding_has_no_part() -> None:
    model, tokens = make_model("sigmoid"), torch.randint(0, 16, (6, 16))
    padding = torch.ones_like(tokens, dtype=torch.bool)
    padding[:, 11:] = False
    padded, cut = attention_maps(model, Inputs(tokens, padding))[1], attention_maps(model, tokens[:, :11])[1]
    for name, instrument in MEASURES.items():
        torch.testing.assert_close(instrument(padded), instrument(cut), rtol=1e-4, atol=1e-6, msg=name)


def test_every_measure_says_what_it_is() -> None:
    for name, instrument in MEASURES.items():
        assert name == name.strip().lower()
        assert len(instrument.meaning) > 20


def test_bad_input() -> None:
    corpus = open_corpus(MQAR)
    other = open_corpus(CorpusSpec(name="mqar", vocabulary_size=20, options={"pairs": 2}))
    with pytest.raises(InputError, match="20 symbols and the model 16"):
        measure(make_model("softmax"), other)
    with pytest.raises(SpecError, match="limit is 0"):
        measure(make_model("softmax"), corpus, rows=0)
