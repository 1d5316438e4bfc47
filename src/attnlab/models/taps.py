"""Read and replace what a model computes, by name, at no cost for a model that is not tapped.

    with model.tap("blocks.*.attention.output", {"blocks.1.mlp.hidden": change}) as seen:
        model(tokens)

While a name is tapped, the module that reports it has an observer (`attention/observer.py`). All others have none.

The names, in which * matches anything:

    embedding, position, residual                              the embeddings, and the input of the first block
    blocks.0.attention.in, .query, .key, .value                after the norm; as projected, before rotation
    blocks.0.attention.weights, .heads, .output, .residual     the weights; output per head; output; x + output
    blocks.0.mlp.in, .before, .hidden, .output                 after the norm; pre-activation; activation; output
    blocks.0.residual                                          the output of the block
    norm.in, norm.output, logits

A decoder with cross-attention has the names of `attention` under `cross_attention` too; its encoder has the same names
under `encoder.`. A name exists only if the variant computes such a tensor.

Reading changes no bit of any result. Two tensors are computed separately, because the model itself never computes them:
`weights`, by the reference, and, if only the loss is needed, `logits`. If they are replaced, the model continues from
them: with weights · values by definition and without dropout, and with the cross-entropy of all logits at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from attnlab.attention import AttentionSpec
from attnlab.attention.observer import Observed
from attnlab.errors import InputError, UnknownNameError, UnsupportedError

if TYPE_CHECKING:
    from attnlab.models.language_model import LanguageModel
    from attnlab.models.spec import ModelSpec

Replace = Callable[[Tensor], Tensor | None]
Shape = tuple[int | str, ...]


class Seen(dict[str, Tensor]):
    """The tensors that a tap has read, by name; the last one of each."""

    def __init__(self, names: set[str]) -> None:
        super().__init__()
        self.names = names

    def __missing__(self, name: str) -> Tensor:
        if name not in self.names:
            raise UnknownNameError("activation in this tap", name, self.names)
        raise InputError(f"{name!r} was not computed inside the tap", hint="run the model inside the `with`")


class Taps:
    """The taps on one model."""

    def __init__(self) -> None:
        self.open: list[tuple[dict[str, Replace], Seen]] = []  # in the order in which they were opened

    def wants(self, *names: str) -> bool:
        return any(name in replaced or name in seen.names for replaced, seen in self.open for name in names)

    def offer(self, name: str, tensor: Tensor) -> Tensor | None:
        """Return the tensor that replaces this one, None if none does; record what a tap reads."""
        if torch.compiler.is_compiling():
            raise UnsupportedError("a compiled model cannot be tapped", hint="tap the model that was not compiled")
        now = None
        for replaced, _ in self.open:
            if name in replaced:
                given = tensor if now is None else now
                made = replaced[name](given)
                now = now if made is None else _checked(name, made, given)
        for _, seen in self.open:
            if name in seen.names:
                seen[name] = tensor if now is None else now
        return now

    def settle(self, model: LanguageModel) -> None:
        """Give the modules whose results are wanted an observer, and no other. A name begins with its module's path."""
        for path, module in model.named_modules():
            if isinstance(module, Observed):
                path = path.removeprefix("stack").removeprefix(".")
                prefix = f"{path}." if path else ""
                module.observer = At(self, prefix) if self.wants(*(prefix + name for name in module.reported)) else None


class At:
    """The taps as the observer of one module, whose names begin with `prefix`."""

    def __init__(self, taps: Taps, prefix: str) -> None:
        self.taps, self.prefix = taps, prefix

    def __call__(self, name: str, tensor: Tensor) -> Tensor:
        """Return the tensor that the model continues with."""
        made = self.offer(name, tensor)
        return tensor if made is None else made

    def offer(self, name: str, tensor: Tensor) -> Tensor | None:
        return self.taps.offer(self.prefix + name, tensor)

    def wants(self, *names: str) -> bool:
        return self.taps.wants(*(self.prefix + name for name in names))


@contextmanager
def tap(model: LanguageModel, names: tuple[str | Mapping[str, Replace], ...]) -> Iterator[Seen]:
    """Implement `LanguageModel.tap`."""
    if any(module._compiled_call_impl is not None for module in model.modules()):
        raise UnsupportedError("a compiled model cannot be tapped", hint="tap a model before `compile()`")
    known = tap_names(model)
    read: set[str] = set()
    replaced: dict[str, Replace] = {}
    for name in names:
        if isinstance(name, str):
            read.update(matching(name, known))
            continue
        for pattern, function in name.items():
            if not callable(function):
                raise InputError(
                    f"{pattern!r} is to be replaced by a {type(function).__name__}",
                    hint="give a function that gets the tensor and returns another",
                )
            replaced |= dict.fromkeys(matching(pattern, known), function)
    entry, taps = (replaced, Seen(read)), model.taps
    taps.open.append(entry)
    try:
        taps.settle(model)
        yield entry[1]
    finally:
        taps.open = [other for other in taps.open if other is not entry]
        taps.settle(model)


def is_tapped(model: LanguageModel) -> bool:
    return bool(model.taps.open)


def _checked(name: str, made: object, given: Tensor) -> Tensor:
    if not isinstance(made, Tensor):
        raise InputError(f"the function for {name!r} returned a {type(made).__name__}", hint="return a tensor or None")
    if made.shape != given.shape or made.dtype != given.dtype or made.device != given.device:
        wanted, found = (f"{tuple(x.shape)} of {x.dtype} on {x.device}" for x in (given, made))
        raise InputError(
            f"the function for {name!r} got {wanted} and returned {found}",
            hint="return a tensor of the same shape and type, e.g. by expand_as and type_as",
        )
    return made


def tap_names(model: LanguageModel) -> dict[str, Shape]:
    """Return every name of a model's taps with its shape, in the order of computation.

    A size that varies from call to call is a word.
    """
    spec = model.spec
    names: dict[str, Shape] = {}
    if spec.encoder_attention:
        names |= _of_stack(spec, spec.encoder_attention, (), "encoder.", "source")
    names |= _of_stack(spec, spec.attention, spec.cross_attention, "", "tokens")
    return names | {"logits": ("batch", "tokens", spec.vocabulary_size)}


def matching(wanted: str, known: Iterable[str]) -> list[str]:
    """Return the known names that `wanted` matches, * standing for anything."""
    known = list(known)
    found = [name for name in known if fnmatchcase(name, wanted)]
    if not found:
        raise UnknownNameError("activation", wanted, known)
    return found


def _of_stack(
    spec: ModelSpec, attention: tuple[AttentionSpec, ...], cross: tuple[AttentionSpec, ...], prefix: str, tokens: str
) -> dict[str, Shape]:
    stream: Shape = ("batch", tokens, spec.model_width)
    names: dict[str, Shape] = {"embedding": stream}
    if spec.learns_positions:
        names["position"] = (tokens, spec.model_width)
    names["residual"] = stream
    for number, own in enumerate(attention):
        block = _of_attention(own, "attention", tokens, tokens)
        if cross:
            block |= _of_attention(cross[number], "cross_attention", tokens, "source")
        inner: Shape = ("batch", tokens, spec.mlp_width)
        block |= {"mlp.in": stream, "mlp.before": inner, "mlp.hidden": inner, "mlp.output": stream, "residual": stream}
        names |= {f"blocks.{number}.{name}": shape for name, shape in block.items()}
    names |= {"norm.in": stream, "norm.output": stream}
    return {prefix + name: shape for name, shape in names.items()}


def _of_attention(spec: AttentionSpec, name: str, queries: str, keys: str) -> dict[str, Shape]:
    stream: Shape = ("batch", queries, spec.model_width)
    names: dict[str, Shape] = {"in": stream}
    if spec.layer is not None:
        names |= {"output": stream, "residual": stream}
        return {f"{name}.{part}": shape for part, shape in names.items()}
    if spec.score.projects_query:
        names["query"] = ("batch", spec.num_heads, queries, spec.key_width)
    if spec.score.projects_key:
        names["key"] = ("batch", spec.num_key_value_heads, keys, spec.key_width)
    names["value"] = ("batch", spec.num_key_value_heads, keys, spec.value_width)
    if spec.has_map:
        names["weights"] = ("batch", spec.num_heads, queries, keys)
    names["heads"] = ("batch", spec.num_heads, queries, spec.value_width)
    names |= {"output": stream, "residual": stream}
    return {f"{name}.{part}": shape for part, shape in names.items()}
