"""SmolLM2 with another attention: `make pretrained`. Three of its layers, on a few texts of Python's documentation."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

from attnlab.lens.subjects import Subject, open_subject
from attnlab.models.pretrained.opening import locate_pretrained
from attnlab.retrofit import RetrofitResult, request_of, retrofit
from attnlab.training import load_run

pytestmark = pytest.mark.pretrained
LAYERS = (1, 15, 28)


@pytest.fixture(scope="module")
def subject() -> Subject:
    place = locate_pretrained(os.environ.get("ATTNLAB_SMOLLM2", "smollm2"))
    assert place is not None
    return open_subject(place)


@pytest.fixture(scope="module")
def found(subject: Subject, tmp_path_factory: pytest.TempPathFactory) -> RetrofitResult:
    names = ("softmax", "tied-kv", "mqa", "window:64", "sink-window:64", "sigmoid", "mla:192")
    request = request_of(variants=names, layers=",".join(map(str, LAYERS)), texts=4, fitting_texts=8, length=256)
    return retrofit(subject, request, out=tmp_path_factory.mktemp("retrofit"), precision="float32")


def test_changing_nothing_keeps_every_bit(found: RetrofitResult, subject: Subject) -> None:
    same = load_run(found.variants[0].converted).model.state_dict()
    assert all(torch.equal(tensor, same[name]) for name, tensor in subject.model.state_dict().items())
    assert {cost.cost.mean for cost in found.variants[0].costs} == {0.0}


def test_every_variant_costs_something_and_not_everything(found: RetrofitResult) -> None:
    for one in found.variants[1:]:
        assert [cost.layer for cost in one.costs] == list(LAYERS)
        for cost in one.costs:
            assert 0 < cost.error < 1, one.name
            assert cost.cost.mean < 1.0, one.name
        assert one.gains.cache_ratio <= 1, one.name


def test_kept_first_tokens_help_a_window(found: RetrofitResult) -> None:
    costs = {one.name: one.all_layers.mean for one in found.variants}
    assert costs["sink-window:64"] < costs["window:64"]


def test_the_page_is_small(found: RetrofitResult, tmp_path: Path) -> None:
    found.write(tmp_path / "page.html")
    assert (tmp_path / "page.html").stat().st_size < 20e6
