"""What comes next, with and without some heads."""

from __future__ import annotations

import pytest
import torch

from attnlab.errors import InputError, UnsupportedError
from attnlab.lens.heads.ablation import next_tokens
from support.planted import random_model

IDS = torch.tensor([3, 1, 4, 1, 5, 9, 2, 6])


def test_without_nothing_nothing_changes() -> None:
    model = random_model(1, spread=0.3)
    found = next_tokens(model, IDS)
    assert torch.equal(found.before, found.after)
    with torch.no_grad():
        wanted = model(IDS[None])[0, -1].softmax(-1)
    torch.testing.assert_close(found.before, wanted)
    assert found.most(3) == wanted.topk(3).indices.tolist()
    assert len(found.most(1000)) == len(wanted)


def test_a_head_is_replaced_by_its_mean() -> None:
    model = random_model(1, spread=0.3)
    found = next_tokens(model, IDS, [(0, 2)])

    def constant(made: torch.Tensor) -> torch.Tensor:
        mean = made[:, 2].mean(dim=1, keepdim=True).expand_as(made[:, 2])
        return torch.cat([made[:, :2], mean[:, None], made[:, 3:]], dim=1)

    with torch.no_grad(), model.tap({"blocks.0.attention.heads": constant}):
        wanted = model(IDS[None])[0, -1].softmax(-1)
    torch.testing.assert_close(found.after, wanted)
    assert not torch.allclose(found.after, found.before)
    both = next_tokens(model, IDS, [(0, 2), (1, 0)])
    assert not torch.allclose(both.after, found.after)


def test_the_model_is_as_it_was() -> None:
    model = random_model(1, spread=0.3).train()
    before = next_tokens(model, IDS).before
    next_tokens(model, IDS, [(1, 1)])
    assert model.training
    assert torch.equal(next_tokens(model, IDS).before, before)


def test_what_is_not_there_is_refused() -> None:
    model = random_model(1)
    for place in ((2, 0), (0, 4), (-1, 0), (0, -1)):
        with pytest.raises(InputError, match="there is no head"):
            next_tokens(model, IDS, [place])
    with pytest.raises(InputError, match="hold none"):
        next_tokens(model, IDS[:0])
    with pytest.raises(UnsupportedError, match="does not continue a text"):
        next_tokens(random_model(1, family="encoder"), IDS)
