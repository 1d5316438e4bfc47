"""Every bar: what it declares, whom it concerns, and how it judges figures that are made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from attnlab.attention import Variant, variant, variants
from attnlab.bench import (
    BARS,
    BarsBench,
    BenchListener,
    CallSize,
    Ratio,
    VariantBar,
    bars,
    bench_bars,
    describe_machine,
)
from attnlab.bench import attention as bench_attention_module
from attnlab.bench.bars import BarSetting
from attnlab.errors import SpecError

SETTING = BarSetting()
LENGTHS = SETTING.lengths
TINY = BarSetting(CallSize.smoke(), rounds=2)
EVERY_BAR = pytest.mark.parametrize("bar", BARS, ids=lambda bar: bar.name)
BY_NAME = {bar.name: bar for bar in BARS}


def concerned(name: str) -> set[str]:
    return {one.name for one in variants() if BY_NAME[name].concerns(CallSize().spec_of(one))}


def test_what_is_declared() -> None:
    assert {bar.name: (bar.limit, bar.at_least) for bar in BARS} == {
        "speed": (1.15, False),
        "speed-scores": (None, False),
        "speed-gated": (1.2, False),
        "speed-capped": (1.2, False),
        "speed-sparse": (2.5, False),
        "speed-sequential": (2.5, False),
        "speed-difference": (2.5, False),
        "speed-peer": (2.0, True),
        "speed-dropout": (1.5, False),
        "memory": (0.125, False),
        "memory-growth": (2.3, False),
        "window": (8.0, True),
        "linear-growth": (9.0, False),
        "recurrent-growth": (9.5, False),
        "recurrent-speed": (1.0, False),
        "cache": (0.5, False),
        "cache-latent": (0.3, False),
        "speed-latent": (None, False),
        "decoding-latent": (None, False),
        "decoding": (None, False),
    }


def test_the_lengths_that_the_bars_are_meant_for() -> None:
    assert SETTING.lengths == {"tokens": 1024, "half": 2048, "long": 4096, "longest": 8192, "window": 256}
    assert "256 tokens at 8192" in BY_NAME["window"].judge({}, LENGTHS).what
    assert "at 4096 tokens ÷ at 2048" in BY_NAME["memory-growth"].judge({}, LENGTHS).how


def test_whom_the_bars_concern() -> None:
    every = {one.name for one in variants() if one.builtin}
    pointwise = {"sigmoid", "sigmoid-no-bias", "relu", "relu-undivided", "squared-relu"}
    sparse = {"sparsemax", "entmax15", "entmax"}
    recurrent = {"gated-linear", "gated-delta"}
    others = {"full-value", "window", "sink-window", "prefix", "linear", "softpick", "stick-breaking", *recurrent}
    scored = {"l2", "synthesizer-dense", "synthesizer-random"}
    slower = {"softmax-capped", "mla", "forgetting", "differential"}
    assert concerned("speed") == every - sparse - others - scored - slower
    assert concerned("speed-scores") == scored
    assert concerned("speed-gated") == {"forgetting"}
    assert concerned("speed-capped") == {"softmax-capped"}
    assert concerned("speed-sparse") == sparse | {"softpick"}
    assert concerned("speed-sequential") == {"stick-breaking"}
    assert concerned("speed-difference") == {"differential"}
    assert concerned("speed-peer") == sparse
    assert concerned("speed-dropout") == pointwise
    assert concerned("memory") == concerned("memory-growth") == every - {"full-value", "synthesizer-random"}
    assert concerned("window") == {"window", "sink-window"}
    assert concerned("linear-growth") == {"linear"}
    assert concerned("recurrent-growth") == concerned("recurrent-speed") == recurrent
    assert concerned("cache") == concerned("decoding") == {"tied-kv"}
    assert concerned("cache-latent") == concerned("speed-latent") == concerned("decoding-latent") == {"mla"}


@EVERY_BAR
def test_a_bar_is_met_at_its_limit_and_missed_beyond_it(bar: VariantBar) -> None:
    if bar.limit is None:
        outcome = bar.judge({"one": Ratio.exact(99.0)}, LENGTHS)
        assert (outcome.verdict, outcome.figures[0].met) == ("reported", None)
        return
    beyond = bar.limit / 1.01 if bar.at_least else bar.limit * 1.01
    within = bar.limit * 1.01 if bar.at_least else bar.limit / 1.01
    met = bar.judge({"one": Ratio.exact(bar.limit), "other": Ratio.exact(within)}, LENGTHS)
    assert met.verdict == "met"
    assert [figure.variant for figure in met.figures] == ["one", "other"]
    missed = bar.judge({"one": Ratio.exact(within), "other": Ratio.exact(beyond)}, LENGTHS)
    assert missed.verdict == "missed"
    assert [(figure.variant, figure.met) for figure in missed.figures] == [("other", False), ("one", True)]
    assert missed.figures[0].strain == pytest.approx(1.01)


@EVERY_BAR
def test_the_median_decides_and_not_the_spread(bar: VariantBar) -> None:
    if bar.limit is not None:
        assert bar.judge({"one": Ratio(bar.limit, bar.limit / 9, bar.limit * 9, 15)}, LENGTHS).verdict == "met"


@EVERY_BAR
def test_every_bar_can_be_measured(bar: VariantBar) -> None:
    if bar.needs_peer:
        pytest.importorskip("entmax")
    first = next(one for one in variants() if bar.concerns(TINY.size.spec_of(one)))
    ratio = bar.measure(first, TINY)
    assert 0 < ratio.low <= ratio.median <= ratio.high


def test_the_cache_of_tied_keys_and_values_is_half() -> None:
    assert BY_NAME["cache"].measure(variant("tied-kv"), TINY) == Ratio.exact(0.5)
    assert BY_NAME["cache"].measure(variant("softmax"), TINY) == Ratio.exact(1.0)
    assert BY_NAME["cache"].measure(variant("tied-kv+gqa"), TINY) == Ratio.exact(0.25)


def test_the_cache_of_a_latent_is_its_width_and_that_of_the_rotary_key() -> None:
    spec = TINY.size.spec_of(variant("mla"))
    numbers = spec.compression.width + spec.position.width
    plain = 2 * TINY.size.heads * TINY.size.width
    assert BY_NAME["cache-latent"].measure(variant("mla"), TINY) == Ratio.exact(numbers / plain)
    spec = CallSize().spec_of(variant("mla"))
    assert (spec.compression.width, spec.position.width) == (192, 32)


def test_the_peak_of_memory_is_taken_over_one_matrix_per_head() -> None:
    found = BY_NAME["memory"].measure(variant("softmax"), TINY).median
    assert found == TINY.peaks["softmax", 512] / (2 * 512 * 512 * 4)
    assert BY_NAME["memory-growth"].measure(variant("softmax"), TINY).median == pytest.approx(2.0, rel=0.01)


def named(name: str, limit: float | None) -> VariantBar:
    return VariantBar(name, "all", "by hand", limit, lambda _: True, lambda one, _: Ratio.exact(float(len(one.name))))


def test_all_bars_of_a_run() -> None:
    steps: list[tuple[str, int, int]] = []

    class Ears(BenchListener):
        def step(self, what: str, done: int, total: int) -> None:
            steps.append((what, done, total))

    chosen = [variant("relu"), variant("softmax")]
    found = bench_bars(chosen, TINY.size, 2, Ears(), bars=[named("short", 4.0), named("none", None)])
    assert [(outcome.name, outcome.verdict) for outcome in found.bars] == [("short", "missed"), ("none", "reported")]
    assert not found.all_met
    assert steps == [
        ("short: relu", 0, 4),
        ("short: softmax", 1, 4),
        ("none: relu", 2, 4),
        ("none: softmax", 3, 4),
    ]
    assert bench_bars(chosen, TINY.size, 2, bars=[named("long", 7.0)]).all_met


def test_entmax_brings_an_odd_alpha() -> None:
    found = bench_bars([variant("entmax")], TINY.size, 2, bars=[named("any", None)])
    assert {figure.variant for figure in found.bars[0].figures} == {"entmax", "entmax-1.3"}


def test_a_bar_that_concerns_nobody_is_left_out() -> None:
    found = bench_bars([variant("tied-kv")], TINY.size, 2, bars=[BY_NAME["window"], BY_NAME["cache"]])
    assert [outcome.name for outcome in found.bars] == ["cache"]
    with pytest.raises(SpecError, match=r"^no bar concerns full-value\n"):
        bench_bars([variant("full-value")], TINY.size, 2, bars=[BY_NAME["window"]])


def test_without_the_package_its_bar_is_not_measured_and_that_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    notes: list[str] = []

    class Ears(BenchListener):
        def note(self, text: str) -> None:
            notes.append(text)

    monkeypatch.setattr(bench_attention_module, "peer_is_installed", lambda: False)
    found = bench_bars([variant("sparsemax")], TINY.size, 2, Ears(), bars=[BY_NAME["speed-peer"]])
    assert [(outcome.verdict, outcome.figures) for outcome in found.bars] == [("not measured", ())]
    assert not found.all_met
    assert len(notes) == 1
    assert "entmax package is not installed" in notes[0]


def test_plain_values_for_json() -> None:
    outcome = BY_NAME["speed"].judge({"relu": Ratio(0.9, 0.8, 1.0, 15)}, LENGTHS)
    values: Any = BarsBench(describe_machine(), 15, (), (outcome,), CallSize()).to_dict()
    assert values["all_met"] is True
    assert values["bars"][0]["figures"] == [
        {
            "variant": "relu",
            "ratio": {"median": 0.9, "low": 0.8, "high": 1.0, "rounds": 15},
            "met": True,
            "strain": pytest.approx(0.9 / 1.15),
        },
    ]


def test_probes_are_not_in_the_catalogue() -> None:
    names = {one.name for one in variants()}
    assert all(isinstance(probe, Variant) and probe.name not in names for probe in bars._probes(variants()))
