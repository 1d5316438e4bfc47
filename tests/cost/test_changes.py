"""Changes of attention by the fields of its spec."""

from __future__ import annotations

from typing import Any

import pytest

from attnlab.attention import AttentionSpec, Rope
from attnlab.cost import Question, estimate
from attnlab.cost.questions.changes import ATTENTION_CHANGES
from attnlab.errors import AttnlabError
from attnlab.models import ModelSpec


def test_every_field_of_an_attention_spec_can_be_changed() -> None:
    of_the_model = {"model_width", "num_heads", "context_length", "mask", "source"}
    assert set(ATTENTION_CHANGES) == set(AttentionSpec.model_fields) - of_the_model | {"window", "prefix"}


@pytest.mark.parametrize(
    ("variant", "changes"),
    [
        ("gqa", {"num_key_value_heads": 6}),
        ("mqa", {"num_key_value_heads": 1}),
        ("window", {"window": 256}),
        ("prefix", {"prefix": 64}),
        ("rope", {"position": "rope"}),
        ("tied-kv", {"sharing": "key-value"}),
        ("linear", {"operator": "linear"}),
        ("cosine", {"score": "cosine"}),
        ("synthesizer-random", {"score": "synthesizer-random"}),
        ("sigmoid", {"normaliser": "sigmoid"}),
        ("full-value", {"value_map": "full"}),
        ("head-gate", {"head_output": {"kind": "gate", "per": "head"}}),
        ("averaged-heads", {"join": "average"}),
        ("output-gate", {"head_output": "gate"}),
        ("mla", {"compression": "latent", "position": "decoupled-rope", "key_width": 96, "value_width": 64}),
    ],
)
def test_a_change_is_the_variant_that_makes_it(variant: str, changes: dict[str, Any]) -> None:
    named, changed = Question(variant=variant).model(), Question(**changes).model()
    assert changed.attention == named.attention
    assert Question(**changes).is_changed


def test_changes_come_after_the_variant() -> None:
    model = Question(variant="tied-kv,window", num_key_value_heads=3, bias=False, position="rope", window=5).model()
    assert {spec.sharing for spec in model.attention} == {"key-value", "none"}
    assert all(spec.num_key_value_heads == 3 and not spec.bias and spec.mask.window == 5 for spec in model.attention)
    assert model.position == Rope()
    assert not model.learns_positions


def test_it_is_written_and_read() -> None:
    question = Question(size="nano", position="rope", score={"kind": "cosine"}, num_key_value_heads=2)
    assert Question.from_json(question.model_dump_json()) == question
    assert "window" not in question.model_dump()
    assert hash(question) == hash(Question.from_json(question.model_dump_json()))


def test_costs_follow() -> None:
    usual, changed = estimate("gpt2"), estimate("gpt2", num_key_value_heads=4)
    assert 3 * changed.cache_bytes == usual.cache_bytes
    assert isinstance(changed.model, ModelSpec)
    assert estimate("gpt2", window=256).cache_bytes == usual.cache_bytes // 4


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"num_key_value_heads": 5}, "12"),
        ({"num_key_value_heads": 0}, "num_key_value_heads"),
        ({"position": "ropes"}, "no position called 'ropes'"),
        ({"normaliser": 3}, "normaliser"),
        ({"sharing": "all"}, "sharing"),
        ({"window": 8, "prefix": 8}, "hides what a prefix"),
        ({"variant": "linear", "position": "rope"}, "rope"),
    ],
)
def test_what_cannot_be_changed(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(AttnlabError, match=said) as caught:
        Question(**changes).model()
    assert caught.value.hint
