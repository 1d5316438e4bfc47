"""Every corpus by its name or path: from a spec to a corpus."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path

from attnlab.corpora import python_sources
from attnlab.corpora.batches import Corpus
from attnlab.corpora.cache import CorpusCache
from attnlab.corpora.generated import kinship, world
from attnlab.corpora.generated.adjectives import AdjectivesCorpus
from attnlab.corpora.generated.recall import MatchingCorpus, MqarCorpus
from attnlab.corpora.generated.translation import TranslationCorpus
from attnlab.corpora.randomness import digest
from attnlab.corpora.sources import TextSource
from attnlab.corpora.spec import OPTIONS, CorpusSpec, KinshipOptions, WorldOptions
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
    """Return the corpus of a spec. Results that take time to compute are kept in the cache folder, by default
    $ATTNLAB_CACHE or the user's cache folder on this system."""
    if spec.name in _TASKS:
        return _TASKS[spec.name](spec)
    kept = CorpusCache(cache)
    if spec.name in _INSTALLED:
        source = _installed(spec.name, kept)
    else:
        source = _generated(spec, kept) if spec.name in OPTIONS else _given(spec.name)
    return TextCorpus.open(spec, source, kept)


def _given(name: str) -> TextSource:
    """Return the text of a file or folder; what does not look like a path is refused as an unknown name."""
    path = Path(name).expanduser()
    separators = [os.sep, os.altsep or os.sep]
    if not path.exists() and not path.suffix and not any(separator in name for separator in separators):
        raise UnknownNameError("corpus", name, OPTIONS)
    return TextSource.find(path)


def _installed(name: str, cache: CorpusCache) -> TextSource:
    """Return the text of installed sources as two files in the cache, the second held out for validation."""

    def build(folder: Path) -> dict[str, object]:
        split = python_sources.installed_text(name)
        _write(folder / TEXT, split.train)
        _write(folder / HELD_OUT, split.validation)
        return {"name": name, "made from": python_sources.identity()}

    folder = cache.entry(digest(name, python_sources.VERSION, python_sources.identity()), build).folder
    return TextSource(name, (folder / TEXT,), (folder / HELD_OUT,))


def _generated(spec: CorpusSpec, cache: CorpusCache) -> TextSource:
    """Return a text that attnlab makes, as a file in the cache."""
    options = spec.parsed_options
    if isinstance(options, WorldOptions):
        key = digest("world", world.VERSION, spec.seed, options.model_dump())
    elif isinstance(options, KinshipOptions):
        key = digest("kinship", kinship.VERSION, spec.seed, options.model_dump())
    else:
        key = digest("pydoc", python_sources.VERSION, sys.version, sysconfig.get_path("stdlib"))

    def build(folder: Path) -> dict[str, object]:
        if isinstance(options, WorldOptions):
            text = world.World.build(spec.seed, options).text()
        elif isinstance(options, KinshipOptions):
            text = kinship.Kinship.build(spec.seed, options).text()
        else:
            text = python_sources.python_text()
        _write(folder / TEXT, text)
        return {"name": spec.name}

    return TextSource(spec.name, (cache.entry(key, build).folder / TEXT,))


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8", newline="\n")
