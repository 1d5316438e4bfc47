"""Whole files that last: JSON, and tensors in safetensors. Nothing here reads or writes a pickle."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from attnlab.errors import FileError, InputError
from attnlab.training.disk import refusal, replace_file


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write `data` for any program to read: JSON has no NaN, so a number that is not finite becomes a word."""
    encoded = encode_json(to_plain(data))
    try:
        replace_file(path, encoded)
    except OSError as error:
        raise refusal(f"{path} cannot be written", error) from error


def encode_json(data: object) -> bytes:
    return (json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode("utf-8", "surrogatepass")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file."""
    try:
        data = json.loads(path.read_bytes().decode("utf-8", "surrogatepass"))
    except OSError as error:
        raise refusal(f"{path} cannot be read", error) from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is damaged: it is no JSON ({error})") from error
    if not isinstance(data, dict):
        raise FileError(f"{path} is damaged: it holds no JSON object")
    return data


def to_plain(data: object) -> Any:
    """`data` as strict JSON can hold it: numbers that are not finite and paths become words, tuples lists."""
    match data:
        case float() if not math.isfinite(data):
            return str(float(data))
        case None | bool() | int() | float() | str():
            return data
        case Path():
            return str(data)
        case Mapping():
            return {_key(key): to_plain(value) for key, value in data.items()}
        case list() | tuple():
            return [to_plain(value) for value in data]
    raise InputError(f"JSON cannot hold {data!r}, a {type(data).__name__}", hint="give numbers, text, lists and dicts")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise InputError(f"JSON cannot hold the key {key!r}: keys are text", hint=f"use {str(key)!r}")
    return key


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors into one safetensors file, new or not, as a whole or not at all."""
    encoded = encode_tensors(tensors)
    try:
        replace_file(path, encoded)
    except OSError as error:
        raise refusal(f"{path} cannot be written", error) from error


def encode_tensors(tensors: Mapping[str, Tensor]) -> bytes:
    """Tensors in the safetensors format. Those that share memory, as tied weights do, are written under each name."""
    unshared: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        with _explaining(name):
            plain = tensor.detach().cpu().contiguous()
            storage = plain.untyped_storage().data_ptr()
            unshared[name] = plain.clone() if storage in seen else plain
            seen.add(storage)
            safetensors.torch.save({name: plain[:0] if plain.ndim else plain})  # a bad type is found by its name
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
    """The tensors of a safetensors file, on the CPU and independent of the file."""
    try:
        with safe_open(path, framework="pt") as file:
            # Cloned, because what is only mapped would end the process if the disk failed or the file was cut later.
            return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (it is no dict)
    except OSError as error:
        raise refusal(f"{path} cannot be read", error) from error
    except SafetensorError as error:
        raise FileError(f"{path} is damaged: {error}") from error


def tensor_bytes(tensor: Tensor) -> memoryview:
    """The bytes of a tensor's values, in row-major order."""
    values: memoryview = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
    return values
