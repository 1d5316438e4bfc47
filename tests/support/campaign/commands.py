"""Commands that write, as they are typed in a scene."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from support.campaign.scenes import ALONE, COMPARE, LAUNCH, READ, RETROFIT, SMALL_MODEL, TRAIN, Names


@dataclass(frozen=True)
class Job:
    """A command line with its input. `removes` says that something is meant to be gone afterwards.

    `quick` ones take a moment, and need no comparison and no finetuned model. A fault strikes every effect, or each
    one of `every`, where the others are those of runs that another job trains.
    """

    name: str
    tokens: Sequence[str]
    stdin: bytes = b""
    removes: bool = False
    codes: tuple[int, ...] = (0,)
    quick: bool = False
    every: int = 1


def jobs(names: Names) -> list[Job]:
    """Return commands that write all that attnlab can write."""
    facts = ("knowledge", "facts")
    finetune = ("knowledge", "finetune", names.pretrained)
    return [
        Job(
            "train",
            (*TRAIN, "--steps", "2", "--seed", "5", "--checkpoint-seconds", "1e-9", "--bundle", "new.zip"),
            quick=True,
        ),
        Job("train, another text", ("train", "--corpus", "text.txt", *TRAIN[7:], "--steps", "1", "--tokenizer", "bpe")),
        Job("train, tensorboard", (*TRAIN, "--steps", "1", "--seed", "6", "--tensorboard")),
        Job("resume", ("train", names.unfinished, *ALONE), quick=True),
        Job("compare", (*COMPARE, "--first-seed", "7", *LAUNCH, "--csv", "new.csv", "--report", "new.html"), every=8),
        Job("compare, planned", (*COMPARE, "--first-seed", "9", *LAUNCH, "--plan")),
        Job("compare, finished", ("compare", names.comparison, "--bundle", "new.zip", "--csv", "new.csv")),
        Job("pretrain", ("knowledge", "pretrain", *READ, "--steps", "1", "--seed", "3", *SMALL_MODEL)),
        Job("finetune", (*finetune, "--steps", "1", "--seed", "3", *ALONE)),
        Job("learn", ("knowledge", "learn", names.finetuned, "--epochs", "1", "--quiet")),
        Job("evaluate", ("knowledge", "evaluate", names.finetuned, "--samples", "2", "--predictions", "new.tsv")),
        Job("report", ("knowledge", "report", names.finetuned, "--samples", "2", "--page", "new.html")),
        Job("import", (*facts, "import", "facts.jsonl", "--store", "new.sqlite"), quick=True),
        Job("import more", (*facts, "import", "mine.py", "--kind", "text")),
        Job("add", (*facts, "add", "Where is it?", "Here"), quick=True),
        Job("retract", (*facts, "retract", "1"), removes=True),
        Job("export", (*facts, "export", "new.jsonl"), quick=True),
        Job("ask", ("ask", names.finetuned), stdin=b"Who wrote this?\nWhere was Ada born?\n"),
        Job("look", ("look", names.trained, "--out", "new.html", "--figures", "figures")),
        Job(
            "retrofit",
            (
                "retrofit",
                names.trained,
                *RETROFIT,
                "--tokens",
                "64",
                "--seeds",
                "2",
                "--csv",
                "new.csv",
                "--save",
                "hf",
            ),
            every=8,
        ),
        Job("exhibit", ("exhibit", "analogy", "--smoke", "--out", "new.html")),
        Job("check", ("check", "tied-kv", "--quick", "--out", "pages")),
        Job("cost", ("cost", "nano", "--csv", "new.csv")),
        Job("verify", ("verify", "run.zip", "--page", "new.html"), quick=True),
        Job(
            "verify a comparison",
            ("verify", names.comparison, "--segments", "1", "--page", "new.html"),
            codes=(0, 2),  # 2 if another version of attnlab built the scene
        ),
        Job("remove", ("runs", "rm", names.trained, "--yes"), removes=True, quick=True),
        Job("collect", ("runs", "gc"), quick=True),
    ]
