"""Bundles: the same bytes for the same folder, within their limit, and nothing harmful is read from one."""

from __future__ import annotations

import json
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from attnlab.cli import main
from attnlab.errors import FileError
from attnlab.verification import verify
from attnlab.verification.bundles import files_of, opened_bundle, write_bundle
from support.training import smoke, train_in

Change = Callable[[zipfile.ZipFile, dict[str, bytes]], None]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_in(tmp_path_factory.mktemp("run"), smoke(steps=16)).path


def test_a_bundle_verifies_and_is_the_same_each_time(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("one.zip", "two.zip"):
        write_bundle(tmp_path / name, run, files_of([run]), 40)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    page = tmp_path / "page.html"
    assert main(["verify", str(tmp_path / "one.zip"), "--json", "--page", str(page)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["outcome"], data["kind"]) == ("verifies", "run")
    assert data["segments"]["population"] == 16
    assert "came out bit for bit" in page.read_text()
    assert main(["verify", str(run), "--receipt", data["receipt"][:32], "--segments", "0"]) == 0
    assert "Nothing was replayed" in capsys.readouterr().out
    assert main(["verify", str(run), "--receipt", "0" * 32, "--segments", "0"]) == 1
    assert "does not verify" in " ".join(capsys.readouterr().out.split())


def test_each_part_of_a_replay_is_told(run: Path) -> None:
    told: list[str] = []
    verify(run, segments=16, note=told.append)
    assert told == [f"replaying training, part {number} of 3" for number in (1, 2, 3)]  # from the start and two states


def test_states_are_left_out_above_the_limit(run: Path, tmp_path: Path) -> None:
    files = files_of([run])
    assert "without" not in write_bundle(tmp_path / "whole.zip", run, files, 40)
    size = (tmp_path / "whole.zip").stat().st_size
    assert "without 1 of 2 states" in write_bundle(tmp_path / "less.zip", run, files, (size - 1000) / 1e6)
    assert (tmp_path / "less.zip").stat().st_size < size - 1000
    assert main(["verify", str(tmp_path / "less.zip"), "--segments", "16"]) == 0
    with pytest.raises(FileError, match="without any state to replay from"):
        write_bundle(tmp_path / "none.zip", run, files, 0.001)
    assert not (tmp_path / "none.zip").exists()


def add(name: str, data: bytes = b"{}", *, mode: int = stat.S_IFREG | 0o644) -> Change:
    def change(archive: zipfile.ZipFile, contents: dict[str, bytes]) -> None:
        for known, content in contents.items():
            archive.writestr(known, content)
        entry = zipfile.ZipInfo(name)
        entry.external_attr = mode << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, data)

    return change


def replaced(name: str, data: bytes) -> Change:
    def change(archive: zipfile.ZipFile, contents: dict[str, bytes]) -> None:
        for known, content in contents.items():
            archive.writestr(known, data if known.endswith(name) else content)

    return change


def removed(name: str) -> Change:
    def change(archive: zipfile.ZipFile, contents: dict[str, bytes]) -> None:
        for known, content in contents.items():
            if not known.endswith(name):
                archive.writestr(known, content)

    return change


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (add("../evil.json"), "leads elsewhere"),
        (add("/evil.json"), "leads elsewhere"),
        (add("a/../../evil.json"), "leads elsewhere"),
        (add("C:\\evil.json"), "leads elsewhere"),
        (add("a//evil.json"), "leads elsewhere"),
        (add("evil.json", b"/etc/passwd", mode=stat.S_IFLNK | 0o777), "of a kind that no bundle has"),
        (add("evil.pkl"), "of a kind that no bundle has"),
        (add("evil.json", bytes(10_000_000)), "a zip bomb"),
        (add("BUNDLE.json"), "has a file twice"),
        (add("more.json"), "more.json is not listed"),
        (replaced("result.json", b"{}"), "was changed after the bundle was written"),
        (removed("result.json"), "result.json is missing"),
        (removed("bundle.json"), "has no bundle.json"),
        (replaced("bundle.json", b"[]"), "has no bundle.json"),
        (replaced("bundle.json", b'{"format": 9}'), "a bundle of format 9"),
        (replaced("bundle.json", b'{"format": 1, "name": "..", "files": {}}'), "not listed"),
    ],
)
def test_hostile_bundles_are_refused(run: Path, tmp_path: Path, change: Change, said: str) -> None:
    write_bundle(tmp_path / "good.zip", run, files_of([run]), 40)
    with zipfile.ZipFile(tmp_path / "good.zip") as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(tmp_path / "bad.zip", "w") as archive:
        change(archive, contents)
    with pytest.raises(FileError, match=said), opened_bundle(tmp_path / "bad.zip"):
        pytest.fail("it was opened")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.zip", "good.zip"]


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 nothing", b"no zip at all"])
def test_what_is_no_bundle_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "bad.zip").write_bytes(data)
    with pytest.raises(FileError, match="is no bundle"), opened_bundle(tmp_path / "bad.zip"):
        pytest.fail("it was opened")


def test_what_cannot_be_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "page.html").touch()
    for words, said in [
        ([str(tmp_path)], "neither a run nor a comparison"),
        ([str(tmp_path / "page.html")], "lies apart from its runs"),
        ([str(tmp_path / "nothing.zip")], "there is no file or folder"),
        ([str(tmp_path), "--segments", "-1"], "cannot be replayed"),
        ([str(tmp_path), "--receipt", "abc"], "at least 16 letters"),
    ]:
        assert main(["verify", *words]) == 2
        assert said in " ".join(capsys.readouterr().err.split())
