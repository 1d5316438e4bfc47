"""Commands that write, as they are typed in a scene."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from support.campaign.scenes import ALONE, COMPARE, LAUNCH, READ, SMALL_MODEL, TRAIN, Names


@dataclass(frozen=True)
class Job:
    """A command line with its input. `removes` says that something is meant to be gone afterwards."""

    name: str
    tokens: Sequence[str]
    stdin: bytes = b""
    removes: bool = False
    codes: tuple[int, ...] = (0,)


def jobs(names: Names) -> list[Job]:
    """Return commands that write all that attnlab can write."""
    facts = ("knowledge", "facts")
    finetune = ("knowledge", "finetune", names.pretrained)
    return [
        Job("train", (*TRAIN, "--steps", "2", "--seed", "5", "--checkpoint-seconds", "1e-9", "--bundle", "new.zip")),
        Job("train, another text", ("train", "--corpus", "text.txt", *TRAIN[7:], "--steps", "1", "--tokenizer", "bpe")),
        Job("train, tensorboard", (*TRAIN, "--steps", "1", "--seed", "6", "--tensorboard")),
        Job("resume", ("train", names.unfinished, *ALONE)),
        Job("compare", (*COMPARE, "--first-seed", "7", *LAUNCH, "--csv", "new.csv", "--report", "new.html")),
        Job("compare, planned", (*COMPARE, "--first-seed", "9", *LAUNCH, "--plan")),
        Job("compare, finished", ("compare", names.comparison, "--bundle", "new.zip", "--csv", "new.csv")),
        Job("pretrain", ("knowledge", "pretrain", *READ, "--steps", "1", "--seed", "3", *SMALL_MODEL)),
        Job("finetune", (*finetune, "--steps", "1", "--seed", "3", *ALONE)),
        Job("learn", ("knowledge", "learn", names.finetuned, "--epochs", "1", "--quiet")),
        Job("evaluate", ("knowledge", "evaluate", names.finetuned, "--samples", "2", "--predictions", "new.tsv")),
        Job("report", ("knowledge", "report", names.finetuned, "--samples", "2", "--page", "new.html")),
        Job("import", (*facts, "import", "facts.jsonl", "--store", "new.sqlite")),
        Job("import more", (*facts, "import", "mine.py", "--kind", "text")),
        Job("add", (*facts, "add", "Where is it?", "Here")),
        Job("retract", (*facts, "retract", "1"), removes=True),
        Job("export", (*facts, "export", "new.jsonl")),
        Job("ask", ("ask", names.finetuned), stdin="Who wrote this?\nWhere was Ada born?\n".encode()),
        Job("look", ("look", names.trained, "--out", "new.html")),
        Job("exhibit", ("exhibit", "analogy", "--smoke", "--out", "new.html")),
        Job("check", ("check", "tied-kv", "--quick", "--out", "pages")),
        Job("cost", ("cost", "nano", "--csv", "new.csv")),
        Job("verify", ("verify", "run.zip", "--page", "new.html")),
        Job("verify a comparison", ("verify", names.comparison, "--segments", "1", "--page", "new.html")),
        Job("remove", ("runs", "rm", names.trained, "--yes"), removes=True),
        Job("collect", ("runs", "gc")),
    ]
