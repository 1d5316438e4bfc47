"""Folders that commands work in: runs of every kind, a comparison, a fact store, bundles and texts."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import asdict, dataclass
from pathlib import Path

from attnlab.corpora import World
from support.campaign.children import USUAL, Circumstances, Outcome, is_reachable, run
from support.campaign.system_calls import Trouble

FOREIGN = 54321  # the number of another user
CORPUS = ("--corpus", "kinship", "--corpus-option", "families=2", "--corpus-option", "sentences=200")
_CHANGES = ("num_layers=1", "model_width=16", "num_heads=2", "context_length=8", "batch_size=4", "validation_rows=4")
SHAPE = (*CORPUS, *(word for change in _CHANGES for word in ("--change", change)))
ALONE = ("--threads", "1", "--workers", "1", "--quiet")
TRAIN = ("train", *SHAPE, *ALONE)
COMPARE = ("compare", "tied-kv", *SHAPE, "--size", "nano", "--steps", "3", "--seeds", "2", "--pilot", "0", "--quiet")
LAUNCH = ("--threads", "1", "--processes", "1")
SMALL_MODEL = ("--num-layers", "1", "--model-width", "16", "--num-heads", "2", *ALONE)
RETROFIT = ("--to", "tied-kv", "--texts", "2", "--fitting-texts", "2", "--batch-size", "2", *ALONE)
READ = ("--text", "text.txt", "--pairs", "pairs.tsv")
_MINE = """from attnlab.attention import Variant, add_variant

add_variant(Variant("mine", "A sharper softmax.", {"normaliser": {"name": "softmax", "temperature": 0.5}}))
"""


@dataclass(frozen=True)
class Names:
    """The folders of the runs in a scene; a small one has only the first two."""

    trained: str
    unfinished: str
    comparison: str = "nosuch-comparison"
    pretrained: str = "nosuch-pretrained"
    finetuned: str = "nosuch-finetuned"


@dataclass(frozen=True)
class Scene:
    """A folder, and the names of what is in it."""

    folder: Path
    names: Names

    def copy(self, folder: Path, owner: int | None = None) -> Scene:
        """Return a copy in a new folder, which belongs to `owner`."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder, symlinks=True)
        if owner is not None:
            for path in (folder, *folder.rglob("*")):
                os.lchown(path, owner, owner)
        return Scene(folder, self.names)


def other_user(folder: Path) -> int | None:
    """Return another user that commands can be run as, which only root can do where others may enter."""
    return FOREIGN if os.geteuid() == 0 and is_reachable(folder) else None


def open_scene(folder: Path, *, small: bool = False) -> Scene:
    """Return the scene in a folder, which is built if it does not exist; a small one has no comparison and no model."""
    record = folder.parent / f"{folder.name}.json"
    if not record.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        record.write_text(json.dumps(asdict(_build(folder, small=small))))
    return Scene(folder, Names(**json.loads(record.read_text())))


def _build(folder: Path, *, small: bool) -> Names:
    (folder / "tmp").mkdir(mode=0o777)
    world = World.generate(0, people=24, unseen=4, places=5, exposures="1", details=1)
    (folder / "text.txt").write_text(world.text())
    pairs = [*world.pairs("train"), *world.pairs("heldout")]
    (folder / "pairs.tsv").write_text("".join(f"{question}\t{answer}\n" for question, answer in pairs))
    (folder / "mine.py").write_text(_MINE)
    (folder / "loop").symlink_to("loop")
    trained = _new_run(folder, *TRAIN, "--steps", "3", "--bundle", "run.zip")
    stop = Circumstances(Trouble(70, "signal", signal.SIGTERM))
    unfinished = _new_run(folder, *TRAIN, "--steps", "40", "--seed", "1", "--checkpoint-seconds", "1e-9", how=stop)
    _done(folder, "knowledge", "facts", "import", "pairs.tsv")
    _done(folder, "knowledge", "facts", "add", "Who wrote this?", "Nobody")
    _done(folder, "knowledge", "facts", "export", "facts.jsonl")
    if small:
        return Names(trained, unfinished)
    comparison = _new_run(folder, *COMPARE, *LAUNCH, "--bundle", "comparison.zip")
    read = ("knowledge", "pretrain", *READ, "--steps", "2", "--vocabulary-size", "300", *SMALL_MODEL)
    pretrained = _new_run(folder, *read)
    finetuned = _new_run(folder, "knowledge", "finetune", pretrained, "--steps", "2", *ALONE)
    _done(folder, "knowledge", "facts", "import", "text.txt")
    _done(folder, "look", trained, "--out", "look.html")
    _done(folder, work=lambda: _write_pretrained(folder / "tiny.gguf"))
    return Names(trained, unfinished, comparison, pretrained, finetuned)


def _write_pretrained(path: Path) -> int:
    from support.pretrained import their_llama, write_gguf

    write_gguf(path, their_llama())
    return 0


def _new_run(folder: Path, *tokens: str, how: Circumstances = USUAL) -> str:
    before = {path.name for path in (folder / "runs").glob("*")}
    _done(folder, *tokens, how=how)
    (new,) = {path.name for path in (folder / "runs").glob("*")} - before
    return new


def _done(folder: Path, *tokens: str, how: Circumstances = USUAL, work: object = None) -> Outcome:
    done = run(tokens, folder, how, work)  # type: ignore[arg-type]
    expected = 0 if how.trouble is None else 143
    assert done.code == expected, f"{' '.join(tokens)} ended with {done.code}:\n{done.out}\n{done.err}"
    return done
