"""Titles, notes and marks of comparisons; deleting and restoring; pictures in small; the tour."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from attnlab.errors import AttnlabError, InputError
from attnlab.studio.labels import DELETED, FILE, Label, Labels
from attnlab.studio.pictures import intervals_svg, weights_svg
from attnlab.studio.tour import STEPS, step_address, tour_html


def test_labels_are_kept_and_empty_ones_forgotten(tmp_path: Path) -> None:
    labels = Labels(tmp_path)
    assert labels.read() == {}
    labels.change("one", title="The first", starred=True)
    assert labels.change("one", note="about it") == Label("The first", "about it", starred=True)
    labels.change("two", archived=True)
    assert Labels(tmp_path).read()["two"].archived
    labels.change("two", archived=False)
    assert json.loads((tmp_path / FILE).read_text()).keys() == {"one"}
    with pytest.raises(InputError, match="the note has 3000 letters"):
        labels.change("one", note="x" * 3000)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"one": 3}', '{"one": {"title": 3, "starred": "yes", "odd": 1}}'])
def test_a_damaged_file_holds_no_labels(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    assert set(Labels(tmp_path).read().values()) <= {Label()}


def test_what_is_deleted_can_be_restored(tmp_path: Path) -> None:
    labels, folder = Labels(tmp_path), tmp_path / "compare-one"
    folder.mkdir()
    (folder / "plan.json").write_text("{}")
    labels.delete("compare-one")
    assert not folder.exists()
    assert labels.deleted() == ["compare-one"]
    labels.restore("compare-one")
    assert (folder / "plan.json").is_file()
    assert labels.deleted() == []


@pytest.mark.parametrize("name", ["..", ".", DELETED, "nothing", "a/../../b", ""])
def test_nothing_else_is_moved(tmp_path: Path, name: str) -> None:
    (tmp_path / "runs" / DELETED).mkdir(parents=True)
    with pytest.raises(AttnlabError, match="no such comparison"):
        Labels(tmp_path / "runs").delete(name)


def test_a_deleted_one_does_not_replace_another(tmp_path: Path) -> None:
    labels = Labels(tmp_path)
    for _ in range(2):
        (tmp_path / "one").mkdir()
        if not labels.deleted():
            labels.delete("one")
    with pytest.raises(AttnlabError, match="there is a comparison one already"):
        labels.delete("one")


def test_small_pictures_say_what_they_show() -> None:
    rows = [
        {"arm": "tied<kv", "verdict": "worse", "mean": 0.09, "low": 0.05, "high": 0.13},
        {"arm": "cosine", "verdict": "", "mean": 0.0, "low": -9.0, "high": 9.0},
    ]
    svg = intervals_svg(rows, 0.03)
    assert 'aria-label="tied&lt;kv worse; cosine not decided yet"' in svg
    assert svg.count("<circle") == 2
    assert 'x1="0.0" x2="150.0"' in svg, "what is far outside is cut off at the edge"
    assert intervals_svg([], 0.03) == ""
    assert weights_svg([[0.5, 2.0]], "two").count("--share:1.000") == 1


def test_the_tour_has_five_steps_with_ways_between_them() -> None:
    assert len(STEPS) == 5
    for number in range(1, 6):
        html = tour_html(str(number))
        assert f"{number} of 5" in html
        assert (step_address(number + 1) in html) if number < 5 else ("End of the tour" in html)
    for odd in (None, "", "0", "6", "-1", "<b>", "²"):
        assert tour_html(odd) == ""
