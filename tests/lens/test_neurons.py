"""A planted neuron is found by what makes it fire and by what it writes, and no other is."""

from __future__ import annotations

import pytest
import torch

from attnlab.corpora import Batch
from attnlab.errors import InputError
from attnlab.lens import neurons_for, neurons_writing, watch, writes
from attnlab.models import ModelSpec, build_model
from support.planted_facts import FACT_LAYER, FAMILIES, SYMBOLS, family, place, planted_model, random_model


def some_batches(rows: int = 12) -> list[Batch]:
    """Two batches, with rows of different lengths."""
    return [Batch(tokens, tokens) for tokens in (torch.randint(0, SYMBOLS, (rows, size)) for size in (8, 6))]


@pytest.mark.parametrize("number", range(FAMILIES))
def test_the_planted_neuron_is_found_for_its_token_and_no_other(number: int) -> None:
    model, batches = planted_model(), some_batches()
    (reader,) = neurons_for(model, batches, family(number))
    assert (reader.layer, reader.neuron) == (FACT_LAYER, number)
    assert reader.share > 0.99
    assert reader.mean > 1 > 0 > reader.mean_elsewhere
    (writer,) = neurons_writing(model, place(number), alpha=1e-4)  # so that six searches find none by chance
    assert (writer.layer, writer.neuron) == (FACT_LAYER, number)
    assert writer.cosine > 0.8
    promoted, suppressed = writes(model, FACT_LAYER, number, count=3)
    assert promoted[0].token == place(number)
    assert promoted[0].logit > 10 * abs(promoted[1].logit)
    assert suppressed[0].logit <= suppressed[1].logit <= 0


def test_random_neurons_are_found_as_often_as_stated() -> None:
    batches = some_batches(30)
    models = [random_model(seed) for seed in range(30)]
    assert sum(bool(neurons_for(model, batches, 5)) for model in models) <= 5, "6 or more come once in 300"
    assert sum(bool(neurons_writing(model, 5)) for model in models) <= 5


def test_what_fires_most() -> None:
    model, batches = planted_model(), some_batches()
    firing = watch(model, iter(batches), layer=FACT_LAYER, count=4, context=3)
    assert firing.tokens == 12 * 14
    everything = []
    for batch in batches:
        with model.tap("blocks.1.mlp.hidden") as seen, torch.no_grad():
            model(batch.inputs)
        everything.append(seen["blocks.1.mlp.hidden"].flatten(0, 1))
    hidden = torch.cat(everything)
    torch.testing.assert_close(firing.mean, hidden.double().mean(0))
    torch.testing.assert_close(firing.zeros, (hidden == 0).double().mean(0))
    assert torch.equal(firing.zeros, firing.off), "relu-squared"
    for neuron, top in enumerate(firing.top):
        torch.testing.assert_close(torch.tensor([one.value for one in top]), hidden[:, neuron].topk(4).values)
    rows = [row for batch in batches for row in batch.inputs]
    for number in range(FAMILIES):
        assert {one.token for one in firing.top[number] if one.value > 1} == {family(number)}
    assert any(one.text >= 12 for top in firing.top for one in top)
    for one in (one for top in firing.top for one in top):
        row = rows[one.text]
        assert row[one.position] == one.token == one.context[-1]
        assert list(one.context) == row[max(0, one.position - 2) : one.position + 1].tolist()


@torch.no_grad()
def test_what_a_neuron_writes_is_what_the_logits_gain() -> None:
    spec = ModelSpec.build("nano", vocabulary_size=15, num_layers=1, model_width=16, num_heads=2)
    model = build_model(spec).eval()
    for parameter in model.parameters():
        parameter.add_(0.3 * torch.randn(parameter.shape))
    model.double()
    tokens = torch.tensor([[3, 4]])

    def more(h: torch.Tensor) -> torch.Tensor:
        return h.index_add(2, torch.tensor([5]), torch.full((1, 2, 1), 1e-5, dtype=h.dtype))

    with model.tap("norm.in") as seen:
        before = model(tokens)[0, -1]
    with model.tap({"blocks.0.mlp.hidden": more}):
        gained = model(tokens)[0, -1] - before
    written = writes(model, 0, 5, count=7)
    order = [one.token for one in (*written.promoted, *written.suppressed)]
    logits = torch.tensor([one.logit for one in (*written.promoted, *written.suppressed)], dtype=torch.float64)
    # Besides, the norm's scale changes, by which all logits that do not come from its bias are multiplied.
    norm = model.stack.norm
    scaled = (norm(seen["norm.in"][0, -1]) - norm.bias) @ model.head_weight.t()
    basis = torch.stack([logits, torch.ones_like(logits), scaled[order]], 1)
    fit = torch.linalg.lstsq(basis, gained[order][:, None]).solution
    torch.testing.assert_close((basis @ fit)[:, 0], gained[order], rtol=0, atol=1e-4 * gained.abs().max().item())
    assert fit[0] > 0


def test_bad_input() -> None:
    model, batches = random_model(0), some_batches()
    with pytest.raises(InputError, match="no layer 3"):
        watch(model, batches, layer=3)
    with pytest.raises(InputError, match="no neuron 999"):
        writes(model, 0, 999)
    with pytest.raises(InputError, match="no texts"):
        watch(model, [], layer=0)
    with pytest.raises(InputError, match="is no token"):
        neurons_writing(model, SYMBOLS)
    only = torch.zeros(2, 3, dtype=torch.long)
    with pytest.raises(InputError, match="0 times token 5"):
        neurons_for(model, [Batch(only, only)], 5)
