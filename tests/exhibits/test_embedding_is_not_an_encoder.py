"""The same word in two sentences: equal as an embedding, different behind each block, and checks that can fail."""

from __future__ import annotations

import pytest
import torch

from attnlab.errors import SpecError
from attnlab.exhibits import exhibit_named
from attnlab.exhibits.learning import embedding_is_not_an_encoder as room
from attnlab.models import LanguageModel


@pytest.mark.parametrize(
    "settings",
    [
        {"layers": 1, "one": "the hungry hen", "two": "the lost hen"},
        {"layers": 3, "one": "old hen", "two": "young hen"},
        {"one": "the fox eats . the old old tired fox ."[:-2], "two": "the fox eats . the old old angry fox ."[:-2]},
    ],
)
def test_other_sentences(settings: dict[str, object]) -> None:
    outcome = exhibit_named("embedding-is-not-an-encoder").run(steps=10, **settings)
    assert outcome.ok, [f"{check.what}: {check.figure}" for check in outcome.checks if not check.ok]
    assert len(outcome.checks) == 3 + int(str(settings.get("layers", 2)))


def test_a_model_that_reads_nothing_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = room.vectors

    def deaf(model: LanguageModel, tokens: torch.Tensor, word: int) -> dict[str, torch.Tensor]:
        return {stage: found[:1].expand_as(found) for stage, found in honest(model, tokens, word).items()}

    monkeypatch.setattr(room, "vectors", deaf)
    outcome = exhibit_named("embedding-is-not-an-encoder").run(steps=10)
    assert [check.ok for check in outcome.checks] == [True, True, False, False, True]


def test_a_model_that_reads_ahead_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = room.vectors

    def ahead(model: LanguageModel, tokens: torch.Tensor, word: int) -> dict[str, torch.Tensor]:
        return {stage: found + tokens[:, -2:].sum() for stage, found in honest(model, tokens, word - 1).items()}

    monkeypatch.setattr(room, "vectors", ahead)
    outcome = exhibit_named("embedding-is-not-an-encoder").run(steps=10)
    assert not outcome.ok


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"one": "the purple fox"}, "no word 'purple'"),
        ({"one": "the tired owl", "two": "the tired fox"}, "do not have one word at the same place"),
        ({"one": "the tired fox", "two": "the old tired fox"}, "do not have one word at the same place"),
        ({"one": "the tired fox", "two": "the tired fox"}, "do not have one word at the same place"),
        ({"one": "", "two": ""}, "do not have one word at the same place"),
        ({"one": "fox " * 11, "two": "owl " * 10 + "fox"}, "do not have one word at the same place"),
    ],
)
def test_sentences_that_cannot_be_compared(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message) as caught:
        exhibit_named("embedding-is-not-an-encoder").run(**settings)
    assert caught.value.hint
