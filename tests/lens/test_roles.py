"""Heads that were set by hand are found for what they are, and in random models no more is found than is stated."""

from __future__ import annotations

import json
import math
from dataclasses import asdict

import pytest
import torch
from torch import Tensor

from attnlab.corpora import ByteTokenizer, SymbolTokenizer, WordTokenizer
from attnlab.errors import InputError, UnknownNameError
from attnlab.lens import Inputs, LayerMaps, attention_maps
from attnlab.lens.heads.role_scores import (
    ROLES,
    PlaceShare,
    RoleReading,
    TokenPairs,
    delimiter_tokens,
    repeated_tokens,
    score,
)
from attnlab.lens.heads.roles import NUMBERS, HeadRoles, effective_rank, head_ranks, head_roles
from attnlab.lens.subjects import shuffled_models
from attnlab.models import ModelSpec, build_model
from attnlab.statistics import exceeds
from support import planted

N = 12
CAUSAL = torch.ones(N, N, dtype=torch.bool).tril()
NO_DELIMITERS = torch.zeros(99, dtype=torch.bool)


def some_tokens(texts: int = 8, length: int = planted.CONTEXT) -> Tensor:
    return torch.randint(0, planted.SYMBOLS, (texts, length))


# Planted heads


@pytest.fixture(scope="module")
def found() -> HeadRoles:
    model = planted.blank_model()
    planted.sink(model, 0, 1)
    planted.previous_token(model, 0, 2)
    planted.own_token(model, 0, 3)
    planted.delimiter(model, 1, 0, torch.tensor([3, 4]))
    planted.same_token(model, 1, 1)
    planted.induction(model, 1, 2)
    torch.manual_seed(0)
    return head_roles(model, some_tokens(), delimiters=[3, 4])


def test_every_planted_head_is_found(found: HeadRoles) -> None:
    expected = {
        (0, 0): (),
        (0, 1): ("first token",),
        (0, 2): ("previous token",),
        (0, 3): ("own token",),
        (1, 0): ("delimiter",),
        (1, 2): ("induction",),
        (1, 3): (),
    }
    assert {place: found[place].roles for place in expected} == expected
    assert set(found[1, 1].roles) == {"own token", "same token"}, "it looks at its own, too"
    assert [(one.layer, one.head) for one in found.named("induction")] == [(1, 2)]
    score = found[0, 2].scores["previous token"]
    assert score is not None
    assert score.excess.mean > 0.95
    assert score.p == 1 / 20
    assert score.chance == pytest.approx(sum(1 / (i + 1) for i in range(1, 32)) / 31)


def test_place_or_content(found: HeadRoles) -> None:
    for place in ((0, 1), (0, 2), (0, 3)):
        assert found[place].numbers["position explains"] == pytest.approx(1, abs=0.02), place
    assert found[0, 2].numbers["distance explains"] == pytest.approx(1, abs=0.05), "the first row has no previous token"
    assert found[0, 1].numbers["distance explains"] < 0.5, "a sink is a place, at no distance"
    assert found[1, 0].numbers["position explains"] < 0.3
    assert found[0, 3].numbers["entropy"] < 0.01
    assert found[0, 0].numbers["entropy"] > 0.95
    assert found[0, 3].numbers["rank of QK"] == pytest.approx(planted.CONTEXT)
    assert found[0, 1].numbers["rank of QK"] == pytest.approx(1)
    assert found[0, 2].numbers["rank of OV"] == pytest.approx(planted.SYMBOLS)


def test_it_can_be_kept_and_says_its_rule(found: HeadRoles) -> None:
    assert json.loads(json.dumps(asdict(found), allow_nan=False))["heads"][2]["roles"] == ["previous token"]
    assert "5 %" in found.rule
    assert found.heads[0].scores.keys() == ROLES.keys()
    assert found.heads[0].numbers.keys() == NUMBERS.keys()
    with pytest.raises(UnknownNameError, match="no role"):
        found.named("nothing")
    with pytest.raises(UnknownNameError):
        found[7, 0]


# The rate of false alarms


@pytest.mark.parametrize("variant", ["softmax", "sigmoid-no-bias"])
def test_random_models_have_no_more_roles_than_stated(variant: str) -> None:
    """Large weights, so that attention is far from even, and without the least excess, which would hide the rate."""
    models, length, rate = 30, 16, 0.1
    alarms = dict.fromkeys(ROLES, 0)
    largest = 0.0
    for seed in range(models):
        model = planted.random_model(seed, spread=0.3, variant=variant, num_layers=1, context_length=length)
        roles = head_roles(
            model, some_tokens(3, length), delimiters=[1, 2, 3], rate=rate, controls=9, least=-1e9, seed=1000 + seed
        )
        for role in ROLES:
            alarms[role] += bool(roles.named(role))
            largest = max([largest, *(one.scores[role].excess.mean for one in roles.heads if one.scores[role])])
    assert largest > 0.1, "chance alone reaches this"
    assert sum(alarms.values()) > 0, "a rule that never speaks has no rate"
    for role, count in alarms.items():
        assert exceeds(count, models, rate) > 0.01 / len(ROLES), (role, count)


def test_a_model_at_its_start_has_none() -> None:
    for seed in range(4):
        roles = head_roles(planted.random_model(seed), some_tokens(4), delimiters=[1, 2])
        assert not any(one.roles for one in roles.heads)


def test_shuffling_keeps_the_numbers_and_the_model() -> None:
    model = planted.random_model(0, spread=0.1)
    before = [parameter.clone() for parameter in model.parameters()]
    first, second = ([p.clone() for p in copied.parameters()] for copied in shuffled_models(model, 2))
    for parameter, old, one, other in zip(model.parameters(), before, first, second, strict=True):
        assert torch.equal(parameter, old)
        assert torch.equal(one.flatten().sort().values, old.flatten().sort().values)
        assert not torch.equal(one, old)
        assert not torch.equal(one, other)


# Scores


def maps_of(weights: Tensor, visible: Tensor = CAUSAL) -> LayerMaps:
    return LayerMaps(weights.expand(*(1,) * (4 - weights.dim()), *weights.shape), None, visible)


def test_even_attention_has_no_excess() -> None:
    tokens = repeated_tokens(5, 3, N)
    delimiters = torch.arange(99) < 2
    window, prefix = CAUSAL & ~CAUSAL.tril(-4), CAUSAL | (torch.arange(N) < 4)
    for visible in (CAUSAL, window, prefix, torch.ones_like(CAUSAL)):
        maps = maps_of(visible * torch.rand(N, 1).expand(3, 2, N, 1), visible)  # rows of any mass
        for role, one in ROLES.items():
            share, chance, excess = score(maps, one.where(TokenPairs(tokens, tokens, delimiters)))[:, :, 0].unbind(-1)
            known = excess.isfinite()  # a window hides what was said too long ago
            assert known.any(), role
            assert excess[known].abs().max() < 1e-6, role
            torch.testing.assert_close(share[known], chance[known], rtol=1e-6, atol=1e-6)


def test_sets() -> None:
    tokens = torch.tensor([[7, 8, 9, 7, 8, 9]])
    texts = TokenPairs(tokens, tokens, torch.arange(99) == 9)
    sets = {role: one.where(texts).expand(1, 6, 6)[0] & torch.ones(6, 6).tril().bool() for role, one in ROLES.items()}
    keys = {role: [row.nonzero().flatten().tolist() for row in one] for role, one in sets.items()}
    assert keys == {
        "previous token": [[], [0], [1], [2], [3], [4]],
        "first token": [[], [0], [0], [0], [0], [0]],
        "own token": [[0], [1], [2], [3], [4], [5]],
        "same token": [[], [], [], [0], [1], [2]],
        "induction": [[], [], [], [1], [2], [3]],
        "delimiter": [[], [], [2], [2], [2], [2, 5]],
    }
    both_sides = ROLES["induction"].where(texts)[0]
    assert both_sides[0].nonzero().flatten().tolist() == [4], "the next token is next, and no induction"


def test_rows_without_mass_and_rows_without_choice_do_not_count() -> None:
    weights = torch.zeros(N, N)
    weights[torch.arange(1, N), torch.arange(N - 1)] = 0.2
    weights[5] = 0
    tokens = torch.arange(N)[None]
    where = ROLES["previous token"].where(TokenPairs(tokens, tokens, NO_DELIMITERS))
    share, chance, excess = score(maps_of(weights), where)[0, 0, 0].tolist()
    rows = [i for i in range(1, N) if i != 5]
    assert (share, excess) == (pytest.approx(1), pytest.approx(1))
    assert chance == pytest.approx(sum(1 / (i + 1) for i in rows) / len(rows))
    alone = torch.eye(N, dtype=torch.bool)
    own = ROLES["own token"].where(TokenPairs(tokens, tokens, NO_DELIMITERS))
    assert score(maps_of(alone.float(), alone), own).isnan().all()


def test_what_differs_between_texts_is_not_position() -> None:
    same, content = PlaceShare(), PlaceShare()
    pattern = torch.rand(1, 1, N, N).pow(4) * CAUSAL
    for _ in range(3):  # in batches
        same.add(maps_of(pattern.expand(4, 3, N, N)))
        content.add(maps_of(torch.rand(4, 3, N, N).pow(4) * CAUSAL))
    assert same.position().tolist() == pytest.approx([1.0] * 3, abs=1e-5)
    assert content.position().abs().max() < 0.05
    assert content.distance().abs().max() < 0.05
    even = PlaceShare()
    even.add(maps_of((CAUSAL / CAUSAL.sum(-1, keepdim=True)).expand(4, 3, N, N)))
    assert even.position().isnan().all()


def test_padding_has_no_part() -> None:
    model, tokens = planted.random_model(3, spread=0.3), some_tokens(4)
    padding = torch.ones_like(tokens, dtype=torch.bool)
    padding[:, 20:] = False
    repeated = repeated_tokens(planted.SYMBOLS, 4, 20)
    padded = head_roles(model, Inputs(tokens, padding), repeated=repeated, controls=0)
    cut = head_roles(model, tokens[:, :20], repeated=repeated, controls=0)
    for one, other in zip(padded.heads, cut.heads, strict=True):
        for role, found in one.scores.items():
            same = other.scores[role]
            assert (found is None) == (same is None)
            if found is not None and same is not None:
                assert found.excess.mean == pytest.approx(same.excess.mean, abs=1e-5)
        assert one.numbers == pytest.approx(other.numbers, abs=1e-4)


# Variants and families


@pytest.mark.parametrize(
    "variant", ["linear", "synthesizer-random", "identity", "window", "full-value", "gqa", "mla", "averaged-heads"]
)
def test_variants(variant: str) -> None:
    model = planted.random_model(1, spread=0.2, variant=variant)
    roles = head_roles(model, some_tokens(3), delimiters=[1], controls=0)
    assert len(roles.heads) == sum(spec.num_heads for spec in model.spec.attention)
    for one in roles.heads:
        assert one.roles == ()
        assert all((found is None) == (variant == "linear") for found in one.scores.values())
        assert (one.numbers["entropy"] is None) == (variant == "linear")
        assert (one.numbers["rank of QK"] is None) == variant.startswith("synthesizer")
        assert one.numbers["rank of OV"] is not None


def test_an_encoder_decoder_in_all_three_places() -> None:
    model = planted.random_model(2, spread=0.2, family="encoder-decoder", num_layers=1)
    tokens, source = some_tokens(3, 10), some_tokens(3, 14)
    for place in ("self", "encoder", "cross"):
        (one, *_) = head_roles(
            model, Inputs(tokens, source=source), delimiters=[1, 2, 3, 4], of=place, controls=0
        ).heads
        absent = {role for role, found in one.scores.items() if found is None}
        assert absent == ({role for role, spec in ROLES.items() if spec.within} if place == "cross" else set())
        assert (one.numbers["distance explains"] is None) == (place == "cross")


def test_ranks_are_those_of_the_whole_matrices() -> None:
    model = planted.random_model(0, spread=0.2, num_layers=1)
    layer, gain = model.stack.blocks[0].attention, model.stack.blocks[0].attention_norm.weight
    ((qk, ov),) = head_ranks(model)
    rows = slice(4, 8)  # the second head
    query, key, value = ((layer.projections[n].weight * gain)[rows].double() for n in ("query", "key", "value"))
    for found, whole in ((qk[1], query.T @ key), (ov[1], layer.output.weight[:, rows].double() @ value)):
        values = torch.linalg.svdvals(whole)
        values = values[values > 1e-12 * values[0]]
        assert found.item() == pytest.approx(effective_rank(values).item())
    assert effective_rank(torch.ones(7)).item() == pytest.approx(7)
    assert math.isnan(effective_rank(torch.zeros(7)).item())


def test_long_texts_are_compared_on_an_excerpt() -> None:
    model = planted.random_model(1, spread=0.3, context_length=100)
    tokens = some_tokens(9, 100)
    reading = RoleReading(model, NO_DELIMITERS, "self")
    reading.add("texts", Inputs(tokens))
    kept = reading.excerpt().texts["texts"].tokens
    assert torch.equal(kept, tokens[:4, :64])
    whole, cut = head_roles(model, tokens), head_roles(model, tokens[:4, :64])
    for one, other in zip(whole.heads, cut.heads, strict=True):
        a, b = one.scores["previous token"], other.scores["previous token"]
        assert a is not None
        assert b is not None
        assert a.p == b.p
        assert a.share != b.share


# Texts


def test_repeated_tokens() -> None:
    tokens = repeated_tokens(50, 40, 32)
    periods = [min(p for p in range(1, 32) if torch.equal(row[p:], row[:-p])) for row in tokens]
    assert min(periods) == 9
    assert max(periods) == 16
    assert all(len(set(row[:period].tolist())) == period for row, period in zip(tokens, periods, strict=True))
    assert torch.equal(tokens, repeated_tokens(50, 40, 32))
    assert not torch.equal(tokens, repeated_tokens(50, 40, 32, seed=1))
    assert repeated_tokens(2, 3, 40).max() == 1
    with pytest.raises(InputError, match="3 tokens"):
        repeated_tokens(50, 2, 3)


def test_delimiters() -> None:
    words = WordTokenizer([" the", " ", ".", "\n", "cat", " cat", ","])
    assert delimiter_tokens(words) == {1, 2, 3, 6}
    assert delimiter_tokens(SymbolTokenizer(["a", "?", "b!"])) == {1}
    found = delimiter_tokens(ByteTokenizer())
    assert {ord(c) for c in " \n.,;"} <= found
    assert not found & {ord(c) for c in "aZ0é"}


def test_bad_input() -> None:
    model = planted.random_model(0)
    with pytest.raises(InputError, match="shuffled copies"):
        head_roles(model, some_tokens(2), controls=5)
    with pytest.raises(InputError, match="too few"):
        head_roles(model, some_tokens(1))
    with pytest.raises(InputError, match="delimiter 24"):
        head_roles(model, some_tokens(2), delimiters=[24])
    with pytest.raises(InputError, match="the model knows 0 to 23"):
        head_roles(model, some_tokens(2) + 24)


def test_looking_leaves_no_trace() -> None:
    model = build_model(ModelSpec.build("nano", vocabulary_size=planted.SYMBOLS, num_layers=1)).train()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    head_roles(model, some_tokens(2, 8))
    assert model.training
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert len(attention_maps(model, some_tokens(1, 4))) == 1
