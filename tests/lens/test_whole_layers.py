"""The lens on whole layers of one's own: what needs no map works, and the other layers are shown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from attnlab.corpora import Batch
from attnlab.errors import UnsupportedError
from attnlab.lens import ablate, attention_maps, attribute, head_roles, study_heads
from attnlab.lens.heads.ablation import next_tokens
from attnlab.lens.heads.study import profile
from attnlab.lens.subjects import rows_for, shape_words
from attnlab.models import LanguageModel
from support.layers import sound_layers
from support.planted import SYMBOLS, random_model


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with sound_layers():
        yield


def model(variant: str) -> LanguageModel:
    return random_model(1, spread=0.3, variant=variant)


def batch() -> Batch:
    rows = torch.randint(SYMBOLS, (3, 13), generator=torch.Generator().manual_seed(2))
    return Batch(rows[:, :-1], rows[:, 1:])


def test_a_mixture_shows_its_other_layers() -> None:
    mixed = model("softmax,conv-gate")
    maps = attention_maps(mixed, batch())
    assert maps[0].map.shape == (3, 4, 12, 12)
    assert maps[1].weights is None
    assert maps[1].keys is None
    study = study_heads(mixed, batch(), controls=0, importance=True)
    assert {one.layer for one in study["self"].roles.heads} == {0}
    assert len(study["self"].similarity.heads) == 4
    assert study.importance_of("self", 0, 3) is not None
    assert study.importance_of("self", 1, 0) is None
    assert study.ablation is not None
    assert "blocks.1.attention" in study.ablation.removed
    found = next_tokens(mixed, batch().inputs[0], [(0, 1)])
    assert not torch.equal(found.before, found.after)
    with pytest.raises(UnsupportedError, match="layer 1: this layer gives no attention maps"):
        next_tokens(mixed, batch().inputs[0], [(1, 0)])


@pytest.mark.parametrize("variant", ["conv-gate", "softmax,conv-gate"])
def test_parts_add_up_to_what_the_head_reads(variant: str) -> None:
    looked = model(variant)
    found = attribute(looked, batch())
    hidden = looked.hidden(batch().inputs)
    torch.testing.assert_close(found.written.sum(0), hidden, atol=1e-4, rtol=1e-4)
    assert "blocks.1.attention" in found.names


def test_a_model_of_such_layers_alone() -> None:
    alone = model("conv-gate")
    assert head_roles(alone, batch().inputs, controls=19).heads == ()
    study = study_heads(alone, batch(), controls=19, importance=True)
    assert study["self"].similarity.redundancy() is None
    assert study["self"].similarity.copies() == []
    assert set(profile(study).values()) == {None}
    assert {one.head for one in ablate(alone, [batch()]).removed.values()} == {None}
    assert "2 layers without heads" in shape_words(alone)
    assert rows_for(alone, 8) >= 2
