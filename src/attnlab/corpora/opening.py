"""From a spec to a corpus."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

from attnlab.corpora import installed, python_text
from attnlab.corpora.batches import Corpus
from attnlab.corpora.cache import Cache
from attnlab.corpora.generated import kinship, world
from attnlab.corpora.generated.adjectives import AdjectivesCorpus
from attnlab.corpora.generated.matching import MatchingCorpus
from attnlab.corpora.generated.mqar import MqarCorpus
from attnlab.corpora.generated.options import OPTIONS, KinshipOptions, WorldOptions
from attnlab.corpora.generated.translation import TranslationCorpus
from attnlab.corpora.randomness import digest
from attnlab.corpora.sources import TextSource
from attnlab.corpora.spec import CorpusSpec
from attnlab.corpora.text import TextCorpus
from attnlab.errors import UnknownNameError

TEXT, HELD_OUT = "text.txt", "held-out.txt"
_INSTALLED = ("python", "docstrings")
_TASKS: dict[str, Callable[[CorpusSpec], Corpus]] = {
    "mqar": MqarCorpus,
    "translation": TranslationCorpus,
    "matching": MatchingCorpus,
    "adjectives": AdjectivesCorpus,
}


def open_corpus(spec: CorpusSpec, cache: Path | None = None) -> Corpus:
    """The corpus of a spec. What takes time to make is kept in the cache folder, by default $ATTNLAB_CACHE or the
    system's own place for such things."""
    if spec.name in _TASKS:
        return _TASKS[spec.name](spec)
    kept = Cache(cache)
    if spec.name in _INSTALLED:
        source = _installed(spec.name, kept)
    else:
        source = _generated(spec, kept) if spec.name in OPTIONS else _given(spec.name)
    return TextCorpus.open(spec, source, kept)


def _given(name: str) -> TextSource:
    """A file or folder by its path. What does not look like a path is taken for a misspelt name."""
    path = Path(name).expanduser()
    separators = [os.sep, os.altsep or os.sep]
    if not path.exists() and not path.suffix and not any(separator in name for separator in separators):
        raise UnknownNameError("corpus", name, OPTIONS)
    return TextSource.find(path)


def _installed(name: str, cache: Cache) -> TextSource:
    """Return the text of installed sources as two files in the cache, the second held out for validation."""

    def build(folder: Path) -> dict[str, Any]:
        split = installed.installed_text(name)
        (folder / TEXT).write_text(split.train, encoding="utf-8", newline="\n")
        (folder / HELD_OUT).write_text(split.validation, encoding="utf-8", newline="\n")
        return {"name": name, "made from": installed.identity()}

    folder = cache.entry(digest(name, installed.VERSION, installed.identity()), build).folder
    return TextSource(name, (folder / TEXT,), (folder / HELD_OUT,))


def _generated(spec: CorpusSpec, cache: Cache) -> TextSource:
    """A text that attnlab makes, as a file in the cache."""
    options = spec.parsed_options
    make: Callable[[], str]
    if isinstance(options, WorldOptions):
        key = digest("world", world.VERSION, spec.seed, options.model_dump())
        make = lambda: world.World.build(spec.seed, options).text()  # noqa: E731
    elif isinstance(options, KinshipOptions):
        key = digest("kinship", kinship.VERSION, spec.seed, options.model_dump())
        make = lambda: kinship.Kinship.build(spec.seed, options).text()  # noqa: E731
    else:
        key = digest("pydoc", python_text.VERSION, sys.version, sysconfig.get_path("stdlib"))
        make = python_text.python_text

    def build(folder: Path) -> dict[str, Any]:
        (folder / TEXT).write_text(make(), encoding="utf-8", newline="\n")
        return {"name": spec.name}

    return TextSource(spec.name, (cache.entry(key, build).folder / TEXT,))
