"""GGUF files: the same model as in Transformers' folder, its tokenizer, and clear words for damaged files."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch

from attnlab.attention.parts.positions import LinearRope, Llama3Rope, Rope
from attnlab.errors import AttnlabError
from attnlab.models import open_pretrained
from attnlab.models.pretrained import weights
from attnlab.models.pretrained.gguf import gguf_spec
from attnlab.models.pretrained.gguf_header import read_header
from support.pretrained import some_tokens, their_llama, write_gguf


@pytest.fixture(scope="module")
def model() -> Any:
    return their_llama()


@pytest.fixture(scope="module")
def stored(model: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", model)


def test_logits_are_those_of_transformers(model: Any, stored: Path) -> None:
    found, tokens = open_pretrained(stored), some_tokens()
    with torch.no_grad():
        wanted = model(tokens).logits
        assert (found.model(tokens) - wanted).abs().max() < 1e-5 * wanted.std()
    assert (found.name, found.place, found.notes) == ("tiny", stored, ())
    assert found.spec == gguf_spec(read_header(stored))


def test_quantised_weights_are_near(model: Any, tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "small.gguf", model, kind=gguf.GGMLQuantizationType.Q8_0)
    weight = open_pretrained(path).model.embedding.weight
    wanted = model.model.embed_tokens.weight
    assert 0 < (weight - wanted).abs().max() < 0.01


def test_its_tokenizer_cuts_digits_and_knows_control_tokens(stored: Path) -> None:
    tokenizer = open_pretrained(stored).tokenizer
    text = "to be 42<|end|>"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert ids[-1] == tokenizer.vocabulary_size - 1
    assert [tokenizer.decode([one]) for one in ids[-3:-1]] == ["4", "2"]


@pytest.mark.parametrize("words", ["rwkv", "default", "llama-bpe"])
def test_other_words(words: str, model: Any, tmp_path: Path) -> None:
    found = open_pretrained(write_gguf(tmp_path / "words.gguf", model, words=words))
    known = words != "rwkv"
    assert (found.tokenizer.kind == "pretrained") == known
    assert bool(found.notes) != known
    text = "to be 123" if known else " 12 7"
    assert found.tokenizer.decode(found.tokenizer.encode(text)) == text


def test_rotations_and_their_scaling(model: Any, tmp_path: Path) -> None:
    linear = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 2.0}
    path = write_gguf(tmp_path / "linear.gguf", model, extra=linear)
    assert gguf_spec(read_header(path)).position == LinearRope(factor=2)
    exponents, scaled = torch.arange(4) / 4, Llama3Rope(base=500_000, factor=8)
    factors = Rope(base=500_000).frequencies(exponents) / scaled.frequencies(exponents)
    for values, right in ((factors, True), (torch.tensor([1.0, 2.0, 5.0, 3.0]), False)):
        changed = their_llama(rope_parameters={"rope_type": "default", "rope_theta": 500_000.0})
        changed.rope_freqs = torch.nn.Module()
        changed.rope_freqs.weight = torch.nn.Parameter(values)
        path = write_gguf(tmp_path / f"{right}.gguf", changed)
        if right:
            assert open_pretrained(path).spec.position == scaled
        else:
            with pytest.raises(AttnlabError, match="not Llama 3's"):
                open_pretrained(path)
    path = write_gguf(tmp_path / "yarn.gguf", model, extra={"llama.rope.scaling.type": "yarn"})
    with pytest.raises(AttnlabError, match="by 'yarn'"):
        open_pretrained(path)


def test_another_architecture_is_refused_by_name(model: Any, tmp_path: Path) -> None:
    with pytest.raises(AttnlabError, match="architecture 'qwen2'") as caught:
        open_pretrained(write_gguf(tmp_path / "other.gguf", model, architecture="qwen2"))
    assert "llama" in (caught.value.hint or "")


def test_a_truncated_file_is_refused_wherever_it_ends(stored: Path, tmp_path: Path) -> None:
    whole, path = stored.read_bytes(), tmp_path / "cut.gguf"
    for length in (0, 3, 10, 30, 200, 3000, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(AttnlabError, match=r"damaged|no GGUF file"):
            open_pretrained(path)


def header(*parts: bytes, tensors: int = 0, fields: int = 0) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, fields) + b"".join(parts)


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


HUGE = 2**60
HOSTILE = {
    "no magic": (b"GGML" + bytes(40), "does not begin"),
    "another version": (b"GGUF" + struct.pack("<IQQ", 9, 0, 0), "version 9"),
    "too many fields": (header(fields=HUGE), "fields would take"),
    "too many tensors": (header(tensors=HUGE), "tensors would take"),
    "a long name": (header(struct.pack("<Q", HUGE), bytes(40), fields=1), "would take"),
    "a long array": (header(text(b"a"), struct.pack("<IIQ", 9, 4, HUGE), fields=1), "numbers of a would take"),
    "many texts": (header(text(b"a"), struct.pack("<IIQ", 9, 8, HUGE), fields=1), "texts of a would take"),
    "arrays in arrays": (header(text(b"a"), struct.pack("<IIQ", 9, 9, 1), bytes(20), fields=1), "unknown type 9"),
    "an unknown type": (header(text(b"a"), struct.pack("<I", 77), fields=1), "unknown type 77"),
    "no text": (header(text(b"a"), struct.pack("<I", 8), text(b"\xff"), fields=1), "not UTF-8"),
    "the same field twice": (header((text(b"a") + struct.pack("<II", 4, 1)) * 2, fields=2), "two fields called a"),
    "an escaping name": (header(text(b"../../x"), bytes(40), tensors=1), "'../../x' is no name"),
    "a name of control": (header(text(b"\x1b[2J"), bytes(40), tensors=1), "is no name"),
    "no dimensions": (header(text(b"a"), struct.pack("<I", 0), bytes(40), tensors=1), "0 dimensions"),
    "an odd alignment": (header(text(b"general.alignment"), struct.pack("<II", 4, 24), fields=1), "power of two"),
    "no architecture": (header(), "architecture None"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused(name: str, tmp_path: Path) -> None:
    content, said = HOSTILE[name]
    (tmp_path / "bad.gguf").write_bytes(content)
    with pytest.raises(AttnlabError, match=said) as caught:
        gguf_spec(read_header(tmp_path / "bad.gguf"))
    assert caught.value.hint


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (struct.pack("<IQQ", 2, 32, 300), struct.pack("<IQQ", 2, 32, 2**40), "would end at byte"),
        (b"llama.block_count" + struct.pack("<II", 4, 2), b"llama.block_count" + struct.pack("<II", 4, 2**31), "lacks"),
        (b"llama.block_count" + struct.pack("<II", 4, 2), b"llama.block_count" + struct.pack("<II", 4, 1), "more than"),
        (b"blk.0.ffn_up.weight", b"blk.0.ffn_uq.weight", "lack"),
    ],
)
def test_lies_about_the_weights(old: bytes, new: bytes, said: str, stored: Path, tmp_path: Path) -> None:
    whole = stored.read_bytes()
    assert old in whole
    (tmp_path / "lie.gguf").write_bytes(whole.replace(old, new, 1))
    with pytest.raises(AttnlabError, match=said):
        open_pretrained(tmp_path / "lie.gguf")


def test_too_little_memory(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "free_bytes", lambda: 1000)
    with pytest.raises(AttnlabError, match="of memory, and 1000 B are free"):
        open_pretrained(stored)
