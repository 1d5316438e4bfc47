"""The head from noun to adjective: the loss is split at verbs, and the checks can fail."""

from __future__ import annotations

import math

import pytest
import torch

from attnlab.corpora import IGNORED, Batch
from attnlab.exhibits import exhibit_named
from attnlab.exhibits.learning import adjective_noun


def test_without_attention_the_verb_cannot_be_told() -> None:
    outcome = exhibit_named("adjective-noun").run(steps=10, others=1, heads=3)
    assert outcome.ok
    (check,) = outcome.checks
    assert check.found is not None
    assert check.found > math.log(8) - 0.2


def test_a_model_that_has_learned_nothing_has_no_such_head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adjective_noun.AdjectiveNoun, "learns", True)
    outcome = exhibit_named("adjective-noun").run(steps=10)
    assert [check.ok for check in outcome.checks][:3] == [True, False, False]


def test_the_loss_is_counted_where_it_is_asked_for() -> None:
    batch = Batch(torch.zeros(2, 3, dtype=torch.long), torch.arange(6).view(2, 3))
    where = torch.tensor([[True, False, False], [False, False, True]])
    asked = adjective_noun.asked_only(batch, where)
    assert asked.targets.tolist() == [[0, IGNORED, IGNORED], [IGNORED, IGNORED, 5]]
    assert asked.inputs is batch.inputs
