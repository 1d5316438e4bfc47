"""The report's section on heads: paired by seed, corrected, and absent where nothing was measured."""

from __future__ import annotations

import dataclasses
import random

import pytest

from attnlab.experiments.reporting.attention import HEADING, heads_section
from attnlab.experiments.reporting.report import comparison_page
from attnlab.experiments.results import Comparison
from attnlab.lens.runs import RUN_HEADS
from attnlab.pages import Details, Points, Table, render
from support.comparisons import make_comparison
from support.layers import sound_layers


def with_heads(comparison: Comparison, effects: dict[str, float], noise: float = 0.002) -> Comparison:
    """Every head at 0.3 and a seed's own noise; `effects` are added to a variant's previous-token heads."""
    arms = []
    for arm in comparison.arms:
        cells = []
        for cell in arm.runs:
            shared, own = random.Random(cell.seed), random.Random(f"{arm.name} {cell.seed}")
            heads = {name: 0.3 + shared.gauss(0, 0.1) + own.gauss(0, noise) for name in RUN_HEADS}
            heads["previous token, strongest"] += effects.get(arm.name, 0.0)
            cells.append(dataclasses.replace(cell, heads=heads if cell.outcome == "finished" else {}))
        arms.append(dataclasses.replace(arm, runs=tuple(cells)))
    return dataclasses.replace(comparison, arms=tuple(arms))


def test_what_differs_is_named_and_what_does_not_is_not() -> None:
    found = heads_section(with_heads(make_comparison(), {"cosine": -0.2}))
    assert found.heading == HEADING
    (points,) = (part for part in found.content if isinstance(part, Points))
    assert len(points.items) == 1
    assert points.items[0].startswith("cosine, previous token: −0.")
    table = next(part for part in found.content if isinstance(part, Table))
    assert table.rows[0][0] == "softmax"
    place = [row[0] for row in table.rows].index("cosine")
    assert -0.21 < float(table.rows[place][1].replace("−", "-")) < -0.19
    assert table.shades[place][1] > 0.4
    (details,) = (part for part in found.content if isinstance(part, Details))
    cosine = next(row for row in details.content[0].rows if row[0] == "cosine")
    low, high = (float(end.replace("−", "-")) for end in cosine[1].split("(")[1].rstrip(")").split(" … "))
    assert high - low < 0.02, "the noise that both share at a seed is not counted"


def test_nothing_is_named_where_nothing_differs() -> None:
    found = heads_section(with_heads(make_comparison(), {}))
    assert not any(isinstance(part, Points) for part in found.content)
    assert any("nothing differs" in str(part) for part in found.content)


def test_a_variant_that_diverged_has_fewer_pairs() -> None:
    found = heads_section(with_heads(make_comparison(seeds=3, diverged={"cosine": [0, 1]}), {}))
    table = next(part for part in found.content if isinstance(part, Table))
    assert next(row for row in table.rows if row[0] == "cosine")[1] == "–", "one pair has no interval"


@pytest.mark.parametrize("bare", [True, False])
def test_it_stands_in_the_report_if_there_is_something_to_say(bare: bool) -> None:
    comparison = make_comparison()
    page = comparison_page(comparison if bare else with_heads(comparison, {}))
    assert (HEADING in [section.heading for section in page.sections]) is not bare
    if not bare:
        assert f"attnlab look --compare runs/{comparison.path.name}" in render(page)


def test_whole_layers_are_named() -> None:
    with sound_layers():
        found = heads_section(with_heads(make_comparison(("tied-kv", "softmax,conv-gate")), {}))
        assert any("which have no attention maps: softmax,conv-gate." in str(part) for part in found.content)
        alone = heads_section(make_comparison(("conv-gate",)))
        assert any("no attention maps: conv-gate." in str(part) for part in alone.content)
