"""Everything in the README and the documentation runs as written, and prints what is printed there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from attnlab.cli import main

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs" / "how-to").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str) -> list[tuple[str, str]]:
    found = ((page, block) for page in PAGES for block in BLOCK.findall(page.read_text()))
    return [(page.name, text) for page, (kind, text) in found if kind == language]


def sessions() -> list[list[tuple[str, str]]]:
    """For each console block, its commands and what the page says that each prints."""
    found = []
    for _, text in blocks("console"):
        parts = (part.partition("\n") for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:])
        found.append([(command.split("  #")[0].strip(), printed.strip("\n")) for command, _, printed in parts])
    return found


@pytest.mark.parametrize(("page", "text"), blocks("python"))
def test_python_runs(page: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "cache"))
    exec(compile(text, page, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("session", sessions(), ids=lambda session: session[0][0])
def test_commands_run(
    session: list[tuple[str, str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "cache"))
    own = [text for _, text in blocks("python") if "add_variant(" in text or "add_layer(" in text]
    (tmp_path / "mine.py").write_text("\n".join(own))
    (tmp_path / "notes.txt").write_text("the cat sat on the mat and looked at the dog\n" * 400)
    (tmp_path / "smollm2").mkdir()
    (tmp_path / "smollm2" / "config.json").write_text(blocks("json")[0][1])
    for command, printed in session:
        program, *arguments = shlex.split(command)
        if program == "make":
            assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
            continue
        assert program in {"attnlab", ".venv/bin/attnlab"}
        measures = arguments[0] in {"bench", "compare", "runs", "train"}  # measurements are never twice the same
        if arguments[0] == "bench":
            arguments += ["--smoke"] if "--smoke" not in arguments else []
        code = main(arguments)
        captured = capsys.readouterr()
        assert code == (2 if printed.startswith("error:") else 0), captured.err
        if printed and not measures:
            assert [line.rstrip() for line in (captured.out + captured.err).splitlines()] == printed.splitlines()


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_architecture_page_is_true() -> None:
    """Every file that it names exists, every package is drawn, and the walk of `compare` is short."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    source = ROOT / "src" / "attnlab"
    named = re.findall(r"`([a-z_0-9/]+(?:\.py|/))`", text)
    assert len(named) > 20
    assert [name for name in named if not (source / name).exists()] == []
    drawn = set(re.findall(r'class="name"[^>]*>(\w+)<', (ROOT / "docs" / "images" / "packages.svg").read_text()))
    packages = {path.stem for path in source.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert drawn == packages - {"__init__", "__main__"}
    walk = text[text.index("## `attnlab compare`") : text.index("## A new normaliser")]
    assert len(re.findall(r"^\d+\. ", walk, re.MULTILINE)) <= 12
