"""Every variant of attention trains under every recipe."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from attnlab.attention import variants
from attnlab.corpora import Corpus, open_corpus
from attnlab.errors import SpecError
from attnlab.training import RECIPES
from support.training import KINSHIP, At, ending, make_engine, smoke, take_steps, train_in

NAMES = [variant.name for variant in variants()]

# What a recipe's decoder cannot hold, and with what it can.
NEEDS: dict[tuple[str, str], dict[str, Any]] = {
    ("bidirectional", "gpt2"): {"family": "encoder"},
    ("bidirectional", "fast"): {"family": "encoder"},
    ("synthesizer-dense", "fast"): {"position": "learned"},
    ("synthesizer-random", "fast"): {"position": "learned"},
    ("linear", "fast"): {"position": "learned"},
    ("gated-linear", "fast"): {"position": "learned"},
    ("gated-delta", "fast"): {"position": "learned"},
}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return open_corpus(smoke(corpus=KINSHIP).corpus, tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("variant", NAMES)
def test_every_variant_trains(text: Corpus, variant: str, recipe: str) -> None:
    length = 72 if variant == "prefix" else 8  # beyond the prefix, whose own tokens are given
    spec = smoke(corpus=KINSHIP, variant=variant, recipe=recipe, num_heads=4, warmup_steps=0, context_length=length)
    needed = NEEDS.get((variant, recipe), {})
    if needed:
        with pytest.raises(SpecError) as caught:
            spec.model(text)
        assert caught.value.hint
    engine = make_engine(spec.replace(**needed), corpus=text)
    before = engine.optimizer.flat.values.clone()
    steps = take_steps(engine, 3)
    assert all(step.is_finite for step in steps)
    assert all(step.loss < 1.5 * math.log(engine.run.model.vocabulary_size) for step in steps)
    assert math.isfinite(engine.evaluate())
    moved = engine.optimizer.flat.named(engine.optimizer.flat.values != before)
    assert [name for name, share in moved.items() if not share.any()] == []


@pytest.mark.parametrize(
    ("variant", "recipe"),
    [
        ("tied-kv", "gpt2"),
        ("synthesizer-random", "gpt2"),
        ("cosine-learned", "fast"),
        ("sparsemax", "gpt2"),
        ("softmax,window", "fast"),
        ("linear", "gpt2"),
        ("softmax,(linear,window:3),gqa:1", "gpt2"),
    ],
)
def test_variants_go_on_where_they_stopped(tmp_path: Path, variant: str, recipe: str) -> None:
    spec = smoke(variant=variant, recipe=recipe, num_layers=4, dropout=0.1 if variant == "tied-kv" else 0.0)
    train_in(tmp_path, spec, reporter=At(2, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    assert ending(train_in(tmp_path, spec)) == ending(train_in(tmp_path / "whole", spec))
