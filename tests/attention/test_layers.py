"""Whole layers of one's own: as a spec, as a layer, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnlab.attention import (
    AttentionSpec,
    Cache,
    Mask,
    MultiHeadAttention,
    Rope,
    WholeLayer,
    add_layer,
    attend,
    equations,
    kernel_for,
    load_variants,
    make_layer,
    mixture,
    variant,
)
from attnlab.attention.names import files as variant_files
from attnlab.errors import AttnlabError, InputError, SpecError, UnsupportedError
from support.layers import SHIFT, ConvGate, FadingMean, forgetting, sound_layers


@pytest.fixture(autouse=True)
def _known() -> Iterator[None]:
    with sound_layers():
        yield


def layer(name: str, **fields: Any) -> WholeLayer:
    torch.manual_seed(0)
    made = make_layer(variant(name).spec(16, 2, 8).replace(**fields))
    assert isinstance(made, WholeLayer)
    return made.double().eval()


def tokens(count: int = 6, batch: int = 2) -> Tensor:
    return torch.randn(batch, count, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


def test_a_spec_names_the_layer_with_its_numbers() -> None:
    spec = variant("conv-gate:5").spec(16, 2)
    assert AttentionSpec.from_json(spec.to_json()) == spec
    assert '"layer":{"kind":"conv-gate","kernel":5}' in spec.to_json()
    assert len({spec, variant("conv-gate:5").spec(16, 2), variant("conv-gate").spec(16, 2)}) == 2
    assert "layer" not in variant("softmax").spec().to_json()  # hashes of other specs stay as they were
    assert (spec.has_map, spec.observed_heads, kernel_for(spec)) == (False, 0, "module")
    assert equations(spec) == ["out = conv-gate(kernel=5)(x)"]
    assert [one.name for one in mixture("softmax,conv-gate:2").layers(3)] == ["softmax", "conv-gate:2", "softmax"]


@pytest.mark.parametrize(
    ("name", "fields", "reason"),
    [
        ("conv-gate", {"normaliser": "sigmoid"}, "normaliser=sigmoid.* would do nothing"),
        ("conv-gate", {"num_key_value_heads": 1}, "num_key_value_heads=1 would do nothing"),
        ("conv-gate", {"key_width": 4}, "key_width=4, value_width=4 would do nothing"),
        ("conv-gate", {"sharing": "key-value"}, "sharing='key-value' would do nothing"),
        ("memory", {"head_output": "gate"}, "head_output=.* would do nothing"),
        ("conv-gate", {"mask": Mask(window=3)}, "takes no mask and is causal by itself"),
        ("conv-gate", {"mask": Mask(causal=False)}, "takes no mask and is causal by itself"),
        ("conv-gate", {"source": "cross", "mask": Mask(causal=False)}, "takes no source"),
        ("conv-gate", {"weight_dropout": 0.1}, "takes no dropout"),
        ("memory", {"position": Rope()}, "acts on queries, keys or scores"),
        ("memory", {"position": "alibi"}, "acts on queries, keys or scores"),
        ("memory", {"context_length": 8}, "memory has no parameter that depends on context_length"),
    ],
)
def test_what_makes_no_sense_is_refused(name: str, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(SpecError, match=reason) as caught:
        variant(name).spec(16, 2).replace(**fields)
    assert isinstance(caught.value.nearest, AttentionSpec)
    assert caught.value.nearest.layer is not None


def test_names_that_cannot_be_joined() -> None:
    for name, reason in (
        ("conv-gate+memory", "changes layer twice"),
        ("conv-gate+single-head", "takes none"),
        ("conv-gate:x", "is not a number"),
        ("fading-mean:3", "takes no number"),
    ):
        with pytest.raises(SpecError, match=reason):
            variant(name)
    assert variant("memory+single-head").spec(16, 2).num_heads == 1


@pytest.mark.parametrize("name", ["conv-gate", "fading-mean", "memory"])
@pytest.mark.parametrize("piece", [1, 4])
def test_decoding_equals_the_whole(name: str, piece: int) -> None:
    made, x, cache = layer(name), tokens(), Cache()
    with torch.no_grad():
        parts = [made(x[:, start : start + piece], cache=cache) for start in range(0, 6, piece)]
        torch.testing.assert_close(torch.cat(parts, 1), made(x))
    assert cache.length == 6
    assert cache.nbytes == (2 * 16 * 8 if name == "fading-mean" else 2 * 6 * 16 * 8)


def test_mask_padding_and_source_reach_the_module() -> None:
    windowed = layer("memory", mask=Mask(window=2))
    x = tokens()
    changed = x.clone()
    changed[:, 0] += 1
    with torch.no_grad():
        assert torch.equal(windowed(x)[:, 2:], windowed(changed)[:, 2:])
        real = torch.ones(2, 6, dtype=torch.bool)
        real[:, 0] = False
        made = layer("memory")
        assert torch.equal(made(x, padding=real)[:, 1:], made(changed, padding=real)[:, 1:])
        crossed = layer("memory", source="cross", mask=Mask(causal=False))
        cache, source = Cache(), tokens(4)
        whole = crossed(x, source)
        parts = [crossed(x[:, :2], source, cache=cache), crossed(x[:, 2:], cache=cache)]
    torch.testing.assert_close(torch.cat(parts, 1), whole)


def test_what_a_layer_cannot_take_is_told() -> None:
    made, x = layer("conv-gate"), tokens()
    real = torch.ones(2, 6, dtype=torch.bool)
    assert made(x, padding=real).shape == x.shape
    real[0, 0] = False
    for options in ({"padding": real}, {"visible": real[None, :1, None].expand(1, 1, 6, 6)}):
        with pytest.raises(InputError, match="conv-gate takes no mask"):
            made(x, **options)
    with pytest.raises(UnsupportedError, match="gives no attention maps"):
        made(x, return_weights=True)
    with pytest.raises(InputError, match="attends to its own sequence"):
        made(x, x)
    with pytest.raises(UnsupportedError, match="is no multi-head attention"):
        MultiHeadAttention(made.spec)
    heads = x.view(2, 6, 2, 8).transpose(1, 2)
    with pytest.raises(InputError, match="is no function of queries"):
        attend(heads, heads, heads, made.spec)


class Sized(ConvGate):
    """A convolution with a vector for each place."""

    def __init__(self, model_width: int, context_length: int) -> None:
        super().__init__(model_width)
        self.places = nn.Parameter(torch.randn(context_length, model_width))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + self.places[: x.shape[1]])


def test_the_context_length_is_given_where_it_is_wanted() -> None:
    one = add_layer("sized", Sized)
    assert one.spec(16, 2, 5).context_length == 5
    assert one.spec(16, 2, 5).needs_context
    with pytest.raises(SpecError, match="context_length is missing"):
        AttentionSpec(model_width=16, num_heads=2, layer="sized")


def _module(init: str = "self, model_width", body: str = "", forward: str = "self, x", result: str = "x") -> Any:
    space: dict[str, Any] = {"torch": torch, "nn": nn}
    text = f"""
class Odd(nn.Module):
    def __init__({init}):
        super().__init__()
        {body or "pass"}

    def forward({forward}):
        return {result}
"""
    exec(text, space)
    return space["Odd"]


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (_module("self, model_width, depth"), "needs 'depth', which attnlab does not know"),
        (_module("self, kind='b'"), "cannot have an argument 'kind'"),
        (_module(forward="self, x, positions"), "forward of the layer 'odd' needs 'positions'"),
        (_module(forward="self"), "takes no tokens"),
        (_module(body="raise ValueError('no')"), "cannot be built with model_width=24: ValueError: no"),
        (_module(result="x.nonsense()"), "failed on x of shape .1, 3, 24.: AttributeError"),
        (_module(result="x[..., :2]"), r"made \(1, 3, 2\) of x of shape"),
        (_module(result="(x, x)"), "made a tuple of x"),
        (_module(result="x / 0"), "not finite"),
        (_module(body="self.w = nn.Parameter(torch.ones(2), requires_grad=False)"), "'w' .* takes no gradient"),
        (_module(body="self.w = nn.Parameter(torch.ones(2).double())"), "'w' .* is of type torch.float64"),
        (
            _module(body="self.g = nn.Linear(model_width, 1); nn.init.ones_(self.g.bias)", result="x * self.g(x)"),
            "sets g.bias in its constructor",
        ),
        (ConvGate(8), "not a class"),
    ],
)
def test_modules_that_cannot_be_used(module: Any, reason: str) -> None:
    with pytest.raises(AttnlabError, match=reason) as caught:
        add_layer("odd", module)
    assert caught.value.hint
    assert "odd" not in {one.name for one in variant_files.catalogue._known.values()}


def test_names_and_numbers_that_cannot_be_used() -> None:
    with pytest.raises(SpecError, match="belongs to a variant of attnlab"):
        add_layer("softmax", ConvGate)
    with pytest.raises(SpecError, match="has no argument 'depth' to set"):
        add_layer("mine", ConvGate, number="depth")
    with pytest.raises(SpecError, match="the layer kind 'conv-gate' is taken by"):
        add_layer("conv-gate", FadingMean)
    for given in ("nobody", {"kind": "nobody"}):
        with pytest.raises(SpecError, match="there is no layer called 'nobody' here"):
            AttentionSpec(model_width=16, num_heads=2, layer=given)
    with pytest.raises(SpecError, match="a layer is given by its name, not by 3"):
        AttentionSpec(model_width=16, num_heads=2, layer=3)


def test_layers_from_a_file_and_from_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "mine.py"
    path.write_text(SHIFT)
    with forgetting():
        (one,) = load_variants(path)
        assert (one.name, one.meaning, one.file_hash != "") == ("shift", "The token before.", True)
        load_variants(path)  # again, as in a notebook
        path.write_text(SHIFT + 'add_layer("shift", Shift)\n')
        with pytest.raises(SpecError, match="two variants are named 'shift'"):
            load_variants(path)
    (tmp_path / "offered_layers.py").write_text(SHIFT)
    monkeypatch.syspath_prepend(tmp_path)
    point = EntryPoint("mine", "offered_layers", variant_files.GROUP)
    monkeypatch.setattr(variant_files, "entry_points", lambda **_: [point])
    variant_files.load_installed.cache_clear()
    spec = AttentionSpec(model_width=16, num_heads=2, layer="shift")  # as from the JSON of a run
    assert spec.layer is not None
    variant_files.load_installed.cache_clear()


def test_limits_are_stated() -> None:
    limits = {name: " ".join(variant(name).spec(16, 2).layer.limits()) for name in ("conv-gate", "memory")}
    assert "no attention maps" in limits["conv-gate"]
    assert "takes no mask" in limits["conv-gate"]
    assert "computes all tokens again" in limits["conv-gate"]
    assert "takes no mask" not in limits["memory"]
    assert "takes no source" not in limits["memory"]
