"""The models: every variant in both architectures is causal, decodes as it trains, and learns with all its weights."""

from __future__ import annotations

import copy
import functools
from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab.attention import AttentionSpec, Mask, Rope, variants
from attnlab.errors import InputError
from attnlab.models import IGNORED, Family, LanguageModel, ModelSpec, build_model, loss
from attnlab.models.blocks import RMSNorm

VOCABULARY, WIDTH, CONTEXT = 13, 16, 10
RECURRENT = {"gated-linear", "gated-delta"}
WITHOUT_ROPE = {"synthesizer-dense", "synthesizer-random", "linear", *RECURRENT}  # which "fast" would give them
BY_PLACE = {"synthesizer-dense", "synthesizer-random", "prefix"}  # where a token stands matters by itself
CASES = [(one.name, style) for one in variants() for style in ("gpt2", "fast") if one.name != "bidirectional"]
ONE_SIDED = {"prefix", "stick-breaking", "forgetting", *RECURRENT}  # refused by an encoder
PAIRS = [case for case in CASES if case[0] not in BY_PLACE | ONE_SIDED | {"exclusive"}]
EXACT = {"rtol": 1e-9, "atol": 1e-10}

every_decoder = pytest.mark.parametrize(("name", "style"), CASES)
every_pair = pytest.mark.parametrize(("name", "style"), PAIRS)


@functools.cache
def spec_of(name: str, style: str, family: Family = "decoder", **changes: Any) -> ModelSpec:
    """A tiny model, whose window and prefix are short enough to matter."""
    place = "learned" if style == "fast" and name in WITHOUT_ROPE else None
    sizes = {"num_layers": 2, "model_width": WIDTH, "num_heads": 2, "context_length": CONTEXT}
    fields = {"vocabulary_size": VOCABULARY, "variant": name, "architecture": style, "position": place}
    spec = ModelSpec.build(**{**sizes, **fields, "family": family, **changes})

    def short(own: AttentionSpec) -> AttentionSpec:
        window, prefix = own.mask.window and 3, own.mask.prefix and 3
        return own.replace(mask=Mask(causal=own.mask.causal, window=window, prefix=prefix))

    return spec.replace(
        attention=tuple(short(own) for own in spec.attention),
        encoder_attention=tuple(short(own) for own in spec.encoder_attention),
    )


@functools.cache
def model_of(spec: ModelSpec) -> LanguageModel:
    """A model in float64, all of whose weights matter. It is shared: a test that changes it takes a copy."""
    model = build_model(spec).double().eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.3)
    return model


def draw(length: int = CONTEXT, batch: int = 2, seed: int = 2) -> Tensor:
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(seed))


def changed(tokens: Tensor, place: int) -> Tensor:
    other = tokens.clone()
    other[:, place] = (other[:, place] + 1) % VOCABULARY
    return other


def decode(model: LanguageModel, tokens: Tensor, steps: tuple[int, ...], **source: Tensor) -> tuple[Tensor, int]:
    """The logits step by step, and the bytes of the cache; the source is given once."""
    cache, outputs = model.new_cache(), []
    for part in tokens.split(list(steps), dim=1):
        outputs.append(model(part, cache=cache, **source))
        source = {}
    assert cache.length == tokens.shape[1]
    return torch.cat(outputs, dim=1), cache.nbytes


@every_decoder
@torch.no_grad()
def test_a_decoder_is_causal_and_decodes_as_it_reads(name: str, style: str) -> None:
    model, tokens = model_of(spec_of(name, style)), draw()
    logits = model(tokens)
    assert logits.shape == (2, CONTEXT, VOCABULARY)
    assert logits.isfinite().all()
    other = model(changed(tokens, 6))
    torch.testing.assert_close(other[:, :6], logits[:, :6], **EXACT)
    assert (other[:, 6] - logits[:, 6]).abs().amax(-1).min() > 1e-6
    chunks, single = (5, 1, 1, 3), (1,) * CONTEXT
    for steps in [chunks] if name == "prefix" else [chunks, single]:  # a prefix has to come in one piece
        found, nbytes = decode(model, tokens, steps)
        torch.testing.assert_close(found, logits, **EXACT)
        assert nbytes > 0


@every_decoder
@torch.no_grad()
def test_padding_equals_cutting(name: str, style: str) -> None:
    model, tokens = model_of(spec_of(name, style)), draw()
    real = torch.ones(2, CONTEXT, dtype=torch.bool)
    real[1, 7:] = False
    found = model(tokens, padding=real)
    torch.testing.assert_close(found[:1], model(tokens[:1]), **EXACT)
    torch.testing.assert_close(found[1:, :7], model(tokens[1:, :7]), **EXACT)
    if name not in BY_PLACE:
        left = real.flip(1)
        found = model(tokens, padding=left, positions=(left.cumsum(1) - 1).clamp(min=0))
        torch.testing.assert_close(found[1:, 3:], model(tokens[1:, 3:]), **EXACT)


@pytest.mark.parametrize("style", ["gpt2", "fast"])
@pytest.mark.parametrize("name", ["softmax", "sigmoid", "tied-kv", "window", "alibi", "linear"])
@torch.no_grad()
def test_decoding_with_padding_on_the_left(name: str, style: str) -> None:
    model, tokens = model_of(spec_of(name, style)), draw()
    real = torch.ones(2, CONTEXT, dtype=torch.bool)
    real[1, :3] = False
    positions = (real.cumsum(1) - 1).clamp(min=0)
    cache, outputs = model.new_cache(), []
    for start, stop in ((0, 6), (6, 7), (7, 8), (8, CONTEXT)):
        now = slice(start, stop)
        outputs.append(model(tokens[:, now], padding=real[:, :stop], positions=positions[:, now], cache=cache))
    found = torch.cat(outputs, dim=1)
    torch.testing.assert_close(found[1:, 3:], model(tokens[1:, 3:]), **EXACT)
    torch.testing.assert_close(found[:1], model(tokens[:1]), **EXACT)


def key_bias_is_idle(spec: AttentionSpec) -> bool:
    """q·b is the same for all keys, and such a normaliser does not see what is added to all scores of a row."""
    shifted = spec.score.kind in {"scaled-dot", "dot", "forgetting"} and not isinstance(spec.position, Rope)
    unmoved = spec.normaliser.shift_invariant and spec.operator is None
    return spec.bias and shifted and unmoved and spec.sharing == "none"


def without_gradient(model: LanguageModel, **source: Tensor) -> set[str]:
    model.zero_grad()
    model.loss(draw(), draw(seed=4), **source).backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    return {name for name, grad in gradients.items() if grad is None or grad.abs().max() < 1e-13}


def idle_key_biases(model: LanguageModel) -> set[str]:
    paths = {path: module.spec for path, module in model.named_modules() if hasattr(module, "projections")}
    idle = {path for path, spec in paths.items() if key_bias_is_idle(spec) and spec.compression is None}
    return {f"{path}.projections.key.bias" for path in idle}


@every_decoder
def test_gradients_reach_every_parameter(name: str, style: str) -> None:
    model = model_of(spec_of(name, style))
    idle = idle_key_biases(model)
    assert idle <= dict(model.named_parameters()).keys()
    assert without_gradient(model) == idle


@pytest.mark.parametrize("family", ["decoder", "encoder-decoder"])
@pytest.mark.parametrize("name", ["softmax", "cosine-learned", "tied-kv"])
def test_blocks_that_begin_as_the_identity_learn_from_their_outputs(name: str, family: Family) -> None:
    """While outputs are zero nothing in front of them gets a gradient; all of it does after one step."""
    model = build_model(spec_of(name, "fast", family)).double()
    source = {"source": draw(seed=9)} if family == "encoder-decoder" else {}
    moved = {f"{path}.weight" for path, _ in model.named_modules() if path.endswith(("attention.output", "mlp.narrow"))}
    behind = {name for name in moved if not name.startswith("encoder.")}  # the encoder is read through zeros
    assert len(behind) == 2 * (3 if source else 2)
    hidden = {name for name, _ in model.named_parameters()} - behind - {"embedding.weight"}
    assert without_gradient(model, **source) == hidden
    logits = model(draw(), **source)
    expected = model.stack.norm(model.embedding(draw())) @ model.embedding.weight.t()
    torch.testing.assert_close(logits, expected, **EXACT)
    with torch.no_grad():
        for name_ in moved:
            model.get_parameter(name_).normal_(0, 0.1)
    assert without_gradient(model, **source) == idle_key_biases(model)


@pytest.mark.parametrize(("name", "style"), [*(c for c in CASES if c[0] not in ONE_SIDED), ("bidirectional", "gpt2")])
@torch.no_grad()
def test_an_encoder_sees_both_sides(name: str, style: str) -> None:
    model, tokens = model_of(spec_of(name, style, "encoder")), draw()
    logits = model(tokens)
    for place, seen in ((CONTEXT - 1, CONTEXT - 2), (0, 1)):
        other = model(changed(tokens, place))
        assert (other[:, seen] - logits[:, seen]).abs().max() > 1e-9
    real = torch.ones(2, CONTEXT, dtype=torch.bool)
    real[1, 7:] = False
    found = model(tokens, padding=real)
    torch.testing.assert_close(found[1:, :7], model(tokens[1:, :7]), **EXACT)
    torch.testing.assert_close(found[:1], logits[:1], **EXACT)


@every_pair
@torch.no_grad()
def test_an_encoder_decoder_reads_its_source(name: str, style: str) -> None:
    model, tokens, source = model_of(spec_of(name, style, "encoder-decoder")), draw(8), draw(CONTEXT, seed=7)
    logits = model(tokens, source=source)
    for place in (0, CONTEXT - 1):
        assert (model(tokens, source=changed(source, place)) - logits).abs().amax((0, 2)).min() > 1e-9
    torch.testing.assert_close(model(changed(tokens, 5), source=source)[:, :5], logits[:, :5], **EXACT)
    real = torch.ones(2, CONTEXT, dtype=torch.bool)
    real[1, 6:] = False
    padded = model(tokens, source=source, source_padding=real)
    torch.testing.assert_close(padded[1:], model(tokens[1:], source=source[1:, :6]), **EXACT)
    torch.testing.assert_close(padded[:1], logits[:1], **EXACT)
    found, _ = decode(model, tokens, (3, 1, 1, 3), source=source, source_padding=real)
    torch.testing.assert_close(found, padded, **EXACT)


@every_pair
def test_gradients_reach_every_parameter_of_an_encoder_decoder(name: str, style: str) -> None:
    model = model_of(spec_of(name, style, "encoder-decoder"))
    assert without_gradient(model, source=draw(seed=8)) == idle_key_biases(model)


@pytest.mark.parametrize("tied", [True, False])
def test_the_loss_is_that_of_the_logits(tied: bool) -> None:
    model = model_of(spec_of("softmax", "gpt2", tied_embedding=tied))
    targets = draw(seed=5)
    targets[0, 3:] = IGNORED
    logits = model(draw())
    expected = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    torch.testing.assert_close(model.loss(draw(), targets), expected, **EXACT)
    assert (model.head is None) == tied
    torch.testing.assert_close(logits, model.hidden(draw()) @ model.head_weight.t(), **EXACT)


@pytest.mark.parametrize("style", ["gpt2", "fast"])
def test_dropout_is_there_in_training_only(style: str) -> None:
    model = copy.deepcopy(model_of(spec_of("softmax", style, dropout=0.5)))
    tokens = draw()
    assert torch.equal(model(tokens), model(tokens))
    model.train()
    assert not torch.equal(model(tokens), model(tokens))


@pytest.mark.parametrize("rows", [3, 10_000])
@pytest.mark.parametrize("name", ["softmax", "sigmoid", "linear"])
@pytest.mark.parametrize("style", ["gpt2", "fast"])
def test_half_precision_by_autocast(style: str, name: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss, "_CHUNK_BYTES", rows * VOCABULARY * 4)
    model = copy.deepcopy(model_of(spec_of(name, style))).float()
    gradients = []
    for enabled in (False, True):
        model.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            value = model.loss(draw(), draw(seed=4))
        value.backward()
        assert value.dtype == torch.float32
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in model.parameters()]))
    assert gradients[1].dtype == torch.float32
    assert torch.cosine_similarity(*gradients, dim=0) > 0.99


@pytest.mark.parametrize("family", ["decoder", "encoder-decoder"])
def test_bad_input_is_refused_with_what_to_do(family: Family) -> None:
    model = model_of(spec_of("softmax", "gpt2", family))
    other = {"source": draw()} if family == "encoder-decoder" else {}
    for tokens, message in (
        (draw()[0], "not integers"),
        (draw().float(), "not integers"),
        (draw(CONTEXT + 1), "11 tokens do not fit into a context of 10"),
    ):
        with pytest.raises(InputError, match=message) as caught:
            model(tokens, **other)
        assert caught.value.hint
    if other:
        with pytest.raises(InputError, match="needs the other sequence"):
            model(draw())
        with pytest.raises(InputError, match="11 source do not fit"):
            model(draw(), source=draw(CONTEXT + 1))
        return
    with pytest.raises(InputError, match="takes no source"):
        model(draw(), source=draw())
    cache = model.new_cache()
    with torch.no_grad():
        model(draw(), cache=cache)
        with pytest.raises(InputError, match="11 tokens do not fit"):
            model(draw(1), cache=cache)


def test_a_norm_without_parameters() -> None:
    x = torch.randn(3, WIDTH, dtype=torch.float64)
    norm = RMSNorm(WIDTH, 1e-5)
    torch.testing.assert_close(norm(x), x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt())
    assert list(norm.parameters()) == []


def test_layers_that_take_turns() -> None:
    model = model_of(spec_of("softmax,linear,window", "gpt2", num_layers=3))
    with torch.no_grad():
        torch.testing.assert_close(decode(model, draw(), (4, 1, 5))[0], model(draw()), **EXACT)
    assert [block.attention.spec.operator is not None for block in model.stack.blocks] == [False, True, False]
