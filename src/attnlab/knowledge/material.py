"""The training material of a knowledge model: a text, and pairs with one use each. Kept in the run's folder.

knowledge.json          stage, parent, recipe, the question's template
text.txt                the documents, one on each line
pairs/train.tsv         training pairs
pairs/heldout.tsv       evaluation pairs, which show what the model knows
pairs/calibration.tsv   pairs that only set the threshold
pairs/practice.tsv      synthetic pairs, which the pretrained model generated: question, answer, its probability
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

from attnlab.corpora import World
from attnlab.errors import FileError, InputError, UnknownNameError
from attnlab.knowledge.pairs import (
    Pair,
    PairList,
    QuestionTemplate,
    read_pairs,
    split_pairs,
    write_lines,
    write_pairs,
)
from attnlab.knowledge.text import DocumentIndex, read_documents, read_lines
from attnlab.storage.records import read_json, write_json

FORMAT = 1
RECORD, TEXT, PAIRS, SYNTHETIC = "knowledge.json", "text.txt", "pairs", "practice.tsv"
HELDOUT, CALIBRATION = 0.1, 0.1  # of the pairs, unless said otherwise

Use = Literal["train", "heldout", "calibration"]


@dataclass(frozen=True)
class SyntheticPair:
    """A pair that a model generated, with the probability that it gave the answer."""

    question: str
    answer: str
    probability: float

    @property
    def pair(self) -> Pair:
        return Pair(self.question, self.answer)


@dataclass(frozen=True)
class Material:
    """A text and its pairs."""

    documents: tuple[str, ...]
    train: tuple[Pair, ...] = ()
    heldout: tuple[Pair, ...] = ()
    calibration: tuple[Pair, ...] = ()
    synthetic: tuple[SyntheticPair, ...] = ()
    notes: tuple[str, ...] = field(default=(), compare=False)  # what was left out

    @cached_property
    def template(self) -> QuestionTemplate:
        """Return what the training questions have in common."""
        return QuestionTemplate.find([pair.question for pair in self.train])

    @cached_property
    def index(self) -> DocumentIndex:
        return DocumentIndex(self.documents)

    def pairs(self, use: str) -> tuple[Pair, ...]:
        if use not in get_args(Use):
            raise UnknownNameError("use of pairs", use, get_args(Use))
        found: tuple[Pair, ...] = getattr(self, use)
        return found

    @cached_property
    def hash(self) -> str:
        """SHA-256 of all of it."""
        pairs = {use: [[pair.question, pair.answer] for pair in self.pairs(use)] for use in get_args(Use)}
        synthetic = [[pair.question, pair.answer, pair.probability] for pair in self.synthetic]
        return hashlib.sha256(json.dumps([self.documents, pairs, synthetic]).encode()).hexdigest()

    def write(self, folder: Path) -> None:
        """Put it into a run's folder."""
        write_lines(folder / TEXT, self.documents)
        if self.synthetic:
            lines = (f"{pair.question}\t{pair.answer}\t{pair.probability:.6g}" for pair in self.synthetic)
            write_lines(folder / PAIRS / SYNTHETIC, lines)
        for use in get_args(Use):
            write_pairs(folder / PAIRS / f"{use}.tsv", self.pairs(use))

    @classmethod
    def read(cls, folder: Path) -> Material:
        """Read the material from a run's folder."""
        uses: dict[str, Any] = {use: _read_written(folder / PAIRS / f"{use}.tsv") for use in get_args(Use)}
        text = folder / TEXT
        documents = [line for line in read_lines(text) if line] if text.exists() else []
        return cls(tuple(documents), **uses, synthetic=_read_synthetic(folder / PAIRS / SYNTHETIC))


def gather(
    text: Path | Sequence[str],
    pairs: Path | Sequence[Pair] = (),
    *,
    heldout: float | Path | Sequence[Pair] = HELDOUT,
    calibration: float | Path | Sequence[Pair] = CALIBRATION,
    seed: int = 0,
    before: Material | None = None,
) -> Material:
    """Return a text with its pairs; a share of them is held out, or the pairs of another file are.

    Questions of another file are never learned: they are left out of the training split. With `before`, the material of
    a pretrained model, every question keeps the use that it had there.

    Parameters
    ----------
    text
        A text file, or documents.
    pairs
        A file that `read_pairs` can read, or pairs.
    heldout
        Pairs that are only asked: a share, a file or a list.
    calibration
        Pairs that the threshold is set on: a share, a file or a list.
    seed
        The seed of the random numbers; the same seed gives the same result.
    before
        The material of the pretrained model, whose splits are kept.
    """
    documents = read_documents(text) if isinstance(text, Path) else list(text)
    if not documents:
        raise InputError("there is no text", hint="give some documents")
    notes: list[str] = []
    splits = _Splits(before, notes)
    splits.put("heldout", _open("heldout pairs", heldout, notes))
    splits.put("calibration", _open("calibration pairs", calibration, notes))
    known = _open("pairs", pairs, notes)
    free = splits.place(known)
    shares = [share if isinstance(share, float | int) else 0.0 for share in (heldout, calibration)]
    for use, part in zip(("heldout", "calibration", "train"), split_pairs(free, shares, seed), strict=True):
        splits.put(use, part)
    if known and not splits.made["train"]:
        raise InputError(f"{len(known)} pairs leave none to learn", hint="give more pairs, or put fewer aside")
    made: dict[str, Any] = {use: tuple(found) for use, found in splits.made.items()}
    return Material(tuple(documents), **made, notes=tuple(notes))


class _Splits:
    """The uses of pairs while they are assigned: each question gets one."""

    def __init__(self, before: Material | None, notes: list[str]) -> None:
        self.made: dict[str, list[Pair]] = {use: [] for use in get_args(Use)}
        self._notes = notes
        uses = [] if before is None else [(use, pair) for use in get_args(Use) for pair in before.pairs(use)]
        self._before: dict[str, str] = {pair.question: use for use, pair in uses}

    def put(self, use: str, pairs: Sequence[Pair]) -> None:
        """Assign pairs to a use. Questions from the pretrained model's training split cannot be held out any more."""
        learned = [pair for pair in pairs if use != "train" and self._before.get(pair.question) == "train"]
        if learned:
            self._notes.append(f"{len(learned)} {use} questions were learned in pretraining and are left out")
        self.made[use] += [pair for pair in pairs if pair not in learned]

    def place(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Put the pairs whose use is decided, and return the others."""
        elsewhere = {pair.question for use in ("heldout", "calibration") for pair in self.made[use]}
        twice = sum(pair.question in elsewhere for pair in pairs)
        if twice:
            self._notes.append(f"{twice} pairs are left out of the training split: they are asked elsewhere")
        free: list[Pair] = []
        for pair in pairs:
            if pair.question in elsewhere:
                continue
            use = self._before.get(pair.question)
            (free if use is None else self.made[use]).append(pair)
        return free


def gather_world(world: World, *, calibration: float = 0.5) -> Material:
    """Return the material of a generated world: its heldout split is divided into heldout and calibration pairs.

    Parameters
    ----------
    world
        The generated world.
    calibration
        The share of the held-out split that the threshold is set on.
    """
    kept, asked = split_pairs([Pair(*pair) for pair in world.pairs("heldout")], [calibration], world.seed)
    train = [Pair(*pair) for pair in world.pairs("train")]
    return Material(tuple(world.documents()), tuple(train), tuple(asked), tuple(kept))


def write_record(folder: Path, record: Mapping[str, object]) -> None:
    write_json(folder / RECORD, {"format": FORMAT, **record})


def read_record(folder: Path) -> Mapping[str, Any]:
    """Return what knowledge.json says."""
    if not (folder / RECORD).is_file():
        raise FileError(
            f"{folder} is no knowledge run: it has no {RECORD}", hint="name a run that `pretrain` or `finetune` made"
        )
    record = read_json(folder / RECORD)
    if record.get("format") != FORMAT:
        raise FileError(
            f"{folder / RECORD} has format {record.get('format')}, and this attnlab reads {FORMAT}",
            hint="use the version that wrote it",
        )
    return record


def _open(what: str, pairs: float | Path | Sequence[Pair], notes: list[str]) -> list[Pair]:
    """Return the pairs of a file or a list; none for a share, which is drawn later."""
    if isinstance(pairs, float | int):
        return []
    if not isinstance(pairs, Path):
        return list(pairs)
    found: PairList = read_pairs(pairs)
    if found.problems is not None:
        notes.append(f"{what}: {found.problems}")
    return list(found.pairs)


def _read_written(path: Path) -> tuple[Pair, ...]:
    if not path.exists() or not path.stat().st_size:
        return ()
    return read_pairs(path).pairs


def _read_synthetic(path: Path) -> tuple[SyntheticPair, ...]:
    if not path.exists():
        return ()
    rows = [line.split("\t") for line in read_lines(path) if line]
    try:
        return tuple(SyntheticPair(question, answer, float(probability)) for question, answer, probability in rows)
    except ValueError:
        raise FileError(f"{path} is damaged", hint="finetune anew from the pretrained run") from None
