"""Specs: checked when built, equal by value, kept as JSON, refused with a reason and the nearest that is possible."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest

from attnlab.attention import (
    AttentionSpec,
    Cosine,
    DecoupledRope,
    Entmax,
    Learned,
    Mask,
    Projection,
    Rope,
    ScaledDot,
    Sigmoid,
    Softmax,
    rules,
    variants,
)
from attnlab.attention.layers.own import define_layer
from attnlab.errors import FileError, SpecError, UnknownNameError
from support.layers import ConvGate

GPT2 = {"model_width": 768, "num_heads": 12}
INTERVAL = {"kind": "interval"}


class TokenNormaliser(Softmax):
    kind = "test-token-normaliser"
    projected: ClassVar = {"gate": Projection()}


def test_widths_are_derived() -> None:
    spec = AttentionSpec(**GPT2)
    assert (spec.key_width, spec.value_width, spec.num_key_value_heads) == (64, 64, 12)
    assert spec == AttentionSpec(**GPT2, key_width=64, value_width=64, num_key_value_heads=12)
    assert AttentionSpec(**GPT2, value_map="full").value_width == 768


def test_the_three_widths_are_independent() -> None:
    spec = AttentionSpec(model_width=12_288, num_heads=96, key_width=128, value_width=64)
    assert (spec.model_width, spec.key_width, spec.value_width) == (12_288, 128, 64)


def test_equal_and_hashed_by_value() -> None:
    one, two = AttentionSpec(**GPT2, normaliser="sigmoid"), AttentionSpec(**GPT2, normaliser=Sigmoid(bias=True))
    assert one == two
    assert len({one, two, AttentionSpec(**GPT2)}) == 2
    with pytest.raises(Exception, match="frozen"):
        one.num_heads = 3  # type: ignore[misc]


@pytest.mark.parametrize("name", [v.name for v in variants()])
def test_json_keeps_a_spec(name: str) -> None:
    spec = next(v for v in variants() if v.name == name).spec(bias=False, output_dropout=0.1)
    text = spec.to_json()
    again = AttentionSpec.from_json(text)
    assert again == spec
    assert hash(again) == hash(spec)
    assert AttentionSpec.from_json(text.encode()) == spec


def test_json_holds_kinds_and_numbers() -> None:
    spec = AttentionSpec(**GPT2, normaliser=Entmax(alpha=1.3), score=Cosine(temperature="learned"), position=Rope())
    kept = json.loads(spec.to_json())
    assert kept["normaliser"] == {"kind": "entmax", "alpha": 1.3}
    assert kept["score"] == {"kind": "cosine", "temperature": "learned"}
    assert kept["position"] == {"kind": "rope", "base": 10_000.0}


def test_a_spec_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text(AttentionSpec(**GPT2, mask=Mask(window=9)).to_json(indent=2))
    assert AttentionSpec.from_json(path).mask.window == 9
    with pytest.raises(FileError, match="cannot read"):
        AttentionSpec.from_json(tmp_path / "nowhere.json")


def test_replace_derives_widths_again() -> None:
    spec = AttentionSpec(**GPT2)
    assert spec.replace(num_heads=6).key_width == 128
    assert spec.replace(num_heads=6).num_key_value_heads == 6
    assert spec.replace(model_width=384).value_width == 32
    assert spec.replace(value_map="full").value_width == 768
    assert spec.replace(value_map="full").replace(value_map="factored") == spec
    assert spec.replace(value_width=16).replace(num_heads=6).value_width == 16


LAYER = define_layer("test-layer", ConvGate)()
IMPOSSIBLE = {
    "layer and normaliser": ({"layer": LAYER, "normaliser": "sigmoid"}, {"normaliser": Softmax()}),
    "layer without a source": (
        {"layer": LAYER, "source": "cross", "mask": Mask(causal=False)},
        {"source": "self", "mask": Mask()},
    ),
    "layer without a mask": ({"layer": LAYER, "mask": Mask(window=3)}, {"mask": Mask()}),
    "layer and rope": ({"layer": LAYER, "position": "rope"}, {"position": Learned()}),
    "layer without dropout": ({"layer": LAYER, "weight_dropout": 0.1}, {"weight_dropout": 0.0}),
    "first tokens and distances": (
        {"mask": Mask(window=3, first=2), "position": "alibi"},
        {"mask": Mask(window=3)},
    ),
    "first tokens and places": (
        {"mask": Mask(window=3, first=2), "score": "synthesizer-random", "context_length": 8},
        {"mask": Mask(window=3)},
    ),
    "uneven groups": ({"num_key_value_heads": 5}, {"num_key_value_heads": 4}),
    "shared query of groups": ({"sharing": "query-key", "num_key_value_heads": 4}, {"num_key_value_heads": 12}),
    "nothing to share": (
        {"score": "synthesizer-random", "context_length": 8, "sharing": "key-value"},
        {"sharing": "none"},
    ),
    "tied with a full value": ({"sharing": "key-value", "value_map": "full"}, {"value_map": "factored"}),
    "tied with two widths": ({"sharing": "key-value", "value_width": 32}, {"value_width": 64}),
    "identity of another width": ({"sharing": "identity", "key_width": 32}, {"key_width": 64, "value_width": 64}),
    "full value of another width": ({"value_map": "full", "value_width": 32}, {"value_width": 768}),
    "no context": ({"score": "synthesizer-dense"}, {"context_length": 1024}),
    "needless context": ({"context_length": 9}, {"context_length": None}),
    "synthesizer across": ({"score": "synthesizer-dense", "context_length": 9, "source": "cross"}, {"source": "self"}),
    "rope without keys": ({"score": "synthesizer-dense", "context_length": 9, "position": "rope"}, {}),
    "rope of an odd width": ({"key_width": 7, "value_width": 7, "position": "rope"}, {"key_width": 8}),
    "causal across": ({"source": "cross"}, {"mask": Mask(causal=False)}),
    "distance across": ({"source": "cross", "mask": Mask(causal=False), "position": "alibi"}, {}),
    "nothing positive": ({"score": "l2", "normaliser": "relu"}, {"normaliser": Softmax()}),
    "looking back at later keys": (
        {"normaliser": "stick-breaking", "mask": Mask(causal=False, window=9)},
        {"mask": Mask(window=9)},
    ),
    "looking back across": (
        {"normaliser": "stick-breaking", "source": "cross"},
        {"mask": Mask(causal=False), "normaliser": Softmax()},
    ),
    "synthesizer in halves": (
        {"normaliser": "differential", "score": "synthesizer-dense", "context_length": 9},
        {"normaliser": Softmax()},
    ),
    "tied with values of the first layer": ({"sharing": "key-value", "values": "residual"}, {"values": None}),
    "own value across": (
        {"head_output": "exclusive", "source": "cross", "mask": Mask(causal=False)},
        {"head_output": None},
    ),
    "operator with a score": ({"operator": "linear", "score": "dot"}, {}),
    "operator with a normaliser": ({"operator": "linear", "normaliser": "relu"}, {"normaliser": Softmax()}),
    "operator with a window": ({"operator": "linear", "mask": Mask(window=3)}, {"mask": Mask()}),
    "normaliser with tokens": ({"normaliser": TokenNormaliser()}, {"normaliser": Softmax()}),
    "operator with dropout": ({"operator": "linear", "weight_dropout": 0.1}, {"weight_dropout": 0.0}),
    "operator with alibi": ({"operator": "linear", "position": "alibi"}, {}),
    "latents of shared heads": (
        {"compression": "latent", "num_key_value_heads": 4, "sharing": "key-value"},
        {"num_key_value_heads": 12, "sharing": "none"},
    ),
    "latents without keys": (
        {"compression": "latent", "score": "synthesizer-random", "context_length": 9},
        {"score": ScaledDot(), "context_length": None},
    ),
    "latents with rope": ({"compression": "latent", "position": "rope"}, {"position": DecoupledRope(width=62)}),
    "a rotary key without a latent": ({"position": "decoupled-rope"}, {"position": Rope()}),
    "a rotary key as wide as the key": (
        {"compression": "latent", "position": {"kind": "decoupled-rope", "width": 64}},
        {"position": DecoupledRope(width=62)},
    ),
    "two at once": (
        {"num_key_value_heads": 5, "source": "cross"},
        {"num_key_value_heads": 4, "mask": Mask(causal=False)},
    ),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_the_impossible_is_refused_with_the_nearest(case: str) -> None:
    fields, mended = IMPOSSIBLE[case]
    with pytest.raises(SpecError) as caught:
        AttentionSpec(**GPT2, **fields)
    nearest = caught.value.nearest
    assert isinstance(nearest, AttentionSpec)
    assert all(getattr(nearest, name) == value for name, value in mended.items())
    assert "\n" not in caught.value.message
    assert caught.value.hint is not None
    assert all(name in caught.value.hint for name in mended)
    # Building the nearest again must work, and keep all that was possible.
    assert AttentionSpec.from_json(nearest.to_json()) == nearest


def test_every_rule_is_broken_by_a_case_above(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = set()

    def watched(number: int, rule: rules.Rule) -> rules.Rule:
        def breaks(spec: AttentionSpec) -> bool:
            found = rule.breaks(spec)
            if found:
                broken.add(number)
            return found

        return replace(rule, breaks=breaks)

    monkeypatch.setattr(rules, "RULES", tuple(watched(number, rule) for number, rule in enumerate(rules.RULES)))
    for fields, _ in IMPOSSIBLE.values():
        with pytest.raises(SpecError):
            AttentionSpec(**GPT2, **fields)
    assert broken == set(range(len(rules.RULES)))


BAD = {
    "a width that does not divide": ({"model_width": 100, "num_heads": 12}, "does not divide into 12 heads"),
    "an extra field": ({**GPT2, "heads": 3}, "has no field 'heads'"),
    "an extra field of a part": ({**GPT2, "normaliser": {"kind": "entmax", "beta": 1}}, "no field 'beta'"),
    "a missing field": ({"model_width": 8}, "needs 'num_heads'"),
    "no heads": ({"model_width": 8, "num_heads": 0}, "num_heads of an attention spec is 0"),
    "a negative width": ({**GPT2, "key_width": -1}, "key_width of an attention spec is -1"),
    "α too large": ({**GPT2, "normaliser": {"kind": "entmax", "alpha": 2.5}}, "alpha of normaliser 'entmax' is 2.5"),
    "α too small": ({**GPT2, "normaliser": {"kind": "entmax", "alpha": 0.5}}, "alpha of normaliser 'entmax' is 0.5"),
    "α not a number": ({**GPT2, "normaliser": {"kind": "entmax", "alpha": float("nan")}}, "alpha"),
    "a temperature of zero": ({**GPT2, "score": {"kind": "cosine", "temperature": 0}}, "temperature"),
    "certain dropout": ({**GPT2, "weight_dropout": 1.0}, "weight_dropout of an attention spec is 1.0"),
    "a window of nothing": ({**GPT2, "mask": INTERVAL | {"window": 0}}, "window of mask 'interval' is 0"),
    "a prefix without causality": (
        {**GPT2, "mask": {"kind": "interval", "causal": False, "prefix": 3}},
        "a prefix of 3",
    ),
    "a prefix in a window": ({**GPT2, "mask": {"kind": "interval", "window": 4, "prefix": 3}}, "hides what a prefix"),
    "a part without a kind": ({**GPT2, "score": {"temperature": 1}}, "given by its kind"),
    "a part of another type": ({**GPT2, "score": 3}, "given by its kind"),
    "text for a number": ({"model_width": "wide", "num_heads": 2}, "model_width of an attention spec is 'wide'"),
    "an unknown sharing": ({**GPT2, "sharing": "all"}, "sharing"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_fields_are_named(case: str) -> None:
    fields, message = BAD[case]
    with pytest.raises(SpecError) as caught:
        AttentionSpec(**fields)
    assert message in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("fields", "nearest"),
    [({"normaliser": "softmx"}, "softmax"), ({"score": "cosin"}, "cosine"), ({"position": "ROPE"}, "rope")],
)
def test_an_unknown_kind_gets_the_nearest(fields: dict[str, str], nearest: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        AttentionSpec(**GPT2, **fields)
    assert caught.value.hint == f"did you mean {nearest!r}?"


def test_bad_json_is_one_sentence() -> None:
    for text in ("", "{", "[1]", '{"model_width": 8, "num_heads": 2, "colour": "red"}', "\x00"):
        with pytest.raises(SpecError) as caught:
            AttentionSpec.from_json(text)
        assert "\n" not in caught.value.message
