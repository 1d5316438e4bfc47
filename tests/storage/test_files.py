"""A file is written as a whole or not at all, and what cannot be written is refused before any work is done."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import NoReturn

import pytest

from attnlab.errors import FileError
from attnlab.storage import disk, files
from attnlab.storage.files import check_writable, write_whole


def test_writes_new_and_replaces_old(tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    write_whole(path, "one — ÷\n")
    assert path.read_bytes() == "one — ÷\n".encode()
    write_whole(path, "two")
    assert path.read_text(encoding="utf-8") == "two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_check_touches_nothing(tmp_path: Path) -> None:
    check_writable(tmp_path / "new.html")
    assert list(tmp_path.iterdir()) == []


def test_permissions_are_those_of_any_new_file_and_kept_for_an_old_one(tmp_path: Path) -> None:
    path, plain = tmp_path / "page.html", tmp_path / "plain"
    plain.touch()
    write_whole(path, "one")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)
    path.chmod(0o640)
    write_whole(path, "two")
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real.html").write_text("one")
    (tmp_path / "link.html").symlink_to("real.html")
    write_whole(tmp_path / "link.html", "two")
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "real.html").read_text() == "two"


@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_when_writing_fails_the_old_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")

    def fail(*_: object) -> NoReturn:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(*((os, "fsync") if moment == "fsync" else (Path, "replace")), fail)
    with pytest.raises(FileError, match="cannot be written: no space left on device"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_interruption_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "page.html", "new")
    assert list(tmp_path.iterdir()) == []


def refused(path: Path) -> str:
    with pytest.raises(FileError) as caught:
        check_writable(path)
    with pytest.raises(FileError):
        write_whole(path, "text")
    assert caught.value.hint
    return caught.value.message


def test_refuses_a_missing_folder(tmp_path: Path) -> None:
    assert refused(tmp_path / "none" / "page.html") == f"there is no folder {tmp_path / 'none'} to write page.html into"


def test_refuses_a_folder(tmp_path: Path) -> None:
    assert refused(tmp_path) == f"{tmp_path} is a folder"


def test_refuses_what_is_no_ordinary_file(tmp_path: Path) -> None:
    path = tmp_path / "pipe"  # as a device would be, which renaming would replace by a file
    os.mkfifo(path)
    assert refused(path) == f"{path} is no ordinary file"


def test_refuses_a_file_in_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "there is no folder" in refused(tmp_path / "file" / "page.html")


def test_refuses_a_name_that_is_too_long(tmp_path: Path) -> None:
    assert "too long" in refused(tmp_path / ("x" * 300))


def test_refuses_links_that_go_in_circles(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "cannot be written" in refused(tmp_path / "a")


def test_refuses_a_folder_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Simulated, because nothing is forbidden to root, as whom tests may run.
    def forbid(*_: object) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(disk.disk, "create", forbid)
    path = tmp_path / "page.html"
    assert refused(path) == f"{path} cannot be written: permission denied"


def test_refuses_a_file_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "page.html"
    path.write_text("mine")
    monkeypatch.setattr(files.os, "access", lambda *_: False)
    assert refused(path) == f"{path} cannot be written: permission denied"
    assert path.read_text() == "mine"
