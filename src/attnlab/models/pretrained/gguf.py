"""GGUF files of the Llama family, as llama.cpp uses them, dequantised to float32.

    model = load_gguf(Path("SmolLM2-135M-Instruct.Q4_1.gguf"))

The weights need the `gguf` package (the extra `gguf`), which knows the formats of quantised blocks. In these files the
rows of queries and keys are permuted: llama.cpp rotates neighbours, the pair (x[2i], x[2i + 1]), where Transformers and
attnlab rotate the halves of a head, (x[i], x[i + d/2]). The permutation is undone here.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlab.attention import Rope
from attnlab.attention.parts.positions import LinearRope, Llama3Rope, Position
from attnlab.errors import FileError, SpecError, UnsupportedError, import_extra
from attnlab.models.hf.fields import ConfigFields
from attnlab.models.language_model import LanguageModel
from attnlab.models.pretrained.gguf_header import Header, StoredTensor
from attnlab.models.pretrained.llama import Names, llama_model
from attnlab.models.pretrained.weights import check_tensors, fill, parameter_shapes
from attnlab.models.spec import ModelSpec

NAMES = Names(
    layers="blk",
    inside={
        "attention_norm": "attn_norm",
        "attention.projections.query": "attn_q",
        "attention.projections.key": "attn_k",
        "attention.projections.value": "attn_v",
        "attention.output": "attn_output",
        "mlp_norm": "ffn_norm",
        "mlp.gate": "ffn_gate",
        "mlp.widen": "ffn_up",
        "mlp.narrow": "ffn_down",
    },
    embedding="token_embd.weight",
    norm="output_norm.weight",
    head="output.weight",
)
_FACTORS = "rope_freqs.weight"
_DIGITS = 7  # of a float32, in which the file stores numbers


def load_gguf(header: Header) -> LanguageModel:
    """Return the model of a GGUF file, in float32, ready for use."""
    with _open_tensors(header) as tensors:
        spec = _spec(header, tensors)
        wanted = {NAMES.of(name): shape for name, shape in parameter_shapes(spec).items()}
        found = {name: tensor.shape for name, tensor in header.tensors.items() if name != _FACTORS}
        check_tensors(wanted, found, header.path, "a Llama", "its metadata")
        first = spec.attention[0]
        rotated = {"query": first.num_heads, "key": first.num_key_value_heads}

        def read(name: str) -> Tensor:
            tensor, heads = tensors.read(NAMES.of(name)), rotated.get(name.split(".")[-2])
            return tensor if heads is None else in_halves(tensor, heads)

        return fill(spec, read, header.path)


def gguf_spec(header: Header) -> ModelSpec:
    """Return the model that a GGUF file describes."""
    if _FACTORS not in header.tensors:
        return _spec(header, None)
    with _open_tensors(header) as tensors:
        return _spec(header, tensors)


def in_halves(tensor: Tensor, heads: int) -> Tensor:
    """Order the rows of each head so that the halves of a head are rotated, and not neighbours."""
    pairs = tensor.view(heads, -1, 2, *tensor.shape[1:])
    return pairs.transpose(1, 2).reshape(tensor.shape)


class _Tensors:
    """The tensors of an open file, each dequantised when it is read."""

    def __init__(self, header: Header, data: mmap.mmap, package: Any) -> None:
        self._header, self._data, self._package = header, data, package
        for name, tensor in header.tensors.items():
            end = tensor.start + self._row_bytes(name, tensor) * _rows(tensor)
            if end > header.size:
                raise FileError(
                    f"{header.path} is damaged: {name} would end at byte {end}, and the file has {header.size}",
                    hint="fetch it again",
                )

    def shape(self, name: str) -> tuple[int, ...] | None:
        """Return the shape of a tensor; None if there is none of this name."""
        tensor = self._header.tensors.get(name)
        return None if tensor is None else tensor.shape

    def read(self, name: str) -> Tensor:
        """Return a tensor in float32."""
        tensor = self._header.tensors[name]
        rows, width = _rows(tensor), self._row_bytes(name, tensor)
        stored = np.frombuffer(self._data, np.uint8, rows * width, tensor.start).reshape(rows, width)
        kind = self._package.GGMLQuantizationType(tensor.kind)
        try:
            numbers = self._package.quants.dequantize(stored, kind)
        except NotImplementedError:
            raise self._unknown(name, kind.name) from None
        return torch.from_numpy(np.array(numbers, np.float32)).view(tensor.shape)

    def _row_bytes(self, name: str, tensor: StoredTensor) -> int:
        try:
            kind = self._package.GGMLQuantizationType(tensor.kind)
        except ValueError:
            raise self._unknown(name, str(tensor.kind)) from None
        block, size = self._package.GGML_QUANT_SIZES[kind]
        if tensor.shape[-1] % block:
            raise FileError(
                f"{self._header.path} is damaged: rows of {name} have {tensor.shape[-1]} numbers in blocks of {block}",
                hint="fetch it again",
            )
        return int(tensor.shape[-1] // block * size)

    def _unknown(self, name: str, kind: str) -> UnsupportedError:
        return UnsupportedError(
            f"{name} in {self._header.path} has the type {kind}, which the gguf package cannot dequantise",
            hint="take a file with another quantisation, such as Q8_0",
        )


def _rows(tensor: StoredTensor) -> int:
    rows = 1
    for size in tensor.shape[:-1]:
        rows *= size
    return rows


@contextmanager
def _open_tensors(header: Header) -> Iterator[_Tensors]:
    package = import_extra("gguf", "gguf")
    with header.path.open("rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        yield _Tensors(header, data, package)


# Metadata


def _spec(header: Header, tensors: _Tensors | None) -> ModelSpec:
    fields = ConfigFields(header.path, header.fields)
    if header.architecture != "llama":
        raise UnsupportedError(
            f"{header.path} holds a model of the architecture {header.architecture!r}",
            hint="the supported architecture of GGUF files is llama",
        )
    if fields.values.get("llama.expert_count"):
        raise UnsupportedError(f"{header.path} holds a mixture of experts", hint="take a Llama with one perceptron")
    layers, width = fields.whole("llama.block_count"), fields.whole("llama.embedding_length")
    embedding = header.tensors.get(NAMES.embedding)
    if layers > len(header.tensors) or embedding is None:
        raise FileError(
            f"{header.path} lacks weights: it says {layers} layers and has {len(header.tensors)} tensors",
            hint="take a file with all weights; files in several parts are not supported",
        )
    heads = fields.whole("llama.attention.head_count")
    head_width = fields.whole("llama.attention.key_length", default=max(1, width // heads))
    try:
        return llama_model(
            vocabulary_size=embedding.shape[0],
            context_length=fields.whole("llama.context_length"),
            num_layers=layers,
            model_width=width,
            mlp_width=fields.whole("llama.feed_forward_length"),
            num_heads=heads,
            num_key_value_heads=fields.whole("llama.attention.head_count_kv", default=heads),
            head_width=head_width,
            position=_position(fields, head_width, tensors),
            norm_epsilon=_rounded(fields.positive("llama.attention.layer_norm_rms_epsilon")),
            attention_bias="blk.0.attn_q.bias" in header.tensors,
            mlp_bias="blk.0.ffn_up.bias" in header.tensors,
            tied_embedding=NAMES.head not in header.tensors,
        )
    except SpecError as error:
        raise FileError(f"{header.path} describes no model: {error.message}", hint=error.hint) from None


def _position(fields: ConfigFields, head_width: int, tensors: _Tensors | None) -> Position:
    rotated = fields.whole("llama.rope.dimension_count", default=head_width)
    if rotated != head_width:
        raise UnsupportedError(
            f"{fields.path} rotates {rotated} of {head_width} numbers of a head", hint="take a model that rotates all"
        )
    base = _rounded(fields.positive("llama.rope.freq_base", 10_000.0))
    kind = fields.values.get("llama.rope.scaling.type", "none")
    if kind == "none" and tensors is not None and tensors.shape(_FACTORS) is not None:
        return _llama3(fields, base, head_width, tensors)
    if kind == "none":
        return Rope(base=base)
    if kind == "linear":
        return LinearRope(base=base, factor=_rounded(fields.positive("llama.rope.scaling.factor")))
    raise UnsupportedError(
        f"{fields.path} scales its rotary positions by {kind!r}", hint="the supported kinds are none, linear, llama3"
    )


def _llama3(fields: ConfigFields, base: float, head_width: int, tensors: _Tensors) -> Llama3Rope:
    """Return the scaling that the file keeps as what each frequency is divided by."""
    count = head_width // 2
    if tensors.shape(_FACTORS) == (count,):
        factors = tensors.read(_FACTORS)
        position = Llama3Rope(base=base, factor=max(1.0, round(float(factors.max()), 3)))
        exponents = torch.arange(count) / count
        expected = Rope(base=base).frequencies(exponents) / position.frequencies(exponents)
        if torch.allclose(factors, expected, rtol=1e-3):
            return position
    raise UnsupportedError(
        f"{fields.path} scales its rotary positions by factors that are not Llama 3's",
        hint="the supported kinds are none, linear, llama3",
    )


def _rounded(number: float) -> float:
    """Return the shortest number that is the same in float32."""
    return float(f"{number:.{_DIGITS}g}")
