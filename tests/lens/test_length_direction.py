"""What was made to explain attention is found to, and the shares add up."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.errors import InputError
from attnlab.lens import Inputs
from attnlab.lens.length_direction import PARTS, Explained, explain, length_or_direction
from support import planted

TEXTS, KEYS, WIDTH = 40, 16, 6


def drawn() -> tuple[Tensor, Tensor, Tensor]:
    """Directions, lengths and what positions do, independent of each other."""
    units = F.normalize(torch.randn(TEXTS, KEYS, WIDTH, dtype=torch.float64), dim=-1)
    sizes = (0.5 * torch.randn(TEXTS, KEYS, 1, dtype=torch.float64)).exp()
    return units, sizes, torch.randn(KEYS, dtype=torch.float64)


def shares(found: Explained | None) -> dict[str, float]:
    assert found is not None
    assert sum(getattr(found, name).share for name in PARTS) == pytest.approx(found.whole)
    return {name: getattr(found, name).share for name in PARTS}


@pytest.mark.parametrize("cause", PARTS)
def test_one_cause_alone(cause: str) -> None:
    units, sizes, places = drawn()
    causes = {
        "norm": -2 * sizes.log()[..., 0],
        "direction": units @ torch.randn(WIDTH, dtype=torch.float64),
        "position": places.expand(TEXTS, KEYS),
    }
    found = explain(causes[cause], units * sizes)
    expected = {name: pytest.approx(float(name == cause), abs=0.02) for name in PARTS}
    assert shares(found) == expected


def test_halves() -> None:
    """Three independent causes have the shares of their variances."""
    units, sizes, places = drawn()
    parts = [sizes.log()[..., 0], units @ torch.randn(WIDTH, dtype=torch.float64), places.expand(TEXTS, KEYS)]
    noise = torch.randn(TEXTS, KEYS, dtype=torch.float64)
    wanted = (0.4, 0.2, 0.1, 0.3)
    y = sum(
        weight**0.5 * (part - part.mean()) / part.std(unbiased=False)
        for weight, part in zip(wanted, (*parts, noise), strict=True)
    )
    found = explain(y, units * sizes)
    assert list(shares(found).values()) == pytest.approx(wanted[:3], abs=0.08)
    assert found is not None
    assert found.whole == pytest.approx(0.7, abs=0.06)
    assert found.keys == TEXTS * KEYS


def test_an_inner_product_is_length_and_direction() -> None:
    """q·k has both, and neither alone explains it."""
    units, sizes, _ = drawn()
    keys = units * sizes
    found = explain(keys @ torch.randn(WIDTH, dtype=torch.float64), keys)
    assert found is not None
    assert found.whole == pytest.approx(1)
    assert found.norm.share + found.direction.share == pytest.approx(1, abs=0.02)
    assert found.norm.alone < 0.05
    assert found.norm.beyond > 0.05, "beside the direction the length is worth something"


def test_what_is_shared_is_divided() -> None:
    """Late keys are long: nobody can tell which of the two it was, so that each gets half."""
    units, _, _ = drawn()
    size = torch.linspace(0.5, 3, KEYS, dtype=torch.float64).expand(TEXTS, KEYS)
    found = explain(size.log(), units * size[..., None])
    assert shares(found) == pytest.approx({"norm": 0.5, "direction": 0.0, "position": 0.5}, abs=0.02)
    assert found is not None
    assert found.norm.beyond == pytest.approx(0, abs=1e-6)


def test_nothing_explains_noise() -> None:
    """As many heads as show that the adjustment is right: the mean is 0, however many terms there are."""
    found = []
    for _ in range(60):
        units, sizes, _ = drawn()
        texts = slice(0, 4)
        found.append(shares(explain(torch.randn(4, KEYS, dtype=torch.float64), (units * sizes)[texts])))
    for name in PARTS:
        values = torch.tensor([one[name] for one in found])
        assert abs(values.mean()) < 3 * values.std() / len(values) ** 0.5, name


def test_where_there_is_nothing_to_explain() -> None:
    units, sizes, _ = drawn()
    keys = units * sizes
    assert explain(torch.ones(TEXTS, KEYS, dtype=torch.float64), keys) is None
    assert explain(torch.randn(2, 3, dtype=torch.float64), keys[:2, :3]) is None, "fewer keys than terms"
    y = keys.norm(dim=-1).log()
    y[:, ::2] = -torch.inf  # what receives nothing
    y[:, -1] = torch.nan  # what no other sees
    found = explain(y, keys)
    assert found is not None
    assert found.keys == TEXTS * (KEYS // 2 - 1)
    assert found.norm.share > 0.9
    even = explain(units[..., 0].clone(), units)
    assert shares(even)["norm"] == pytest.approx(0, abs=0.01), "where all are equally long"


# On models


def test_a_model() -> None:
    tokens = torch.randint(0, planted.SYMBOLS, (24, planted.CONTEXT))
    model = planted.random_model(0, spread=0.3)
    found = length_or_direction(model, tokens)
    assert [len(layer) for layer in found] == [4, 4]
    for layer in found:
        for one in layer:
            assert 0.3 < sum(shares(one).values()) <= 1
    sink = planted.blank_model()
    planted.sink(sink, 0, 1)
    with torch.no_grad():  # the keys of all others were 0, without a direction
        sink.stack.blocks[0].attention.projections["key"].weight.add_(
            0.001 * torch.randn(4 * planted.CONTEXT, planted.WIDTH)
        )
    one = length_or_direction(sink, tokens)[0][1]
    assert one is not None
    assert one.position.alone > 0.9


@pytest.mark.parametrize("variant", ["linear", "synthesizer-dense"])
def test_without_keys_or_maps_there_is_none(variant: str) -> None:
    model = planted.random_model(0, spread=0.3, variant=variant)
    assert length_or_direction(model, torch.randint(0, planted.SYMBOLS, (4, 8))) == [[None] * 4] * 2


def test_rows_that_do_not_sum_to_one_and_padding() -> None:
    model, tokens = planted.random_model(0, spread=0.3, variant="sigmoid-no-bias"), torch.randint(0, 24, (12, 32))
    padding = torch.ones_like(tokens, dtype=torch.bool)
    padding[:, 20:] = False
    padded, cut = length_or_direction(model, Inputs(tokens, padding)), length_or_direction(model, tokens[:, :20])
    for one, other in zip(padded[1], cut[1], strict=True):
        assert shares(one) == pytest.approx(shares(other), abs=1e-3)


def test_bad_input() -> None:
    with pytest.raises(InputError, match="same position"):
        length_or_direction(planted.random_model(0), torch.randint(0, 24, (1, 8)))
