"""The effects of a process and its children on files, as the kernel sees them: counted, and made to fail.

A filter (seccomp) in the child reports each system call that changes a file to the parent, which lets it happen, or
answers with an error, or sends a signal. So an effect is the same thing for Python, SQLite and safetensors. Linux only.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import platform
import select
import signal
import struct
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# By machine: the number of `seccomp`, and those of the calls that are reported.
_SECCOMP = {"x86_64": 317, "aarch64": 277}
_BY_DESCRIPTOR = {
    "x86_64": {"write": 1, "pwrite64": 18, "writev": 20, "fsync": 74, "fdatasync": 75, "ftruncate": 77, "sendfile": 40},
    "aarch64": {
        "write": 64,
        "pwrite64": 68,
        "writev": 66,
        "fsync": 82,
        "fdatasync": 83,
        "ftruncate": 46,
        "sendfile": 71,
    },
}
_BY_PATH = {
    "x86_64": {"rename": 82, "mkdir": 83, "rmdir": 84, "link": 86, "unlink": 87, "symlink": 88},
    "aarch64": {},
}
_BY_FOLDER = {
    "x86_64": {"openat": 257, "mkdirat": 258, "unlinkat": 263, "renameat": 264, "linkat": 265, "renameat2": 316},
    "aarch64": {"openat": 56, "mkdirat": 34, "unlinkat": 35, "renameat": 38, "linkat": 37, "renameat2": 276},
}
_LOAD, _IF_EQUAL, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_ALLOW, _REPORT = 0x7FFF0000, 0x7FC00000
_THIRD_ARGUMENT = 16 + 2 * 8  # its place in what the filter sees
_RECEIVE, _SEND, _CONTINUE = 0xC0502100, 0xC0182101, 1
_NO_NEW_PRIVILEGES, _NEW_LISTENER = 38, 8
_LONGEST_PATH = 4096

Kind = Literal["error", "signal"]


@dataclass(frozen=True)
class Trouble:
    """What happens at effect number `at` (from 0): an error of the system, or a signal; an error perhaps ever after."""

    at: int
    kind: Kind
    number: int
    for_ever: bool = False

    def __str__(self) -> str:
        name = errno.errorcode[self.number] if self.kind == "error" else signal.Signals(self.number).name
        return f"{name} at effect {self.at}{' and ever after' if self.for_ever else ''}"


def install_filter() -> int:
    """Report this process's effects from now on; return the descriptor that the parent listens at."""
    library, machine = ctypes.CDLL(None, use_errno=True), platform.machine()
    code = _program(machine)
    text = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("HxxxxxxQ", len(code) // 8, ctypes.addressof(text))
    library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    listener: int = library.syscall(_SECCOMP[machine], 1, _NEW_LISTENER, ctypes.create_string_buffer(program, 16))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "this system does not report system calls")
    return listener


def _program(machine: str) -> bytes:
    """Return a filter that reports the calls of the tables, `openat` only if it may make a file."""
    openat = _BY_FOLDER[machine]["openat"]
    reported = [
        number
        for calls in (_BY_DESCRIPTOR, _BY_PATH, _BY_FOLDER)
        for number in calls[machine].values()
        if number != openat
    ]
    last = len(reported) + 5  # the place of the instruction that reports
    lines = [(_LOAD, 0, 0, 0)]
    lines += [(_IF_EQUAL, last - place - 1, 0, number) for place, number in enumerate(reported, 1)]
    lines += [(_IF_EQUAL, 0, 2, openat), (_LOAD, 0, 0, _THIRD_ARGUMENT), (_IF_ANY_BIT, 1, 0, os.O_CREAT)]
    lines += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _REPORT)]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


class Supervisor:
    """Listens to the effects of a child inside one folder, and makes the trouble."""

    def __init__(self, listener: int, child: int, folder: Path, trouble: Trouble | None) -> None:
        self.effects: list[str] = []
        self.troubled = 0
        self._listener, self._child, self._folder, self._trouble = listener, child, f"{folder.resolve()}/", trouble
        machine = platform.machine()
        self._kinds = [{number: name for name, number in table[machine].items()} for table in _TABLES]

    def watch(self, end: float, has_ended: Callable[[], bool]) -> bool:
        """Listen until the child has ended; return False if it lives at the time `end` of the monotonic clock."""
        ready = select.poll()
        ready.register(self._listener, select.POLLIN)
        while not has_ended():
            left = end - time.monotonic()
            if left <= 0:
                return False
            for _, event in ready.poll(min(left, 0.05) * 1000):
                if event & select.POLLIN:
                    self._answer()
                elif event & select.POLLHUP:  # no process is left that could report
                    return True
        return True

    def close(self) -> None:
        os.close(self._listener)

    def _answer(self) -> None:
        report = bytearray(80)
        with suppress(FileNotFoundError, ProcessLookupError):  # the caller was killed meanwhile
            fcntl.ioctl(self._listener, _RECEIVE, report)
            number, process, _, call, _, _, *arguments = struct.unpack("QIIiIQ6Q", report)
            trouble = self._meets(process, call, arguments)
            error = trouble.number if trouble is not None and trouble.kind == "error" else 0
            answer = struct.pack("QqiI", number, 0, -error, 0 if error else _CONTINUE)
            fcntl.ioctl(self._listener, _SEND, bytearray(answer))
            if trouble is not None and not error:  # after the answer: a signal before it would interrupt the call
                os.kill(self._child, trouble.number)

    def _meets(self, process: int, call: int, arguments: list[int]) -> Trouble | None:
        """Return the trouble that this call meets, if any."""
        name, path = self._subject(process, call, arguments)
        if not path.startswith(self._folder):
            return None
        place = len(self.effects)
        self.effects.append(f"{name} {path.removeprefix(self._folder)}")
        trouble = self._trouble
        if trouble is None or not (place == trouble.at or (trouble.for_ever and place > trouble.at)):
            return None
        self.troubled += 1
        return trouble

    def _subject(self, process: int, call: int, arguments: list[int]) -> tuple[str, str]:
        """Return the name of a call and the absolute path of what it changes; an empty path if that is unknown."""
        by_descriptor, by_path, by_folder = self._kinds
        try:
            if call in by_descriptor:
                return by_descriptor[call], str(Path(f"/proc/{process}/fd/{arguments[0]}").readlink())
            address = arguments[0] if call in by_path else arguments[1]
            folder = f"/proc/{process}/cwd"
            if call in by_folder and arguments[0] & 0xFFFFFFFF != 0xFFFFFF9C:  # AT_FDCWD
                folder = f"/proc/{process}/fd/{arguments[0] & 0xFFFFFFFF}"
            path = Path(folder).readlink() / _text_at(process, address)
            return by_path.get(call) or by_folder[call], os.path.normpath(path)
        except OSError:
            return "", ""


_TABLES = (_BY_DESCRIPTOR, _BY_PATH, _BY_FOLDER)


def _text_at(process: int, address: int) -> str:
    """Return the text that ends with a zero at an address of another process."""
    page = os.sysconf("SC_PAGESIZE")
    text = b""
    with Path(f"/proc/{process}/mem").open("rb", buffering=0) as memory:
        while b"\0" not in text and len(text) < _LONGEST_PATH:
            memory.seek(address + len(text))
            text += memory.read(page - (address + len(text)) % page)
    return os.fsdecode(text.partition(b"\0")[0])
