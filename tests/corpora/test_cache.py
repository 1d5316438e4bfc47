"""The cache: made once, whole or not at all; damage is found and repaired; two at once are no trouble."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from attnlab.corpora import CacheWarning, Corpus, CorpusSpec, TextCorpus, cache, open_corpus, text, tokens
from attnlab.corpora.cache import CorpusCache
from attnlab.errors import FileError
from attnlab.storage import disk
from attnlab.storage.disk import name_temporary

WORDS = "to be, or not to be: that is the question\n" * 50


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(WORDS)
    return path


def opened(file: Path, folder: Path, **fields: Any) -> TextCorpus:
    corpus = open_corpus(CorpusSpec(name=str(file), **fields), folder)
    assert isinstance(corpus, TextCorpus)
    return corpus


def entry_of(folder: Path) -> Path:
    (found,) = [path for path in folder.iterdir() if path.is_dir()]
    return found


def never(*_: object, **__: object) -> NoReturn:
    raise AssertionError("it was made again")


def full(*_: object, **__: object) -> NoReturn:
    raise OSError(28, "No space left on device")


def decoded(corpus: Corpus) -> str:
    assert isinstance(corpus, TextCorpus)
    return corpus.tokenizer.decode([*corpus.train, *corpus.validation])


def test_made_once(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = opened(file, tmp_path / "cache")
    monkeypatch.setattr(text, "write_shards", never)
    second = opened(file, tmp_path / "cache")
    assert first.hash == second.hash
    assert decoded(second) == WORDS
    manifest = json.loads((entry_of(tmp_path / "cache") / "manifest.json").read_text())
    assert manifest["files"]["tokens-00000.bin"]["bytes"] == 2 * len(WORDS)
    assert manifest["about"]["dtype"] == "<u2"
    with pytest.raises(AssertionError, match="made again"):
        opened(file, tmp_path / "cache", tokenizer="byte")


def test_the_hash_is_of_the_content(file: Path, tmp_path: Path) -> None:
    hashes = {opened(file, tmp_path / "cache", tokenizer="bpe", vocabulary_size=size).hash for size in (256, 260)} | {
        opened(file, tmp_path / "cache", tokenizer=kind).hash for kind in ("char", "byte", "word")
    }
    assert len(hashes) == 5
    moved = tmp_path / "elsewhere.md"
    moved.write_text(WORDS)
    assert opened(moved, tmp_path / "other").hash in hashes
    assert opened(file, tmp_path / "cache", validation_share=0.2).hash not in hashes
    file.write_text(WORDS + "x")
    assert opened(file, tmp_path / "cache").hash not in hashes


def damage(path: Path, how: str) -> None:
    shard, manifest = path / "tokens-00000.bin", path / "manifest.json"
    if how == "truncated":
        os.truncate(shard, 10)
    elif how == "flipped":
        content = bytearray(shard.read_bytes())
        content[17] ^= 1
        shard.write_bytes(content)
    elif how == "missing":
        shard.unlink()
    elif how == "manifest flipped":  # in the tokenizer, which stands there
        manifest.write_text(manifest.read_text().replace("abe", "abf"))
    elif how == "no manifest":
        manifest.unlink()
    else:
        manifest.write_text(
            {"half a manifest": '{"format": 1, "fi', "another format": '{"format": 99}', "list": "[]"}[how]
        )


@pytest.mark.parametrize(
    "how",
    ["truncated", "flipped", "missing", "manifest flipped", "no manifest", "half a manifest", "another format", "list"],
)
def test_damage_is_repaired(file: Path, tmp_path: Path, how: str) -> None:
    before = opened(file, tmp_path / "cache")
    damage(entry_of(tmp_path / "cache"), how)
    reason = {"truncated": "has 10 bytes instead of 4200", "flipped": "bin does not have the hash"}.get(
        how, "is damaged"
    )
    with pytest.warns(CacheWarning, match=reason) as caught:
        after = opened(file, tmp_path / "cache")
    assert len(caught) == 1
    assert after.hash == before.hash
    assert decoded(after) == WORDS
    assert decoded(opened(file, tmp_path / "cache")) == WORDS  # and without a warning, which would be an error


def test_the_generated_text_is_checked_too(tmp_path: Path) -> None:
    spec = CorpusSpec(name="kinship", options={"sentences": 50})
    before = open_corpus(spec, tmp_path)
    (path,) = tmp_path.glob("*/text.txt")
    path.write_text(path.read_text().replace("the", "teh"))
    with pytest.warns(CacheWarning, match="text.txt does not have the hash"):
        assert open_corpus(spec, tmp_path).hash == before.hash


def test_a_read_only_cache_can_be_read(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = opened(file, tmp_path / "cache")
    for name in ("mkdir", "write_text", "rename"):
        monkeypatch.setattr(Path, name, full)
    monkeypatch.setattr(cache, "FileLock", never)
    assert opened(file, tmp_path / "cache").hash == before.hash


@pytest.mark.parametrize("moment", ["mkdir", "lock", "make_folder", "write", "fsync", "rename"])
def test_a_cache_that_cannot_be_written(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    folder = tmp_path / "cache"
    owners: dict[str, Any] = {"lock": cache, "make_folder": disk.disk, "write": text, "fsync": os, "rename": disk.disk}
    with monkeypatch.context() as patch:
        patch.setattr(owners.get(moment, Path), {"lock": "FileLock", "write": "write_shards"}.get(moment, moment), full)
        with pytest.raises(FileError, match="cannot be written: no space left on device") as caught:
            opened(file, folder)
    assert "ATTNLAB_CACHE" in (caught.value.hint or "")
    assert not folder.exists() or not [path for path in folder.iterdir() if path.is_dir()]
    assert decoded(opened(file, folder)) == WORDS


def test_a_file_in_place_of_the_folder(file: Path) -> None:
    with pytest.raises(FileError, match="cannot be written"):
        opened(file, file)


def test_an_interruption_leaves_nothing(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            opened(file, tmp_path / "cache")
    assert not [path for path in (tmp_path / "cache").iterdir() if path.is_dir()]


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    left = name_temporary(tmp_path, "key")
    left.mkdir()
    (left / "half").write_text("half")

    def build(folder: Path) -> dict[str, Any]:
        (folder / "file").write_text("whole")
        return {"a": 1}

    entry = CorpusCache(tmp_path).entry("key", build)
    assert entry.about == {"a": 1}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["key", "key.lock"]


def test_another_process_was_quicker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(folder: Path) -> dict[str, Any]:
        (folder / "file").write_text("whole")
        return {}

    @contextmanager
    def wait(_: Path) -> Iterator[None]:
        """While we wait for the lock, its holder makes the entry."""
        monkeypatch.undo()
        CorpusCache(tmp_path).entry("key", build)
        yield

    monkeypatch.setattr(cache, "FileLock", wait)
    assert CorpusCache(tmp_path).entry("key", never).folder == tmp_path / "key"


SCRIPT = """
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from attnlab.corpora import CorpusSpec, open_corpus
spec = CorpusSpec(name="kinship", tokenizer="bpe", vocabulary_size=300, options={"sentences": 3000})
corpus = open_corpus(spec, Path(sys.argv[1]))
batch = corpus.batch(seed=7, step=1000, batch_size=8, context_length=16, rows=slice(int(sys.argv[2]), None, 2))
print(corpus.hash, batch.inputs.tolist())
"""


def test_two_processes_at_once(tmp_path: Path) -> None:
    """They make the same cache at the same time, and read each its half of one batch."""
    environment = {**os.environ, "PYTHONHASHSEED": "random", "TOKENIZERS_PARALLELISM": "false"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-W", "error", "-c", SCRIPT, str(tmp_path), str(rank)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for rank in range(2)
    ]
    answers = [process.communicate(timeout=120)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert sorted(path.suffix for path in tmp_path.iterdir()) == ["", "", ".lock", ".lock"]  # the text and its tokens
    spec = CorpusSpec(name="kinship", tokenizer="bpe", vocabulary_size=300, options={"sentences": 3000})
    corpus = open_corpus(spec, tmp_path)
    batch = corpus.batch(seed=7, step=1000, batch_size=8, context_length=16)
    for rank, answer in enumerate(answers):
        assert answer.strip() == f"{corpus.hash} {batch.inputs[rank::2].tolist()}"


def test_several_shards(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = opened(file, tmp_path / "one")
    monkeypatch.setattr(tokens.write_shards, "__defaults__", (100,))
    several = opened(file, tmp_path / "several")
    assert len(list(entry_of(tmp_path / "several").glob("tokens-*.bin"))) == -(-len(WORDS) // 100)
    assert len(several.train) == len(one.train)
    assert np.array_equal(several.train, one.train)
    assert np.array_equal(several.validation, one.validation)
    for place in (0, 99, 100, -1, -100, len(one.train) - 1):
        assert several.train[place] == one.train[place] == np.asarray(one.train)[place]
    assert np.array_equal(several.train[90:310], one.train[90:310])
    assert np.array_equal(several.train[::-7], one.train[::-7])
    assert several.train[5:5].size == 0
    starts = np.array([0, 50, 99, 100, 950])
    assert np.array_equal(several.train.gather(starts, 120), one.train.gather(starts, 120))
    with pytest.raises(IndexError):
        several.train[len(several.train)]


def test_tokens_are_mapped_and_read_only(file: Path, tmp_path: Path) -> None:
    corpus = opened(file, tmp_path / "cache")
    array = np.asarray(corpus.train)
    assert array.dtype == np.uint16
    assert not array.flags.writeable
    assert not array.flags.owndata
    assert np.shares_memory(array, np.asarray(corpus.train))


def test_a_large_vocabulary_takes_four_bytes(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    wide = "".join(map(chr, [*range(1, 0xD800), *range(0xE000, 0x10000 + 9000)]))
    path.write_bytes(wide.encode())
    corpus = opened(path, tmp_path / "cache", validation_share=0)
    assert corpus.vocabulary_size > 1 << 16
    assert corpus.train.dtype == np.uint32
    assert decoded(corpus) == wide
