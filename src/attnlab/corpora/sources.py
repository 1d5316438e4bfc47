"""Text sources: a file or a folder, read in blocks, so that its size does not matter.

A chunk of text ends before a space or line break that follows another character. No word of GPT-2's pre-tokenizer
crosses such a boundary, and the words on one side do not depend on the other: encoding chunk by chunk gives the same
tokens as encoding the whole.
"""

from __future__ import annotations

import codecs
import hashlib
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attnlab.errors import FileError
from attnlab.storage.files import check_no_device

SUFFIXES = (
    ".txt .text .md .markdown .rst .tex .org .csv .tsv .json .jsonl .html .xml .yaml .toml "
    ".py .pyi .c .h .cpp .hpp .rs .go .java .js .ts .sh .sql"
)  # of the files that are read from a folder
BLOCK = 1 << 20  # bytes
LONGEST_WORD = 1 << 24  # characters without a boundary; longer text is cut anyway
CUT = re.compile(r"(?<=\S)[ \t\r\n]")


@dataclass(frozen=True)
class TextSource:
    """Files read one after the other, with a line break added between two if the first does not end with one.

    The files of `held_out` are validation text and are read last; the file before them must end with a line break.
    """

    name: str  # for messages
    files: tuple[Path, ...]
    held_out: tuple[Path, ...] = ()

    @classmethod
    def find(cls, path: Path) -> TextSource:
        """Find a file, or the text files in a folder at any depth, in order of their paths and without hidden ones."""
        if path.is_file():
            return cls(str(path), (path,))
        if path.is_dir():
            files = tuple(_walk(path))
            if not files:
                raise FileError(
                    f"the folder {path} holds no text",
                    hint=f"files are found by their suffix: {SUFFIXES}",
                )
            return cls(str(path), files)
        if path.exists():
            raise FileError(f"{path} is neither a file nor a folder", hint="give a text file")
        raise FileError(f"there is no file or folder {path}", hint="check the path")

    def parts(self) -> list[TextSource]:
        """Return the text to train on and, where it is held out as a whole, the validation text."""
        both = (self.files, self.held_out) if self.held_out else (self.files,)
        return [TextSource(self.name, files) for files in both]

    def blocks(self) -> Iterator[bytes]:
        """Yield the bytes, block by block."""
        return (block for _, _, block in self._blocks())

    def _blocks(self) -> Iterator[tuple[Path, int, bytes]]:
        """Yield the bytes, block by block, with where they come from: file and offset."""
        last = b"\n"
        for path in (*self.files, *self.held_out):
            if last != b"\n":
                yield path, 0, b"\n"
                last = b"\n"
            offset = 0
            try:
                check_no_device(path)
                with path.open("rb") as file:
                    while block := file.read(BLOCK):
                        yield path, offset, block
                        offset += len(block)
                        last = block[-1:]
            except FileError:
                raise
            except OSError as error:
                raise FileError(f"{path} cannot be read: {error.strerror}", hint="check its permissions") from None

    def texts(self) -> Iterator[str]:
        """Yield the decoded text in pieces that end anywhere."""
        decoder = codecs.getincrementaldecoder("utf-8")()
        before: Path | None = None
        for path, offset, block in self._blocks():
            if path != before and before is not None:
                _decode(decoder, b"", before, before.stat().st_size, final=True)
            before = path
            nul = block.find(b"\0")
            if nul >= 0:
                raise FileError(
                    f"{path} is no text: byte {offset + nul} is 0, as in a binary file or in UTF-16",
                    hint="give a text in UTF-8, or use `tokenizer=byte`, which takes any bytes",
                )
            yield _decode(decoder, block, path, offset)
        if before is not None:
            _decode(decoder, b"", before, before.stat().st_size, final=True)

    def chunks(self) -> Iterator[str]:
        """Yield the text in pieces that can be encoded one by one."""
        rest = ""
        for text in self.texts():
            rest += text
            if len(rest) < BLOCK // 4:
                continue
            cut = _last_cut(rest)
            if cut == 0 and len(rest) >= LONGEST_WORD:
                cut = len(rest)
            if cut:
                yield rest[:cut]
                rest = rest[cut:]
        if rest:
            yield rest

    def hash(self) -> str:
        """Return the SHA-256 of the bytes; refuse an empty source."""
        total, empty = hashlib.sha256(), True
        for block in self.blocks():
            total.update(block)
            empty = False
        if empty:
            raise FileError(f"{self.name} is empty", hint="give a text to train on")
        return total.hexdigest()


def _walk(folder: Path) -> Iterator[Path]:
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            path = Path(place, name)
            if not name.startswith(".") and path.suffix.lower() in SUFFIXES.split() and path.is_file():
                found.append(path)
    yield from sorted(found, key=lambda path: path.relative_to(folder).as_posix())


def _decode(decoder: codecs.IncrementalDecoder, block: bytes, path: Path, offset: int, *, final: bool = False) -> str:
    waiting = len(decoder.getstate()[0])  # the first bytes of a character split across blocks
    try:
        return decoder.decode(block, final)
    except UnicodeDecodeError as error:
        raise FileError(
            f"{path} is not in UTF-8: byte {offset - waiting + error.start} is 0x{error.object[error.start]:02x}",
            hint='convert it to UTF-8, or use tokenizer="byte", which takes any bytes',
        ) from None


def _last_cut(text: str) -> int:
    """Return the last place where a chunk may end, or 0."""
    step = 4096  # search backwards in pieces, because the last boundary is mostly near the end
    for end in range(len(text), 0, -step):
        found = [match.start() for match in CUT.finditer(text, max(0, end - step), end)]
        if found:
            return found[-1]
    return 0
