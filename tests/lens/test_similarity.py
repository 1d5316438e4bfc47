"""Copies of a head are found, heads of a permuted model find their own again, and random models have neither."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from attnlab.errors import InputError
from attnlab.lens import attention_maps
from attnlab.lens.heads.similarity import head_similarity, match_all, match_heads, over_checkpoints
from attnlab.lens.taps import head_outputs
from attnlab.models import LanguageModel
from support import planted
from support.training import KINSHIP, smoke, train_in


def some_tokens(texts: int = 6, length: int = planted.CONTEXT) -> Tensor:
    return torch.randint(0, planted.SYMBOLS, (texts, length))


def permuted(model: LanguageModel, orders: list[list[int]]) -> LanguageModel:
    """The same model with the heads of each layer in another order."""
    other = copy.deepcopy(model)
    with torch.no_grad():
        for block, order in zip(other.stack.blocks, orders, strict=True):
            attention: object = block.attention
            width = attention.spec.key_width
            rows = torch.cat([torch.arange(head * width, (head + 1) * width) for head in order])
            for projection in attention.projections.values():
                projection.weight.copy_(projection.weight[rows])
                projection.bias.copy_(projection.bias[rows])
            attention.output.weight.copy_(attention.output.weight[:, rows])
    return other


def test_a_copy_is_found() -> None:
    model = planted.blank_model()
    planted.previous_token(model, 0, 2)
    planted.copy_head(model, 0, 2, 3)
    planted.previous_token(model, 1, 0)
    planted.write(model, 1, 0, planted.TOKEN, planted.TOKEN)  # looks there too, and says it elsewhere
    found = head_similarity(model, some_tokens())
    assert found.copies() == [((0, 2), (0, 3))]
    place = {head: number for number, head in enumerate(found.heads)}
    assert found.maps[place[0, 2], place[1, 0]] > 0.95
    assert found.effects[place[0, 2], place[1, 0]].abs() < 0.2
    assert found.effects[place[0, 2], place[0, 3]] == pytest.approx(1)


@pytest.mark.parametrize("spread", [0.0, 0.3])
def test_random_models_have_no_copies(spread: float) -> None:
    for seed in range(5):
        found = head_similarity(planted.random_model(seed, spread=spread), some_tokens())
        assert found.copies() == []
        assert found.maps.diagonal().tolist() == pytest.approx([1.0] * 8, abs=1e-5)
        assert found.redundancy("effects") < 0.6


def test_the_cosines_are_those_of_the_whole_tensors() -> None:
    """In batches or not; what a head always writes has no part."""
    model, tokens = planted.random_model(1, spread=0.3), some_tokens(5, 12)
    found = head_similarity(model, tokens)
    patterns, writes = [], []
    with torch.no_grad(), model.tap("blocks.*.attention.heads") as seen:
        model(tokens)
        for number, maps in enumerate(attention_maps(model, tokens)):
            uniform = maps.visible / maps.visible.sum(-1, keepdim=True)
            patterns.append((maps.map - uniform).transpose(0, 1).flatten(1))
            made = head_outputs(model.stack.blocks[number].attention, seen[f"blocks.{number}.attention.heads"])
            made = made.transpose(0, 1).flatten(1, 2)
            writes.append((made - made.mean(1, keepdim=True)).flatten(1))
    for table, vectors in ((found.maps, torch.cat(patterns)), (found.effects, torch.cat(writes))):
        units = torch.nn.functional.normalize(vectors.double(), dim=1)
        torch.testing.assert_close(table, units @ units.T, rtol=0, atol=1e-5)


def test_without_a_map_there_is_only_the_effect() -> None:
    model = planted.random_model(0, spread=0.3, variant="linear,softmax")
    found = head_similarity(model, some_tokens(3))
    assert found.maps[:4].isnan().all()
    assert not found.maps[4:, 4:].isnan().any()
    assert not found.effects.isnan().any()
    assert found.redundancy("maps") is not None
    linear = planted.random_model(0, spread=0.3, variant="linear")
    assert head_similarity(linear, some_tokens(3)).redundancy("maps") is None
    with pytest.raises(InputError, match="no head of one model"):
        match_heads(linear, linear, some_tokens(3))
    matched = match_heads(model, planted.random_model(0, spread=0.3), some_tokens(3))
    assert {pair.a[0] for pair in matched.pairs} == {1}


def test_heads_find_themselves_in_another_order() -> None:
    model, orders = planted.random_model(4, spread=0.3), [[2, 0, 3, 1], [1, 0, 2, 3]]
    other = permuted(model, orders)
    tokens = some_tokens()
    for across in (False, True):
        matched = match_heads(model, other, tokens, across_layers=across)
        assert {pair.b: pair.a for pair in matched.pairs} == {
            (layer, place): (layer, head) for layer, order in enumerate(orders) for place, head in enumerate(order)
        }
        assert matched.mean == pytest.approx(1, abs=1e-4)
        assert matched.control < 0.6
        assert matched.chance < 0.6


def test_strangers_are_no_more_alike_than_their_control() -> None:
    models = [planted.random_model(seed, spread=0.3) for seed in range(4)]
    found = match_all(models, some_tokens(), controls=3)
    assert list(found) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    beyond = [one.mean - one.control for one in found.values()]
    assert abs(sum(beyond) / len(beyond)) < 0.1
    assert all(one.mean >= one.chance for one in found.values())


def test_models_of_different_shapes() -> None:
    small, large = planted.random_model(0, spread=0.3, num_layers=1), planted.random_model(1, spread=0.3, num_heads=8)
    matched = match_heads(small, large, some_tokens(3))
    assert [pair.a for pair in matched.pairs] == [(0, head) for head in range(4)]
    assert {pair.b[0] for pair in matched.pairs} == {0}
    assert matched.table.shape == (4, 16)
    assert {pair.b[0] for pair in match_heads(small, large, some_tokens(3), across_layers=True).pairs} <= {0, 1}


def test_over_the_training_of_a_run(tmp_path: Path) -> None:
    path = train_in(tmp_path, smoke(corpus=KINSHIP, context_length=16)).path
    found = over_checkpoints(path, torch.randint(0, 20, (3, 16)))
    assert max(found) == 6
    assert len(found) >= 2
    similarity, matched = found[6]
    assert matched.mean == pytest.approx(1, abs=1e-5), "the last is itself"
    assert all(pair.a == pair.b for pair in matched.pairs)
    assert similarity.redundancy() is not None
    assert found[min(found)][1].mean < 1


def test_bad_input() -> None:
    model = planted.random_model(0)
    with pytest.raises(InputError, match="two or more"):
        match_all([model], some_tokens())
    with pytest.raises(InputError, match="`controls=1` or more"):
        match_heads(model, model, some_tokens(), controls=0)
    with pytest.raises(InputError, match=r"not \(texts, tokens\)"):
        head_similarity(model, some_tokens()[0])
