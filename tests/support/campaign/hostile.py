"""Cases with hostile files: what attnlab reads is refused, or read as if nothing had happened."""

from __future__ import annotations

import functools
import json
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.errors import AttnlabError
from attnlab.studio.work.__main__ import TASKS, answer
from support.campaign.children import USUAL, Circumstances, run
from support.campaign.judging import REFUSED
from support.campaign.mutations import BY_FORMAT, change_state, draw_link, is_same
from support.campaign.scenes import ALONE, TRAIN, Names, other_user

if TYPE_CHECKING:
    from support.campaign.cases import Case, Workshop

_STATE_TASKS = ("attend", "vary", "change", "resize", "export")


@dataclass(frozen=True)
class Target:
    """Files of one format and the commands that read them.

    A `sealed` file is covered by a hash, or can be made anew: a command that accepts it prints what it prints for the
    right one. What may write the file again, as `train` does, comes last. An `optional` one may be missing.
    """

    pattern: str
    format: str
    readers: tuple[Sequence[str], ...]
    sealed: bool = True
    optional: bool = False


def targets(names: Names) -> list[Target]:
    """Return every kind of file that attnlab reads."""
    run, comparison = f"runs/{names.trained}", f"runs/{names.comparison}"
    generate = ("generate", names.trained, "a", "--tokens", "3", "--json")
    train = ("train", names.trained, *ALONE)
    resume = ("train", names.unfinished, *ALONE)
    show = ("runs", "show", names.trained, "--json")
    verify = ("verify", names.trained, "--segments", "1")
    reread = ("compare", names.comparison, "--json", "--quiet")
    verify_all = ("verify", names.comparison, "--segments", "1")
    ask = ("ask", names.finetuned, "Who wrote this?", "--json")
    new = ("--store", "new.sqlite", "--json")
    facts = ("knowledge", "facts")
    text = ("train", "--corpus", "text.txt", *TRAIN[7:], "--steps", "1")
    return [
        Target(f"{run}/model.safetensors", "safetensors", (generate, verify, train)),
        Target(f"{run}/run.json", "json", (generate, verify, train)),
        Target(f"{run}/result.json", "json", (generate, verify, train)),
        Target(f"{run}/tokenizer.json", "json", (generate, verify, train)),
        Target(f"{run}/receipts.jsonl", "jsonl", (verify,)),
        Target(f"{run}/metrics.jsonl", "jsonl", (verify,)),
        Target(f"{run}/[mr]*.json*", "json", (show, ("runs", "list")), sealed=False),
        Target(f"{run}/states/*.safetensors", "safetensors", (verify,), optional=True),
        Target(f"runs/{names.unfinished}/checkpoints/*/*", "bytes", (resume,)),
        Target(f"runs/{names.unfinished}/*.json*", "bytes", (resume,), sealed=False),
        Target(f"{comparison}/plan.json", "json", (reread, verify_all)),
        Target(f"{comparison}/*.json", "json", (verify_all, reread)),
        Target(f"{comparison}/*.csv", "text", (verify_all,)),
        Target(f"{comparison}/runs/*/*.json", "json", (verify_all,)),
        Target(f"{comparison}/runs/*/*.json", "json", (reread,), sealed=False),
        Target(
            f"runs/{names.finetuned}/*.json", "json", (ask, ("knowledge", "evaluate", names.finetuned)), sealed=False
        ),
        Target(
            f"runs/{names.finetuned}/*.tsv", "text", (ask, ("knowledge", "evaluate", names.finetuned)), sealed=False
        ),
        Target("pairs.tsv", "text", ((*facts, "import", "pairs.tsv", *new),), sealed=False),
        Target("text.txt", "text", (text, (*facts, "import", "text.txt", *new)), sealed=False),
        Target("facts.jsonl", "jsonl", ((*facts, "import", "facts.jsonl", *new),), sealed=False),
        Target("runs/facts.sqlite", "sqlite", ((*facts, "search", "born"), (*facts, "check"), ask), sealed=False),
        Target(
            "runs/facts.sqlite",
            "sqlite",
            ((*facts, "add", "a", "b"), (*facts, "export"), (*facts, "retract", "1")),
            sealed=False,
        ),
        Target("run.zip", "zip", (("verify", "run.zip", "--segments", "1"),)),
        Target("comparison.zip", "zip", (("verify", "comparison.zip", "--segments", "0"),)),
        Target(
            "tiny.gguf", "gguf", (("generate", "tiny.gguf", "a", "--tokens", "1"), ("cost", "tiny.gguf")), sealed=False
        ),
        Target("mine.py", "python", (("variants", "--variants-from", "mine.py"),), sealed=False),
        Target("cache/**/*.*", "bytes", ((*TRAIN, "--steps", "1", "--seed", "8", "--json"),), sealed=False),
    ]


def hostile(case: Case) -> None:
    """Change a file, and let commands read it."""
    user = other_user(case.folder)
    scene = case.scene(user)
    found = [(target, _files(scene.folder, target.pattern)) for target in targets(scene.names)]
    known = [one for one in found if one[1]]  # a small scene has not all of them
    target, files = known[case.number % len(known)]
    path = case.chosen.choice(files)
    original = path.read_bytes()
    mutate = case.chosen.choice(BY_FORMAT["jsonl" if path.suffix == ".jsonl" else target.format])
    mutate(path, case.chosen)
    changed = path.is_symlink() or not path.is_file() or not is_same(original, path.read_bytes())
    if path.exists() and user is not None and not path.is_symlink():
        path.chmod(0o777)
    for reader in target.readers:
        done = case.command(reader, Circumstances(user=user))
        missing = target.optional and not path.exists()
        if done.code == 0 and target.sealed and changed and not missing and path.name not in done.err:
            expected = _printed(case.workshop, tuple(reader))
            if _plain(done.out) != _plain(expected) or reader[0] == "verify":
                words = f"{path.relative_to(scene.folder)} after {mutate.__name__}"
                case.fail("accepted", words, done)


def _files(folder: Path, pattern: str) -> list[Path]:
    return sorted(path for path in folder.glob(pattern) if path.is_file() and path.stat().st_size)


def _plain(text: str) -> Any:
    """Return what was printed without what differs each time."""
    return [line for line in text.splitlines() if not any(word in line for word in ("seconds", "time", "speed"))]


@functools.cache
def _printed_by(tokens: tuple[str, ...], scene: Path, folder: Path) -> str:
    shutil.copytree(scene, folder, symlinks=True)
    try:
        return run(tokens, folder).out
    finally:
        shutil.rmtree(folder)


def _printed(workshop: Workshop, tokens: tuple[str, ...]) -> str:
    """Return what a command prints for the right file."""
    return _printed_by(tokens, workshop.scene.folder, workshop.folder / "right")


def studio(case: Case) -> None:
    """Put questions with hostile states to the process that computes for the studio's pages."""
    case.folder.mkdir(exist_ok=True)
    (case.folder / "tmp").mkdir(exist_ok=True)
    for _ in range(10):
        state = case.chosen.choice(answer({"task": "presets"})["presets"])["state"]  # type: ignore[call-overload]
        task = case.chosen.choice(_STATE_TASKS)
        question: dict[str, Any] = {"task": task, "state": change_state(state, case.chosen)}
        if task == "attend" and case.chosen.random() < 0.6:
            question = {"task": "attend", "link": draw_link(state, case.chosen)}
        elif task == "vary":
            question["name"] = case.chosen.choice(["tied-kv", "", "x", "mla", "softmax+sigmoid", "window:0"])
        elif task == "change":
            question["changes"] = change_state({"score": "dot", "num_heads": 1, "key_width": 2}, case.chosen)
        elif task == "resize":
            question |= {"tokens": case.chosen.choice([0, 1, 8, 10**9]), "width": case.chosen.choice([-1, 1, 16, 17])}
        case.command(("studio", json.dumps(question)[:300]), USUAL, work=functools.partial(_answered, question))


def _answered(question: dict[str, Any]) -> int:
    assert question["task"] in TASKS
    try:
        json.dumps(answer(json.loads(json.dumps(question))))
    except AttnlabError as error:
        print(f"error: {error}", file=sys.stderr)
        return REFUSED
    return 0
