"""Variants from files and from installed packages."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from attnlab.attention import load_variants, variant, variants
from attnlab.attention.names import files as variant_files
from attnlab.cli import main
from attnlab.errors import AttnlabError, UnknownNameError

SHARP = """
from attnlab.attention import Variant, add_variant
add_variant(Variant("{name}", "Sharper.", {{"score": {{"kind": "cosine", "temperature": {temperature}}}}}))
"""


@pytest.fixture(autouse=True)
def _installed_anew() -> Iterator[None]:
    variant_files.load_installed.cache_clear()
    yield
    variant_files.load_installed.cache_clear()


def write(folder: Path, name: str = "sharp", temperature: float = 0.5) -> Path:
    path = folder / "mine.py"
    path.write_text(SHARP.format(name=name, temperature=temperature))
    return path


def test_a_variant_knows_its_file(tmp_path: Path) -> None:
    load_variants(write(tmp_path))
    first = variant_files.file_hashes("softmax*2,(tied-kv+sharp),window:4")
    assert first.keys() == {"sharp"}
    load_variants(write(tmp_path, temperature=0.6))
    assert variant_files.file_hashes("sharp") != first


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"import sys\nsys.exit(3)", "failed: SystemExit: 3"),
        (2 * SHARP.format(name="twin", temperature=0.5).encode(), "two variants are named 'twin'"),
        (b"\xff\xfe", "is no Python file: it is not UTF-8"),
        (None, "is no Python file: No such file"),
    ],
)
def test_files_that_cannot_be_used(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "mine.py"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(AttnlabError, match=reason):
        load_variants(path)


def test_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "offered_attention.py").write_text(SHARP.format(name="offered", temperature=0.5))
    (tmp_path / "broken_attention.py").write_text("1 / 0")
    monkeypatch.syspath_prepend(tmp_path)
    group = variant_files.GROUP
    points = [EntryPoint("bad", "broken_attention", group), EntryPoint("good", "offered_attention", group)]
    monkeypatch.setattr(variant_files, "entry_points", lambda group: [one for one in points if one.group == group])
    with pytest.warns(UserWarning, match="the entry point bad = broken_attention failed: ZeroDivisionError"):
        assert variant("offered").meaning == "Sharper."
    assert "offered" in {one.name for one in variants()}  # loaded once, and told once
    with pytest.raises(UnknownNameError):
        variant("never-offered")


def test_a_file_that_changed_since_the_run_began(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path)
    command = ["train", "--variant", "sharp", "--corpus", "kinship", "--steps", "2", "--change", "context_length=32"]
    command += ["--out", str(tmp_path / "runs"), "--quiet", "--variants-from", str(path)]
    assert main(command) == 0
    assert main(command) == 0  # the same again
    write(tmp_path, temperature=0.6)
    assert main(command) == 2
    assert "the file that adds the variant 'sharp' has changed since the run in" in capsys.readouterr().err
