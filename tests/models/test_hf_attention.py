"""attnlab's attention inside small random models of Transformers: GPT-2, Llama with grouped heads, and a few others."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnlab.attention import Alibi, Mask, Variant, add_variant, variants
from attnlab.attention.names import catalogue
from attnlab.errors import InputError, UnknownNameError, UnsupportedError
from attnlab.models import hf
from attnlab.models.hf.masks import first_position, make_mask

VOCABULARY, WIDTH, CONTEXT = 40, 32, 48
OWN = (
    Variant("near", "Three keys.", {"mask": Mask(window=3)}),
    Variant("around", "Five keys around the query.", {"mask": Mask(causal=False, window=5)}),
)
NAMES = [one.name for one in (*variants(), *OWN) if hf.why_not(one) is None] + ["near+sigmoid", "alibi+relu"]
FAMILIES = ["gpt2", "llama"]
SOFTMAX = "attnlab:softmax"
SMALL: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": None, "pad_token_id": 0, "vocab_size": VOCABULARY}


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every name that is tested, forgotten afterwards."""
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    for interface in (AttentionInterface, AttentionMaskInterface):
        monkeypatch.setattr(interface, "_global_mapping", dict(interface._global_mapping))
    monkeypatch.setattr(catalogue, "_known", dict(catalogue._known))
    for one in OWN:
        add_variant(one)
    hf.register(NAMES)


def model_of(family: str, name: str = SOFTMAX, dtype: torch.dtype = torch.float64, **changes: Any) -> Any:
    """A model whose weights are the same for every attention, and large enough for attention to matter."""
    import transformers

    common = SMALL | {"initializer_range": 0.2, "attn_implementation": name}
    sizes = {"hidden_size": WIDTH, "num_attention_heads": 4, "num_hidden_layers": 2, "intermediate_size": 64}
    llama = common | sizes | {"num_key_value_heads": 2, "max_position_embeddings": CONTEXT}
    makers: dict[str, tuple[str, str, dict[str, Any]]] = {
        "gpt2": (
            "GPT2Config",
            "GPT2LMHeadModel",
            common
            | {"n_embd": WIDTH, "n_head": 4, "n_layer": 2, "n_positions": CONTEXT}
            | {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0},
        ),
        "llama": ("LlamaConfig", "LlamaForCausalLM", llama),
        "mistral": ("MistralConfig", "MistralForCausalLM", llama | {"sliding_window": 4}),
        "bert": ("BertConfig", "BertForMaskedLM", common | sizes | {"max_position_embeddings": CONTEXT}),
        "bart": (
            "BartConfig",
            "BartForConditionalGeneration",
            SMALL
            | {"init_std": 0.2, "attn_implementation": name, "d_model": WIDTH, "max_position_embeddings": CONTEXT}
            | {f"{side}_layers": 1 for side in ("encoder", "decoder")}
            | {f"{side}_attention_heads": 4 for side in ("encoder", "decoder")}
            | {f"{side}_ffn_dim": 64 for side in ("encoder", "decoder")}
            | {"decoder_start_token_id": 1, "forced_eos_token_id": None},
        ),
    }
    config, model, fields = makers[family]
    torch.manual_seed(3)
    made = getattr(transformers, model)(getattr(transformers, config)(**(fields | changes)))
    return made.to(dtype).eval()


def tokens(length: int = 10, batch: int = 2) -> Tensor:
    return torch.randint(1, VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(5))


def padded(length: int, real: int, side: str) -> dict[str, Tensor]:
    """Two sequences, the second with `real` tokens and padding on one side, with the positions that belong to them."""
    mask = torch.ones(2, length, dtype=torch.long)
    mask[1, slice(0, length - real) if side == "left" else slice(real, length)] = 0
    return {"attention_mask": mask, "position_ids": (mask.cumsum(-1) - 1).clamp(min=0)}


def assert_close(found: Tensor, true: Tensor, atol: float = 1e-9) -> None:
    torch.testing.assert_close(found, true, rtol=0, atol=atol)


# softmax is what Transformers computes itself


@pytest.mark.parametrize("side", ["none", "left", "right"])
@pytest.mark.parametrize("peer", ["eager", "sdpa"])
@pytest.mark.parametrize("family", FAMILIES)
def test_softmax_equals_transformers_with_gradients(family: str, peer: str, side: str) -> None:
    given = {} if side == "none" else padded(10, 6, side)
    real = given.get("attention_mask", torch.ones(2, 10)).bool()
    results = []
    for name in (peer, SOFTMAX):
        model = model_of(family, name, torch.float32)
        logits = model(tokens(), **given).logits[real]
        logits.log_softmax(-1)[:, 7].mean().backward()
        results.append([logits.detach(), *(parameter.grad for parameter in model.parameters())])
    for found, true in zip(*results, strict=True):
        assert_close(found, true, 1e-5)


@pytest.mark.parametrize("family", FAMILIES)
def test_generated_tokens_equal_those_of_sdpa(family: str) -> None:
    given = padded(8, 5, "left")["attention_mask"]
    texts = [
        model_of(family, name).generate(
            tokens(8), attention_mask=given, max_new_tokens=12, do_sample=False, use_cache=cached
        )
        for name, cached in (("sdpa", True), (SOFTMAX, True), (SOFTMAX, False))
    ]
    assert len(texts[0][0, 8:].unique()) > 1, "a text of one token would prove little"
    assert torch.equal(texts[0], texts[1])
    assert torch.equal(texts[0], texts[2])


@pytest.mark.parametrize(
    "changes", [{"scale_attn_by_inverse_layer_idx": True}, {"scale_attn_weights": False}], ids=lambda c: next(iter(c))
)
def test_the_models_own_scaling_is_kept(changes: dict[str, bool]) -> None:
    peer, ours = (model_of("gpt2", name, **changes)(tokens()).logits for name in ("eager", SOFTMAX))
    assert_close(ours, peer)
    assert not torch.allclose(ours, model_of("gpt2")(tokens()).logits)
    for name in ("attnlab:cosine", "attnlab:linear"):  # whose definition has no such scale
        assert_close(model_of("gpt2", name, **changes)(tokens()).logits, model_of("gpt2", name)(tokens()).logits)


# Every variant


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("family", FAMILIES)
def test_gradients_reach_every_parameter(family: str, name: str) -> None:
    model, text = model_of(family, f"attnlab:{name}"), tokens()
    output = model(text, labels=text)
    output.loss.backward()
    assert output.logits.isfinite().all()
    for parameter, tensor in model.named_parameters():
        assert tensor.grad is not None, parameter
        assert tensor.grad.isfinite().all(), parameter
        assert tensor.grad.any(), parameter


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("family", FAMILIES)
def test_the_future_is_not_seen(family: str, name: str) -> None:
    model, text = model_of(family, f"attnlab:{name}"), tokens()
    changed = text.clone()
    changed[:, 6] = changed[:, 6] % (VOCABULARY - 1) + 1
    for given in ({}, padded(10, 9, "left")):
        before, after = model(text, **given).logits, model(changed, **given).logits
        assert_close(after[:, :6], before[:, :6])
        assert not torch.allclose(after[:, 6:], before[:, 6:])


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("family", FAMILIES)
def test_padding_equals_cutting(family: str, name: str) -> None:
    model, text = model_of(family, f"attnlab:{name}"), tokens()
    for side, real in (("left", slice(4, 10)), ("right", slice(0, 6))):
        found = model(text, **padded(10, 6, side)).logits
        assert_close(found[1, real], model(text[1:, real]).logits[0])
        assert_close(found[0], model(text[:1]).logits[0])
        assert found.isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("family", FAMILIES)
def test_cached_decoding_equals_the_full_pass(family: str, name: str) -> None:
    from transformers import DynamicCache, StaticCache

    model, text = model_of(family, f"attnlab:{name}"), tokens()
    for given in ({}, padded(10, 7, "left")):
        real = given.get("attention_mask", torch.ones(2, 10)).bool()
        whole = model(text, **given).logits
        caches = DynamicCache(config=model.config), StaticCache(config=model.config, max_cache_len=17)
        for cache in caches:
            assert_close(in_pieces(model, text, given, cache)[real], whole[real])


def in_pieces(model: nn.Module, text: Tensor, given: dict[str, Tensor], cache: Any) -> Tensor:
    """The logits of a prompt, of a few tokens at once, and of single tokens."""
    found = []
    for start, stop in ((0, 4), (4, 7), (7, 8), (8, 9), (9, 10)):
        part = {name: tensor[:, :stop] for name, tensor in given.items()}
        if "position_ids" in part:
            part["position_ids"] = part["position_ids"][:, start:]
        found.append(model(text[:, start:stop], past_key_values=cache, use_cache=True, **part).logits)
    return torch.cat(found, dim=1)


@pytest.mark.parametrize("name", ["softmax", "sigmoid", "sparsemax", "linear", "near+sigmoid"])
@pytest.mark.parametrize("family", FAMILIES)
def test_training_lowers_the_loss(family: str, name: str) -> None:
    model, text = model_of(family, f"attnlab:{name}", torch.float32), tokens(12, 4)
    optimizer = torch.optim.AdamW(model.train().parameters(), lr=3e-3)
    losses = []
    for _ in range(6):
        loss = model(text, labels=text).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.9 * losses[0]


# Masks and other models


@torch.no_grad()
def test_windows_are_multiplied_with_the_models_mask() -> None:
    """A window of 3 in Llama is Mistral's sliding window of 3, and the past half of a window of 5 around the query."""
    for given in ({}, padded(10, 6, "left")):
        real = given.get("attention_mask", torch.ones(2, 10)).bool()
        true = model_of("mistral", "sdpa", sliding_window=3)(tokens(), **given).logits
        for name in ("near", "around"):
            assert_close(model_of("llama", f"attnlab:{name}")(tokens(), **given).logits[real], true[real])


@torch.no_grad()
@pytest.mark.parametrize("name", ["softmax", "relu", "near", "alibi"])
def test_a_model_with_a_sliding_window_and_its_cache(name: str) -> None:
    from transformers import DynamicCache, StaticCache

    model = model_of("mistral", f"attnlab:{name}")
    whole = model(tokens()).logits
    if name == "softmax":
        assert_close(whole, model_of("mistral", "sdpa")(tokens()).logits)
    for cache in (DynamicCache(config=model.config), StaticCache(config=model.config, max_cache_len=17)):
        assert_close(in_pieces(model, tokens(), {}, cache), whole)


@torch.no_grad()
def test_packed_sequences_do_not_see_each_other() -> None:
    packed = {"position_ids": torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3, 4, 5]]), "use_cache": False}
    model, text = model_of("llama", "attnlab:sigmoid"), tokens(batch=1)
    found = model(text, **packed).logits
    assert_close(found[:, :4], model(text[:, :4]).logits)
    assert_close(found[:, 4:], model(text[:, 4:]).logits)
    with pytest.raises(UnsupportedError, match="hides more than the future and padding"):
        model_of("llama", "attnlab:linear")(text, **packed)


@torch.no_grad()
@pytest.mark.parametrize("name", ["softmax", "sigmoid", "squared-relu", "linear", "alibi"])
def test_a_bidirectional_encoder_with_padding(name: str) -> None:
    model, text = model_of("bert", f"attnlab:{name}"), tokens()
    mask = padded(10, 6, "right")["attention_mask"]
    found = model(text, attention_mask=mask).logits
    assert_close(found[1, :6], model(text[1:, :6]).logits[0])
    changed = text.clone()
    changed[:, 9] = changed[:, 9] % (VOCABULARY - 1) + 1
    assert not torch.allclose(model(changed).logits[:, 0], model(text).logits[:, 0]), "an encoder looks ahead"
    if name == "softmax":
        assert_close(found[mask.bool()], model_of("bert", "sdpa")(text, attention_mask=mask).logits[mask.bool()])


@torch.no_grad()
def test_a_decoder_told_to_look_both_ways() -> None:
    for given in ({}, {"attention_mask": padded(10, 6, "right")["attention_mask"]}):
        found, true = (model_of("llama", name)(tokens(), is_causal=False, **given) for name in (SOFTMAX, "sdpa"))
        assert_close(found.logits, true.logits)
        assert not torch.allclose(found.logits[0], model_of("llama")(tokens(), **given).logits[0])


@torch.no_grad()
def test_an_encoder_and_decoder_with_cross_attention() -> None:
    mask = padded(10, 6, "right")["attention_mask"]
    for given in ({}, {"attention_mask": mask}):
        for length in (7, 10):
            asked = {"input_ids": tokens(), "decoder_input_ids": tokens(length), **given}
            found, true = (model_of("bart", name)(**asked).logits for name in (SOFTMAX, "sdpa"))
            assert_close(found, true)
            assert model_of("bart", "attnlab:linear")(**asked).logits.isfinite().all()
            for name in ("alibi", "near"):
                with pytest.raises(UnsupportedError, match="cross-attention"):
                    model_of("bart", f"attnlab:{name}")(**asked)


@torch.no_grad()
def test_masks_of_ones_own() -> None:
    model, text = model_of("gpt2", "attnlab:relu"), tokens()
    causal = torch.ones(10, 10, dtype=torch.bool).tril()[None, None]
    hidden = torch.zeros(1, 1, 10, 10, dtype=torch.float64).masked_fill(~causal, torch.finfo(torch.float64).min)
    for mask in (causal, hidden):
        assert_close(model(text, attention_mask=mask).logits, model(text).logits)
    with pytest.raises(UnsupportedError, match="adds numbers to the scores"):
        model(text, attention_mask=hidden + 0.5 * causal)
    with pytest.raises(InputError, match=r"shape \(1, 1, 10, 9\)"):
        model(text, attention_mask=causal[..., :9])


def test_a_mask_is_made_only_where_it_is_needed() -> None:
    from transformers import DynamicCache, StaticCache
    from transformers.masking_utils import create_bidirectional_mask, create_causal_mask

    config, embedded = model_of("llama").config, torch.zeros(2, 5, WIDTH)
    full, holes = torch.ones(2, 5, dtype=torch.long), padded(5, 3, "left")["attention_mask"]
    assert create_causal_mask(config, embedded, full, None) is None
    assert create_causal_mask(config, embedded, None, DynamicCache(config=config)) is None
    assert create_bidirectional_mask(config, embedded, full) is None
    mask = create_causal_mask(config, embedded, holes, None)
    assert torch.equal(mask, torch.ones(5, 5, dtype=torch.bool).tril() & holes.bool()[:, None, None])
    assert create_bidirectional_mask(config, embedded, holes).shape == (2, 1, 5, 5)
    roomy = create_causal_mask(config, embedded, full, StaticCache(config=config, max_cache_len=8))
    assert roomy.shape == (2, 1, 5, 8)
    assert not roomy[..., 5:].any()


def test_padding_counts_only_among_the_keys_that_are_there() -> None:
    asked = {"batch_size": 1, "q_length": 1, "kv_length": 4, "q_offset": 5, "kv_offset": 2}
    gone = torch.tensor([[False, False, True, True, True, True]])  # a window has dropped the padding
    assert make_mask(**asked, attention_mask=gone) is None
    short = make_mask(**asked, attention_mask=gone[:, :5])  # Transformers takes what is missing for padding
    assert short is not None
    assert short.tolist() == [[[[True, True, True, False]]]]


def test_the_first_query_is_found_in_a_mask_with_padding_and_room() -> None:
    causal = torch.ones(4, 9, dtype=torch.bool).tril(diagonal=2)  # queries at 2, 3, 4, 5 among 6 keys and room for 3
    left, right = causal.clone(), causal.clone()
    left[:, :4] = False  # the first two queries see nothing
    right[:, 4:] = False  # the last two do not see themselves
    for masks in ((causal,), (left,), (right,), (left, right)):
        assert first_position(torch.stack(masks)[:, None]) == 2
    assert first_position(torch.zeros(1, 1, 1, 5, dtype=torch.bool)) == 0


# What else a model may ask for


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_are_returned_on_request(family: str) -> None:
    given = padded(10, 6, "right")
    found, true = (model_of(family, name)(tokens(), output_attentions=True, **given) for name in (SOFTMAX, "eager"))
    for ours, theirs in zip(found.attentions, true.attentions, strict=True):
        assert_close(ours, theirs, 1e-6)  # Llama's own softmax is in float32
    assert not model_of(family)(tokens()).get("attentions")
    with pytest.raises(UnsupportedError, match="no attention weights"):
        model_of(family, "attnlab:linear")(tokens(), output_attentions=True)


def test_dropout_is_that_of_the_model_and_only_in_training() -> None:
    model, text = model_of("gpt2", "attnlab:sigmoid", attn_pdrop=0.5), tokens()
    still = model(text).logits
    assert_close(still, model_of("gpt2", "attnlab:sigmoid")(text).logits)
    model.train()
    torch.manual_seed(1)
    first = model(text).logits
    assert not torch.allclose(first, still)
    assert not torch.allclose(first, model(text).logits)
    torch.manual_seed(1)
    assert_close(model(text).logits, first)
    with pytest.raises(UnsupportedError, match=r"probability 0\.5(.|\n)*attn_pdrop"):
        model_of("gpt2", "attnlab:linear", attn_pdrop=0.5).train()(text)


@pytest.mark.slow  # the compiler reads all of the model
@torch.no_grad()
@pytest.mark.parametrize("name", ["softmax", "sigmoid", "linear"])
def test_a_compiled_model_computes_the_same(name: str) -> None:
    torch._dynamo.reset()
    model, text = model_of("llama", f"attnlab:{name}"), tokens()
    compiled = torch.compile(model, backend="aot_eager")
    for given in ({}, padded(10, 6, "left")):
        assert_close(compiled(text, use_cache=False, **given).logits, model(text, use_cache=False, **given).logits)


@pytest.mark.parametrize("argument", ["softcap", "position_bias", "s_aux", "cache"])
def test_what_a_variant_cannot_give_is_refused(argument: str) -> None:
    vectors = torch.randn(1, 2, 3, 4)
    attention = hf.VariantAttention(catalogue.variant("sigmoid"))
    output, weights = attention(nn.Module(), vectors, vectors, vectors, None, **{argument: None})
    assert output.shape == (1, 3, 2, 4)
    assert weights is None
    with pytest.raises(UnsupportedError, match=argument):
        attention(nn.Module(), vectors, vectors, vectors, None, **{argument: 1.0})


def test_more_queries_than_keys_without_a_mask_are_refused() -> None:
    vectors = torch.randn(1, 2, 3, 4)
    with pytest.raises(InputError, match="3 queries against 2 keys"):
        hf.VariantAttention(catalogue.variant("softmax"))(
            nn.Module(), vectors, vectors[:, :, :2], vectors[:, :, :2], None
        )


# Registering


def test_register_says_what_it_offers_and_why_not_the_rest() -> None:
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface

    done = hf.register()
    assert done == hf.register(), "calling again is harmless"
    assert done.registered.keys() | done.left_out.keys() == {one.name for one in catalogue.variants()}
    assert not done.registered.keys() & done.left_out.keys()
    assert {"softmax", "cosine", "sigmoid", "entmax", "window", "alibi", "linear", "near"} <= done.registered.keys()
    for key in done.registered.values():
        assert key in AttentionInterface._global_mapping
        assert key in AttentionMaskInterface._global_mapping
    reasons = {
        "tied-kv": "sharing",
        "gqa": "num_key_value_heads",
        "mla": "compression, key_width, value_width",
        "low-rank-key": "key_width, value_width",
        "full-value": "value_map",
        "averaged-heads": "join",
        "single-head": "num_heads",
        "cosine-learned": "log_temperature",
        "synthesizer-dense": "parameters of its own",
        "synthesizer-random": "parameters of its own",
        "rope": "before the scores",
        "no-position": "before the scores",
        "prefix": "shows more",
        "bidirectional": "shows more",
    }
    for name, reason in reasons.items():
        assert reason in done.left_out[name]
        assert f"left out: {name}: {done.left_out[name]}" in str(done)
    assert "attnlab:sigmoid" in str(done).splitlines()


def test_names_that_are_asked_for() -> None:
    from transformers import AttentionInterface

    assert hf.register("window + relu").registered == {"window+relu": "attnlab:window+relu"}
    AttentionInterface._global_mapping.pop("attnlab:sigmoid")
    with pytest.raises(UnsupportedError, match=r"'tied-kv' cannot be used(.|\n)*sharing(.|\n)*hint:"):
        hf.register(["sigmoid", "tied-kv"])
    assert "attnlab:sigmoid" not in AttentionInterface._global_mapping, "all or nothing"
    with pytest.raises(UnsupportedError, match="sharing"):
        hf.register(["sigmoid+tied-kv"])
    with pytest.raises(UnknownNameError, match="sigmoid"):
        hf.register("sigmiod")


def test_ones_own_variants_and_names_that_transformers_would_misread() -> None:
    add_variant(Variant("steep", "ALiBi and more.", {"position": Alibi(), "normaliser": "softpick"}))
    add_variant(Variant("flashy", "A name.", {"normaliser": "relu"}))
    done = hf.register()
    assert done.registered["steep"] == "attnlab:steep"
    assert "'flash'" in done.left_out["flashy"]
    add_variant(Variant("steep", "Another.", {"normaliser": "relu"}))
    hf.register("steep")
    assert_close(model_of("gpt2", "attnlab:steep")(tokens()).logits, model_of("gpt2", "attnlab:relu")(tokens()).logits)


@pytest.fixture
def _without_transformers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "transformers", None)
        yield


@pytest.mark.usefixtures("_without_transformers")
def test_without_transformers_there_is_a_hint() -> None:
    with pytest.raises(UnsupportedError, match=r"pip install 'attnlab\[hf\]'"):
        hf.register()
