"""Saving GPT-2's weights: what they cannot express is refused, and nothing is lost where saving fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch

from attnlab.attention import AttentionSpec, Mask, variants
from attnlab.errors import FileError, UnsupportedError
from attnlab.models import build_model, load_gpt2, save_gpt2
from attnlab.storage import disk
from support.gpt2 import ours, shard, stored

EXPRESSIBLE = {"softmax", "dot", "single-head"}


@pytest.mark.parametrize("name", [one.name for one in variants() if one.name not in EXPRESSIBLE | {"bidirectional"}])
def test_every_other_variant_is_refused_by_its_fields(name: str, tmp_path: Path) -> None:
    one = next(one for one in variants() if one.name == name)
    with pytest.raises(UnsupportedError) as caught:
        save_gpt2(ours(variant=name), tmp_path / "saved")
    named = [field for field in one.changes if field in caught.value.message]
    assert named, caught.value.message
    assert "GPT-2 has" in caught.value.message
    assert list(tmp_path.iterdir()) == []


CANNOT: dict[str, tuple[dict[str, Any], str]] = {
    "rms": ({"norm": "rms"}, "norm is rms, and GPT-2 has layer"),
    "squared relu": ({"activation": "relu-squared"}, "activation is relu-squared, and GPT-2 has gelu-tanh or gelu"),
    "encoder": ({"family": "encoder"}, "family is encoder, and GPT-2 has decoder; mask of attention"),
    "both": ({"family": "encoder-decoder"}, "family is encoder-decoder.*cross_attention is 2 specs"),
    "in turns": ({"variant": "softmax,sigmoid"}, "its layers differ in normaliser"),
    "fast": ({"architecture": "fast"}, "norm is rms.*; activation is relu-squared.*; position of attention is rope"),
    "window": ({"variant": "window"}, "mask of attention is causal × window"),
}


@pytest.mark.parametrize("case", CANNOT)
def test_what_gpt2_cannot_express_is_refused(case: str, tmp_path: Path) -> None:
    changes, message = CANNOT[case]
    with pytest.raises(UnsupportedError, match=message) as caught:
        save_gpt2(ours(**changes), tmp_path / "saved")
    assert caught.value.hint
    assert list(tmp_path.iterdir()) == []


def test_attention_of_ones_own_is_refused(tmp_path: Path) -> None:
    base = ours().spec
    for changes, message in (
        ({"key_width": 5, "value_width": 5}, "key_width of attention is 5, and GPT-2 has 8"),
        ({"output_dropout": 0.3}, "output_dropout of attention is 0.3, and GPT-2 has 0"),
        ({"position": None}, "position of attention is none, and GPT-2 has learned"),
        ({"mask": Mask(prefix=3)}, "mask"),
        ({"num_heads": 3, "key_width": 5, "value_width": 5}, "key_width of attention is 5, and GPT-2 has 5.33"),
    ):
        fields = {"model_width": 16, "num_heads": 2, "position": "learned", **changes}
        spec = base.replace(attention=(AttentionSpec(**fields),) * 2)
        with pytest.raises(UnsupportedError, match=message):
            save_gpt2(build_model(spec), tmp_path / "saved")


def test_a_gpt2_is_replaced_and_what_lies_beside_it_stays(tmp_path: Path) -> None:
    folder = stored(tmp_path / "model")
    shard(folder)
    (folder / "tokenizer.json").write_text("{}")
    (folder / "notes").mkdir()
    (folder / "notes" / "config.json").write_text("mine")
    (folder / "pytorch_model.bin").touch()
    (tmp_path / "link").symlink_to(folder)
    model = ours()
    for _ in range(2):
        save_gpt2(model, tmp_path / "link")
    names = {path.name for path in folder.iterdir()}
    assert names - {"generation_config.json"} == {"config.json", "model.safetensors", "tokenizer.json", "notes"}
    assert (folder / "notes" / "config.json").read_text() == "mine"
    assert load_gpt2(folder).spec == model.spec
    assert (tmp_path / "link").is_symlink()
    assert {path.name for path in tmp_path.iterdir()} == {"model", "link"}


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    for name, text in (("x", ""), ("config.json", "{}"), ("config.json", '{"model_type": "llama"}')):
        (tmp_path / name).write_text(text)
        with pytest.raises(FileError, match="holds other things"):
            save_gpt2(ours(), tmp_path)
    with pytest.raises(FileError, match="is a file"):
        save_gpt2(ours(), tmp_path / "thesis.txt")
    with pytest.raises(FileError, match=r"thesis\.txt is a file"):
        save_gpt2(ours(), tmp_path / "thesis.txt" / "below")
    assert (tmp_path / "thesis.txt").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config.json", "thesis.txt", "x"]
    (tmp_path / "empty").mkdir()
    save_gpt2(ours(), tmp_path / "empty")
    assert load_gpt2(tmp_path / "empty").spec == ours().spec


@pytest.mark.parametrize("existing", [False, True])
@pytest.mark.parametrize(
    ("number", "hint"), [(errno.ENOSPC, "free some space"), (errno.EROFS, "a new folder"), (errno.EIO, "a new folder")]
)
@pytest.mark.parametrize("step", ["write_text", "save_file", "flush", "rename"])
def test_a_failing_disk_leaves_what_was_there(
    step: str, number: int, hint: str, existing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ours()
    folder = tmp_path / "model"
    if existing:
        save_gpt2(before, folder)

    def fail(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    holder = {"save_file": safetensors.torch, "flush": disk.disk}.get(step, Path)
    with monkeypatch.context() as patch:
        patch.setattr(holder, step, fail)
        with pytest.raises(FileError, match="cannot be written") as caught:
            save_gpt2(ours(num_layers=1), folder)
    assert hint in str(caught.value.hint)
    assert [path.name for path in tmp_path.iterdir()] == (["model"] if existing else [])
    if existing:
        assert load_gpt2(folder).spec == before.spec


def test_the_old_model_comes_back_if_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_gpt2(ours(), tmp_path / "model")
    rename, calls = Path.rename, []

    def second_fails(path: Path, target: Path) -> Path:
        calls.append(path)
        if len(calls) == 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", second_fails)
    with pytest.raises(FileError, match="cannot be written"):
        save_gpt2(ours(num_layers=1), tmp_path / "model")
    assert load_gpt2(tmp_path / "model").spec.num_layers == 2
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_no_space_as_the_writer_of_tensors_says_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise safetensors.SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(safetensors.torch, "save_file", full)
    with pytest.raises(FileError, match="No space left") as caught:
        save_gpt2(ours(), tmp_path / "model")
    assert "free some space" in str(caught.value.hint)
