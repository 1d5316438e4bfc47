"""Reading changes no bit in any variant and family; replacing changes what comes after it, and nothing else; afterwards
the model is as it was."""

from __future__ import annotations

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from attnlab.attention import variants
from attnlab.attention.observer import Observed
from attnlab.errors import InputError, UnknownNameError, UnsupportedError
from attnlab.models import LanguageModel, ModelSpec, build_model, generate, tap_names

NAMES = [variant.name for variant in variants()]
SYMBOLS, BATCH, TOKENS, SOURCE = 11, 2, 12, 7


def make_model(variant: str = "softmax", **changes: object) -> LanguageModel:
    shape = {"num_layers": 2, "model_width": 16, "num_heads": 4, "context_length": 16, **changes}
    family = "encoder" if variant == "bidirectional" else "decoder"
    model = build_model(
        ModelSpec.build("nano", vocabulary_size=SYMBOLS, variant=variant, **{"family": family, **shape})
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return model


def some_tokens(length: int = TOKENS) -> Tensor:
    return torch.randint(0, SYMBOLS, (BATCH, length))


def inputs_of(model: LanguageModel) -> dict[str, Tensor]:
    return {} if model.encoder is None else {"source": some_tokens(SOURCE)}


def assert_untouched(model: LanguageModel) -> None:
    assert all(module.observer is None for module in model.modules() if isinstance(module, Observed))
    assert not model.taps.open


@pytest.mark.parametrize("gradient", [True, False], ids=["gradient", "no gradient"])
@pytest.mark.parametrize(
    ("name", "changes"),
    [
        *((name, {}) for name in NAMES),
        ("softmax", {"architecture": "fast"}),
        ("softmax", {"activation": "gelu", "dropout": 0.2, "tied_embedding": False}),
        ("tied-kv", {"family": "encoder-decoder"}),
        ("linear,gqa", {"family": "encoder-decoder", "bias": False}),
        ("sigmoid", {"family": "encoder"}),
    ],
    ids=str,
)
def test_reading_everything_changes_no_bit(name: str, changes: dict[str, object], gradient: bool) -> None:
    model, tokens = make_model(name, **changes), some_tokens()
    others = inputs_of(model)
    sizes = {"batch": BATCH, "tokens": TOKENS, "source": SOURCE}
    results = []
    with torch.set_grad_enabled(gradient):
        for tapped in (False, True):
            torch.manual_seed(1)  # for dropout
            if not tapped:
                results.append((model(tokens, **others), model.loss(tokens, tokens, **others)))
                continue
            with model.tap("*") as seen:
                results.append((model(tokens, **others), model.loss(tokens, tokens, **others)))
    (logits, loss), (tapped_logits, tapped_loss) = results
    assert torch.equal(tapped_logits, logits)
    assert torch.equal(tapped_loss, loss)
    names = tap_names(model)
    assert seen.keys() == names.keys()
    for name_, shape in names.items():
        assert seen[name_].shape == tuple(sizes[size] if isinstance(size, str) else size for size in shape)
    assert_untouched(model)
    if gradient:
        wanted = torch.autograd.grad(loss, [*model.parameters()], allow_unused=True)
        found = torch.autograd.grad(tapped_loss, [*model.parameters()], allow_unused=True)
        for one, other in zip(found, wanted, strict=True):
            assert (one is None) == (other is None)
            if one is not None and other is not None:
                torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_what_is_read_is_what_the_names_say() -> None:
    model, tokens = make_model().eval(), some_tokens()
    with model.tap("*") as seen:
        logits = model(tokens)
    block = model.stack.blocks[1]
    at = "blocks.1."
    torch.testing.assert_close(seen["embedding"] + seen["position"], seen["residual"])
    torch.testing.assert_close(block.attention_norm(seen["blocks.0.residual"]), seen[at + "attention.in"])
    query = block.attention.projections["query"](seen[at + "attention.in"]).view(BATCH, TOKENS, 4, 4).transpose(1, 2)
    torch.testing.assert_close(query, seen[at + "attention.query"])
    torch.testing.assert_close(
        seen[at + "attention.weights"] @ seen[at + "attention.value"], seen[at + "attention.heads"]
    )
    output = block.attention.output(seen[at + "attention.heads"].transpose(1, 2).flatten(2))
    torch.testing.assert_close(output, seen[at + "attention.output"])
    middle = seen["blocks.0.residual"] + output
    torch.testing.assert_close(middle, seen[at + "attention.residual"])
    torch.testing.assert_close(block.mlp_norm(middle), seen[at + "mlp.in"])
    torch.testing.assert_close(F.gelu(seen[at + "mlp.before"], approximate="tanh"), seen[at + "mlp.hidden"])
    torch.testing.assert_close(block.mlp.narrow(seen[at + "mlp.hidden"]), seen[at + "mlp.output"])
    torch.testing.assert_close(middle + seen[at + "mlp.output"], seen[at + "residual"])
    assert torch.equal(seen["norm.in"], seen[at + "residual"])
    torch.testing.assert_close(model.stack.norm(seen["norm.in"]), seen["norm.output"])
    assert torch.equal(seen["logits"], logits)


@pytest.mark.parametrize(
    ("variant", "changes"),
    [
        ("softmax", {}),
        ("tied-kv", {"architecture": "fast"}),
        ("tied-qk", {}),
        ("linear", {}),
        ("gqa", {"family": "encoder-decoder"}),
    ],
    ids=str,
)
@torch.no_grad()
def test_replacing_changes_what_comes_after_and_nothing_else(variant: str, changes: dict[str, object]) -> None:
    model, tokens = make_model(variant, **changes), some_tokens()
    others, names = inputs_of(model), [*tap_names(model)]
    with model.tap("*") as before:
        model(tokens, **others)
    for name in names:
        made: list[Tensor] = []

        def turn(tensor: Tensor, made: list[Tensor] = made) -> Tensor:
            made.append(tensor.flip(-1) + tensor / 2)  # no norm takes this back
            return made[-1]

        with model.tap({name: turn}, "*") as after:
            loss = model.loss(tokens, tokens, **others)
            logits = model(tokens, **others)
        assert len(made) == 2, name  # once in each pass
        assert after[name] is made[-1], "what is read is what the model goes on with"
        earlier = names[: names.index(name)]
        assert all(torch.equal(after[other], before[other]) for other in earlier), name
        assert not torch.allclose(logits, before["logits"], atol=1e-4), name
        assert not torch.allclose(loss, F.cross_entropy(before["logits"].flatten(0, 1), tokens.flatten()), atol=1e-5)
    assert_untouched(model)


def test_queries_keys_and_values_are_replaced_apart_where_one_projection_makes_them() -> None:
    model, tokens = make_model("tied-qkv").eval(), some_tokens()
    with model.tap("blocks.0.attention.*") as before:
        model(tokens)
    assert before["blocks.0.attention.key"] is before["blocks.0.attention.value"]
    with model.tap({"blocks.0.attention.value": torch.zeros_like}, "blocks.0.attention.*") as after:
        model(tokens)
    assert torch.equal(after["blocks.0.attention.weights"], before["blocks.0.attention.weights"])
    assert (after["blocks.0.attention.heads"] == 0).all()


def test_replaced_weights_are_multiplied_with_the_values() -> None:
    model, tokens = make_model("gqa").eval(), some_tokens()
    path = "blocks.0.attention."
    with model.tap({path + "weights": lambda weights: torch.eye(TOKENS).expand_as(weights)}, path + "*") as seen:
        model(tokens)
    torch.testing.assert_close(seen[path + "heads"], seen[path + "value"].repeat_interleave(2, dim=1))
    logits = model(tokens)
    with model.tap({"*.weights": lambda weights: weights}):  # by definition instead of by the kernel
        torch.testing.assert_close(model(tokens), logits, rtol=1e-4, atol=1e-5)
    with model.tap({"*.weights": lambda _: None}):
        assert torch.equal(model(tokens), logits)


def test_gradients_reach_what_is_read_and_go_through_what_is_replaced() -> None:
    model, tokens = make_model(), some_tokens()
    # All but what stands beside the model's own way: it goes through weights only where a function hands them on.
    with model.tap("*", {"*.weights": lambda weights: weights, "logits": lambda logits: logits}) as seen:
        loss = model.loss(tokens, tokens)
    gradients = torch.autograd.grad(loss, [*seen.values()], allow_unused=True)
    assert [name for name, gradient in zip(seen, gradients, strict=True) if gradient is None] == []
    factor = torch.tensor(1.0, requires_grad=True)
    with model.tap({"blocks.0.mlp.hidden": lambda hidden: hidden * factor}):
        (slope,) = torch.autograd.grad(model.loss(tokens, tokens), [factor])
    losses = []
    for value in (1.01, 0.99):
        with torch.no_grad(), model.tap({"blocks.0.mlp.hidden": lambda hidden, value=value: hidden * value}):
            losses.append(model.loss(tokens, tokens))
    assert slope.item() == pytest.approx((losses[0] - losses[1]).item() / 0.02, rel=0.02, abs=1e-4)


def test_nested_taps_compose() -> None:
    model, tokens = make_model().eval(), some_tokens()
    name = "blocks.0.mlp.output"
    with model.tap(name) as plain:
        model(tokens)
    with model.tap(name) as outer, model.tap({name: lambda x: x + 1}):
        with model.tap({name: lambda x: 2 * x}, name) as inner:
            model(tokens)
        assert torch.equal(inner[name], 2 * (plain[name] + 1))
        assert torch.equal(outer[name], inner[name])
        model(tokens)
        assert torch.equal(outer[name], plain[name] + 1)
        assert torch.equal(inner[name], 2 * (plain[name] + 1)), "a tap that is closed reads no more"
    assert_untouched(model)


def test_taps_go_on_any_exit() -> None:
    model, tokens = make_model().eval(), some_tokens()
    logits = model(tokens)

    def fail(_: Tensor) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), model.tap("*", {"blocks.1.attention.heads": fail}):
        model(tokens)
    assert_untouched(model)
    assert torch.equal(model(tokens), logits)
    with pytest.raises(UnknownNameError), model.tap("*"), model.tap("nothing"):
        pass
    assert_untouched(model)


def test_only_modules_whose_results_are_wanted_have_an_observer() -> None:
    model, tokens = make_model().eval(), some_tokens()
    mlp = model.stack.blocks[0].mlp
    mine = partial(torch.mul, other=0.0)
    mlp.forward = mine
    with model.tap("blocks.0.attention.heads", "blocks.0.mlp.output", "blocks.1.mlp.hidden") as seen:
        model(tokens)
        observed = {path for path, module in model.named_modules() if getattr(module, "observer", None) is not None}
    assert observed == {"stack.blocks.0", "stack.blocks.0.attention", "stack.blocks.1.mlp"}
    assert mlp.forward is mine
    assert (seen["blocks.0.mlp.output"] == 0).all(), "a method of one's own is observed like any other"


def test_every_name_is_reported_by_one_module() -> None:
    model = make_model(family="encoder-decoder")
    with model.tap("*"):
        reported = [
            module.observer.prefix + name
            for module in model.modules()
            if isinstance(module, Observed) and module.observer is not None
            for name in module.reported
        ]
    absent = {f"encoder.blocks.{n}.cross_attention.{point}" for n in range(2) for point in ("in", "output", "residual")}
    assert sorted(set(reported) - absent) == sorted(tap_names(model))
    assert len(set(reported)) == len(reported)


@torch.no_grad()
def test_decoding_is_tapped_too() -> None:
    model = make_model(num_layers=1).eval()
    plain = generate(model, [[1, 2, 3]], max_tokens=6)
    count = []
    with model.tap({"blocks.0.attention.heads": lambda heads: count.append(heads.shape[2])}):
        assert generate(model, [[1, 2, 3]], max_tokens=6) == plain
    assert count == [3, 1, 1, 1, 1, 1]
    with model.tap("blocks.0.attention.key"), pytest.raises(UnsupportedError, match="cache"):
        generate(model, [[1, 2, 3]], max_tokens=2)


def test_names_that_are_not_there() -> None:
    model = make_model("softmax,linear").eval()
    with (
        pytest.raises(UnknownNameError, match=r"did you mean 'blocks\.0\.mlp\.hidden'"),
        model.tap("blocks.0.mlp.hide"),
    ):
        pass
    assert "blocks.0.attention.weights" in tap_names(model)
    with pytest.raises(UnknownNameError), model.tap("blocks.1.attention.weights"):
        pass
    with model.tap("blocks.0.mlp.in") as seen:
        with pytest.raises(InputError, match="was not computed"):
            _ = seen["blocks.0.mlp.in"]
        with pytest.raises(UnknownNameError):
            _ = seen["blocks.0.mlp.output"]
    assert "position" not in tap_names(make_model(architecture="fast"))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x[:, 1:], "returned"),
        (lambda x: x.double(), "float64"),
        (lambda x: x.shape, "returned a Size"),
    ],
)
def test_bad_replacements(function: object, message: str) -> None:
    model = make_model()
    with pytest.raises(InputError, match=message) as caught, model.tap({"blocks.0.residual": function}):
        model(some_tokens())
    assert "blocks.0.residual" in caught.value.message
    assert caught.value.hint
    with pytest.raises(InputError, match="replaced by a Tensor"), model.tap({"embedding": torch.zeros(1)}):
        pass


def test_a_compiled_model_is_refused() -> None:
    model, tokens = make_model().eval(), some_tokens()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    tapped = model.tap({"blocks.0.mlp.output": torch.zeros_like})
    with tapped, pytest.raises(Exception, match="compiled model cannot be tapped"):
        compiled(tokens)
    model.compile(backend="eager")
    with pytest.raises(UnsupportedError, match="compiled"), model.tap("logits"):
        pass
