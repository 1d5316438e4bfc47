"""Corpus specs: checked when built, kept as JSON, refused with a reason; and names that are found or refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import attnlab.corpora
from attnlab.corpora import CorpusSpec, WorldOptions, default_cache, open_corpus
from attnlab.errors import AttnlabError, FileError, SpecError, UnknownNameError


def test_public_names() -> None:
    assert {"Batch", "Corpus", "CorpusSpec", "Tokenizer", "open_corpus", "IGNORED"} <= set(attnlab.corpora.__all__)
    assert all(hasattr(attnlab.corpora, name) for name in attnlab.corpora.__all__)
    assert len(attnlab.corpora.__all__) == 33, "a public name was added or removed: mean it, and change this number"


def test_defaults() -> None:
    spec = CorpusSpec()
    assert (spec.name, spec.tokenizer, spec.vocabulary_size) == ("pydoc", "char", None)
    assert (spec.validation_share, spec.seed, spec.options) == (0.1, 0, {})


def test_json_keeps_a_spec() -> None:
    spec = CorpusSpec(name="world", tokenizer="bpe", vocabulary_size=300, seed=3, options={"people": 5, "skew": 0.0})
    again = CorpusSpec.from_json(spec.to_json())
    assert again == spec
    assert hash(again) == hash(spec)
    assert again.parsed_options == WorldOptions(people=5, skew=0)
    assert spec != CorpusSpec(name="world")
    with pytest.raises(Exception, match="frozen"):
        spec.seed = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("fields", "message", "hint"),
    [
        ({"nam": "x"}, "has no field 'nam'", "did you mean 'name'"),
        ({"name": ""}, "cannot name a corpus", "pydoc"),
        ({"name": "a\0b"}, "cannot name a corpus", "pydoc"),
        ({"validation_share": 1.0}, "validation_share", None),
        ({"validation_share": float("nan")}, "validation_share", None),
        ({"validation_share": -0.1}, "validation_share", None),
        ({"vocabulary_size": 0}, "vocabulary_size", None),
        ({"vocabulary_size": 300}, "'char' has a vocabulary of its own", "bpe"),
        ({"tokenizer": "bpe", "vocabulary_size": 255}, "cannot hold the 256 bytes", "at least 256"),
        ({"tokenizer": "gpt2"}, "does not say where", "gpt2:FOLDER"),
        ({"tokenizer": "gpt2:"}, "does not say where", "gpt2:FOLDER"),
        ({"tokenizer": "chars"}, "no tokenizer called 'chars'", "did you mean 'char'"),
        ({"name": "mqar", "tokenizer": "bpe"}, "symbols of its own", "leave tokenizer"),
        ({"options": {"people": 3}}, "not generated has no field 'people'", "remove 'people'"),
        ({"name": "world", "options": {"peple": 3}}, "the world has no field 'peple'", "did you mean 'people'"),
        ({"name": "world", "options": {"people": 0}}, "people of the world is 0", None),
        ({"name": "world", "options": {"people": True}}, "people of the world is True", None),
        ({"name": "world", "options": {"people": "many"}}, "people of the world is 'many'", None),
        ({"name": "world", "options": {"exposures": "1,x"}}, "exposures of the world are '1,x'", "1,2,4,8,16"),
        ({"name": "world", "options": {"exposures": ""}}, "exposures of the world are ''", "1,2,4,8,16"),
        ({"name": "world", "options": {"skew": float("inf")}}, "skew", None),
        ({"name": "mqar", "options": {"filler": "noise"}}, "filler of associative recall is 'noise'", None),
        ({"name": "translation", "options": {"clause": 1}}, "has no field 'clause'", "clauses"),
        ({"name": "kinship", "options": {"families": 10**6}}, "families of the kinship text", None),
    ],
)
def test_refuses(fields: dict[str, Any], message: str, hint: str | None) -> None:
    with pytest.raises(AttnlabError, match=re.escape(message)) as caught:
        CorpusSpec(**fields)
    assert isinstance(caught.value, SpecError | UnknownNameError)
    if hint is not None:
        assert hint in (caught.value.hint or "")


def test_refuses_bad_json() -> None:
    with pytest.raises(SpecError, match="corpus spec"):
        CorpusSpec.from_json("{")
    with pytest.raises(SpecError, match="has no field 'size'"):
        CorpusSpec.from_json('{"size": 3}')


def test_unknown_name(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="no corpus called 'wrold'") as caught:
        open_corpus(CorpusSpec(name="wrold"), tmp_path)
    assert caught.value.hint == "did you mean 'world'?"
    for name in ("missing.txt", str(tmp_path / "missing")):
        with pytest.raises(FileError, match="there is no file or folder"):
            open_corpus(CorpusSpec(name=name), tmp_path)


def test_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "here"))
    assert default_cache() == tmp_path / "here"
    (tmp_path / "text.txt").write_text("some text")
    open_corpus(CorpusSpec(name=str(tmp_path / "text.txt")))
    assert any((tmp_path / "here").iterdir())
    monkeypatch.delenv("ATTNLAB_CACHE")
    assert default_cache().name == "corpora"
