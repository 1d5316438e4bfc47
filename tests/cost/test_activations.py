"""What is kept for the backward pass does not depend on how it is found."""

from __future__ import annotations

import pytest
import torch

from attnlab.attention import variant, variants
from attnlab.cost import activations
from attnlab.cost.call import AttentionCall


@pytest.mark.parametrize("name", [one.name for one in variants() if one.builtin])
def test_a_small_layer_keeps_the_same_with_numbers_and_without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = AttentionCall(variant(name).spec(32, 4, 16), batch=2, queries=16, keys=16, bytes_per_number=4)
    drawn = torch.get_rng_state()
    with_numbers = activations._kept(call)
    assert torch.equal(torch.get_rng_state(), drawn)
    monkeypatch.setattr(activations, "_SMALL", 0)
    assert activations._kept(call) == with_numbers
