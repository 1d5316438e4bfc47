"""Writing: with and without a cache, alone and together, drawn as the sampling says."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from attnlab.attention import variants
from attnlab.errors import InputError, SpecError
from attnlab.models import LanguageModel, ModelSpec, Sampling, build_model, generate, stream
from attnlab.models.decoding import TokenDecoder
from attnlab.models.generation import candidates

CONTEXT = 12
GREEDY = Sampling(temperature=0)
PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8], [9]]


def model_of(variant: str = "softmax", architecture: str = "gpt2", **changes: Any) -> LanguageModel:
    shape = {"num_layers": 2, "model_width": 16, "num_heads": 4, "context_length": CONTEXT} | changes
    try:
        spec = ModelSpec.build(vocabulary_size=23, variant=variant, architecture=architecture, **shape)
    except SpecError as refusal:
        pytest.skip(f"no such model: {refusal.message}")
    model = build_model(spec, seed=3)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for parameter in model.parameters():  # so that no choice is close
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.3)
    return model


@torch.no_grad()
def written_without_cache(model: LanguageModel, prompt: list[int], count: int) -> list[int]:
    """The definition: read everything again for each token, and the last half when the context is full."""
    model.eval()
    text, written = list(prompt), []
    for _ in range(count):
        written.append(int(model(torch.tensor([text]))[0, -1].argmax()))
        text.append(written[-1])
        if len(text) > CONTEXT:
            text = text[-(CONTEXT // 2) :]
    return written


@pytest.mark.parametrize("architecture", ["gpt2", "fast"])
@pytest.mark.parametrize("name", [one.name for one in variants()])
def test_the_cache_changes_nothing(name: str, architecture: str) -> None:
    model = model_of(name, architecture)
    alone = generate(model, [PROMPTS[0]], 25, GREEDY)[0]
    assert alone == written_without_cache(model, PROMPTS[0], 25)


@pytest.mark.parametrize("name", ["softmax", "tied-kv", "window", "sigmoid", "synthesizer-dense", "linear", "alibi"])
def test_prompts_of_different_lengths_go_together(name: str) -> None:
    model = model_of(name)
    each = [generate(model, [prompt], 7, GREEDY)[0] for prompt in PROMPTS]
    assert generate(model, PROMPTS, 7, GREEDY) == each


@pytest.mark.parametrize(
    ("architecture", "name"),
    [
        ("gpt2", "softmax"),
        ("fast", "cosine-learned"),
        ("gpt2", "gqa"),
        ("gpt2", "tied-kv"),
        ("llama", "tied-kv"),
        ("llama", "softmax,tied-kv"),
        ("gpt2", "window:3"),
        ("llama", "window:2+tied-kv,softmax"),
        ("llama", "window:2+sigmoid"),
    ],
)
def test_one_token_at_a_time_gives_the_model_s_numbers(architecture: str, name: str) -> None:
    model = model_of(name, architecture).eval()
    assert TokenDecoder.serves(model)
    tokens = torch.tensor([[3, 1, 4, 1, 5, 9, 2, 6]])
    cache = model.new_cache()
    with torch.no_grad():
        whole = model(tokens)
        model(tokens[:, :3], cache=cache)
        decoder = TokenDecoder(model, cache)
        for place in range(3, 8):
            torch.testing.assert_close(decoder.read(int(tokens[0, place])), whole[:, place], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["tied-qk", "sink-window", "linear", "synthesizer-dense", "full-value"])
def test_what_is_not_ordinary_is_left_to_the_model(name: str) -> None:
    assert not TokenDecoder.serves(model_of(name))


def test_the_seed_decides() -> None:
    model = model_of()
    first, again, other = (generate(model, [[1]], 20, Sampling(seed=seed))[0] for seed in (1, 1, 2))
    assert first == again != other
    # Within the context, what is drawn for a prompt does not depend on its company.
    assert generate(model, [[1], [2, 3]], 10, Sampling(seed=1))[0] == first[:10]


def test_stop_ends_one_text_and_not_the_others() -> None:
    model = model_of()
    plain = generate(model, PROMPTS, 9, GREEDY)
    stop = plain[0][3]
    for text, cut in zip(plain, generate(model, PROMPTS, 9, GREEDY, stop=stop), strict=True):
        assert cut == (text[: text.index(stop) + 1] if stop in text else text)


def test_it_comes_as_it_is_written_and_leaves_the_model_as_it_was() -> None:
    model = model_of().train()
    pieces = stream(model, [[1]], 3, GREEDY)
    first = next(pieces)
    assert [token for _, token in (first, *pieces)] == generate(model, [[1]], 3, GREEDY)[0]
    assert model.training
    assert generate(model, [[1]], 0) == [[]]


def test_an_encoder_decoder_reads_its_source() -> None:
    model = model_of(family="encoder-decoder")
    source = torch.tensor([[1, 2, 3, 4], [5, 6, 7, 8]])
    texts = generate(model, [[1], [1]], 6, GREEDY, source=source)
    each = [generate(model, [[1]], 6, GREEDY, source=source[row : row + 1])[0] for row in range(2)]
    assert texts == each
    assert texts[0] != texts[1]


def test_candidates_are_cut_by_rank_and_by_mass() -> None:
    logits = torch.tensor([[0.5, 0.3, 0.15, 0.05]]).log()[:, [2, 0, 3, 1]]  # tokens 1, 3, 0, 2 by rank
    everything, which = candidates(logits, Sampling())
    assert which is None
    torch.testing.assert_close(everything, logits.exp())
    best, tokens = candidates(logits, Sampling(top_k=2))
    assert tokens is not None
    assert tokens.tolist() == [[1, 3]]
    torch.testing.assert_close(best, torch.tensor([[0.625, 0.375]]))
    mass, tokens = candidates(logits, Sampling(top_p=0.6))
    assert tokens is not None
    assert tokens[mass > 0].tolist() == [1, 3]  # the fewest that reach 0.6
    sharp, _ = candidates(logits, Sampling(temperature=0.5))
    torch.testing.assert_close(sharp, logits.exp() ** 2 / (logits.exp() ** 2).sum())


def test_tokens_are_drawn_by_their_probability() -> None:
    model = model_of()
    with torch.no_grad():
        chances = candidates(model.eval()(torch.tensor([[1]]))[:, -1], Sampling())[0][0]
    drawn = generate(model, [[1]] * 2000, 1, Sampling(seed=4))
    counts = torch.bincount(torch.tensor(drawn)[:, 0], minlength=23)
    expected = 2000 * chances
    common = expected > 5
    error = ((counts - expected)[common] ** 2 / expected[common]).sum()
    assert error < 3 * int(common.sum()) + 10  # far beyond what chance makes of chi-squared


@pytest.mark.parametrize(
    ("prompts", "count", "said"),
    [([], 3, "no tokens"), ([[]], 3, "no tokens"), ([[1], [23]], 3, "token 23"), ([[-1]], 3, "-1"), ([[1]], -1, "-1")],
)
def test_bad_prompts_are_refused(prompts: list[list[int]], count: int, said: str) -> None:
    with pytest.raises(InputError, match=said):
        generate(model_of(), prompts, count)


@pytest.mark.parametrize("fields", [{"temperature": -1}, {"top_k": 0}, {"top_p": 0}, {"top_p": 1.5}, {"seed": -1}])
def test_bad_sampling_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=next(iter(fields))):
        Sampling(**fields)


def test_an_encoder_does_not_write() -> None:
    with pytest.raises(InputError, match="encoder does not write"):
        generate(model_of(family="encoder"), [[1]], 2)
