"""A survey: published findings in one model, with intervals over texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnlab.cli import main
from attnlab.errors import AttnlabError
from attnlab.lens.pages.survey import survey
from attnlab.pages import render
from support.pretrained import write_llama
from support.training import TRANSLATION, smoke, train_in


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama(tmp_path_factory.mktemp("surveyed") / "tiny")


def test_every_finding_has_a_number_an_interval_and_a_source(llama: Path) -> None:
    found = survey(llama, on=llama.parent / "text.txt", rows=8)
    names = [one.name for one in found.findings]
    assert names == [
        "previous token, strongest head",
        "induction, strongest head",
        "first token, strongest head",
        "share of the sink",
        "redundancy",
        "length draws",
        "direction draws",
        "position draws",
    ]
    for one in found.findings:
        assert "arXiv" in one.literature
        assert one.value is not None
        assert one.value.low <= one.value.mean <= one.value.high
    first = found.findings[0]
    assert len(first.layers) == 2
    assert first.value == first.strongest[0].excess
    means = [head.excess.mean for head in first.strongest]
    assert means == sorted(means, reverse=True)
    page = render(found.page())
    assert "What the literature says" in page


def test_the_command_prints_and_writes(llama: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    on = ["--on", str(llama.parent / "text.txt")]
    assert main(["look", str(llama), "--survey", *on, "--out", str(tmp_path / "page.html"), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["findings"]) == 8
    assert (tmp_path / "page.html").stat().st_size > 1000
    assert main(["look", str(llama), "a text", "--survey", *on, "--json"]) == 2
    assert "--on" in capsys.readouterr().err


def test_an_encoder_decoder_is_refused(tmp_path: Path) -> None:
    run = train_in(tmp_path, smoke(corpus=TRANSLATION, steps=1)).path
    with pytest.raises(AttnlabError, match="not surveyed"):
        survey(run)
