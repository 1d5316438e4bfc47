"""A checkpoint is the one before or the one after, whatever happens while it is written, and never a damaged one."""

from __future__ import annotations

import errno
import json
import pickle
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from attnlab.errors import FileError, InputError
from attnlab.runs.checkpoints import Checkpoints, DamagedCheckpointWarning, digest
from attnlab.storage import disk
from attnlab.storage.tensors import read_tensors, write_tensors
from support.checkpoints import assert_is, cut, flip, make, save
from support.disk import FailingDisk, raising, record_effects


def test_what_is_saved_is_read(tmp_path: Path) -> None:
    path = save(make(tmp_path), 200)
    assert path == tmp_path / "checkpoints" / "step-000200"
    names = ["manifest.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]
    assert sorted(file.name for file in path.iterdir()) == [
        *names,
        "optimizer.safetensors",
        "random.safetensors",
        "state.json",
    ]
    assert_is(make(tmp_path).latest(), 200)


def test_every_type_and_layout_is_read_as_it_was(tmp_path: Path) -> None:
    shared = torch.randn(4, 4)
    given = {
        "tied": shared,
        "tied again": shared,
        "overlapping": shared[1:],
        "turned": torch.randn(3, 5).T,
        "parameter": torch.nn.Parameter(torch.randn(2)),
        "number": torch.tensor(3.5),
        "nothing": torch.zeros(0, 3),
        "bool": torch.tensor([True, False]),
        "bfloat16": torch.randn(3).to(torch.bfloat16),
        "int64": torch.tensor([2**62, -1]),
        "float64": torch.randn(2, dtype=torch.float64),
        "not finite": torch.tensor([float("nan"), float("inf"), -0.0]),
    }
    for shard_bytes in (1, 1 << 30):
        checkpoints = Checkpoints(tmp_path / str(shard_bytes), shard_bytes=shard_bytes)
        checkpoints.save(1, {"model": given, "empty": {}}, {})
        found = checkpoints.latest()
        assert found is not None
        read = found.tensors("model")
        assert digest(read) == digest(given) == digest(found.tensors("model"))
        assert {name: (tensor.dtype, tensor.shape) for name, tensor in read.items()} == {
            name: (tensor.dtype, tensor.shape) for name, tensor in given.items()
        }
        assert found.tensors("empty") == {}


def test_state_is_read_as_it_was(tmp_path: Path) -> None:
    state = {
        "best": float("inf"),
        "exact": 0.1 + 0.2,
        "words": "ü ∑",
        "python": list(random.getstate()[1]),
        "none": None,
    }
    make(tmp_path).save(0, {}, state)
    found = make(tmp_path).latest()
    assert found is not None
    assert found.state == state


def test_a_digest_sees_names_types_shapes_and_values() -> None:
    one = {"a": torch.zeros(2, 3), "b": torch.ones(2)}
    different = [
        {"a": torch.zeros(2, 3), "c": torch.ones(2)},
        {"a": torch.zeros(3, 2), "b": torch.ones(2)},
        {"a": torch.zeros(2, 3, dtype=torch.int32), "b": torch.ones(2)},
        {"a": torch.zeros(2, 3), "b": torch.tensor([1.0, 1.0 + 2**-23])},
        {"a": torch.zeros(2, 3)},
    ]
    assert len({digest(each) for each in [one, *different]}) == 6
    assert digest(dict(reversed(one.items()))) == digest(one)
    assert digest({"a": torch.zeros(3, 2).T, "b": torch.ones(4)[::2]}) == digest(one)


def test_the_newest_are_kept(tmp_path: Path) -> None:
    checkpoints = make(tmp_path)
    for step in (9, 10, 11, 1_000_000):
        save(checkpoints, step)
    assert checkpoints.steps() == [11, 1_000_000]
    assert_is(checkpoints.latest(), 1_000_000)
    assert sorted(path.name for path in (tmp_path / "checkpoints").iterdir()) == ["step-000011", "step-1000000"]
    three = make(tmp_path, keep=3)
    save(three, 1_000_001)
    assert three.steps() == [11, 1_000_000, 1_000_001]


def test_a_whole_one_is_not_written_again_and_a_damaged_one_is(tmp_path: Path) -> None:
    checkpoints = make(tmp_path)
    manifest = save(checkpoints, 1) / "manifest.json"
    before = manifest.stat().st_ino
    save(checkpoints, 1)
    assert manifest.stat().st_ino == before
    (manifest.parent / "state.json").write_text("{}")
    save(checkpoints, 1)
    assert_is(checkpoints.latest(), 1)
    assert [path.name for path in checkpoints.folder.iterdir()] == ["step-000001"]


# Damage


def replace_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


NAMES = ["manifest.json", "state.json", "model-00001-of-00002.safetensors", "optimizer.safetensors"]


@pytest.mark.parametrize("damage", [flip, cut, Path.unlink, replace_by_folder])
@pytest.mark.parametrize("name", NAMES)
def test_a_damaged_one_is_passed_over(tmp_path: Path, damage: Callable[[Path], None], name: str) -> None:
    checkpoints = make(tmp_path)
    save(checkpoints, 1)
    damage(save(checkpoints, 2) / name)
    with pytest.warns(DamagedCheckpointWarning, match=rf"step-000002 is damaged and passed over: .*{name}"):
        assert_is(checkpoints.latest(), 1)


def test_every_bit_of_the_small_files_counts(tmp_path: Path) -> None:
    checkpoints = make(tmp_path)
    path = save(checkpoints, 1)
    for name in ("state.json", "manifest.json"):
        whole = (path / name).read_bytes()
        for place in range(len(whole)):
            data = bytearray(whole)
            data[place] ^= 1 << (place % 8)
            (path / name).write_bytes(data)
            try:
                found = checkpoints.check(1)
            except FileError:
                continue
            # What a flipped bit leaves equal is white space.
            assert name == "manifest.json"
            assert json.loads(data) == json.loads(whole)
            assert_is(found, 1)
        (path / name).write_bytes(whole)
    assert_is(checkpoints.latest(), 1)


def test_when_all_are_damaged_there_is_none(tmp_path: Path) -> None:
    checkpoints = make(tmp_path)
    for step in (1, 2):
        flip(save(checkpoints, step) / "random.safetensors")
    with pytest.warns(DamagedCheckpointWarning) as caught:
        assert checkpoints.latest() is None
    assert len(caught) == 2


def test_one_under_a_wrong_name_is_passed_over(tmp_path: Path) -> None:
    checkpoints = make(tmp_path)
    shutil.copytree(save(checkpoints, 1), tmp_path / "checkpoints" / "step-000007")
    with pytest.warns(DamagedCheckpointWarning, match=r"manifest\.json is that of step 1"):
        assert_is(checkpoints.latest(), 1)


def test_what_is_no_checkpoint_is_not_taken_for_one(tmp_path: Path) -> None:
    checkpoints = make(tmp_path)
    save(checkpoints, 1)
    for name in ("step-9-old", "step-", ".tmp-step-000009-1-00000000", "notes"):
        (checkpoints.folder / name).mkdir()
    assert checkpoints.steps() == [1]
    (checkpoints.folder / "step-000003").touch()
    with pytest.warns(DamagedCheckpointWarning, match="step-000003"):
        assert_is(checkpoints.latest(), 1)


def test_a_damaged_one_does_not_count_among_those_kept(tmp_path: Path) -> None:
    checkpoints = make(tmp_path)
    save(checkpoints, 1)
    flip(save(checkpoints, 4) / "state.json")
    with pytest.warns(DamagedCheckpointWarning):
        assert_is(checkpoints.latest(), 1)
    save(checkpoints, 2)  # as a resumed run would
    assert checkpoints.steps() == [1, 2]
    cut(checkpoints.path(2) / "state.json")
    save(checkpoints, 3)
    assert checkpoints.steps() == [1, 3]


def test_the_one_just_saved_is_never_removed(tmp_path: Path) -> None:
    checkpoints = make(tmp_path)
    for step in (10, 20, 5):
        save(checkpoints, step)
    assert checkpoints.steps() == [5, 20]


# Pickles


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["model-00001-of-00002.safetensors", "state.json", "manifest.json", "model.pt"])
def test_a_pickle_is_never_read(tmp_path: Path, name: str) -> None:
    mark, checkpoints = tmp_path / "exploded", make(tmp_path)
    pickle.loads(pickle.dumps(Bomb(mark)))
    assert mark.exists(), "the bomb is a bomb"
    mark.unlink()
    save(checkpoints, 1)
    planted = save(checkpoints, 2) / name
    beside = name == "model.pt"
    torch.save(Bomb(mark), planted) if beside else planted.write_bytes(pickle.dumps(Bomb(mark)))
    if beside:
        assert_is(checkpoints.latest(), 2)
    else:
        with pytest.warns(DamagedCheckpointWarning, match=name):
            assert_is(checkpoints.latest(), 1)
    assert not mark.exists()


def test_a_pickle_with_a_right_manifest_is_never_read(tmp_path: Path) -> None:
    mark, checkpoints = tmp_path / "exploded", make(tmp_path)
    path = save(checkpoints, 1)
    manifest = checkpoints.check(1)._manifest
    data = pickle.dumps(Bomb(mark))
    (path / "random.safetensors").write_bytes(data)
    manifest.add("random.safetensors", data)
    (path / "manifest.json").write_bytes(manifest.encode())
    found = checkpoints.latest()
    assert found is not None
    with pytest.raises(FileError, match=r"random\.safetensors is damaged"):
        found.tensors("random")
    assert not mark.exists()


# Wrong requests


@pytest.mark.parametrize(
    ("given", "state", "words"),
    [
        ({"../model": {}}, {}, "cannot name a group"),
        ({"model": {"a": torch.zeros(2, device="meta")}}, {}, "safetensors cannot hold a: "),
        ({"model": {"fine": torch.zeros(1), "a": torch.zeros(2, dtype=torch.complex128)}}, {}, "cannot hold a: "),
        ({"model": {"a": torch.eye(2).to_sparse()}}, {}, "safetensors cannot hold a: "),
        ({}, {"a": {1: 2}}, "the key 1 is no text"),
        ({}, {"a": [{(1,): 2}]}, "is no text"),
        ({}, {"a": torch.zeros(1)}, "not JSON serializable"),
    ],
)
def test_what_cannot_be_saved_is_refused(tmp_path: Path, given: Any, state: Any, words: str) -> None:
    checkpoints = make(tmp_path)
    save(checkpoints, 1)
    with pytest.raises(InputError, match=words):
        checkpoints.save(2, given, state)
    assert [path.name for path in checkpoints.folder.iterdir()] == ["step-000001"]


def test_wrong_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 2"):
        Checkpoints(tmp_path, keep=1)
    with pytest.raises(InputError, match="0 bytes"):
        Checkpoints(tmp_path, shard_bytes=0)
    with pytest.raises(InputError, match="no step -1"):
        save(make(tmp_path), -1)


def test_a_group_that_is_not_there(tmp_path: Path) -> None:
    save(make(tmp_path), 1)
    found = make(tmp_path).latest()
    assert found is not None
    with pytest.raises(FileError, match="holds no group 'modle'") as caught:
        found.tensors("modle")
    assert caught.value.hint == "its groups: model, optimizer, random"


# Tensors in a file of their own


def test_tensors_replace_those_before_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.safetensors"
    write_tensors(path, {"a": torch.zeros(3)})
    shared = torch.ones(3)
    effects = record_effects(lambda: write_tensors(tmp_path / "other", {"a": shared}))
    for effect in range(effects.index("rename") + 1):
        with monkeypatch.context() as patch:
            patch.setattr(disk, "disk", FailingDisk(effect, raising(errno.ENOSPC)))
            with pytest.raises(FileError, match="no space left"):
                write_tensors(path, {"a": shared})
        assert torch.equal(read_tensors(path)["a"], torch.zeros(3))
    write_tensors(path, {"a": shared, "b": shared})
    assert torch.equal(load_file(path)["b"], shared)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["model.safetensors", "other"]


def test_tensors_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with pytest.raises(FileError, match="cannot be read"):
        read_tensors(path)
    path.write_bytes(pickle.dumps("model"))
    with pytest.raises(FileError, match="is damaged"):
        read_tensors(path)
