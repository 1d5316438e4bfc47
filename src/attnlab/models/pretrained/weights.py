"""Load weights from a file into a model: names, shapes and memory are checked before anything is allocated."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from attnlab.errors import FileError, InputError
from attnlab.formats import byte_count
from attnlab.models.language_model import LanguageModel
from attnlab.models.meta import on_meta
from attnlab.models.spec import ModelSpec
from attnlab.processes.machine import free_bytes

Shapes = Mapping[str, tuple[int, ...]]
_NUMBER = 4  # bytes of a weight: models are loaded in float32
_SHOWN = 3


def check_tensors(
    wanted: Shapes, found: Shapes, place: Path, kind: str, config: str, stored: Mapping[str, str] | None = None
) -> None:
    """Refuse weights that do not fit a model. `kind` and `config` name the model and its description in messages.

    `stored` maps attnlab's names to the names in the file, where they differ.
    """
    names = stored or {name: name for name in found}
    missing = [name for name in wanted if name not in found]
    extra = [names[name] for name in found if name not in wanted]
    odd = [
        f"{names[name]} {found[name]}, not {shape}"
        for name, shape in wanted.items()
        if name in found and found[name] != shape
    ]
    for what, which in (("lack", missing), (f"hold more than {kind} has:", extra), ("hold wrong shapes:", odd)):
        if which:
            shown = ", ".join(which[:_SHOWN]) + (f" and {len(which) - _SHOWN} more" if len(which) > _SHOWN else "")
            raise FileError(
                f"the weights in {place} {what} {shown}", hint=f"see whether {config} belongs to these weights"
            )


def fill(spec: ModelSpec, read: Callable[[str], Tensor], place: Path) -> LanguageModel:
    """Return a model in float32, ready for use, each of whose parameters `read` gives by its name."""
    with on_meta():
        model = LanguageModel(spec)
    check_weights_fit(model, place)
    model = model.to_empty(device="cpu").eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            tensor = read(name)
            if not tensor.is_floating_point():
                raise FileError(
                    f"{name} in {place} is of type {tensor.dtype}, not floating",
                    hint="give weights that are not quantised, or a GGUF file",
                )
            parameter.copy_(tensor)
    return model


def parameter_shapes(spec: ModelSpec) -> dict[str, tuple[int, ...]]:
    """Return the shapes of all parameters of a model by their names, without making any of them."""
    with on_meta():
        model = LanguageModel(spec)
    return {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}


def check_weights_fit(model: LanguageModel, place: Path) -> None:
    """Refuse a model whose weights take more memory than is free now."""
    needed, free = model.num_parameters() * _NUMBER, free_bytes()
    if free is not None and needed > free:
        raise InputError(
            f"the weights in {place} take {byte_count(needed)} of memory, and {byte_count(free)} are free",
            hint="close other programs, or take a smaller model",
        )
