"""Bundles: a run, a comparison or a study in one zip file, with everything needed to verify it.

bundle.json  {"format": 1, "name": the folder in it, "files": {name: {"bytes": …, "sha256": …}}, "left_out": […]}
<name>/…     records and metrics as JSON, weights and states as safetensors, the report; no pickle, nothing else

The same folder gives the same bytes. States to replay from are added as long as the bundle stays below its limit, in an
order determined by their hashes; a segment without its state is replayed from an earlier one.

A bundle is untrusted input. It is unpacked into a new folder after its list of files was checked: path traversal,
links, duplicates, other kinds of files and sizes beyond any real bundle are refused.
"""

from __future__ import annotations

import hashlib
import io
import json
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from attnlab.errors import FileError
from attnlab.formats import byte_count, plural
from attnlab.runs.directory import MODEL, RESULT, RUN
from attnlab.runs.receipts import METRICS, RECEIPTS, SEGMENTS, STATES, TOKENIZER, kept_steps
from attnlab.storage.disk import refusal, replace_file
from attnlab.storage.records import encode_json

FORMAT = 1
MANIFEST = "bundle.json"
_RUN_FILES = (RUN, METRICS, RECEIPTS, RESULT, TOKENIZER, MODEL, "measures.json", "heads.json", "usage.json")
_COMPARISON_FILES = ("plan.json", "looks.json", "answer.json", "receipt.json", "report.html", "runs.csv")
_STUDY_FILES = ("scale.json", "report.html", "runs.csv")
_SUFFIXES = {".json", ".jsonl", ".csv", ".html", ".safetensors"}
_DATE = (1980, 1, 1, 0, 0, 0)
_MOST_FILES, _MOST_BYTES, _MOST_RATIO = 100_000, 8 << 30, 100
_LINE_BYTES, _LINK_BYTES, _PAGE_BYTES = 48, 300, 1_700_000  # of metrics, receipts and a report, all compressed


def predict_bytes(runs: Sequence[tuple[int, int]]) -> int:
    """Return about how large the bundle of a comparison becomes, from the parameters and steps of each run."""
    sizes = (
        4 * count * (1 + 3 * len(kept_steps(steps))) + _LINE_BYTES * steps + 300 * SEGMENTS for count, steps in runs
    )
    return _PAGE_BYTES + sum(sizes)


def files_of(runs: Sequence[Path], comparisons: Sequence[Path] = (), studies: Sequence[Path] = ()) -> list[Path]:
    """Return the files of these runs, comparisons and reports of studies that belong into a bundle."""
    named = [(runs, _RUN_FILES), (comparisons, _COMPARISON_FILES), (studies, _STUDY_FILES)]
    files = [folder / name for folders, names in named for folder in folders for name in names]
    states = [path for run in runs for path in (run / STATES).glob("step-*.safetensors")]
    return [path for path in (*files, *states) if path.is_file()]


def write_bundle(path: Path, root: Path, files: Sequence[Path], limit: float) -> str:
    """Write files below `root` as one bundle of at most `limit` megabytes; return what it holds, in words."""
    above = root.resolve().parent
    contents = {file.resolve().relative_to(above).as_posix(): file.read_bytes() for file in files}
    states = {name for name in contents if f"/{STATES}/" in name}
    order = sorted(states, key=lambda name: hashlib.sha256(contents[name]).digest())
    taken = sorted(contents.keys() - states)
    data = _packed(root.name, {name: contents[name] for name in taken}, order)
    allowed = round(limit * 1e6)
    for place, name in enumerate(order):
        if len(data) + sum(len(contents[one]) + 400 for one in order[: place + 1]) > allowed:
            break
        taken.append(name)
    left_out = sorted(contents.keys() - {*taken})
    data = _packed(root.name, {name: contents[name] for name in sorted(taken)}, left_out)
    if len(data) > allowed:
        raise FileError(
            f"the bundle of {root} has {byte_count(len(data))} without any state to replay from, and {limit:g} MB are "
            "allowed",
            hint=f"allow more by `bundle_limit={len(data) / 1e6 * 1.5:.0f}`",
        )
    try:
        replace_file(path.resolve(), data)
    except OSError as error:
        raise refusal(f"{path} cannot be written", error) from error
    words = f"{path}: {byte_count(len(data))}, {plural(len(taken), 'file')}"
    return f"{words}, without {len(left_out)} of {plural(len(states), 'state')}" if left_out else words


def _packed(name: str, contents: Mapping[str, bytes], left_out: Sequence[str]) -> bytes:
    listed = {one: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for one, data in contents.items()}
    manifest = {"format": FORMAT, "name": name, "files": listed, "left_out": sorted(left_out)}
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for one, data in ((MANIFEST, encode_json(manifest)), *contents.items()):
            entry = zipfile.ZipInfo(one, _DATE)
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            entry.compress_type = zipfile.ZIP_STORED if one.endswith(".safetensors") else zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return target.getvalue()


@contextmanager
def opened_bundle(path: Path) -> Iterator[Path]:
    """Yield the folder that a bundle holds, unpacked and compared with its list of files; it is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="attnlab-verify-") as folder:
        try:
            with zipfile.ZipFile(path) as archive:
                yield _unpacked(archive, path, Path(folder))
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
            raise FileError(f"{path} is no bundle that can be read: {error}") from None


def _unpacked(archive: zipfile.ZipFile, path: Path, folder: Path) -> Path:
    entries = archive.infolist()
    _check_entries(path, entries)
    inner, listed = _manifest(archive, path)
    found = {entry.filename for entry in entries} - {MANIFEST}
    if found != listed.keys():
        other = sorted(found ^ listed.keys())[0]
        raise FileError(f"{path} is damaged: {other} is {'not listed' if other in found else 'missing'}")
    for name, about in listed.items():
        data = archive.read(name)
        if about != {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}:
            raise FileError(f"{path} is damaged: {name} was changed after the bundle was written")
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    root = folder / inner
    if not root.is_dir():
        raise FileError(f"{path} is damaged: it has no folder {inner!r}")
    return root


def _check_entries(path: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    """Refuse what no bundle has, before anything is unpacked."""
    if len(entries) > _MOST_FILES:
        raise FileError(f"{path} has {len(entries)} files, more than any bundle")
    names = [entry.filename for entry in entries]
    if len({name.casefold() for name in names}) < len(names):
        raise FileError(f"{path} has a file twice")
    for entry in entries:
        name, parts = entry.filename, PurePosixPath(entry.filename).parts
        if not parts or name != "/".join(parts) or ".." in parts or name[0] == "/" or set(name) & set("\\:\0"):
            raise FileError(f"{path} has a file whose name leads elsewhere: {name!r}")
        kind = entry.external_attr >> 16
        if (stat.S_IFMT(kind) not in {0, stat.S_IFREG}) or PurePosixPath(name).suffix not in _SUFFIXES:
            raise FileError(f"{path} has a file of a kind that no bundle has: {name!r}")
        if entry.flag_bits & 1 or entry.compress_type not in {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}:
            raise FileError(f"{path} has an encrypted file, or one that is packed in another way: {name!r}")
        if entry.file_size > _MOST_RATIO * (entry.compress_size + 100):
            raise FileError(f"{name} in {path} would be unpacked to {byte_count(entry.file_size)}, a zip bomb")
    if sum(entry.file_size for entry in entries) > _MOST_BYTES:
        raise FileError(f"{path} would be unpacked to more than {byte_count(_MOST_BYTES)}")


def _manifest(archive: zipfile.ZipFile, path: Path) -> tuple[str, Mapping[str, object]]:
    """Return the name of the folder in a bundle, and its list of files."""
    try:
        manifest = json.loads(archive.read(MANIFEST))
        if manifest["format"] != FORMAT:
            raise FileError(f"{path} is a bundle of format {manifest['format']}; this attnlab reads format {FORMAT}")
        if not isinstance(manifest["files"], dict) or PurePosixPath(manifest["name"]).parts != (manifest["name"],):
            raise TypeError
    except (KeyError, TypeError, ValueError, RecursionError):
        raise FileError(f"{path} is no bundle: it has no {MANIFEST} that can be read") from None
    return manifest["name"], manifest["files"]
