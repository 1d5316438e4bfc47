"""An answer is given again as long as all that it rests on is as it was, and without loading anything heavy."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnlab.experiments.reporting.answer import ANSWER, Answer, ChangedAnswerWarning, find_answer, save
from attnlab.experiments.request import Request
from attnlab.storage.records import content_hash

REQUEST = Request(variants=("tied-kv",))


def make_answer(out: Path, request: Request = REQUEST, **changes: Any) -> Answer:
    """An answer as it lies in its folder, with a report beside it."""
    folder = out / request.folder
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.html").write_text("page", encoding="utf-8")
    answer = Answer(
        request_hash=request.hash,
        folder=str(folder),
        first_lines=("tied-kv is worse.", "Small runs …"),
        headings=("variant", "verdict"),
        rows=(("softmax", "baseline"), ("tied-kv", "worse")),
        notes=("a note",),
        report=str(folder / "report.html"),
        python=platform.python_version(),
        sources={},
        markdown="| table |",
        claims=(("one", "reproduced"),),
        data={"verdicts": [{"arm": "tied-kv", "mean": 0.02}]},
        receipt="0" * 64,
        records={},
    )
    return dataclasses.replace(answer, **changes)


def kept(out: Path, request: Request = REQUEST, **changes: Any) -> Answer:
    answer = make_answer(out, request, **changes)
    save(answer, out / request.folder)
    return answer


def test_the_same_question_gets_the_same_answer(tmp_path: Path) -> None:
    answer = kept(tmp_path)
    assert find_answer(REQUEST, tmp_path) == answer
    assert find_answer(Request(variants=("tied-kv",)), tmp_path) == answer


def test_another_question_gets_none(tmp_path: Path) -> None:
    kept(tmp_path)
    assert find_answer(Request(variants=("tied-kv",), seeds=9), tmp_path) is None
    assert find_answer(REQUEST, tmp_path / "elsewhere") is None


def test_a_folder_that_was_moved_still_answers(tmp_path: Path) -> None:
    kept(tmp_path / "one")
    (tmp_path / "one").rename(tmp_path / "two")
    found = find_answer(REQUEST, tmp_path / "two")
    assert found is not None
    assert found.report == str(tmp_path / "two" / REQUEST.folder / "report.html")
    assert found.folder == str(tmp_path / "two" / REQUEST.folder)


def test_a_report_that_is_gone_is_made_again(tmp_path: Path) -> None:
    answer = kept(tmp_path)
    Path(answer.report).unlink()
    assert find_answer(REQUEST, tmp_path) is None


def test_an_answer_without_a_report_and_one_with_a_report_elsewhere(tmp_path: Path) -> None:
    kept(tmp_path, report="")
    assert find_answer(REQUEST, tmp_path) == make_answer(tmp_path, report="")
    elsewhere = tmp_path / "mine.html"
    elsewhere.write_text("page")
    kept(tmp_path, report=str(elsewhere))
    found = find_answer(REQUEST, tmp_path)
    assert found is not None
    assert found.report == str(elsewhere)


def test_a_text_that_changed_gets_none(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("one")
    request = Request(variants=("tied-kv",), corpus=str(text))
    kept(tmp_path, request, sources={str(text): hashlib.sha256(b"one").hexdigest()})
    assert find_answer(request, tmp_path) is not None
    text.write_text("two")
    assert find_answer(request, tmp_path) is None
    text.unlink()
    assert find_answer(request, tmp_path) is None


def test_a_folder_of_texts_is_always_read_again(tmp_path: Path) -> None:
    request = Request(variants=("tied-kv",), corpus=str(tmp_path))
    kept(tmp_path, request, sources={str(tmp_path): "a folder"})
    assert find_answer(request, tmp_path) is None


def test_another_python_has_another_pydoc(tmp_path: Path) -> None:
    kept(tmp_path, python="3.10.1")
    assert find_answer(REQUEST, tmp_path) is None
    world = Request(variants=("tied-kv",), corpus="world")
    kept(tmp_path, world, python="3.10.1")
    assert find_answer(world, tmp_path) is not None


def test_another_version_answers_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept(tmp_path)
    folder = REQUEST.folder
    monkeypatch.setattr("attnlab.__version__", "99.0")
    monkeypatch.setattr(Request, "folder", property(lambda _: folder))
    assert find_answer(REQUEST, tmp_path) is None


def _without(name: str) -> Callable[[dict[str, Any]], object]:
    return lambda record: record["answer"].pop(name)


@pytest.mark.parametrize(
    "damage",
    [
        *(_without(field.name) for field in dataclasses.fields(Answer) if field.name != "folder"),
        lambda record: record["answer"].update(rows=[["softmax", 3]]),
        lambda record: record["answer"].update(rows="softmax"),
        lambda record: record["answer"].update(notes=None),
        lambda record: record["answer"].update(data=[]),
        lambda record: record["answer"].update(sources=["notes.txt"]),
        lambda record: record["answer"].update(more=1),
        lambda record: record.update(format=3),
        lambda record: record.update(answer=None),
        lambda record: record.clear(),
    ],
)
def test_a_damaged_answer_is_none(tmp_path: Path, damage: Callable[[dict[str, Any]], object]) -> None:
    kept(tmp_path)
    path = tmp_path / REQUEST.folder / ANSWER
    record = json.loads(path.read_text(encoding="utf-8"))
    damage(record)
    record["sha256"] = content_hash(record.get("answer"))  # signed again after the damage
    path.write_text(json.dumps(record), encoding="utf-8")
    assert find_answer(REQUEST, tmp_path) is None


def test_a_changed_answer_is_told_and_not_believed(tmp_path: Path) -> None:
    kept(tmp_path)
    path = tmp_path / REQUEST.folder / ANSWER
    path.write_text(path.read_text(encoding="utf-8").replace("worse", "better"), encoding="utf-8")
    with pytest.warns(ChangedAnswerWarning, match="was changed after it was written"):
        assert find_answer(REQUEST, tmp_path) is None


def test_an_answer_whose_runs_changed_is_not_believed(tmp_path: Path) -> None:
    kept(tmp_path, records={"plan.json": "0" * 64})
    (tmp_path / REQUEST.folder / "plan.json").write_text("{}", encoding="utf-8")
    assert find_answer(REQUEST, tmp_path) is None


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"3", b"[" * 100_000])
def test_what_is_no_answer_is_none(tmp_path: Path, content: bytes) -> None:
    kept(tmp_path)
    (tmp_path / REQUEST.folder / ANSWER).write_bytes(content)
    assert find_answer(REQUEST, tmp_path) is None


def test_numbers_that_json_does_not_have_are_left_out(tmp_path: Path) -> None:
    kept(tmp_path, data={"high": float("inf"), "all": [float("nan"), 1.5]})
    found = find_answer(REQUEST, tmp_path)
    assert found is not None
    assert found.data == {"high": None, "all": [None, 1.5]}


def test_finding_an_answer_loads_nothing_heavy(tmp_path: Path) -> None:
    kept(tmp_path)
    code = (
        "import sys; from pathlib import Path\n"
        "from attnlab.experiments.reporting.answer import find_answer\n"
        "from attnlab.experiments.request import Request\n"
        f"assert find_answer(Request(variants=('tied-kv',)), Path({str(tmp_path)!r})) is not None\n"
        "print(sorted({'torch', 'numpy', 'scipy', 'plotly', 'jinja2'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.strip() == "[]"
