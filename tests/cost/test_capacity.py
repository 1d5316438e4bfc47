"""What fits into a memory, against a search by hand; and the memory of serving, against PyTorch's allocator."""

from __future__ import annotations

import csv
import json
from typing import Any

import pytest
import torch

from attnlab.attention import variants
from attnlab.bench import peak_bytes
from attnlab.cost import Question, activations, capacities_beside, capacity, estimate, serving_memory, tabulate
from attnlab.cost.activations import kept_for_backward
from attnlab.cost.call import AttentionCall
from attnlab.cost.questions.capacity import as_bytes
from attnlab.errors import AttnlabError
from attnlab.models import ModelSpec, build_model

LIMIT = 1.15  # of measured to predicted


@pytest.mark.parametrize(
    ("text", "number"),
    [("80GB", 80 * 10**9), ("24 GiB", 24 * 2**30), ("1.5kb", 1500), ("7B", 7), ("2TiB", 2 * 2**40), (12, 12)],
)
def test_bytes(text: Any, number: int) -> None:
    assert as_bytes(text) == number


@pytest.mark.parametrize("text", ["80", "-80GB", "0GB", "80 parsecs", "GB", "", -1, "nanGB"])
def test_what_is_no_number_of_bytes(text: Any) -> None:
    with pytest.raises(AttnlabError) as caught:
        as_bytes(text)
    assert "80GB" in (caught.value.hint or "")


def needs(question: Question, use: str) -> int:
    found = estimate(**question.model_dump())
    return found.memory.peak if use == "training" else found.serving.total


@pytest.mark.parametrize("use", ["training", "serving"])
@pytest.mark.parametrize(
    "question",
    [
        Question(size="nano", batch_size=2),
        Question(size="nano", variant="linear", vocabulary_size=100),
        Question(size="nano", variant="synthesizer-random", vocabulary_size=100, batch_size=3),
        Question(size="nano", variant="window", recipe="fast", bytes_per_number=2),
        Question(size="nano", family="encoder", vocabulary_size=100),
    ],
    ids=lambda question: f"{question.variant}-{question.family}",
)
def test_one_more_does_not_fit(question: Question, use: str) -> None:
    memory = as_bytes("300MB")
    fit = getattr(capacity(question, memory), use)
    assert fit.needed == needs(question, use)
    assert fit.fits is (fit.needed <= memory)
    for name, largest in (("batch_size", fit.largest_batch), ("context_length", fit.largest_context)):
        assert needs(question.replace(**{name: largest}), use) <= memory
        assert needs(question.replace(**{name: largest + 1}), use) > memory


def test_nothing_fits_into_a_byte() -> None:
    fit = capacity(Question(size="pico"), 1).training
    assert fit is not None
    assert (fit.fits, fit.largest_batch, fit.largest_context) == (False, 0, 0)


def test_the_catalogue() -> None:
    found = capacities_beside(Question(size="pico", recipe="fast", vocabulary_size=100), as_bytes("1MB"))
    assert {one.question.variant for one in found} == {one.name for one in variants()} - {"softmax"}
    refused = {one.question.variant: one.refusal for one in found if one.training is None}
    assert "rope" in refused["linear"]
    assert "would see the token" in refused["bidirectional"]
    by_name = {one.question.variant: one for one in found}
    assert by_name["tied-kv"].serving.needed < by_name["full-value"].serving.needed  # type: ignore[union-attr]
    assert all(one.training.largest_context is None for one in found if one.training)


def test_table_csv_and_json() -> None:
    table = tabulate(["pico"], ["tied-kv"], memory="20MB", vocabulary_size=100, batch_size=4)
    assert [one.question.variant for one in table.capacities] == ["softmax", "tied-kv"]
    assert "Does it fit in 20.0 MB (19.1 MiB)?" in str(table)
    rows = list(csv.DictReader(table.csv().splitlines()))
    assert [row["variant"] for row in rows] == ["softmax", "tied-kv"]
    assert int(rows[0]["training_needed"]) == table.estimates[0].memory.peak
    assert rows[0]["training_fits"] == "True"
    assert json.loads(json.dumps(table.as_dict()))["capacities"][1]["serving"]["fits"] is True
    assert "What fits" in [section.heading for section in table.page().sections]
    plain = list(csv.DictReader(tabulate(["pico"], ["tied-kv"]).csv().splitlines()))
    assert int(plain[0]["parameters"]) == estimate("pico").parameters


@pytest.mark.parametrize("variant", ["softmax", "gqa", "sigmoid", "rope", "synthesizer-dense"])
@pytest.mark.parametrize("context", [64, 512])
def test_working_memory_is_enough(variant: str, context: int) -> None:
    """The prefill of one sequence; attention's share is an upper bound."""
    spec = ModelSpec.build("nano", vocabulary_size=500, variant=variant, context_length=context, activation="gelu")
    model, tokens = build_model(spec).eval(), torch.randint(0, 500, (1, context))
    with torch.no_grad():
        measured = peak_bytes(lambda: model(tokens, last_only=True))
    predicted = serving_memory(spec).working
    assert 0.5 < measured / predicted < LIMIT


def test_two_walks_serve_all_batches() -> None:
    for variant in variants():
        call = AttentionCall(variant.spec(64, 4, 32), 5, 32, 32, 4)
        assert kept_for_backward(call) == activations._kept(call)
