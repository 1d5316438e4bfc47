"""Models with whole layers of one's own: first weights, buffers, generation, taps and export."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from attnlab.attention import add_layer
from attnlab.errors import SpecError, UnsupportedError
from attnlab.models import LanguageModel, ModelSpec, Sampling, build_model, generate, save_gpt2, tap_names
from attnlab.models import language_model as models
from attnlab.models.initial import restore_constants
from attnlab.training import OptimizerSpec
from attnlab.training.engine.optimizers import Optimizer
from support.layers import ConvGate, sound_layers


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with sound_layers():
        yield


def spec(variant: str, **changes: object) -> ModelSpec:
    shape = {"num_layers": 2, "model_width": 16, "num_heads": 2, "context_length": 12, **changes}
    return ModelSpec.build("nano", vocabulary_size=11, variant=variant, **shape)


def weights(model: LanguageModel) -> dict[str, Tensor]:
    return dict(model.named_parameters())


def test_first_weights_are_those_of_the_model() -> None:
    made = spec("softmax,conv-gate", model_width=64)
    one, other = weights(build_model(made, 3)), weights(build_model(made, 3))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert not torch.equal(one["embedding.weight"], weights(build_model(made, 4))["embedding.weight"])
    inside = {name.partition("module.")[2]: one[name].detach() for name in one if "module" in name}
    assert 0.018 < float(inside["gate.weight"].std()) < 0.022
    assert 0.009 < float(inside["output.weight"].std()) < 0.011  # σ / √2L
    assert not inside["gate.bias"].any()
    assert float(inside["mix.weight"].abs().max()) > 0.1  # as its constructor draws it
    beside = weights(build_model(spec("softmax", model_width=64), 3))
    assert all(torch.equal(beside[name], one[name]) for name in beside.keys() & one.keys())


class OwnStart(ConvGate):
    """A convolution that says how it begins."""

    def reset_parameters(self) -> None:
        nn.init.constant_(self.gate.bias, 2.0)


def test_a_layer_may_say_how_it_begins() -> None:
    add_layer("own-start", OwnStart)
    found = weights(build_model(spec("own-start", architecture="fast", position="learned")))
    assert bool((found["stack.blocks.0.attention.module.gate.bias"] == 2).all())
    assert bool(found["stack.blocks.0.attention.module.output.weight"].any())


def test_zero_outputs_reach_the_layer_or_are_refused() -> None:
    found = weights(build_model(spec("conv-gate", architecture="fast", position="learned")))
    assert not found["stack.blocks.0.attention.module.output.weight"].any()

    class Bare(nn.Module):
        """A convolution without a way back."""

        def __init__(self, model_width: int) -> None:
            super().__init__()
            self.last = nn.Linear(model_width, model_width)

        def forward(self, x: Tensor) -> Tensor:
            result: Tensor = self.last(x)
            return result

    add_layer("bare", Bare)
    assert spec("bare").attention
    with pytest.raises(SpecError, match="bare has no linear map called output"):
        spec("bare", architecture="fast", position="learned")


def test_buffers_are_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    made = spec("fading-mean")
    assert not [name for name in build_model(made).state_dict() if "unit" in name]
    monkeypatch.setattr(models, "_LARGE", 0)  # as for a model that is built without memory
    model = build_model(made, 1)
    tokens = torch.arange(8)[None]
    assert torch.isfinite(model(tokens)).all()
    empty = models.empty_model(made)
    empty.load_state_dict(model.state_dict(), assign=True)
    restore_constants(empty)
    assert torch.equal(empty.eval()(tokens), model.eval()(tokens))


@pytest.mark.parametrize("variant", ["conv-gate", "softmax,fading-mean", "memory"])
def test_generation_is_that_of_each_prompt_alone(variant: str) -> None:
    model, greedy = build_model(spec(variant), 2), Sampling(temperature=0)
    prompts = [[1, 2, 3, 4], [5], [6, 7]]
    together = generate(model, prompts, 6, greedy)
    assert together == [generate(model, [prompt], 6, greedy)[0] for prompt in prompts]


def test_input_and_output_can_be_tapped() -> None:
    model = build_model(spec("softmax,conv-gate")).eval()
    names = [name for name in tap_names(model) if name.startswith("blocks.1.attention")]
    assert names == [f"blocks.1.attention.{part}" for part in ("in", "output", "residual")]
    tokens = torch.arange(8)[None]
    with model.tap("blocks.1.attention.output") as seen:
        model(tokens)
    assert seen["blocks.1.attention.output"].shape == (1, 8, 16)
    with model.tap({"blocks.1.attention.output": torch.zeros_like}):
        assert not torch.equal(model(tokens), build_model(spec("softmax,conv-gate")).eval()(tokens))


def test_matrices_decay_and_vectors_do_not() -> None:
    optimizer = Optimizer(OptimizerSpec(), build_model(spec("fading-mean")))
    kinds = {name: group.kind for group in optimizer.flat.groups for name in group.names}
    assert kinds["stack.blocks.0.attention.module.output.weight"] == "decayed"
    assert kinds["stack.blocks.0.attention.module.fading"] == "plain"


def test_families_that_need_more_are_refused() -> None:
    for family, reason in (("encoder", "takes no mask"), ("encoder-decoder", "takes no mask|takes no source")):
        with pytest.raises(SpecError, match=reason):
            spec("conv-gate", family=family)
    pair = build_model(spec("memory", family="encoder-decoder", dropout=0.1)).eval()
    tokens = torch.arange(6)[None]
    assert pair(tokens, source=tokens).shape == (1, 6, 11)


def test_transformers_cannot_have_it(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"layer of attention is conv-gate\(kernel=3\)"):
        save_gpt2(build_model(spec("conv-gate")), tmp_path / "folder")
