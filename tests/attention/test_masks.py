"""Masks as intervals, and blocks as pieces of the grid."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given

from attnlab.attention import Mask, Visibility

masks = st.one_of(
    st.just(Mask()),
    st.just(Mask(causal=False)),
    st.builds(Mask, window=st.integers(1, 40), causal=st.booleans()),
    st.builds(Mask, prefix=st.integers(1, 40)),
)


@given(mask=masks, queries=st.integers(1, 50), cached=st.integers(0, 30), rows=st.integers(1, 20))
def test_blocks_make_up_the_grid(mask: Mask, queries: int, cached: int, rows: int) -> None:
    visibility = Visibility(mask, queries, queries + cached, cached)
    grid = visibility.grid()[0, 0]
    built = torch.zeros_like(grid)
    counted = torch.zeros(queries)
    for block in visibility.blocks(rows, torch.zeros(())):
        built[block.queries, block.keys] = block.visible()[0]
        counted[block.queries] = block.count[0, :, 0]
        scores = torch.ones(3, *built[block.queries, block.keys].shape)
        assert torch.equal(block.hide_(scores.clone()).isfinite()[0], block.visible()[0])
        assert torch.equal(block.conceal_(scores)[0] == 1, block.visible()[0])
        assert block.some_empty == bool((block.count == 0).any())
    assert torch.equal(built, grid)
    assert torch.equal(counted, grid.sum(-1).float())
    assert visibility.structure.num_visible() == int(grid.sum())
    assert visibility.hides_nothing == bool(grid.all())


@given(mask=masks, queries=st.integers(1, 30), cached=st.integers(0, 30))
def test_the_grid_is_what_the_words_say(mask: Mask, queries: int, cached: int) -> None:
    keys = queries + cached
    for i in range(queries):
        for j in range(keys):
            at = i + cached
            if mask.window is not None and mask.causal:
                shown = at - mask.window < j <= at
            elif mask.window is not None:
                shown = at - mask.window // 2 <= j <= at + (mask.window - 1) // 2
            elif mask.prefix is not None:
                shown = j <= at or j < mask.prefix
            else:
                shown = j <= at or not mask.causal
            assert bool(Visibility(mask, queries, keys, cached).grid()[0, 0, i, j]) == shown
        if i > 2:
            break  # a few rows say it all, and the grid is made anew for each pair


@pytest.mark.parametrize("mask", [Mask(), Mask(window=7), Mask(prefix=9), Mask(causal=False, window=5)])
def test_padding_and_pattern_multiply(mask: Mask) -> None:
    padding, pattern = torch.rand(2, 20) < 0.7, torch.rand(2, 3, 20, 20) < 0.7
    visibility = Visibility(mask, 20, 20, 0, padding, pattern)
    grid = Visibility(mask, 20, 20).grid() & padding[:, None, None] & pattern
    assert torch.equal(visibility.grid(), grid)
    built = torch.zeros(6, 20, 20, dtype=torch.bool)
    for heads in (slice(0, 4), slice(4, 6)):
        for block in visibility.blocks_of(heads, 3, 8, torch.zeros(())):
            built[heads, block.queries, block.keys] = block.visible()
    assert torch.equal(built, grid.flatten(0, 1))


def test_a_mask_says_what_it_is() -> None:
    assert str(Mask(window=9)) == "causal × window 9"
    assert str(Mask(causal=False)) == "bidirectional"
    assert str(Mask(prefix=4)) == "causal × prefix 4"


@pytest.mark.parametrize("mask", [{}, {"first": 2}, {"causal": False}], ids=["causal", "with the first", "both ways"])
def test_a_window_is_idle_if_it_changes_nothing(mask: dict[str, Any]) -> None:
    bare = Visibility(Mask(causal=mask.get("causal", True)), 5, 5).grid()
    for window in range(1, 12):
        one = Mask(window=window, **mask)
        assert one.is_idle(5) == torch.equal(Visibility(one, 5, 5).grid(), bare), window
    assert not Mask().is_idle(5)
