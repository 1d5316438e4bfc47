"""Variants made equal in what they cost."""

from __future__ import annotations

import pytest

from attnlab.corpora import open_corpus
from attnlab.cost import model_cost
from attnlab.errors import SpecError
from attnlab.experiments.planning.budgets import match
from attnlab.experiments.request import Match
from attnlab.training import RunSpec

RUN = RunSpec(corpus={"name": "mqar", "vocabulary_size": 64}, size="nano")
CORPUS = open_corpus(RUN.corpus)


@pytest.mark.parametrize("variant", ["tied-kv", "mqa", "low-rank-value", "synthesizer-dense"])
@pytest.mark.parametrize("what", ["parameters", "flops"])
def test_the_perceptron_makes_up_for_what_a_variant_saves(variant: str, what: Match) -> None:
    found = match(RUN.replace(variant=variant), RUN, what, CORPUS)
    assert found is not None
    run, matching = found
    costs = [model_cost(one.model(CORPUS)) for one in (run, RUN)]
    ours, theirs = [c.parameters if what == "parameters" else c.useful_training_flops for c in costs]
    assert abs(ours / theirs - 1) < 0.005
    assert matching.error == pytest.approx(ours / theirs - 1)
    assert (matching.field, matching.value) == ("mlp_width", run.mlp_width)


def test_the_cache_is_made_equal_by_the_heads() -> None:
    found = match(RUN.replace(variant="tied-kv"), RUN, "cache", CORPUS)
    assert found is not None
    run, matching = found
    assert run.head_width == 64
    tied, softmax = (model_cost(one.model(CORPUS)).cache_bytes(64) for one in (run, RUN))
    assert tied == softmax
    assert matching.error == 0


def test_what_is_equal_is_left_as_it_is() -> None:
    assert match(RUN.replace(variant="cosine"), RUN, "parameters", CORPUS) is None
    assert match(RUN.replace(variant="tied-qk"), RUN, "cache", CORPUS) is None


def test_what_cannot_be_matched_is_refused() -> None:
    with pytest.raises(SpecError, match="more parameters than the baseline"):
        match(RUN.replace(variant="full-value", model_width=1024, num_heads=16), RUN, "parameters", CORPUS)
    with pytest.raises(SpecError, match="slices of the token"):
        match(RUN.replace(variant="identity"), RUN, "cache", CORPUS)
