"""A look holds the maps of the model on the text that was asked for, and says what it did to either."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from attnlab.corpora import BpeTokenizer, ByteTokenizer, CharTokenizer
from attnlab.errors import FileError, InputError
from attnlab.lens import Look, attention_maps, look_at
from attnlab.lens.pages import look as looking
from attnlab.lens.pages.look_page import printable
from attnlab.models import LanguageModel, ModelSpec, build_model
from attnlab.training import load_run
from support.training import KINSHIP, TRANSLATION, At, smoke, train_in

BYTES = ByteTokenizer()


def make_model(variant: str = "softmax", **changes: Any) -> LanguageModel:
    shape = {"num_layers": 2, "model_width": 16, "num_heads": 4, "context_length": 24, **changes}
    model = build_model(ModelSpec.build("nano", vocabulary_size=256, variant=variant, **shape))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return model.eval()


def gpt2_folder(folder: Path, **shape: Any) -> Any:
    """A GPT-2 with a tokenizer, as Transformers writes them; returns Transformers' model."""
    from transformers import GPT2Config, GPT2LMHeadModel

    tokenizer = BpeTokenizer.train(["to be or not to be, that is the question"], 280)
    config = GPT2Config(
        vocab_size=300, n_positions=24, attn_implementation="eager", bos_token_id=None, eos_token_id=None, **shape
    )
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    model.save_pretrained(folder)
    (folder / "tokenizer.json").write_text(json.dumps(json.loads(tokenizer.to_json())["tokenizer"]))
    return model


@pytest.mark.parametrize(
    "shape",
    [
        {"n_layer": 2, "n_head": 4, "n_embd": 24},
        {"n_layer": 3, "n_head": 1, "n_embd": 8, "activation_function": "gelu"},
        {"n_layer": 1, "n_head": 3, "n_embd": 18, "scale_attn_weights": False},
    ],
)
@torch.no_grad()
def test_maps_of_gpt2_are_those_of_transformers(shape: dict[str, Any], tmp_path: Path) -> None:
    theirs = gpt2_folder(tmp_path, **shape)
    text = "to be or not to be"
    found = look_at(tmp_path, text)
    assert "".join(found.tokens).replace("␣", " ") == text
    ids = json.loads((tmp_path / "tokenizer.json").read_text())["model"]["vocab"]
    tokens = torch.tensor([[ids[token.replace("␣", "Ġ")] for token in found.tokens]])
    wanted = theirs(tokens, output_attentions=True).attentions
    assert len(found.layers) == len(wanted) == shape["n_layer"]
    for layer, attention in zip(found.layers, wanted, strict=True):
        torch.testing.assert_close(layer.weights, attention[0], rtol=0, atol=1e-5)
        assert attention[0].std() > 0.05, "they are no accident of even weights"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("look")
    spec = smoke(corpus=KINSHIP, variant="sigmoid,linear", num_layers=2, context_length=16)
    return train_in(folder, spec).path


def test_a_run_on_its_own_text(run: Path) -> None:
    found = look_at(run, cache=run.parents[1] / "cache")
    assert found.title == run.name
    assert len(found.tokens) == 16
    assert found.facts["text"] == "the first validation row of kinship"
    assert found.facts["after"] == "6 of 6 steps"
    assert found.notes == ()
    assert [layer.layer for layer in found.layers] == [0, 1]
    first, second = found.layers
    assert second.weights is None
    assert "no map: linear" in second.absence
    assert first.row_mass is not None
    assert (first.row_mass - 1).abs().max() > 0.01, "sigmoid's rows do not sum to 1"
    assert first.numbers["row mass"] == pytest.approx(first.row_mass.mean(-1).tolist())
    html = look_html(found)
    assert "no map: linear" in html
    assert '"mass":[' in html


def look_html(found: Look) -> str:
    from attnlab.pages import render

    return render(found.page())


def test_a_run_on_a_given_text(run: Path) -> None:
    loaded = load_run(run)
    text = look_at(run, cache=run.parents[1] / "cache").tokens[:5]
    text = "".join(text).replace("␣", " ")
    found = look_at(run, text)
    (wanted, _) = attention_maps(loaded.model, torch.tensor([loaded.tokenizer.encode(text)]))
    assert torch.equal(found.layers[0].weights, wanted.map[0])


def test_what_is_too_long_is_cut_and_said() -> None:
    found = look_at(make_model(), "abc" * 20, tokenizer=BYTES)
    assert len(found.tokens) == 24
    assert found.notes == ("The text has 60 tokens, and the model’s context has 24: the first 24 are shown.",)
    fewer = look_at(make_model(), "abc" * 20, tokenizer=BYTES, tokens=7)
    assert len(fewer.tokens) == 7
    assert "at most 7 were asked for" in fewer.notes[0]


def test_some_layers_and_heads() -> None:
    model = make_model()
    every = look_at(model, "abcd", tokenizer=BYTES)
    some = look_at(model, "abcd", tokenizer=BYTES, layers=[1], heads=[2, 0])
    (layer,) = some.layers
    assert layer.layer == 1
    assert layer.heads == (0, 2)
    assert torch.equal(layer.weights, every.layers[1].weights[[0, 2]])
    assert layer.numbers["entropy"] == tuple(every.layers[1].numbers["entropy"][head] for head in (0, 2))


def test_both_sequences_of_an_encoder_decoder(tmp_path: Path) -> None:
    result = train_in(tmp_path, smoke(corpus=TRANSLATION, context_length=12))
    found = look_at(result.path)
    assert [layer.place for layer in found.layers] == ["encoder", "self", "cross"]
    assert found.tokens[0] == "<bos>"
    assert "<pad>" not in (*found.tokens, *found.source_tokens), "padding is left out"
    encoder, own, cross = (layer.weights.shape[1:] for layer in found.layers)
    source, target = len(found.source_tokens), len(found.tokens)
    assert (encoder, own, cross) == ((source, source), (target, target), (target, source))
    assert look_html(found).count('role="grid"') == 3
    again = look_at(result.path, " ".join(found.tokens), source=" ".join(found.source_tokens))
    for one, other in zip(found.layers, again.layers, strict=True):
        assert torch.equal(one.weights, other.weights)
    with pytest.raises(InputError, match="source is missing"):
        look_at(result.path, "<bos>")
    with pytest.raises(InputError, match="text is missing"):
        look_at(result.path, source="n1")


def test_a_run_that_is_not_finished_says_so(tmp_path: Path) -> None:
    class EnoughError(Exception):
        pass

    def stop() -> None:
        raise EnoughError

    with pytest.raises(EnoughError):
        train_in(tmp_path, smoke(corpus=KINSHIP), reporter=At(5, stop))
    (path,) = (tmp_path / "runs").iterdir()
    found = look_at(path, cache=tmp_path / "cache")
    assert found.notes == ("The run is not finished. These are its weights after step 4.",)
    earlier = look_at(path, step=2, cache=tmp_path / "cache")
    assert "after step 2" in earlier.notes[0]
    assert not torch.equal(earlier.layers[0].weights, found.layers[0].weights)


def test_what_cannot_be_looked_at(tmp_path: Path, run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model()
    with pytest.raises(InputError, match="the text is empty"):
        look_at(model, "", tokenizer=BYTES)
    with pytest.raises(InputError, match="no text of its own"):
        look_at(model)
    with pytest.raises(InputError, match="without a tokenizer"):
        look_at(model, "a")
    with pytest.raises(InputError, match="takes no source"):
        look_at(model, "a", source="b", tokenizer=BYTES)
    with pytest.raises(InputError, match="which is no character"):
        look_at(model, "\udcff\udcfe", tokenizer=BYTES)
    with pytest.raises(InputError, match="does not know 'x'"):
        look_at(model, "ax", tokenizer=CharTokenizer("a"))
    with pytest.raises(InputError, match="a text of 0 tokens"):
        look_at(model, "a", tokenizer=BYTES, tokens=0)
    for what in ("layers", "heads"):
        with pytest.raises(InputError, match=f"there is no {what[:-1]} 4") as caught:
            look_at(model, "a", tokenizer=BYTES, **{what: [0, 4]})
        assert caught.value.hint is not None
    with pytest.raises(FileError, match="there is no run or folder"):
        look_at(tmp_path / "absent")
    with pytest.raises(FileError, match="neither a run nor"):
        look_at(tmp_path)
    with pytest.raises(FileError, match="no weights of step 5"):
        look_at(run, "a", step=5)
    monkeypatch.setattr(looking, "MOST_CELLS", 100)
    with pytest.raises(InputError, match="too many"):
        look_at(model, "abcdef", tokenizer=BYTES)


def test_the_numbers_as_json() -> None:
    found = look_at(make_model("softmax,linear"), "abc", tokenizer=BYTES)
    plain = found.to_dict(weights=True)
    assert json.loads(json.dumps(plain, allow_nan=False)) == plain
    assert plain["tokens"] == ["a", "b", "c"]
    first, second = plain["layers"]
    assert [head["head"] for head in first["heads"]] == [0, 1, 2, 3]
    assert first["heads"][1]["row_mass"] == pytest.approx([1, 1, 1])
    torch.testing.assert_close(
        torch.tensor(first["heads"][3]["weights"]), found.layers[0].weights[3], rtol=1e-5, atol=1e-6
    )
    assert "weights" not in found.to_dict()["layers"][0]["heads"][0]
    assert second["heads"] == []
    assert "no map" in second["absence"]


def test_weights_that_are_no_numbers() -> None:
    model = make_model()
    with torch.no_grad():
        model.stack.blocks[1].attention.projections["query"].weight.fill_(torch.nan)
    found = look_at(model, "abc", tokenizer=BYTES)
    plain = json.dumps(found.to_dict(weights=True), allow_nan=False)
    assert "null" in plain
    assert "layer 1" in look_html(found)


def test_tokens_are_something_to_see() -> None:
    assert printable(BYTES, "a \n\t\r\0é".encode()) == ("a", "␣", "⏎", "⇥", "␍", "\\x00", "\\xc3", "\\xa9")
    assert printable(CharTokenizer("é\u200b\u2028"), range(3)) == ("é", "\\u200b", "\\u2028")


def test_the_page_and_the_notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = look_at(make_model(), "to be", tokenizer=BYTES)
    found.write(tmp_path / "look.html")
    html = (tmp_path / "look.html").read_text(encoding="utf-8")
    assert html == look_html(found)
    assert "8 heads on a text of 5 tokens" in html
    assert html.count('class="maps-small"') == 8
    frame = found._repr_html_()
    assert frame.startswith('<iframe sandbox="allow-scripts allow-downloads"')
    assert "&lt;!doctype html&gt;" in frame
    monkeypatch.setattr("attnlab.pages.page._NOTEBOOK_LIMIT", 10)
    assert "too large for a notebook" in found._repr_html_()
