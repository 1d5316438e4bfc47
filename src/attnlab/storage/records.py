"""JSON records: one object in a file that is written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from attnlab.errors import FileError, InputError
from attnlab.storage.disk import refusal, replace_file
from attnlab.storage.files import read_file


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
    """Return the object in a JSON file."""
    try:
        data = json.loads(read_file(path).decode("utf-8", "surrogatepass"))
    except OSError as error:
        raise refusal(f"{path} cannot be read", error) from error
    except (ValueError, RecursionError) as error:
        raise FileError(f"{path} is damaged: it is no JSON ({error})") from error
    if not isinstance(data, dict):
        raise FileError(f"{path} is damaged: it holds no JSON object")
    return data


def content_hash(data: object) -> str:
    """Return the SHA-256 of plain data, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def to_plain(data: object, *, nulls: bool = False, digits: int | None = None) -> Any:
    """Return `data` as strict JSON can hold it: paths become text, tuples lists, dataclasses objects.

    A number that is not finite becomes text such as "nan", or null if `nulls`; others are rounded to `digits`
    significant digits.
    """
    match data:
        case float() if not math.isfinite(data):
            return None if nulls else str(float(data))
        case float() if digits is not None:
            return float(f"{data:.{digits}g}")
        case None | bool() | int() | float() | str():
            return data
        case Path():
            return str(data)
        case Mapping():
            return {_key(key): to_plain(value, nulls=nulls, digits=digits) for key, value in data.items()}
        case list() | tuple():
            return [to_plain(value, nulls=nulls, digits=digits) for value in data]
    if is_dataclass(data) and not isinstance(data, type):
        named = {field.name: getattr(data, field.name) for field in fields(data)}
        return to_plain(named, nulls=nulls, digits=digits)
    raise InputError(f"JSON cannot hold {data!r}, a {type(data).__name__}", hint="give numbers, text, lists and dicts")


def _key(key: object) -> str:
    if not isinstance(key, str):
        raise InputError(f"JSON cannot hold the key {key!r}: keys are text", hint=f"use {str(key)!r}")
    return key
