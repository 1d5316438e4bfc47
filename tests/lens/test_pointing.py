"""A head that was set to look somewhere is found by the keys that it should look at, and by no others."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnlab.corpora import Batch, CorpusSpec, TranslationCorpus, open_corpus
from attnlab.errors import InputError, UnknownNameError
from attnlab.lens import attention_maps, pointing
from attnlab.models import ModelSpec, build_model
from support import planted


def texts(rows: int = 20, length: int = 12) -> Batch:
    inputs = torch.randint(0, planted.SYMBOLS, (rows, length))
    return Batch(inputs, inputs)


def previous(batch: Batch) -> Tensor:
    """The place before each query; the first has none."""
    return torch.arange(-1, batch.inputs.shape[1] - 1).expand_as(batch.inputs)


def test_a_planted_head_is_found() -> None:
    model = planted.blank_model()
    planted.previous_token(model, 1, 2)
    planted.sink(model, 0, 1)
    batch = texts()
    found = pointing(model, [(batch, previous(batch))])
    assert len(found.heads) == 8
    best = found.best
    assert (best.layer, best.head, best.name) == (1, 2, "layer 2, head 3")
    assert best.hits.mean == 1
    assert best.error.mean == 0
    assert best.share.mean > 0.95
    assert best.share.low <= best.share.mean <= best.share.high
    assert best.chance == pytest.approx(sum(1 / n for n in range(2, 13)) / 11)
    assert best.swapped == 1  # the place before is the same in every text: nothing was read for it
    assert found[0, 1].hits.mean == pytest.approx(1 / 11)  # the first place is right once
    assert found.least.share.mean <= min(one.share.mean for one in found.heads)


def test_by_hand() -> None:
    model = planted.random_model(0, spread=0.3)
    batch = texts(rows=3)
    right = torch.full_like(batch.inputs, -1)
    right[0, 5], right[0, 7], right[2, 9] = 2, 7, 0
    found = pointing(model, [(batch, right)])
    for layer, maps in enumerate(attention_maps(model, batch.inputs)):
        for head in range(4):
            weights = maps.map[:, head].double()
            shares = [(weights[0, 5, 2] + weights[0, 7, 7]) / 2, weights[2, 9, 0]]
            hits = [
                ((weights[0, 5].argmax() == 2) * 1.0 + (weights[0, 7].argmax() == 7)) / 2,
                weights[2, 9].argmax() == 0,
            ]
            one = found[layer, head]
            assert one.share.mean == pytest.approx(sum(map(float, shares)) / 2)
            assert one.hits.mean == pytest.approx(sum(map(float, hits)) / 2)
            assert one.chance == pytest.approx(((1 / 6 + 1 / 8) / 2 + 1 / 10) / 2)


def test_swapped_texts_show_what_needs_no_reading() -> None:
    """A head that looks for the same token is right by reading alone."""
    model = planted.blank_model()
    planted.same_token(model, 0, 0)
    half = torch.stack([torch.randperm(planted.SYMBOLS)[:10] for _ in range(40)])
    order = torch.stack([torch.randperm(10) for _ in range(40)])
    inputs = torch.cat([half, half.gather(1, order)], dim=1)
    right = torch.cat([torch.full_like(order, -1), order], dim=1)
    # The query's own place holds the same token too, and gets the other half.
    found = pointing(model, [(Batch(inputs, inputs), right)])
    assert found.best.share.mean == pytest.approx(0.5, abs=0.02)
    assert found.best.swapped < 0.25


def test_batches_make_no_difference() -> None:
    model = planted.random_model(1, spread=0.3)
    batch = texts(rows=8)
    whole = pointing(model, [(batch, previous(batch))])
    halves = [Batch(batch.inputs[part], batch.targets[part]) for part in (slice(0, 3), slice(3, 8))]
    parts = pointing(model, [(half, previous(half)) for half in halves])
    for one, two in zip(whole.heads, parts.heads, strict=True):
        assert one.share.mean == pytest.approx(two.share.mean)
        assert one.hits == two.hits


def test_cross_attention() -> None:
    corpus = open_corpus(CorpusSpec(name="translation", vocabulary_size=20))
    assert isinstance(corpus, TranslationCorpus)
    spec = ModelSpec.build(
        "nano",
        vocabulary_size=20,
        family="encoder-decoder",
        num_layers=1,
        model_width=16,
        num_heads=2,
        context_length=20,
    )
    model = build_model(spec)
    batch = corpus.batch(seed=0, step=0, batch_size=30, context_length=20)
    found = pointing(model, [(batch, corpus.alignment(batch))], of="cross")
    assert len(found.heads) == 2
    assert batch.source_padding is not None
    lengths = batch.source_padding.sum(1).double()
    assert found.best.chance == pytest.approx(float((1 / lengths).mean()))
    assert found.best.share.mean == pytest.approx(found.best.chance, rel=0.05)  # nothing is learned yet


def test_what_makes_no_sense() -> None:
    model, batch = planted.random_model(0), texts()
    with pytest.raises(InputError, match=r"right keys of shape \(20, 3\)"):
        pointing(model, [(batch, torch.zeros(20, 3, dtype=torch.long))])
    with pytest.raises(InputError, match="a right key at 12"):
        pointing(model, [(batch, torch.full((20, 12), 12))])
    with pytest.raises(InputError, match="too few for an interval"):
        pointing(model, [(batch, torch.full((20, 12), -1))])
    with pytest.raises(InputError, match="too few for an interval"):
        pointing(planted.random_model(0, variant="linear"), [(batch, previous(batch))])
    with pytest.raises(UnknownNameError, match=r"no head called '\(5, 0\)'"):
        pointing(model, [(batch, previous(batch))])[5, 0]
