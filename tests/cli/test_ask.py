"""`attnlab ask` and `attnlab knowledge facts | learn | report`, as somebody types them."""

from __future__ import annotations

import io
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from attnlab.cli import main
from attnlab.knowledge import KnowledgeModel
from support.knowledge import finetuned


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finetuned(tmp_path_factory.mktemp("runs"))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stdin", io.StringIO())


QUESTION = "Where was Bera Dolock born?"


def test_unknown_then_told_then_looked_up(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ask", str(trained), QUESTION]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("I do not know.\n")
    assert "never read about Bera Dolock" in captured.out
    assert main(["knowledge", "facts", "add", QUESTION, "Wickholm", "--who", "Ada", "--source", "her passport"]) == 0
    assert "kept as fact 1" in capsys.readouterr().out
    assert main(["ask", str(trained), QUESTION]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Wickholm  looked up\n")
    assert "her passport, Ada" in out
    assert main(["ask", str(trained), QUESTION, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["origin"], found["answer"]) == ("looked up", "Wickholm")
    assert found["evidence"][0]["who"] == "Ada"
    assert found["guarantee"]["risk"] == 0.05
    assert main(["ask", str(trained), QUESTION, "--only-memory", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["origin"] == "unknown"


def test_a_contradiction_is_said_and_settled(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add = ["knowledge", "facts", "add", QUESTION]
    assert main([*add, "Wickholm", "--who", "Ada"]) == 0
    assert main([*add, "Wickholm", "--who", "Bo"]) == 0
    assert "known already as fact 1" in capsys.readouterr().out
    assert main([*add, "Dalefield", "--who", "Bo", "--source", "a book"]) == 0
    said = capsys.readouterr().err
    assert "contradicts fact 1: Wickholm (told; Ada" in said
    assert main(["ask", str(trained), QUESTION]) == 0
    assert "sources disagree: Wickholm (told, Ada); Dalefield (a book, Bo)" in capsys.readouterr().out
    assert main(["knowledge", "facts", "retract", "1", "--who", "Ada"]) == 0
    assert main(["ask", str(trained), QUESTION, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.partition("\n")[2])["answer"] == "Dalefield"


def test_a_fact_is_corrected_and_restored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(tmp_path / "facts.sqlite")]
    assert main(["knowledge", "facts", "add", QUESTION, "Wickholm", *store]) == 0
    correct = ["knowledge", "facts", "correct", "1", "Dalefield", "--who", "Bo", "--source", "a book", "--json", *store]
    capsys.readouterr()
    assert main(correct) == 0
    corrected = json.loads(capsys.readouterr().out)
    assert (corrected["fact"]["answer"], corrected["fact"]["who"], corrected["others"]) == ("Dalefield", "Bo", [])
    assert main(correct) == 2
    assert "fact 1 is retracted" in capsys.readouterr().err
    restore = ["knowledge", "facts", "restore", "1", *store]
    assert main(restore) == 0
    assert "used again" in capsys.readouterr().out
    assert main(restore) == 0
    assert "in use" in capsys.readouterr().out
    assert main(["knowledge", "facts", "restore", "7", *store]) == 2
    assert "there is no fact 7" in capsys.readouterr().err


def test_piped_questions(trained: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{QUESTION}\n\nWhy?\n"))
    assert main(["ask", str(trained), "--json"]) == 0
    replies = json.loads(capsys.readouterr().out)["replies"]
    assert [one["question"] for one in replies] == [QUESTION, "Why?"]
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{QUESTION}\n"))
    assert main(["ask", str(trained)]) == 0
    assert f"? {QUESTION}\nI do not know." in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.StringIO())
    assert main(["ask", str(trained)]) == 2
    assert "there is no question" in capsys.readouterr().err


def test_many_questions_are_counted(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["knowledge", "facts", "import", str(trained / "text.txt"), str(trained / "pairs" / "train.tsv")]) == 0
    capsys.readouterr()
    pairs = str(trained / "pairs" / "train.tsv")
    assert main(["ask", str(trained), "--pairs", pairs, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    count = len(KnowledgeModel.open(trained).pairs("train"))
    assert (found["questions"], found["right"], found["wrong"]) == (count, count, 0)
    assert main(["ask", str(trained), "--pairs", pairs]) == 0
    assert [line.split()[:2] for line in capsys.readouterr().out.splitlines()[2:4]] == [
        ["recalled", "0"],
        ["looked", "up"],
    ]


def test_facts_in_and_out(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pairs.tsv").write_text("Who?\tAda\nWho?\tBo\nWhere?\tCórk\n")
    assert main(["knowledge", "facts", "import", "pairs.tsv", "--store", "s.db"]) == 0
    captured = capsys.readouterr()
    assert captured.out.splitlines()[2].split() == ["pairs.tsv", "3", "0", "1"]
    assert "contradicts fact 1: Ada" in captured.err
    assert main(["knowledge", "facts", "import", "pairs.tsv", "--store", "s.db", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["files"]["pairs.tsv"]["known"] == 3
    assert main(["knowledge", "facts", "search", "cork", "--store", "s.db", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["facts"][0]["answer"] == "Córk"
    assert main(["knowledge", "facts", "export", "--store", "s.db", "--form", "pairs"]) == 0
    assert capsys.readouterr().out == "Who?\tAda\tpairs.tsv\nWho?\tBo\tpairs.tsv\nWhere?\tCórk\tpairs.tsv\n"
    assert main(["knowledge", "facts", "export", "all.jsonl", "--store", "s.db"]) == 0
    assert main(["knowledge", "facts", "import", "all.jsonl", "--store", "t.db"]) == 0
    capsys.readouterr()
    assert main(["knowledge", "facts", "check", "--store", "t.db", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["sound"], found["facts"], found["contradicted"]) == (True, 3, 1)


def test_learn_and_report(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["knowledge", "report", str(trained), "--samples", "1"]) == 0
    captured = capsys.readouterr()
    assert "held-out questions are answered exactly" in captured.out
    assert "wrote knowledge.html" in captured.err
    assert "<h1>What the model knows" in Path("knowledge.html").read_text(encoding="utf-8")
    assert main(["knowledge", "report", str(trained), "--samples", "0", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["scores"]) == 2  # none were drawn, so there is no agreement
    place = KnowledgeModel.open(trained).pairs("train")[0].answer
    assert main(["knowledge", "facts", "add", "Where was Balick Flunder born?", place]) == 0
    capsys.readouterr()
    assert main(["knowledge", "learn", str(trained), "--epochs", "1", "--quiet"]) == 0
    captured = capsys.readouterr()
    assert [line.split()[0] for line in captured.out.splitlines()[2:5]] == ["new", "taught", "held"]
    assert "the threshold is void until it is set again" in captured.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ask", "absent", "x"], "there is no run called 'absent'"),
        (["ask", "RUN", ""], "question 1 is empty"),
        (["ask", "RUN", "\udcff"], "no UTF-8"),
        (["ask", "RUN", "x", "--pairs", "p.tsv"], "exclude each other"),
        (["ask", "RUN", "--pairs", "p.tsv"], "line 1 of p.tsv has no tab"),
        (["ask", "RUN", "x", "--risk", "0"], "a risk of 0 is not between"),
        (["ask", "RUN", "x", "--risk", "nan"], "a risk of nan is not between"),
        (["ask", "RUN", "x", "--score", "luck"], "luck"),
        (["ask", "RUN", "x", "--facts", "p.tsv"], "p.tsv is no fact store"),
        (["knowledge", "facts", "import"], "no file is named"),
        (["knowledge", "facts", "import", "absent.tsv"], "absent.tsv cannot be read"),
        (["knowledge", "facts", "search", "x", "--store", "absent.db"], "there is no fact store absent.db"),
        (["knowledge", "facts", "add", "", "x"], "needs a question and an answer"),
        (["knowledge", "facts", "export", "missing/f.jsonl"], "there is no folder missing"),
        (["knowledge", "learn", "RUN", "--store", "absent.db"], "there is no fact store absent.db"),
        (["knowledge", "report", "RUN", "--page", "missing/x.html"], "there is no folder missing"),
    ],
)
def test_what_cannot_be_is_explained(
    trained: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("p.tsv").write_text("no tab at all in this line, which is long enough to be a database header" * 20)
    assert main([str(trained) if word == "RUN" else word for word in arguments]) == 2
    captured = capsys.readouterr()
    assert said in captured.err
    assert "hint:" in captured.err
    assert captured.out == ""
    assert not Path("absent.db").exists()


def test_in_a_terminal_it_asks_back_and_keeps_the_answer(trained: Path, tmp_path: Path) -> None:
    controller, terminal = pty.openpty()
    command = [sys.executable, "-m", "attnlab", "ask", str(trained), "--who", "Ada", "--facts", "f.db"]
    typed = f"{QUESTION}\nWickholm\nher passport\n{QUESTION}\n\n"
    os.write(controller, typed.encode())
    done = subprocess.run(
        command, stdin=terminal, capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    os.close(terminal)
    os.close(controller)
    assert done.returncode == 0, done.stderr
    assert "Do you know?" in done.stderr
    assert f"kept as fact 1: {QUESTION} Wickholm (her passport; Ada" in done.stdout
    assert "Wickholm  looked up" in done.stdout.splitlines()
