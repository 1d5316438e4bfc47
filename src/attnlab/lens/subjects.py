"""Subjects: a run, a pretrained model or any model, the texts it is examined on, and its shuffled copies.

A run is examined on its own validation rows, unless `on` names a text file. A model without a run, such as one from
Hugging Face, is examined on Python's documentation, which comes with every Python, in its own tokens. A model with many
heads is examined on shorter rows, so that there are enough of them for an interval.

The control for any finding is the same model with shuffled weights. Every parameter keeps its values, but its rows and
its columns are randomly permuted. Weights keep their size and matrices their rank, but no projection fits what another
wrote. A model with random weights is indistinguishable from its shuffled copies: any property of one is equally likely
in the others.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attnlab.corpora import Batch, Corpus, CorpusSpec, Tokenizer, open_corpus
from attnlab.corpora.sources import TextSource
from attnlab.errors import FileError, InputError
from attnlab.lens.taps import attention_specs, places
from attnlab.models import LanguageModel, open_pretrained
from attnlab.models.pretrained.opening import locate_pretrained
from attnlab.runs import RunDirectory
from attnlab.training import LoadedRun, load_run

MOST_LENGTH = 512  # tokens of a row
MOST_ROWS = 32
_ENOUGH_ROWS, _SHORTENED = 8, 128  # rows wanted, and the length down to which rows are shortened for that
_FEWEST_TOKENS = 4  # tokens of a row that can repeat anything
_MOST_WEIGHTS = 80_000_000  # weights of all heads on all rows: some seconds of work
_LETTERS = 8  # characters of Python's documentation per wanted token


@dataclass
class Subject:
    """A model to examine, and what is known about it."""

    model: LanguageModel
    tokenizer: Tokenizer | None
    title: str = "a model"
    facts: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    run: tuple[Path, LoadedRun] | None = None

    def known_tokenizer(self) -> Tokenizer:
        """Return the tokenizer, or raise an error if there is none."""
        if self.tokenizer is None:
            raise InputError("without a tokenizer no text can be read", hint="give `tokenizer=…`")
        return self.tokenizer

    def corpus(self, cache: Path | None = None) -> Corpus:
        """Return the corpus that the run was trained on, or raise an error if the model has no run."""
        if self.run is None:
            raise InputError("this model has no text of its own", hint="give a text to look at")
        path, loaded = self.run
        return corpus_of_run(path, loaded.record, cache)


def open_subject(
    subject: str | Path | LanguageModel | Subject, tokenizer: Tokenizer | None = None, step: int | None = None
) -> Subject:
    """Open the model in a folder or file, or take one as it is, with its tokenizer."""
    if isinstance(subject, Subject):  # copied, because facts and notes are added to it
        return replace(subject, facts=dict(subject.facts), notes=list(subject.notes))
    if isinstance(subject, LanguageModel):
        return Subject(subject, tokenizer)
    path = Path(subject)
    if RunDirectory.exists(path):
        return _open_run(path, step)
    place = locate_pretrained(path)
    if place is not None:
        if step is not None:
            raise InputError(f"{path} is a pretrained model and has no step {step}", hint="leave out `step`")
        loaded = open_pretrained(place)
        return Subject(loaded.model, tokenizer or loaded.tokenizer, loaded.name, notes=list(loaded.notes))
    raise FileError(
        f"{path} is neither a run nor a pretrained model" if path.exists() else f"there is no run or folder {path}",
        hint="name the folder of a run, a folder of Hugging Face with GPT-2 or Llama weights, or a GGUF file",
    )


def _open_run(path: Path, step: int | None) -> Subject:
    loaded, status = load_run(path, step), RunDirectory.open(path).status
    spec = loaded.record.get("spec", {})
    facts = {"variant": str(spec.get("variant", "")), "after": f"{loaded.step} of {loaded.resolved.steps} steps"}
    subject = Subject(loaded.model, loaded.tokenizer, path.resolve().name, facts, run=(path, loaded))
    if status != "finished":
        state = "diverged" if status == "diverged" else "is not finished"
        subject.notes.append(f"The run {state}. These are its weights after step {loaded.step}.")
    return subject


def corpus_of_run(path: Path, record: Mapping[str, Any], cache: Path | None = None) -> Corpus:
    """Return the corpus that the run with this record was trained on; refuse one that has changed since."""
    named = record.get("spec", {}).get("corpus")
    if not isinstance(named, dict):
        raise FileError(f"{path} was not trained on a corpus by name", hint="give a text to look at")
    corpus = open_corpus(CorpusSpec(**named), cache)
    if corpus.hash != record["corpus"]["hash"]:
        raise FileError(
            f"the text of {path} has changed since the run began",
            hint="restore the old text, or train the new text as a run of its own",
        )
    return corpus


def shape_words(model: LanguageModel) -> str:
    """Return the family and the shape of a model in words."""
    spec = model.spec
    heads = sorted({one.observed_heads for one in attention_specs(model)} - {0})
    each = f"of {'–'.join(map(str, dict.fromkeys((heads[0], heads[-1]))))}" if heads else "without"
    return f"{spec.family}, {spec.num_layers} layers {each} heads, width {spec.model_width}"


# Texts


@dataclass(frozen=True, eq=False)
class Texts:
    """Rows of text, and a description of them."""

    batch: Batch
    words: str


def find_texts(
    subject: Subject, *, on: Path | None = None, rows: int | None = None, cache: Path | None = None
) -> Texts:
    """Return the rows for this model: as many as its size allows, or `rows`."""
    length = length_for(subject.model)
    rows = rows or rows_for(subject.model, length)
    if rows < 2:
        raise InputError(f"{rows} texts are too few for an interval", hint="use two or more")
    if on is None and subject.run is not None:
        corpus = subject.corpus(cache)
        batch = next(iter(corpus.validation_batches(batch_size=rows, context_length=length, limit=rows)))
        return _checked(batch, f"validation rows of {corpus.spec.name}")
    if subject.model.encoder is not None:
        raise InputError("an encoder–decoder needs pairs of texts", hint="look at a run, which knows its own")
    tokenizer = subject.known_tokenizer()
    if on is None:
        return _checked(_of_python(tokenizer, rows, length, cache), "rows of Python's documentation")
    return _checked(_of_file(tokenizer, on, rows, length), f"rows of {on.name}")


def length_for(model: LanguageModel) -> int:
    """Return the length of rows: the context length, shortened until several rows can be processed quickly."""
    length = min(model.spec.context_length, MOST_LENGTH)
    while length > _SHORTENED and rows_for(model, length) < _ENOUGH_ROWS:
        length //= 2
    return length


def rows_for(model: LanguageModel, length: int) -> int:
    """Return how many rows of this length can be processed quickly."""
    weights = max(1, sum(spec.observed_heads for spec in attention_specs(model))) * len(places(model)) * length**2
    return max(2, min(MOST_ROWS, _MOST_WEIGHTS // weights))


def _checked(batch: Batch, words: str) -> Texts:
    count, length = batch.inputs.shape
    if count < 2 or length < _FEWEST_TOKENS:
        raise InputError(
            f"{count} texts of {length} tokens are too few to say what heads do",
            hint=f"two of {_FEWEST_TOKENS} tokens are the least: give a longer text, as `on=FILE`",
        )
    return Texts(batch, f"{count} {words}, {length} tokens each")


def _of_python(tokenizer: Tokenizer, rows: int, length: int, cache: Path | None) -> Batch:
    corpus = open_corpus(CorpusSpec(name="pydoc", tokenizer="char"), cache)
    letters = next(iter(corpus.validation_batches(batch_size=rows, context_length=_LETTERS * length, limit=rows)))
    found = [tokenizer.encode(corpus.tokenizer.decode(row.tolist())) for row in letters.inputs]
    shortest = min(length + 1, *(len(row) for row in found))
    return _shifted(torch.tensor([row[:shortest] for row in found]))


def _of_file(tokenizer: Tokenizer, path: Path, rows: int, length: int) -> Batch:
    tokens: list[int] = []
    for chunk in TextSource.find(path).chunks():
        tokens += tokenizer.encode(chunk)
        if len(tokens) > rows * (length + 1):
            break
    length = min(length + 1, len(tokens) // 2)
    count = min(rows, len(tokens) // length) if length else 0
    return _shifted(torch.tensor(tokens[: count * length]).view(count, length))


def _shifted(tokens: Tensor) -> Batch:
    return Batch(tokens[:, :-1], tokens[:, 1:])


# Controls


def shuffled_models(model: LanguageModel, count: int, seed: int = 0) -> Iterator[LanguageModel]:
    """Yield `count` shuffled copies, one after the other; each overwrites the one before."""
    if not count:
        return
    generator = torch.Generator().manual_seed(seed)
    copied, originals = copy.deepcopy(model), list(model.parameters())
    for _ in range(count):
        with torch.no_grad():
            for parameter, original in zip(copied.parameters(), originals, strict=True):
                parameter.copy_(_shuffled(original, generator))
        yield copied


def _shuffled(parameter: Tensor, generator: torch.Generator) -> Tensor:
    for dimension, size in enumerate(parameter.shape):
        order = torch.randperm(size, generator=generator).to(parameter.device)
        parameter = parameter.index_select(dimension, order)
    return parameter
