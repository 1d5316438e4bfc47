"""Model specs: built by name, checked, kept as JSON; every variant in every family builds or is refused."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from attnlab.attention import AttentionSpec, Learned, Mask, MultiHeadAttention, NoPosition, Rope, variant, variants
from attnlab.errors import AttnlabError, SpecError, UnknownNameError
from attnlab.models import ARCHITECTURES, SIZES, Family, LanguageModel, ModelSpec, architecture, size

FAMILIES: tuple[Family, ...] = get_args(Family)
NAMES = [one.name for one in variants()]
TINY: dict[str, Any] = {
    "vocabulary_size": 13,
    "num_layers": 2,
    "model_width": 16,
    "num_heads": 2,
    "context_length": 8,
}

RECURRENT = ("gated-linear", "gated-delta")
ONE_SIDED = ("stick-breaking", "forgetting", *RECURRENT)
NO_ROPE = ("synthesizer-dense", "synthesizer-random", "linear", *RECURRENT)
BLIND = "would see the token that it predicts"
ACROSS = "cross-attention attends to another"
NO_PREFIX = "a prefix of 1 means nothing without causality"
LATER = "attends only to earlier tokens"
REFUSED: dict[tuple[str, str], dict[str, str]] = {
    ("gpt2", "decoder"): {"bidirectional": BLIND},
    ("gpt2", "encoder"): {"prefix": NO_PREFIX, **dict.fromkeys(ONE_SIDED, LATER)},
    ("gpt2", "encoder-decoder"): {
        "bidirectional": BLIND,
        "prefix": NO_PREFIX,
        **dict.fromkeys(ONE_SIDED, LATER),
        "exclusive": "takes the token's own value",
        "synthesizer-dense": ACROSS,
        "synthesizer-random": ACROSS,
    },
}
REFUSED |= {
    (style, family): REFUSED["gpt2", family] | dict.fromkeys(NO_ROPE, "rope")
    for style in ("fast", "llama")
    for family in get_args(Family)
}
for style in ("fast", "llama"):
    REFUSED[style, "encoder"] |= dict.fromkeys(RECURRENT, LATER)  # their mask is looked at first


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("style", ARCHITECTURES)
def test_every_size_makes_a_spec(name: str, style: str) -> None:
    spec, shape = ModelSpec.build(name, vocabulary_size=96, architecture=style), size(name)
    assert (spec.num_layers, spec.model_width, spec.context_length) == (
        shape.num_layers,
        shape.model_width,
        shape.context_length,
    )
    assert spec.mlp_width == 4 * shape.model_width
    assert {one.num_heads for one in spec.attention} == {shape.num_heads}
    assert len(spec.attention) == shape.num_layers
    own = architecture(style)
    fields = ("norm", "activation", "bias", "tied_embedding", "zero_outputs", "position")
    assert [getattr(spec, field) for field in fields] == [getattr(own, field) for field in fields]
    assert all((one.position, one.bias) == (own.position, own.bias) for one in spec.attention)


@pytest.mark.parametrize(
    ("changes", "nearest"),
    [
        ({"size": "gpt2-xxl"}, "gpt2-xl"),
        ({"size": "Nano"}, "nano"),
        ({"architecture": "gtp2"}, "gpt2"),
        ({"variant": "sofmax"}, "softmax"),
        ({"variant": "softmax,sigmod"}, "sigmoid"),
        ({"position": "rop"}, "rope"),
    ],
)
def test_an_unknown_name_gets_the_nearest(changes: dict[str, str], nearest: str) -> None:
    with pytest.raises(UnknownNameError) as caught:
        ModelSpec.build(**{"vocabulary_size": 5, **changes})
    assert caught.value.hint == f"did you mean {nearest!r}?"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("style", ARCHITECTURES)
def test_json_keeps_a_spec(style: str, family: Family) -> None:
    spec = ModelSpec.build(**TINY, variant="softmax,cosine-learned", architecture=style, family=family, dropout=0.1)
    again = ModelSpec.model_validate_json(spec.model_dump_json())
    assert again == spec
    assert hash(again) == hash(spec)
    assert again.model_dump_json() == spec.model_dump_json()
    assert ModelSpec(**spec.model_dump()) == spec


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("style", ARCHITECTURES)
@pytest.mark.parametrize("name", NAMES)
def test_every_variant_in_every_family(name: str, style: str, family: Family) -> None:
    """It builds, JSON keeps it, and a model can be made; or it is refused with a reason and something to do."""
    reason = REFUSED[style, family].get(name)
    if reason is not None:
        with pytest.raises(SpecError, match=reason) as caught:
            ModelSpec.build(**TINY, variant=name, architecture=style, family=family)
        assert caught.value.hint
        assert "\n" not in caught.value.message
        return
    spec = ModelSpec.build(**TINY, variant=name, architecture=style, family=family)
    assert ModelSpec.model_validate_json(spec.model_dump_json()) == spec
    model = LanguageModel(spec)
    own = [module.spec for module in model.modules() if isinstance(module, MultiHeadAttention)]
    assert sorted(map(repr, own)) == sorted(
        map(repr, (*spec.attention, *spec.cross_attention, *spec.encoder_attention))
    )


def test_an_operator_can_be_fast_without_rope() -> None:
    assert ModelSpec.build(**TINY, variant="linear", architecture="fast", position="none").position == NoPosition()


def test_layers_take_turns() -> None:
    spec = ModelSpec.build(**TINY | {"num_layers": 5}, variant="softmax, sigmoid+tied-kv")
    kinds = [(one.normaliser.kind, one.sharing) for one in spec.attention]
    assert kinds == [("softmax", "none"), ("sigmoid", "key-value")] * 2 + [("softmax", "none")]


def test_the_position_is_the_models_unless_a_variant_says() -> None:
    spec = ModelSpec.build(**TINY, variant="softmax,rope", architecture="gpt2")
    assert [one.position for one in spec.attention] == [Learned(), Rope()]
    assert spec.learns_positions
    assert not ModelSpec.build(**TINY, variant="rope").learns_positions
    assert not ModelSpec.build(**TINY, architecture="fast").learns_positions
    assert ModelSpec.build(**TINY, architecture="fast", position="learned").learns_positions


def test_cross_attention_has_no_relative_position() -> None:
    for name in ("rope", "alibi"):
        assert (
            ModelSpec.build(**TINY, variant=name, family="encoder-decoder").cross_attention[0].position == NoPosition()
        )
    spec = ModelSpec.build(**TINY, architecture="fast", family="encoder-decoder")
    assert {one.position for one in spec.cross_attention} == {NoPosition()}
    assert {(one.source, one.mask.causal) for one in spec.cross_attention} == {("cross", False)}
    assert {(one.source, one.mask.causal) for one in spec.encoder_attention} == {("self", False)}
    assert {(one.source, one.mask.causal) for one in spec.attention} == {("self", True)}


def test_an_encoder_sees_both_sides() -> None:
    for name, mask in (("softmax", Mask(causal=False)), ("window", Mask(causal=False, window=2))):
        spec = ModelSpec.build(**TINY, variant=name, family="encoder-decoder")
        assert {one.mask for one in spec.encoder_attention} == {mask}
        assert {one.mask for one in spec.cross_attention} == {Mask(causal=False)}
        assert {one.mask.causal for one in spec.attention} == {True}
        assert {one.mask for one in ModelSpec.build(**TINY, variant=name, family="encoder").attention} == {mask}


def test_changes_reach_where_they_belong() -> None:
    spec = ModelSpec.build(**TINY, mlp_width=7, dropout=0.2, bias=False, tied_embedding=False)
    assert (spec.mlp_width, spec.dropout, spec.tied_embedding) == (7, 0.2, False)
    assert {(one.bias, one.weight_dropout, one.output_dropout) for one in spec.attention} == {(False, 0.2, 0.2)}
    assert spec.attention[0].key_width == 8
    assert ModelSpec.build(**TINY, variant="low-rank-value").attention[0].value_width == 4
    assert ModelSpec.build(**TINY, variant="synthesizer-random").attention[0].context_length == 8
    assert spec.replace(dropout=0.0).dropout == 0
    assert spec.replace(dropout=0.0).replace(dropout=0.2) == spec


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an extra field": ({"colour": "red"}, "no field 'colour'"),
    "no vocabulary": ({"vocabulary_size": 0}, "vocabulary_size"),
    "a negative context": ({"context_length": -1}, "context_length"),
    "certain dropout": ({"dropout": 1.0}, "dropout"),
    "dropout that is not a number": ({"dropout": float("nan")}, "dropout"),
    "an unknown norm": ({"norm": "batch"}, "norm"),
    "an unknown activation": ({"activation": "relu"}, "activation"),
    "an unknown family": ({"family": "oracle"}, "family"),
    "an epsilon of zero": ({"norm_epsilon": 0.0}, "norm_epsilon"),
    "heads that do not divide": ({"num_heads": 3}, "does not divide into 3 heads"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_fields_are_named(case: str) -> None:
    changes, message = BAD[case]
    with pytest.raises(AttnlabError) as caught:
        ModelSpec.build(**TINY | changes)
    assert message in str(caught.value)


def test_attention_must_fit_the_model() -> None:
    spec = ModelSpec.build(**TINY)
    own = spec.attention[0]
    cross = AttentionSpec(model_width=16, num_heads=2, source="cross", mask=Mask(causal=False))
    both = own.replace(mask=Mask(causal=False))
    pair = {"cross_attention": (cross,) * 2, "encoder_attention": (both,) * 2}
    for changes, message in (
        ({"attention": (own,)}, "has 1 specs for 2 layers"),
        ({"attention": ()}, "has 0 specs for 2 layers"),
        ({"num_layers": 3}, "has 2 specs for 3 layers"),
        ({"attention": (own, own.replace(model_width=32))}, "has width 32 and the model 16"),
        ({"attention": (both, own)}, "would see the token that it predicts"),
        ({"attention": (own, cross)}, "attention has source='cross'"),
        ({"cross_attention": (cross,) * 2}, "cross_attention of decoder has 2 specs"),
        ({"encoder_attention": (both,) * 2}, "encoder_attention of decoder has 2 specs"),
        ({"family": "encoder-decoder"}, "cross_attention of encoder-decoder has 0 specs"),
        ({"family": "encoder-decoder", **pair, "cross_attention": (both,) * 2}, "cross_attention has source='self'"),
        ({"family": "encoder", **pair}, "cross_attention of encoder has 2 specs"),
    ):
        with pytest.raises(SpecError, match=message) as caught:
            spec.replace(**changes)
        assert caught.value.hint
    assert spec.replace(family="encoder-decoder", **pair).family == "encoder-decoder"
    assert spec.replace(family="encoder").attention == spec.attention  # an encoder may be causal


def test_variants_that_are_joined() -> None:
    spec = ModelSpec.build(**TINY, variant="tied-kv+cosine")
    assert spec.attention[0] == variant("tied-kv+cosine").change(ModelSpec.build(**TINY).attention[0])
