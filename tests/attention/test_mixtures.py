"""Mixtures: which layer has which variant, and what is refused."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from attnlab.attention import mixture, variant
from attnlab.errors import SpecError, UnknownNameError


def layers_of(name: str, num_layers: int) -> str:
    return " ".join(one.name for one in mixture(name).layers(num_layers))


@pytest.mark.parametrize(
    ("name", "num_layers", "layers"),
    [
        ("softmax", 3, "softmax softmax softmax"),
        ("softmax,window", 5, "softmax window softmax window softmax"),
        ("window:64*2,softmax", 6, "window:64 window:64 softmax window:64 window:64 softmax"),
        ("window*2,softmax", 4, "window window softmax window"),
        ("softmax,(window),softmax", 3, "softmax window softmax"),
        ("softmax,(window),softmax", 5, "softmax window window window softmax"),
        ("softmax*2,(window,linear),gqa:4+rope", 6, "softmax softmax window linear window gqa:4+rope"),
        ("(window,softmax)", 3, "window softmax window"),
        ("(window),softmax", 3, "window window softmax"),
        ("softmax,(window)", 3, "softmax window window"),
        (" softmax * 2 , ( window ) ", 4, "softmax softmax window window"),
    ],
)
def test_layers(name: str, num_layers: int, layers: str) -> None:
    assert layers_of(name, num_layers) == layers


@pytest.mark.parametrize("name", ["softmax", "window:64", "gqa:4+rope"])
def test_a_variant_alone_is_every_layer(name: str) -> None:
    found = mixture(name)
    assert (found.variants, found.meaning, found.listed) == ((variant(name),), variant(name).meaning, 1)


def test_it_says_what_the_layers_have() -> None:
    assert mixture("window:64*2,softmax").meaning == "Layers take turns: 2 × window:64, softmax."
    assert mixture("softmax,(window),gqa").meaning == "First softmax; layers of window; last gqa."
    found = mixture("softmax,(window,linear),softmax")
    assert found.meaning == "First softmax; layers take turns: window, linear; last softmax."
    assert [one.name for one in found.variants] == ["softmax", "window", "linear"]


@pytest.mark.parametrize(
    ("name", "listed", "num_layers"),
    [("softmax,window", 2, 1), ("window*2,softmax", 3, 2), ("softmax,(window),softmax", 3, 2), ("softmax*13", 13, 12)],
)
def test_a_list_that_is_longer_than_the_model(name: str, listed: int, num_layers: int) -> None:
    expected = f"the mixture {name!r} lists {listed} layers, and the model has {num_layers}"
    with pytest.raises(SpecError, match=re.escape(expected)) as caught:
        mixture(name).layers(num_layers)
    assert caught.value.hint == f"shorten the list, or use a model with num_layers={listed} or more"
    assert len(mixture(name).layers(listed)) == listed


@pytest.mark.parametrize("count", ["0", "-1", "1.5", "x", "", "1000", "2*2", "9" * 5000])
def test_what_is_no_number_of_layers(count: str) -> None:
    with pytest.raises(SpecError, match=re.escape(f"{count!r} in 'window*{count}' is not a number of layers")):
        mixture(f"softmax,window*{count}")


@pytest.mark.parametrize(
    "name",
    ["(window", "window)", "softmax(window)", "(a),(b)", "((window))", "(window)*2", "softmax,(window)softmax", ")("],
)
def test_parentheses_that_make_no_sense(name: str) -> None:
    with pytest.raises(SpecError, match="not a list of layers with one part in parentheses") as caught:
        mixture(name)
    assert '"softmax,(window),softmax"' in str(caught.value.hint)


@pytest.mark.parametrize(
    "name", ["", ",", "softmax,", "softmax,,window", "()", "softmax,(),window", ",(softmax)", "*2"]
)
def test_a_place_without_a_name(name: str) -> None:
    with pytest.raises(UnknownNameError, match="there is no variant called ''"):
        mixture(name)


def test_what_a_variant_refuses_a_mixture_refuses() -> None:
    with pytest.raises(UnknownNameError, match="no variant called 'windw'"):
        mixture("softmax,(windw*2),softmax")
    with pytest.raises(SpecError, match="takes no number"):
        mixture("softmax:3,window")
    with pytest.raises(SpecError, match="alpha of normaliser 'entmax' is 7"):
        mixture("softmax*2,entmax:7")


def test_the_documentation_explains_the_notation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "variants.md").read_text()
    for name in ("softmax,window", "window:64*2,softmax", "softmax,(window),softmax"):
        assert f"| `{name}` |" in page
        mixture(name)
