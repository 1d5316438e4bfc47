"""The importance of a part is what the loss says of the model without it, found in fewer passes."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from attnlab.corpora import IGNORED, Batch
from attnlab.errors import InputError, UnknownNameError
from attnlab.lens import ablate
from attnlab.models import LanguageModel, ModelSpec, build_model

SYMBOLS, BATCH, TOKENS = 11, 3, 12


def make_model(variant: str = "softmax", **changes: object) -> LanguageModel:
    shape = {"num_layers": 3, "model_width": 16, "num_heads": 4, "context_length": 16, **changes}
    model = build_model(ModelSpec.build("nano", vocabulary_size=SYMBOLS, variant=variant, **shape))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape))
    return model


def some_batches(count: int = 2, *, source: bool = False) -> list[Batch]:
    def draw(length: int = TOKENS) -> Tensor:
        return torch.randint(0, SYMBOLS, (BATCH, length))

    padding = torch.ones(BATCH, 7, dtype=torch.bool)
    padding[0, 5:] = False
    return [Batch(draw(), draw(), *((draw(7), padding) if source else ())) for _ in range(count)]


@torch.no_grad()
def losses_of(model: LanguageModel, batches: list[Batch]) -> Tensor:
    """The loss of each text by itself."""
    found = []
    for batch in batches:
        for row in range(len(batch.inputs)):
            others = {}
            if batch.source is not None and batch.source_padding is not None:
                others = {"source": batch.source[[row]], "source_padding": batch.source_padding[[row]]}
            found.append(model.loss(batch.inputs[[row]], batch.targets[[row]], **others))
    return torch.stack(found).double()


@torch.no_grad()
def mean_of(model: LanguageModel, batches: list[Batch], name: str) -> Tensor:
    """Over all texts and tokens: (…, width) with the tokens second to last → (…, width) with one token."""
    found = []
    for batch in batches:
        with model.tap(name) as seen:
            model.hidden(
                batch.inputs,
                **({} if batch.source is None else {"source": batch.source, "source_padding": batch.source_padding}),
            )
        found.append(seen[name])
    return torch.cat(found).mean((0, -2), keepdim=True)[0]


@pytest.mark.parametrize(
    ("variant", "changes"),
    [
        ("softmax", {"dropout": 0.2}),
        ("gqa", {"family": "encoder-decoder", "num_layers": 2}),
        ("linear,averaged-heads", {"bias": False}),
        ("prefix", {"tied_embedding": False, "norm": "rms"}),
    ],
    ids=str,
)
def test_every_part_against_a_full_pass_without_it(variant: str, changes: dict[str, object]) -> None:
    model = make_model(variant, **changes)
    batches = some_batches(source=model.encoder is not None)
    found = ablate(model, batches)
    assert all(module.training for module in model.modules())
    model.eval()
    torch.testing.assert_close(found.losses, losses_of(model, batches), rtol=1e-5, atol=1e-5)
    parts = ("attention", "cross_attention", "mlp") if model.encoder is not None else ("attention", "mlp")
    heads = 4 * (len(parts) - 1) * model.spec.num_layers
    assert len(found.removed) == heads + len(parts) * model.spec.num_layers
    for name, one in found.removed.items():
        point = f"blocks.{one.layer}.{one.part}." + ("output" if one.head is None else "heads")
        mean = mean_of(model, batches, point)

        def change(made: Tensor, mean: Tensor = mean, head: int | None = one.head) -> Tensor:
            made = made.clone()
            if head is None:
                made[:] = mean
            else:
                made[:, head] = mean[head]
            return made

        with model.tap({point: change}):
            wanted = losses_of(model, batches) - found.losses
        torch.testing.assert_close(one.differences, wanted, rtol=1e-3, atol=2e-5, msg=name)
        assert one.importance.low < one.importance.mean < one.importance.high
        assert one.importance.mean == pytest.approx(wanted.mean().item(), abs=2e-5)
    assert found.heads().shape == (model.spec.num_layers, 4)
    assert found.heads()[1, 2].item() == found["blocks.1.attention.heads.2"].importance.mean


def test_a_removed_head_is_a_model_with_other_weights() -> None:
    """0 in its columns of the output projection, and what they made of its mean in the bias."""
    model, batches = make_model(), some_batches()
    found = ablate(model, batches)
    mean = mean_of(model.eval(), batches, "blocks.1.attention.heads")[2, 0]
    output = model.stack.blocks[1].attention.output
    with torch.no_grad():
        output.bias.add_(output.weight[:, 8:12] @ mean)
        output.weight[:, 8:12] = 0
    wanted = losses_of(model, batches) - found.losses
    torch.testing.assert_close(found["blocks.1.attention.heads.2"].differences, wanted, rtol=1e-3, atol=2e-5)


def planted() -> tuple[LanguageModel, Tensor]:
    """A model that says the token before, by head 1 of its first layer: no other part writes anything."""
    model = make_model(model_width=32, num_heads=2, context_length=16, tied_embedding=False, num_layers=2)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.startswith(("embedding", "stack.norm")) and "norm" not in name:
                parameter.zero_()
        model.embedding.weight.zero_()
        model.stack.positions.weight.zero_()
        model.embedding.weight[:, :SYMBOLS] = 4 * torch.eye(SYMBOLS)
        angles = torch.arange(16)[:, None] * torch.tensor([0.7, 1.9])
        places = torch.cat([angles.cos(), angles.sin()], 1)  # whose products depend on the distance alone
        model.stack.positions.weight[:, 28:32] = 4 * places
        for module in model.modules():
            if isinstance(module, torch.nn.LayerNorm):
                module.weight.fill_(1.0)
                module.bias.zero_()
        layer = model.stack.blocks[0].attention
        turn = torch.tensor([0.7, 1.9])
        back = torch.zeros(4, 4)  # place i → place i − 1
        back[:2, :2] = back[2:, 2:] = torch.diag(turn.cos())
        back[:2, 2:], back[2:, :2] = torch.diag(turn.sin()), -torch.diag(turn.sin())
        layer.projections["query"].weight[16:20, 28:32] = 20 * back
        layer.projections["key"].weight[16:20, 28:32] = torch.eye(4)
        layer.projections["value"].weight[16 : 16 + SYMBOLS, :SYMBOLS] = torch.eye(SYMBOLS)
        layer.output.weight[12 : 12 + SYMBOLS, 16 : 16 + SYMBOLS] = 4 * torch.eye(SYMBOLS)
        model.head.weight[:, 12 : 12 + SYMBOLS] = torch.eye(SYMBOLS)
    tokens = torch.randint(0, SYMBOLS, (8, 12))
    return model, tokens


def test_the_one_head_that_matters_is_found() -> None:
    model, tokens = planted()
    targets = tokens.roll(1, 1)
    targets[:, 0] = IGNORED
    found = ablate(model, [Batch(tokens[:5], targets[:5]), Batch(tokens[5:], targets[5:])])
    assert found.loss < 0.5, "it knows the token before"
    importance = {name: one.importance for name, one in found.removed.items()}
    matters = {name for name, one in importance.items() if one.low > 0.1}
    assert matters == {"blocks.0.attention", "blocks.0.attention.heads.1"}
    assert all(abs(one.mean) < 1e-5 for name, one in importance.items() if name not in matters)


def test_prefixes_are_reused() -> None:
    """Fewer passes through blocks, by half or more, than one whole pass for each part."""
    model, batches = make_model(num_layers=6), some_batches(1)
    rows = {"attention": 0, "mlp": 0}
    for block in model.stack.blocks:
        for part in rows:

            def count(_: object, given: tuple[Tensor, ...], __: object, part: str = part) -> None:
                rows[part] += len(given[0])

            getattr(block, part).register_forward_hook(count)
    parts = len(ablate(model, batches).removed)
    whole = parts * 6 * BATCH
    assert whole / rows["attention"] > 1.8
    assert whole / rows["mlp"] > 1.5


def test_how_texts_are_batched_and_cut_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    model, (one, two) = make_model(), some_batches()
    two.targets[0] = IGNORED  # a text without targets is no text
    two.targets[1, 5:] = IGNORED  # what comes behind the last target bears on nothing
    found = ablate(model, [one, two])
    assert len(found.losses) == 5
    joined = Batch(torch.cat([one.inputs, two.inputs]), torch.cat([one.targets, two.targets]))
    joined.inputs[4, 5:] = 0
    monkeypatch.setattr("attnlab.lens.heads.ablation._MOST_VALUES", 1)  # one part at a time
    again = ablate(model, [joined])
    for name, removed in found.removed.items():
        torch.testing.assert_close(again[name].differences, removed.differences, rtol=1e-3, atol=2e-5)


def test_bad_input() -> None:
    model, batches = make_model(), some_batches(1)
    with pytest.raises(InputError, match="texts with targets: 0"):
        ablate(model, [])
    with pytest.raises(InputError, match="texts with targets: 1"):
        ablate(model, [Batch(batches[0].inputs[:1], batches[0].targets[:1])])
    with pytest.raises(InputError, match="model knows"):
        ablate(model, [Batch(batches[0].inputs + SYMBOLS, batches[0].targets)])
    found = ablate(model, batches)
    with pytest.raises(UnknownNameError, match=r"did you mean 'blocks\.0\.mlp'"):
        _ = found["blocks.0.mpl"]
    with pytest.raises(UnknownNameError):
        found.heads("cross_attention")
