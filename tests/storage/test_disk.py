"""A folder that appears whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from attnlab.storage.disk import disk, new_folder


def test_a_new_folder_replaces_the_old_one(tmp_path: Path) -> None:
    target = tmp_path / "target"
    for text in ("old", "new"):
        with new_folder(target) as folder:
            (folder / "file").write_text(text)
            assert not target.exists() or (target / "file").read_text() == "old"
    assert (target / "file").read_text() == "new"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("effect", ["make_folder", "rename", "flush"])
def test_a_folder_that_cannot_be_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, effect: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(disk, effect, fail)
        with pytest.raises(OSError, match="space"), new_folder(tmp_path / "target") as folder:
            (folder / "file").write_text("half")
    assert list(tmp_path.iterdir()) == []
