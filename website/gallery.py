"""The gallery: pages that attnlab itself writes, of every exhibit and of every kind of report.

Runs are kept, so that only what is new is trained, and pages are written again only if the source code has changed. The
model of the knowledge report is the one that the fourth tutorial trains.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path

from attnlab.exhibits import exhibit_named, exhibits
from website.paths import GALLERY, RUNS, TUTORIAL_RUNS, is_current, keep, source_hash
from website.shared import share

_FILES = ("{page}", "{runs}")
_TRAINING = ("--tokens-per-parameter", "80", "--seeds", "3", "--pilot", "0", "--change", "learning_rate=0.01")


@dataclass(frozen=True)
class Report:
    """A page: its file, its title, what it shows, and the command that writes it."""

    name: str
    title: str
    shows: str
    command: tuple[str, ...]

    def write(self, page: Path) -> None:
        """Write the page."""
        _attnlab(self.command, page)

    @property
    def shown_command(self) -> str:
        """Return the command as a user types it, without the files that the site wants."""
        places = {place - 1 for place, word in enumerate(self.command) if word in _FILES}  # of their options
        words = [word for place, word in enumerate(self.command) if word not in _FILES and place not in places]
        typed = ["RUN" if word.startswith("{") else f'"{word}"' if " " in word else word for word in words]
        return " ".join(["attnlab", *typed])


# {page} is the page, {runs} the folder of runs, {softmax} and so on the newest run of that variant in the
# comparison, {knowledge} the finetuned run of the tutorial.
REPORTS = (
    Report(
        "compare",
        "A comparison",
        "One projection for keys and values, and cosine scores with a learned temperature, against softmax: 14 k "
        "non-embedding parameters, 1.5 M characters, context 64, three paired seeds.",
        ("compare", "tied-kv", "cosine-learned", "--size", "14k", *_TRAINING, "--report", "{page}", "--out", "{runs}"),
    ),
    Report(
        "scale",
        "A study over sizes",
        "The same change on a ladder of three sizes with searched learning rates, at a budget of minutes. Verdicts on "
        "runs this short are withheld.",
        (
            *("scale", "tied-kv", "--corpus", "pydoc", "--rungs", "6k,14k,25k", "--tokens-per-parameter", "20"),
            *("--seeds", "2", "--rate-seeds", "1", "--rate-count", "3", "--target", "1M"),
            *("--report", "{page}", "--out", "{runs}"),
        ),
    ),
    Report(
        "look",
        "The heads of a model",
        "Every head of a run of the comparison above: its map, its role and its importance.",
        ("look", "{softmax}", "The value of an expression is assigned to the name.", "--out", "{page}"),
    ),
    Report(
        "look-compare",
        "The heads of two models",
        "What one projection for keys and values does to the heads.",
        ("look", "--compare", "{softmax}", "--compare", "{tied-kv}", "--out", "{page}"),
    ),
    Report(
        "retrofit",
        "Another attention for a trained model",
        "A run of the comparison above with one projection for keys and values, with one key head, and with a window: "
        "the cost of each layer, and healing on 200 k characters over two seeds.",
        (
            *("retrofit", "{softmax}", "--to", "tied-kv,mqa,window:16", "--tokens", "200000", "--seeds", "2"),
            *("--quiet", "--report", "{page}", "--out", "{runs}"),
        ),
    ),
    Report(
        "survey",
        "What a real model shows",
        "SmolLM2, 135 M parameters: induction heads, previous-token heads, attention sinks, redundant heads, and "
        "whether length or direction draws attention, with intervals over texts beside published findings.",
        ("look", "smollm2", "--survey", "--out", "{page}"),
    ),
    Report(
        "cost",
        "The cost of variants",
        "Parameters, FLOPs, memory and cache of four variants at GPT-2's size.",
        (
            *("cost", "gpt2", "--variant", "softmax", "--variant", "tied-kv", "--variant", "gqa:4"),
            *("--variant", "window:256", "--out", "{page}"),
        ),
    ),
    Report(
        "knowledge",
        "What a model knows",
        "A model that learned the facts of a generated world: accuracy, calibration, and abstention with a guarantee.",
        ("knowledge", "report", "{knowledge}", "--page", "{page}"),
    ),
)


def make_gallery() -> None:
    """Write all pages that are missing or older than the source code."""
    key = source_hash()
    for one in exhibits():
        # What `attnlab exhibit NAME --out PAGE` does, without a process for each.
        _make(GALLERY / "exhibits" / f"{one.name}.html", key, "../../", partial(_write_exhibit, one.name))
    for report in REPORTS:
        _make(GALLERY / f"{report.name}.html", key, "../", report.write)


def _write_exhibit(name: str, page: Path) -> None:
    exhibit_named(name).run().write(page)


def _make(page: Path, key: str, up: str, write: Callable[[Path], None]) -> None:
    if is_current(page, key):
        return
    print(f"gallery: {page.stem}", flush=True)
    page.parent.mkdir(parents=True, exist_ok=True)
    write(page)
    page.write_text(share(page.read_text(encoding="utf-8"), up), encoding="utf-8")
    keep(page, key)


def _attnlab(command: tuple[str, ...], page: Path) -> None:
    words = [_fill(word, page) for word in command]
    done = subprocess.run([sys.executable, "-m", "attnlab", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"attnlab {' '.join(words)} failed:\n{done.stderr}")


def _fill(word: str, page: Path) -> str:
    if word == "{page}":
        return str(page)
    if word == "{knowledge}":
        return str(_finetuned())
    word = word.replace("{runs}", str(RUNS))
    return str(_newest(word[1:-1])) if word.startswith("{") else word


def _newest(variant: str) -> Path:
    """Return the folder of the newest finished run of a variant in the comparison."""
    found = [path for path in RUNS.glob("compare-*/**/result.json") if path.parent.name.startswith(f"{variant}-")]
    if not found:
        raise SystemExit(f"there is no run {variant}-… below {RUNS}")
    return max(found, key=lambda path: path.stat().st_mtime).parent


def _finetuned() -> Path:
    """Return the run that was finetuned after pretraining; beside it lies one that was not pretrained."""
    for path in sorted(TUTORIAL_RUNS.rglob("knowledge.json")):
        record = json.loads(path.read_text(encoding="utf-8"))
        if record["stage"] == "finetune" and record["parent"]:
            return path.parent
    raise SystemExit(f"there is no finetuned run below {TUTORIAL_RUNS}")


def gallery_index() -> str:
    """Return the page that leads to all others."""
    return "\n".join(_index())


def _index() -> Iterator[str]:
    yield "# Gallery\n"
    yield "attnlab itself wrote every page here, by the command below its title. Each also works offline.\n"
    yield '## Reports\n\n<div class="cards" markdown>\n'
    for report in REPORTS:
        title = _linked(report.title, f"{report.name}.html")
        yield f"<div markdown>\n\n### {title}\n\n{report.shows}\n\n`{report.shown_command}`\n\n</div>\n"
    yield "</div>\n"
    for chapter, members in groupby(exhibits(), key=lambda one: one.chapter):
        yield f'## {chapter.capitalize()}\n\n<div class="cards" markdown>\n'
        for one in members:
            title = _linked(one.title, f"exhibits/{one.name}.html")
            yield f"<div markdown>\n\n### {title}\n\n{one.claim}\n\n`attnlab exhibit {one.name}`\n\n</div>\n"
        yield "</div>\n"


def _linked(title: str, page: str) -> str:
    """Return the title with a link, if the page was made."""
    return f"[{title}]({page})" if (GALLERY / page).exists() else title
