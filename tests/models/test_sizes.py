"""Sizes by name and by a number of parameters: one line of shapes that ends at GPT-2 small."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from attnlab.errors import SpecError, UnknownNameError
from attnlab.models.sizes import _WIDTHS, SIZES, Size, _of_width, non_embedding, parameter_count, size, size_of

NAMED = {
    "pico": (2, 96, 3, 32),
    "nano": (4, 128, 4, 64),
    "micro": (6, 192, 6, 128),
    "mini": (6, 384, 6, 256),
    "gpt2": (12, 768, 12, 1024),
    "gpt2-medium": (24, 1024, 16, 1024),
    "gpt2-large": (36, 1280, 20, 1024),
    "gpt2-xl": (48, 1600, 25, 1024),
    "gpt3-small": (12, 768, 12, 2048),
    "gpt3-medium": (24, 1024, 16, 2048),
    "gpt3-large": (24, 1536, 16, 2048),
    "gpt3-xl": (24, 2048, 16, 2048),
    "gpt3-1.3b": (24, 2048, 16, 2048),
    "gpt3-2.7b": (32, 2560, 32, 2048),
    "gpt3-6.7b": (32, 4096, 32, 2048),
    "gpt3-13b": (40, 5120, 40, 2048),
    "gpt3": (96, 12288, 96, 2048),
}


def test_named_sizes_are_those_that_recorded_runs_have() -> None:
    assert {name: tuple(found.dimensions().values()) for name, found in SIZES.items()} == NAMED
    assert all(size(name) == Size(*shape) for name, shape in NAMED.items())


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("6k", (2, 16, 2, 64)),
        ("14k", (2, 24, 2, 64)),
        ("25k", (2, 32, 2, 64)),
        ("55k", (2, 48, 3, 64)),
        ("100k", (2, 64, 4, 64)),
    ],
)
def test_the_sizes_of_the_default_ladders(name: str, shape: tuple[int, ...]) -> None:
    assert size(name) == Size(*shape)
    assert non_embedding(size(name)) == 12 * shape[0] * shape[1] ** 2


def test_the_line_goes_through_gpt2_small() -> None:
    assert replace(size("85M"), context_length=1024) == SIZES["gpt2"]
    assert non_embedding(SIZES["gpt2"]) == 84_934_656


@pytest.mark.parametrize("width", _WIDTHS)
def test_every_width_divides_among_heads(width: int) -> None:
    shape = _of_width(width)
    assert shape.model_width == width
    assert shape.model_width % shape.num_heads == 0
    assert shape.model_width // shape.num_heads % 4 == 0
    assert shape.num_layers >= 2
    assert shape.context_length == 64


def test_parameters_and_layers_ascend_with_the_width() -> None:
    shapes = [_of_width(width) for width in _WIDTHS]
    counts = [non_embedding(shape) for shape in shapes]
    assert counts == sorted(set(counts))
    layers = [shape.num_layers for shape in shapes]
    assert layers == sorted(layers)


@pytest.mark.parametrize("count", [6e3, 1e4, 3.3e4, 1e5, 7.7e5, 5e6, 1e8, 1e10])
def test_no_shape_on_the_line_is_nearer(count: float) -> None:
    found = abs(math.log(non_embedding(size_of(count)) / count))
    assert found == min(abs(math.log(non_embedding(_of_width(width)) / count)) for width in _WIDTHS)
    assert found < math.log(1.5)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("50k", 5e4),
        ("50K", 5e4),
        ("0.5M", 5e5),
        ("1.5B", 1.5e9),
        ("2g", 2e9),
        (" 25k ", 25e3),
        ("25 k", 25e3),
        ("25", None),
        ("k", None),
        ("-5k", None),
        ("1e3k", None),
        ("5kk", None),
        ("nano", None),
    ],
)
def test_numbers_are_read_with_their_unit(text: str, count: float | None) -> None:
    assert parameter_count(text) == count


@pytest.mark.parametrize("name", ["1k", "0k", "4000B"])
def test_a_number_out_of_range_is_refused_with_the_range(name: str) -> None:
    with pytest.raises(SpecError, match=r"must be between 6,144 and [\d,]+, got [\d,]+") as caught:
        size(name)
    assert caught.value.hint == "write it as in 50k, 0.5M or 1.5B"


@pytest.mark.parametrize(("name", "nearest"), [("nanno", "nano"), ("gpt2-medum", "gpt2-medium")])
def test_an_unknown_name_is_refused_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UnknownNameError, match=f"no size called '{name}'") as caught:
        size(name)
    assert nearest in (caught.value.hint or "")


def test_the_hint_for_an_unknown_name_says_that_numbers_can_be_given() -> None:
    with pytest.raises(UnknownNameError) as caught:
        size("nonsense")
    hint = caught.value.hint or ""
    assert hint.startswith("known: ")
    assert hint.endswith(", or a number of parameters such as 50k")
