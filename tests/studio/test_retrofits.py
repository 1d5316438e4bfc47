"""Retrofits in the studio: what one would take, the list, one from the form to its result, stopped and resumed."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from attnlab.errors import AttnlabError, InputError
from attnlab.studio.studio import comparison_folders, opaque_id
from attnlab.studio.work.retrofits import (
    follow_retrofit,
    plan_retrofit,
    retrofit_form,
    retrofit_report,
    retrofits,
    stop_retrofitting,
)
from attnlab.studio.work.runs import runs
from support.studio import StudioServer, Visit

FIELDS: dict[str, Any] = {"variants": ["tied-kv"], "texts": 4, "fitting_texts": 4}


@pytest.fixture
def folder(trained: Path) -> Path:
    (found,) = (trained / "runs").glob("retrofit-*")
    return found


def model_of(folder: Path) -> str:
    """A run of the baseline in the comparison beside a retrofit, by the name that a browser knows it by."""
    known: Any = runs(str(folder.parent))["runs"]
    return next(one["name"] for one in known if "against" in one["group"] and one["variant"].startswith("softmax"))


def test_a_plan_states_memory_and_time_and_where_it_goes(
    folder: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTNLAB_CACHE", str(trained / "cache"))
    place, model = str(folder.parent), model_of(folder)
    plain: Any = plan_retrofit(place, model, FIELDS)
    told = dict(plain["rows"])
    assert "free" in told["memory"]
    assert "to convert and to measure every layer" in told["time"]
    assert plain["words"][0] == "retrofit"
    healed: Any = plan_retrofit(place, model, {**FIELDS, "tokens": 4096, "seeds": 3})
    assert "3 seeds" in dict(healed["rows"])["heal"]
    assert healed["folder"] != plain["folder"]
    with pytest.raises(AttnlabError, match="hides nothing"):
        plan_retrofit(place, model, {**FIELDS, "variants": ["window:4096"]})
    with pytest.raises(InputError, match=r"no text '\.\./secret\.txt' here"):
        plan_retrofit(place, model, {**FIELDS, "text": "../secret.txt"})
    (folder.parent / "notes.txt").write_text("some text")
    try:
        assert retrofit_form(place)["texts"] == ["notes.txt"]
    finally:
        (folder.parent / "notes.txt").unlink()


def test_a_finished_retrofit_is_listed_and_shown_with_its_models(folder: Path) -> None:
    place = str(folder.parent)
    (listed,) = retrofits(place)["retrofits"]  # type: ignore[misc, attr-defined]
    assert (listed["status"], listed["name"]) == ("finished", opaque_id(folder.name))
    assert re.match(r"Without training: tied-kv .* nats\. Healed, beside the original: tied-kv", listed["answer"])
    assert [row["arm"] for row in listed["intervals"]] == ["tied-kv"]
    found: Any = follow_retrofit(place, listed["name"])
    assert [part["html"] for part in found["page"] if part.get("tag") == "h2"][:2] == ["Result", "Cost of each layer"]
    assert {one["run"] for one in found["models"]} <= {one["name"] for one in runs(place)["runs"]}  # type: ignore[attr-defined]
    assert found["share"] == 1
    assert retrofit_report(place, listed["name"])["path"] == str(folder / "report.html")
    with pytest.raises(AttnlabError, match="no process"):
        stop_retrofitting(place, listed["name"])
    assert folder.name not in comparison_folders(folder.parent)


def test_what_cannot_be_read_is_listed_with_the_reason(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / folder.name)
    (tmp_path / folder.name / "retrofit.json").write_text("{}")
    (tmp_path / "retrofit-begun").mkdir()
    (tmp_path / "retrofit-linked").symlink_to(folder)
    found: Any = retrofits(str(tmp_path))["retrofits"]
    assert {one["folder"]: one["status"] for one in found} == {folder.name: "damaged", "retrofit-begun": "stopped"}
    with pytest.raises(AttnlabError, match="no such retrofit"):
        follow_retrofit(str(tmp_path), opaque_id("retrofit-linked"))
    (tmp_path / "retrofit-begun" / "report.html").symlink_to(folder / "report.html")
    with pytest.raises(AttnlabError, match="no page yet"):
        retrofit_report(str(tmp_path), opaque_id("retrofit-begun"))


def test_from_the_form_to_the_result_and_resumed(browser: Any, server: StudioServer) -> None:
    visit = Visit(browser, server, "/retrofit")
    page = visit.page
    visit.see("to convert and to measure every layer")
    visit.type("others", "window:9999")
    visit.see("hides nothing")
    visit.type("others", "window:4")
    visit.type("held-out texts", "4")
    visit.see("tied-kv, window:4")
    page.get_by_role("button", name="Start the retrofit").click()
    page.wait_for_url(re.compile("/retrofit/[0-9a-f]{16}$"))
    visit.see("It has ended.")
    visit.see("Cost of each layer")
    (made,) = (path.parent for path in server.runs.glob("retrofit-*/models/window-4"))
    for name in ("answer.json", "report.html"):
        (made.parent / name).unlink()
    page.reload()
    visit.see("It was stopped")
    page.get_by_role("button", name="Resume").click()
    visit.see("It has ended.")
    page.get_by_role("link", name="heads of window:4").click()
    visit.see("What comes next")
    visit.finish()
