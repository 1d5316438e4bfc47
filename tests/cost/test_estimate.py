"""Questions, estimates and tables: the notes' numbers, exactness at absurd sizes, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from attnlab.cost import Question, estimate, model_cost, per_head, tabulate
from attnlab.cost.estimate import QUANTITIES
from attnlab.cost.presentation.tables import quantity_text
from attnlab.errors import AttnlabError, InputError, SpecError
from attnlab.models import ModelSpec


def test_the_notes_numbers_of_gpt3() -> None:
    """Claims 1.3, 1.8 and 1.13."""
    found = per_head(estimate("gpt3"))
    told = found.as_dict()
    assert [one["parameters"] for one in told["maps"]] == [12288 * 128] * 4
    assert told["maps"][0]["parameters"] == pytest.approx(1.5e6, rel=0.05)
    assert (told["rounded_width"], told["full_value_at_rounded_width"]) == (12000, 144_000_000)
    assert told["full_value"] == 150_994_944
    assert told["head"] == 6_291_456
    assert told["layer"] * 96 == 57_982_058_496
    assert told["attention"] == pytest.approx(58e9, rel=0.001)
    assert told["model"] == pytest.approx(175e9, rel=0.003)
    assert told["attention_share"] == pytest.approx(1 / 3, abs=0.002)


@pytest.mark.parametrize(
    ("variant", "names", "layer"),
    [
        ("tied-kv", ["W_Q", "W_K", "W_V, up: its part of W_O"], 3 * 768**2),
        ("mqa", ["W_Q", "W_K", "W_V, down", "W_V, up: its part of W_O"], 2 * 768**2 + 2 * 768 * 64),
        ("full-value", ["W_Q", "W_K", "W_V, full"], 2 * 768**2 + 12 * 768**2),
        ("averaged-heads", ["W_Q", "W_K", "W_V, down", "W_V, up: its part of W_O"], 3 * 768**2 + 64 * 768),
        ("identity", ["W_V, up: its part of W_O"], 768**2),
        (
            "mla",
            ["W_DKV", "W_KR", "W_Q", "W_UK", "W_UV", "W_V, up: its part of W_O"],
            768 * (256 + 32 + 12 * 96) + 256 * 12 * (64 + 64) + 768**2,
        ),
    ],
)
def test_maps_of_other_heads(variant: str, names: list[str], layer: int) -> None:
    found = per_head(estimate("gpt2", variant=variant))
    assert [one.name for one in found.maps] == names
    assert found.layer == layer


@pytest.mark.parametrize(
    ("size", "millions"),
    [
        ("small", 125),
        ("medium", 350),
        ("large", 760),
        ("xl", 1_300),
        ("2.7b", 2_700),
        ("6.7b", 6_700),
        ("13b", 13_000),
        ("", 175_000),
    ],
)
def test_gpt3_has_the_parameters_of_its_paper(size: str, millions: int) -> None:
    """Table 2.1 of arXiv 2005.14165, which rounds."""
    assert estimate(f"gpt3-{size}".rstrip("-")).parameters / 1e6 == pytest.approx(millions, rel=0.02)


def test_an_estimate_is_what_model_cost_says() -> None:
    found = estimate("nano", variant="tied-kv", batch_size=3, context_length=50)
    spec = ModelSpec.build("nano", vocabulary_size=50257, variant="tied-kv", context_length=50)
    assert found.training == model_cost(spec, batch=3, visible_only=True)
    assert found.defined == model_cost(spec, batch=3)
    assert found.tokens == 150
    assert found.cache_bytes == 150 * found.cache_bytes_per_token
    for name in ("parameters", "forward_flops", "backward_flops", "recomputed_flops", "activation_bytes"):
        assert sum(getattr(part, name) for part in found.parts()) == getattr(found.training, name)


def test_parts_of_checkpointing_add_up() -> None:
    found = estimate("nano", variant="sigmoid", checkpointing=True, mixed_precision=True)
    for name in ("parameters", "forward_flops", "backward_flops", "recomputed_flops", "activation_bytes"):
        assert sum(getattr(part, name) for part in found.parts()) == getattr(found.training, name)
    assert found.question.bytes_per_number == 2
    assert found.question.replace(batch_size=3).mixed_precision


def test_every_quantity_is_told() -> None:
    told = json.loads(json.dumps(estimate("pico").as_dict(tensors=True)))
    assert set(told["totals"]) == {quantity.key for quantity in QUANTITIES}
    assert told["totals"]["parameters"] == sum(tensor["parameters"] for tensor in told["tensors"])
    assert told["memory"]["peak"] == told["totals"]["peak_bytes"]
    assert estimate("pico", family="encoder").as_dict()["decoding"] is None
    assert estimate("pico", context_length=1).decoding is None


def test_numbers_stay_whole_at_absurd_sizes() -> None:
    found = estimate("gpt3", context_length=2**36, variant="window")
    layers, width, tokens, window = 96, 12288, 2**36, 2**34
    pairs = window * (window + 1) // 2 + (tokens - window) * window
    scores = next(part for part in found.parts() if part.name == "scores")
    assert scores.forward_flops == 2 * layers * pairs * width
    for quantity in QUANTITIES:
        value = quantity.value(found)
        assert quantity.unit == "FLOPs/B" or type(value) is int
    assert str(tabulate(["gpt3"], ["window"], context_length=2**36))


def test_ratios_are_to_softmax_of_the_same_size() -> None:
    table = tabulate(["pico", "nano"], ["tied-kv", "softmax"])
    assert [one.label for one in table.estimates] == ["pico softmax", "pico tied-kv", "nano softmax", "nano tied-kv"]
    for found in table.estimates:
        tied = found.question.variant == "tied-kv"
        assert table.ratio(found, "cache_bytes") == (0.5 if tied else 1.0)
    headings = table.side_by_side().headings
    assert headings == ["", "pico softmax", "pico tied-kv", "× softmax", "nano softmax", "nano tied-kv", "× softmax"]
    assert table.one_by_one().rows[1][-1] == "0.50"
    told = json.loads(json.dumps(table.as_dict()))
    assert told["estimates"][1]["times_softmax"]["cache_bytes"] == 0.5


def test_it_prints_writes_and_shows_itself(tmp_path: Path) -> None:
    table = tabulate(["pico"], heads=True, tensors=True, sweep="context")
    text = str(table)
    for word in ("attention's share", "embedding.weight", "where attention overtakes", "context N, tokens", "mlp"):
        assert word in text
    table.write(tmp_path / "cost.html")
    page = (tmp_path / "cost.html").read_text(encoding="utf-8")
    assert page.count("plotly-graph-div") == 3
    assert "Every named tensor" in page
    assert "<iframe" in table._repr_html_()


@pytest.mark.parametrize(
    ("fields", "said", "hinted"),
    [
        ({"size": "gpt-2"}, "no size called 'gpt-2'", "gpt2"),
        ({"variant": "tied_kv"}, "no variant called", "tied-kv"),
        ({"recipe": "quick"}, "no recipe called", "fast"),
        ({"batch_size": -1}, "batch_size", ""),
        ({"context_length": 0}, "context_length", ""),
        ({"context_length": 2**37}, "context_length", ""),
        ({"bytes_per_number": 3}, "bytes_per_number", ""),
        ({"model_width": 770}, "does not divide into 12 heads", "768"),
        ({"wings": 2}, "wings", ""),
        ({"variant": "tied-kv+synthesizer-random"}, "no key to share", "nearest"),
        ({"variant": "bidirectional"}, "would see the token", "encoder"),
        ({"variant": "synthesizer-random", "context_length": 2**34}, "beyond 2⁶³ bytes", "shorter"),
        ({"batch_size": 2**30}, "too many to count", "batch_size="),
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, Any], said: str, hinted: str) -> None:
    with pytest.raises(AttnlabError, match=said) as caught:
        estimate(**fields).as_dict()
    assert hinted in (caught.value.hint or "")
    assert caught.value.hint


def test_names_are_lists() -> None:
    with pytest.raises(InputError, match="lists of names"):
        tabulate("gpt2")
    with pytest.raises(SpecError):
        Question(num_layers=0)


def test_how_numbers_are_written() -> None:
    assert [quantity_text(n, "FLOPs") for n in (12, 3e9)] == ["12 FLOPs", "3.00 GFLOPs"]
    assert [quantity_text(n, "B") for n in (None, 0, 1023, 1536, 2**70)] == [
        "–",
        "0 B",
        "1023 B",
        "1.50 KiB",
        "1.00 ZiB",
    ]
    assert [quantity_text(n, "") for n in (0, 12_345)] == ["0", "12,345"]
    assert quantity_text(1234.5, "FLOPs/B") == "1234"
