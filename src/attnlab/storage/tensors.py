"""Tensors in safetensors files, which are written whole or not at all. Nothing here reads or writes a pickle."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from attnlab.errors import FileError, InputError
from attnlab.storage.disk import refusal, replace_file


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors into one safetensors file, new or not, as a whole or not at all."""
    encoded = encode_tensors(tensors)
    try:
        replace_file(path, encoded)
    except OSError as error:
        raise refusal(f"{path} cannot be written", error) from error


def encode_tensors(tensors: Mapping[str, Tensor]) -> bytes:
    """Return tensors in the safetensors format. Those that share memory, as tied weights do, are written twice."""
    unshared: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        with _explaining(name):
            plain = tensor.detach().cpu().contiguous()
            storage = plain.untyped_storage().data_ptr()
            unshared[name] = plain.clone() if storage in seen else plain
            seen.add(storage)
            safetensors.torch.save({name: plain[:0] if plain.ndim else plain})  # an unsupported dtype raises here
    with _explaining("these tensors"):
        return safetensors.torch.save(unshared)


@contextmanager
def _explaining(what: object) -> Iterator[None]:
    try:
        yield
    except (AttributeError, KeyError, RuntimeError, TypeError, ValueError, SafetensorError) as error:
        raise InputError(
            f"safetensors cannot hold {what}: {type(error).__name__}: {error}",
            hint="give dense tensors with data, of a type that safetensors knows, under names that are text",
        ) from error


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file, on the CPU and independent of the file."""
    return dict(iterate_tensors(path))


def iterate_tensors(path: Path) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors of a safetensors file in the order of their names, on the CPU and independent of the file."""
    try:
        with safe_open(path, framework="pt") as file:
            for name in sorted(file.keys()):
                # Cloned: mapped memory would crash the process if the disk failed or the file was truncated later.
                yield name, file.get_tensor(name).clone()
    except OSError as error:
        raise refusal(f"{path} cannot be read", error) from error
    except SafetensorError as error:
        raise FileError(f"{path} is damaged: {error}") from error


def tensor_bytes(tensor: Tensor) -> memoryview:
    """Return the bytes of a tensor's values, in row-major order."""
    values = tensor.contiguous()
    if values.dtype is not torch.float32:  # NumPy does not support every dtype
        values = values.reshape(-1).view(torch.uint8)
    return values.numpy(force=True).reshape(-1).data
