"""Damaged and hostile files of every format that attnlab reads, drawn at random."""

from __future__ import annotations

import base64
import io
import json
import random
import shutil
import sqlite3
import stat
import struct
import zipfile
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

Mutation = Callable[[Path, random.Random], None]
_ODD: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        0,
        1e308,
        -1e-308,
        10**30,
        "",
        "x",
        "../x",
        [],
        {},
        [[]],
        {"a": 1},
        "a" * 10_000,
        "\ud800",
        "nan",
    ),
    *(float("nan"), float("inf"), 2**63, 0.5, [None] * 50, "\0"),
)
_DEEP = 50_000


# Bytes


def cut(path: Path, chosen: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: chosen.randrange(max(1, len(data)))])


def flip(path: Path, chosen: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(chosen.choice([1, 1, 3, 30])):
        data[chosen.randrange(len(data))] ^= 1 << chosen.randrange(8)
    path.write_bytes(data)


def flip_beginning(path: Path, chosen: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[chosen.randrange(min(len(data), 256))] = chosen.choice([0, 1, 127, 128, 255])
    path.write_bytes(data)


def zero(path: Path, chosen: random.Random) -> None:
    data = bytearray(path.read_bytes())
    begin = chosen.randrange(len(data))
    end = min(len(data), begin + chosen.choice([8, 200, 5000]))
    data[begin:end] = bytes(end - begin)
    path.write_bytes(data)


def insert(path: Path, chosen: random.Random) -> None:
    data = path.read_bytes()
    place = chosen.randrange(len(data))
    path.write_bytes(
        data[:place] + chosen.choice([b"\0", b"\xff\xfe", b"x" * 9999, b"\n\n", data[:500]]) + data[place:]
    )


def replace(path: Path, chosen: random.Random) -> None:
    odd = [
        b"",
        b"\0",
        b"null",
        b"{}",
        b"[]",
        b"\xff\xfe{}",
        b"[" * _DEEP,
        b'{"a":' * _DEEP,
        b"1" * 9999,
        b"\xef\xbb\xbf{}",
    ]
    path.write_bytes(chosen.choice([*odd, chosen.randbytes(3000), b"PK\x03\x04", b"GGUF" + bytes(100)]))


def become_folder(path: Path, chosen: random.Random) -> None:
    del chosen
    path.unlink()
    path.mkdir()


def become_loop(path: Path, chosen: random.Random) -> None:
    del chosen
    path.unlink()
    path.symlink_to(path.name)


def vanish(path: Path, chosen: random.Random) -> None:
    del chosen
    path.unlink()


# JSON


def change_json(path: Path, chosen: random.Random) -> None:
    """Replace, remove or add one value somewhere in a JSON file."""
    content = json.loads(path.read_text())
    path.write_text(json.dumps(_changed(content, chosen)))


def change_line(path: Path, chosen: random.Random) -> None:
    """Do the same in one line of a file of JSON lines."""
    lines = path.read_text().splitlines()
    place = chosen.randrange(len(lines))
    match chosen.randrange(4):
        case 0:
            del lines[place]
        case 1:
            lines.insert(place, lines[chosen.randrange(len(lines))])
        case _:
            lines[place] = json.dumps(_changed(json.loads(lines[place]), chosen))
    path.write_text("\n".join([*lines, ""]))


def _changed(content: Any, chosen: random.Random) -> Any:
    places: list[tuple[Any, Any]] = []

    def walk(node: Any) -> None:
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            places.append((node, key))
            if isinstance(value, dict | list):
                walk(value)

    if not isinstance(content, dict | list) or not content or chosen.random() < 0.03:
        return chosen.choice(_ODD)
    walk(content)
    node, key = chosen.choice(places)
    match chosen.randrange(6):
        case 0:
            del node[key]
        case 1 if isinstance(node, dict):
            node["surplus"] = chosen.choice(_ODD)
        case 2 if isinstance(node[key], int | float):
            node[key] = node[key] * chosen.choice([-1, 2, 0.5]) + chosen.choice([1, -1, 1e-3])
        case _:
            node[key] = chosen.choice(_ODD)
    return content


# Formats of others


def change_header(path: Path, chosen: random.Random) -> None:
    """Change the header of a safetensors file: its length, or something in it."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    if chosen.random() < 0.3:
        path.write_bytes(struct.pack("<Q", chosen.choice([0, 1, length + 1, len(data), 2**40, 2**63])) + data[8:])
        return
    header = json.dumps(_changed(json.loads(data[8 : 8 + length]), chosen)).encode("utf-8", "replace")
    path.write_bytes(struct.pack("<Q", len(header)) + header + data[8 + length :])


def change_archive(path: Path, chosen: random.Random) -> None:
    """Write a zip file anew with something hostile in it."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    name = chosen.choice(
        ["../evil.json", "/evil.json", "a/../../evil.json", "C:\\evil.json", "run/\0.json", "x" * 300 + ".json"]
    )
    mode, data = stat.S_IFREG | 0o644, b"{}"
    match chosen.randrange(6):
        case 0:
            name, data = "bomb.json", bytes(20_000_000)
        case 1:
            name, mode, data = "link.json", stat.S_IFLNK | 0o777, b"/etc/passwd"
        case 2:
            name = chosen.choice(["evil.pkl", "evil.py", "bundle.json", "evil"])
        case 3:
            name = chosen.choice(sorted(contents))
            data = chosen.choice([b"{}", b"[]", contents.pop(name)[:-1]])
        case 4:
            name, data = "bundle.json", json.dumps(_changed(json.loads(contents.pop("bundle.json")), chosen)).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for known, content in contents.items():
            archive.writestr(known, content)
        entry = zipfile.ZipInfo("x.json")
        entry.filename = name
        entry.external_attr = mode << 16
        entry.compress_type = zipfile.ZIP_DEFLATED
        archive.writestr(entry, data)


def change_database(path: Path, chosen: random.Random) -> None:
    """Change the tables of a fact store, or put another database into its place."""
    statements = [
        "DROP TABLE facts",
        "DROP TABLE fact_words",
        "DROP TABLE habits",
        "ALTER TABLE facts RENAME COLUMN answer TO reply",
        "UPDATE facts SET question = x'80ff'",
        "UPDATE facts SET at = 7",
        "UPDATE facts SET retracted_at = 'x'",
        "UPDATE facts SET answer = zeroblob(100)",
        "UPDATE facts SET id = -id",
        "UPDATE batches SET count = 'x'",
        "UPDATE documents SET text = x'ff'",
        "INSERT INTO habits VALUES ('Where was {} born?', 2, 'no JSON')",
        "UPDATE habits SET data = '[]'",
        "PRAGMA user_version = 9",
        "PRAGMA application_id = 7",
        "PRAGMA journal_mode = WAL",
        "CREATE TRIGGER evil AFTER INSERT ON facts BEGIN DELETE FROM facts; END",
        "DELETE FROM facts",
    ]
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(chosen.choice(statements))


def change_text(path: Path, chosen: random.Random) -> None:
    """Put odd characters into a text or into a table of pairs."""
    lines = path.read_bytes().splitlines()
    odd = [
        b"",
        b"\t",
        b"a\tb\tc\td",
        b"\xff",
        b"\0",
        b"no tab",
        b"\tonly",
        b"only\t",
        b"\r",
        b"x" * 200_000,
        "\u202e\u2028".encode(),
    ]
    lines.insert(chosen.randrange(len(lines)), chosen.choice(odd))
    path.write_bytes(b"\n".join(lines))


def change_program(path: Path, chosen: random.Random) -> None:
    """Put something into a variants file that no such file should do."""
    bodies = [
        "raise SystemExit(3)\n",
        "raise KeyboardInterrupt\n",
        "def f(): f()\nf()\n",
        "1 / 0\n",
        "import nosuch\n",
        "add_variant(3)\n",
        "add_variant(Variant('softmax', 'x', {}))\n",
        "add_variant(Variant('', '', {}))\n",
        "add_variant(Variant('a b', 'x', {'nosuch': 1}))\n",
        "raise BaseException('x')\n",
        "x = '" + "(" * 500 + "'\n(" + "(" * 500 + "\n",
        "import sys; sys.stdout.close()\n",
        "raise ValueError('\\ud800')\n",
    ]
    path.write_text(path.read_text() + chosen.choice(bodies))


BYTES: tuple[Mutation, ...] = (cut, flip, flip_beginning, zero, insert, replace, become_folder, become_loop, vanish)
BY_FORMAT: dict[str, tuple[Mutation, ...]] = {
    "json": (*BYTES, *[change_json] * 12),
    "jsonl": (*BYTES, *[change_line] * 10),
    "safetensors": (*BYTES, *[change_header] * 8),
    "zip": (*BYTES, *[change_archive] * 14),
    "sqlite": (*BYTES, *[change_database] * 14),
    "text": (*BYTES, *[change_text] * 8),
    "python": (*BYTES, *[change_program] * 10),
    "gguf": (*BYTES, *[flip_beginning] * 14),
    "bytes": BYTES,
}


def is_same(one: bytes, other: bytes) -> bool:
    """Return whether two files hold the same, perhaps with other white space in JSON or other headers in a zip."""
    try:
        if zipfile.is_zipfile(io.BytesIO(one)):
            return _sizes(one) == _sizes(other) and _archived(one) == _archived(other)
        return one == other or repr(json.loads(one)) == repr(json.loads(other))
    except (ValueError, RecursionError, OSError, zipfile.BadZipFile, NotImplementedError, zlib.error):
        return False


def _sizes(data: bytes) -> list[tuple[str, int]]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return [(entry.filename, entry.file_size) for entry in archive.infolist()]


def _archived(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


# The state in an address of the studio


def draw_link(state: Any, chosen: random.Random) -> str:
    """Return a link that holds a changed state, or nothing that can be read."""
    text = json.dumps(_changed(json.loads(json.dumps(state)), chosen)).encode("utf-8", "replace")
    match chosen.randrange(6):
        case 0:
            text = chosen.choice([b"", b"null", b"[" * _DEEP, b"\xff", b"{}", b'{"x":' * _DEEP])
        case 1:
            text = bytes(20_000_000)
        case 2:
            return chosen.choice(["", "x", "%", "é", "A" * 100_000, "\0", base64.urlsafe_b64encode(text).decode()])
    packed = zlib.compress(text)
    return base64.urlsafe_b64encode(packed[: chosen.choice([None, -5, 3])]).decode().rstrip("=")


def change_state(state: Any, chosen: random.Random) -> Any:
    return _changed(json.loads(json.dumps(state)), chosen)


def remove(path: Path) -> None:
    """Remove whatever a mutation made of a file."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
