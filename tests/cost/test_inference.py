"""FLOPs of reading and writing against PyTorch's counter, and bytes against what lies in memory."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from attnlab.attention import LinearAttention, MultiHeadAttention, Recurrence, variants
from attnlab.cost import inference_pass
from attnlab.errors import InputError, SpecError, UnsupportedError
from attnlab.models import ModelSpec, build_model

CONTEXT, WORDS, BATCH = 20, 11, 2


def tiny(**changes: Any) -> ModelSpec:
    shape = {"num_layers": 2, "model_width": 16, "num_heads": 4, "context_length": CONTEXT}
    return ModelSpec.build("nano", vocabulary_size=WORDS, **{**shape, **changes})


def decoders() -> list[str]:
    found = ["softmax,window,linear"]
    for variant in variants():
        try:
            tiny(variant=variant.name)
        except SpecError:
            continue
        found.append(variant.name)
    return found


@pytest.fixture
def by_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention computes what it is defined to be."""
    fast = MultiHeadAttention.forward

    def forward(self: MultiHeadAttention, *args: Any, **options: Any) -> Tensor:
        if self.spec.operator is not None:
            return fast(self, *args, **options)
        return fast(self, *args, **options, return_weights=True)[0]

    monkeypatch.setattr(MultiHeadAttention, "forward", forward)
    for operator in (LinearAttention, Recurrence):
        monkeypatch.setattr(operator, "attend", operator.define)


@pytest.mark.usefixtures("by_definition")
@pytest.mark.parametrize("variant", decoders())
def test_flops_are_those_of_the_counter(variant: str) -> None:
    spec = tiny(variant=variant, num_layers=3)
    model, tokens = build_model(spec).eval(), torch.randint(0, WORDS, (BATCH, CONTEXT))
    cache = model.new_cache()
    with torch.no_grad():
        with FlopCounterMode(display=False) as reading:
            model(tokens, last_only=True)
        for step in range(CONTEXT - 1):
            model(tokens[:, step : step + 1], cache=cache)
        with FlopCounterMode(display=False) as writing:
            model(tokens[:, -1:], cache=cache)
    prefill = inference_pass(spec, batch=BATCH, tokens=CONTEXT, visible_only=False)
    decoding = inference_pass(spec, batch=BATCH, tokens=1, cached=CONTEXT - 1, visible_only=False)
    assert prefill.flops == reading.get_total_flops()
    assert decoding.flops == writing.get_total_flops()


@pytest.mark.usefixtures("by_definition")
def test_an_encoder_reads_all_tokens_with_its_head() -> None:
    spec = tiny(family="encoder")
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        build_model(spec).eval()(torch.randint(0, WORDS, (BATCH, CONTEXT)))
    assert inference_pass(spec, batch=BATCH, tokens=CONTEXT).flops == counter.get_total_flops()


def test_writing_reads_every_weight_and_the_whole_cache() -> None:
    spec = tiny()
    model = build_model(spec).eval()
    matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and "positions" not in name]
    decoding = inference_pass(spec, tokens=1, cached=CONTEXT - 1)
    cache = spec.num_layers * 2 * CONTEXT * 16 * 4
    vectors = spec.num_layers * (4 * 2 * 16 + 2 * 16 + 2 * (16 + 64)) + 16 + WORDS
    assert decoding.bytes_moved == sum(matrix.nbytes for matrix in matrices) + cache + 4 * vectors
    assert decoding.bytes_moved == sum(part.bytes_moved for part in decoding.parts)


@pytest.mark.parametrize("variant", ["tied-kv", "gqa", "mqa", "window", "linear"])
def test_what_a_variant_spares(variant: str) -> None:
    long = {"context_length": 4096, "model_width": 64}
    usual, own = (inference_pass(tiny(variant=v, **long), tokens=1, cached=4095) for v in ("softmax", variant))
    assert own.bytes_moved < usual.bytes_moved


def test_one_vector_that_is_key_and_value_is_read_once() -> None:
    usual, tied = (inference_pass(tiny(variant=v), tokens=1, cached=CONTEXT - 1) for v in ("softmax", "tied-kv"))
    moved = [{part.name: part.bytes_moved for part in one.parts} for one in (usual, tied)]
    assert moved[0]["scores"] == moved[1]["scores"]
    assert moved[0]["weighted sum"] - moved[1]["weighted sum"] == 2 * CONTEXT * 16 * 4


def test_intensity_of_reading_and_of_writing() -> None:
    spec = ModelSpec.build("gpt2", vocabulary_size=50257)
    prefill, decoding = (inference_pass(spec, tokens=n, cached=1024 - n) for n in (1024, 1))
    assert prefill.intensity > 100
    assert 0.4 < decoding.intensity < 0.6
    many = inference_pass(spec, batch=64, tokens=1, cached=1023)
    assert decoding.intensity < many.intensity < prefill.intensity
    assert decoding.seconds(1e12, 1e9) == pytest.approx(decoding.bytes_moved / 1e9)
    assert prefill.seconds(1e9, 1e15) == pytest.approx(prefill.flops / 1e9)


def test_refusals() -> None:
    with pytest.raises(InputError, match="cached is -1"):
        inference_pass(tiny(), tokens=1, cached=-1)
    with pytest.raises(InputError, match="queries is 0"):
        inference_pass(tiny(), tokens=0)
    with pytest.raises(UnsupportedError, match="encoder–decoder"):
        inference_pass(tiny(family="encoder-decoder"), tokens=1)
