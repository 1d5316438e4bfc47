"""Every named tensor of every variant at every size, against the model's own list."""

from __future__ import annotations

import math

import pytest

from attnlab.attention import variants
from attnlab.cost import Question, estimate, model_cost, named_tensors
from attnlab.cost.peak import training_memory
from attnlab.cost.tensors import grouped
from attnlab.errors import SpecError
from attnlab.models import SIZES, LanguageModel, ModelSpec, build_model
from attnlab.models.meta import on_meta
from attnlab.models.spec import RECIPE_OPTIMIZERS
from attnlab.training.engine.optimizers import Optimizer
from attnlab.training.recipes import RECIPES as TRAINED


def listed(spec: ModelSpec) -> list[tuple[str, tuple[int, ...]]]:
    with on_meta():
        model = LanguageModel(spec)
    return [(name, tuple(parameter.shape)) for name, parameter in model.named_parameters()]


@pytest.mark.parametrize("variant", [variant.name for variant in variants()])
def test_names_and_shapes_are_those_of_the_model(variant: str) -> None:
    """At every size: two layers against the real model, and all layers against those two."""
    family = "encoder" if variant == "bidirectional" else "decoder"
    for size, shape in SIZES.items():
        question = Question(size=size, variant=variant, family=family)
        few = question.replace(num_layers=2).model()
        real = listed(few)
        assert [(tensor.name, tensor.shape) for tensor in named_tensors(few)] == real
        first = sum(".blocks.0." in name for name, _ in real)
        whole = [(tensor.name, tensor.shape) for tensor in named_tensors(question.model())]
        assert [one for one in whole if one in real] == real
        assert len(whole) == len(real) + first * (shape.num_layers - 2)
        assert estimate(size, variant=variant, family=family).parameters == sum(math.prod(size) for _, size in whole)


@pytest.mark.parametrize("changes", [{"recipe": "fast"}, {"variant": "softmax,tied-kv,synthesizer-random"}], ids=str)
def test_other_models(changes: dict[str, str]) -> None:
    spec = Question(size="pico", num_layers=5, **changes).model()
    assert [(tensor.name, tensor.shape) for tensor in named_tensors(spec)] == listed(spec)


def test_encoder_decoder() -> None:
    spec = ModelSpec.build("pico", vocabulary_size=17, family="encoder-decoder", tied_embedding=False)
    assert [(tensor.name, tensor.shape) for tensor in named_tensors(spec)] == listed(spec)


def test_alike_layers_are_on_one_line() -> None:
    tensors = named_tensors(Question(size="pico", num_layers=6, variant="softmax,softmax,tied-kv").model())
    groups = {group.name: group for group in grouped(tensors)}
    assert groups["stack.blocks.0…1,3…4.attention.projections.value.weight"].count == 4
    assert groups["stack.blocks.0…5.mlp.widen.bias"].parameters == 6 * 4 * 96
    assert groups["embedding.weight"].count == 1
    assert sum(group.parameters for group in groups.values()) == sum(tensor.parameters for tensor in tensors)
    assert sum(group.count for group in groups.values()) == len(tensors)


def test_recipes_are_those_of_training() -> None:
    assert {name: recipe.optimizer.kind for name, recipe in TRAINED.items()} == RECIPE_OPTIMIZERS
    assert all(recipe.architecture == name for name, recipe in TRAINED.items())


@pytest.mark.parametrize("recipe", RECIPE_OPTIMIZERS)
@pytest.mark.parametrize("variant", ["softmax", "cosine-learned", "tied-kv"])
def test_optimizer_memory_is_what_it_remembers(recipe: str, variant: str) -> None:
    spec = Question(size="pico", recipe=recipe, variant=variant, vocabulary_size=17).model()
    state = Optimizer(TRAINED[recipe].optimizer, build_model(spec)).state()
    kept = sum(tensor.nbytes for name, tensor in state.items() if name != "count")
    assert training_memory(model_cost(spec), RECIPE_OPTIMIZERS[recipe]).optimizer == kept


def test_an_impossible_variant_is_refused() -> None:
    with pytest.raises(SpecError, match="would see the token") as caught:
        Question(variant="bidirectional").model()
    assert caught.value.hint
