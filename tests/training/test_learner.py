"""A model that learns in memory takes the very steps of a run, and can be looked at on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from attnlab.corpora import open_corpus
from attnlab.runs import RunDirectory
from attnlab.runs.checkpoints import digest
from attnlab.training import Learner
from attnlab.training.learner import DivergedError
from support.training import KINSHIP, smoke, train_in


def test_the_same_bits_as_a_run(tmp_path: Path) -> None:
    for spec in (smoke(), smoke(recipe="fast"), smoke(corpus=KINSHIP, context_length=8)):
        run = train_in(tmp_path, spec)
        learner = Learner(spec, open_corpus(spec.corpus, tmp_path / "cache"))
        losses = list(learner)
        assert losses == [entry["loss"] for entry in RunDirectory.open(run.path).metrics()]
        assert digest({name: tensor.detach() for name, tensor in learner.model.named_parameters()}) == (
            run.weights_sha256
        )


def test_it_goes_on_where_it_was_left() -> None:
    spec = smoke()
    corpus = open_corpus(spec.corpus)
    whole, parts = Learner(spec, corpus), Learner(spec, corpus)
    assert len(parts) == 6
    losses = []
    for loss in parts:
        losses.append(loss)
        if parts.done == 2:
            break
    assert (parts.done, len(parts)) == (2, 4)
    before = parts.model.embedding.weight.detach().clone()
    losses += list(parts)
    assert losses == list(whole)
    assert not torch.equal(before, parts.model.embedding.weight)
    assert torch.equal(whole.model.embedding.weight, parts.model.embedding.weight)
    assert list(parts) == []


def test_threads_stay_as_they_were() -> None:
    before = torch.get_num_threads()
    for _ in Learner(smoke(), open_corpus(smoke().corpus)):
        assert torch.get_num_threads() == before


def test_a_loss_that_is_no_number_ends_it() -> None:
    learner = Learner(smoke(), open_corpus(smoke().corpus))
    with torch.no_grad():
        learner.model.embedding.weight.fill_(float("nan"))
    with pytest.raises(DivergedError, match="step 1 has a loss of nan") as caught:
        list(learner)
    assert "learning rate below 0.001" in (caught.value.hint or "")
