"""A save killed, or failing, at any one of its effects: what is read is whole, and the next save succeeds."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from attnlab.errors import FileError
from attnlab.runs.checkpoints import Checkpoints, DamagedCheckpointWarning, LeftoverWarning
from attnlab.storage import disk
from support.checkpoints import assert_is, cut, make, save
from support.disk import FailingDisk, kill_at, raising, record_effects


def scene(folder: Path) -> Checkpoints:
    """Two checkpoints, so that saving a third removes one; and what a killed process left."""
    checkpoints = make(folder)
    for step in (1, 2):
        save(checkpoints, step)
    left = checkpoints.folder / ".tmp-step-000003-4194305-0123abcd"  # more than there are process numbers
    left.mkdir()
    (left / "model.safetensors").touch()
    return checkpoints


def assert_goes_on(folder: Path, *, whole: set[int]) -> None:
    """That a new process finds one of these, and can save."""
    checkpoints = make(folder)
    found = checkpoints.latest()  # without a warning, which would be an error
    assert found is not None
    assert found.step in whole
    assert_is(found, found.step)
    save(checkpoints, 3)
    assert_is(checkpoints.latest(), 3)
    assert checkpoints.steps() == [2, 3]
    assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["step-000002", "step-000003"]


def test_all_is_flushed_before_it_is_named_and_named_before_another_goes(tmp_path: Path) -> None:
    checkpoints = make(tmp_path)
    for step in (1, 2):
        save(checkpoints, step)
    files = ["create", "write", "flush"] * 6
    removal = ["rename", "flush", *["remove_file"] * 6, "remove_folder"]
    effects = record_effects(lambda: save(checkpoints, 3))
    assert effects == ["make_folder", *files, "flush", "rename", "flush", *removal]


def test_killed_at_any_moment(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    checkpoints = scene(tmp_path / "whole")
    effects = record_effects(lambda: save(checkpoints, 3))
    assert [effects.count(name) for name in ("create", "write", "make_folder", "rename")] == [6, 6, 1, 2]
    renamed = effects.index("rename")
    for effect in range(len(effects)):
        folder = tmp_path / str(effect)
        checkpoints = scene(folder)
        kill_at(effect, lambda: save(checkpoints, 3))  # noqa: B023 (called at once)
        assert_goes_on(folder, whole={2} if effect <= renamed else {3})


def test_killed_while_replacing_a_damaged_one(tmp_path: Path) -> None:
    def prepare(folder: Path) -> Checkpoints:
        checkpoints = make(folder)
        for step in (2, 3):
            save(checkpoints, step)
        cut(checkpoints.path(3) / "state.json")
        return checkpoints

    whole = prepare(tmp_path / "whole")
    for effect in range(len(record_effects(lambda: save(whole, 3)))):
        checkpoints = prepare(tmp_path / str(effect))
        kill_at(effect, lambda: save(checkpoints, 3))  # noqa: B023 (called at once)
        if 3 in checkpoints.steps() and not checkpoints._looks_whole(3):
            with pytest.warns(DamagedCheckpointWarning):
                assert_is(checkpoints.latest(), 2)
        assert make(tmp_path / str(effect))._looks_whole(2)
        save(checkpoints, 3)
        assert_is(checkpoints.latest(), 3)
        assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["step-000002", "step-000003"]


@pytest.mark.parametrize("for_ever", [False, True])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO])
def test_failing_at_any_effect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, for_ever: bool) -> None:
    whole = scene(tmp_path / "whole")
    effects = record_effects(lambda: save(whole, 3))
    lasting = effects.index("rename") + 2  # after it and the flush of its folder, the checkpoint is safe
    for effect in range(len(effects)):
        folder = tmp_path / str(effect)
        checkpoints = scene(folder)
        with monkeypatch.context() as patch:
            patch.setattr(disk, "disk", FailingDisk(effect, raising(number), for_ever=for_ever))
            if effect < lasting:
                with pytest.raises(FileError, match=os.strerror(number).lower()) as caught:
                    save(checkpoints, 3)
                assert "the checkpoint of step 3 cannot be written" in caught.value.message
                assert str(checkpoints.folder) in caught.value.message
                assert caught.value.hint is not None
                assert ("free some space" in caught.value.hint) is (number == errno.ENOSPC)
                assert 1 in checkpoints.steps(), "nothing is removed before the new one is safe"
            else:
                with pytest.warns(LeftoverWarning, match="step 3 is saved"):
                    save(checkpoints, 3)
        if not for_ever and 2 < effect < lasting - 2:
            assert sorted(path.name for path in checkpoints.folder.iterdir()) == ["step-000001", "step-000002"]
        assert_goes_on(folder, whole={2} if effect < lasting - 1 else {3})


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS])
def test_a_folder_that_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(disk, "disk", FailingDisk(0, raising(number), for_ever=True))
    with pytest.raises(FileError, match="cannot be written") as caught:
        save(make(tmp_path), 1)
    assert "`out=FOLDER`" in str(caught.value.hint)
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    checkpoints = make(tmp_path)
    save(checkpoints, 1)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "disk", FailingDisk(5, interrupt))
        with pytest.raises(KeyboardInterrupt):
            save(checkpoints, 2)
    assert [path.name for path in checkpoints.folder.iterdir()] == ["step-000001"]


def test_a_living_process_keeps_its_temporaries(tmp_path: Path) -> None:
    checkpoints = make(tmp_path)
    living = checkpoints.folder / f".tmp-step-000009-{os.getppid()}-0123abcd"
    own = checkpoints.folder / f".tmp-step-000009-{os.getpid()}-0123abcd"  # one of an earlier failure
    for path in (living, own):
        path.mkdir(parents=True)
    save(checkpoints, 1)
    assert living.exists()
    assert not own.exists()


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stingy(disk.Disk):
        def write(self, descriptor: int, data: memoryview) -> int:
            return super().write(descriptor, data[:100])

    monkeypatch.setattr(disk, "disk", Stingy())
    checkpoints = make(tmp_path)
    save(checkpoints, 1)
    assert_is(checkpoints.latest(), 1)


def test_what_it_promises_is_flushed_first(tmp_path: Path) -> None:
    metrics = tmp_path / "metrics.jsonl"
    metrics.touch()
    checkpoints = make(tmp_path, flush_first=[metrics, tmp_path / "missing"])
    assert record_effects(lambda: save(checkpoints, 1))[:2] == ["flush", "make_folder"]
