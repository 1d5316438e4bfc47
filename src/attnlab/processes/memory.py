"""What the C library does with memory that was freed. Each function concerns the whole process.

Only the GNU C library has these settings; elsewhere nothing happens.
"""

from __future__ import annotations

import contextlib
import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8  # numbers of mallopt


def keep_memory() -> None:
    """Keep large blocks between the steps of a computation, and use them again.

    By default every large tensor is mapped anew, and the system clears each of its pages: a tenth of the time of a
    training step on a CPU. Only commands that train call this.
    """
    share_memory()
    _set(_MMAP_MAX, 0)
    _set(_TRIM_THRESHOLD, 2**31 - 1)
    _set(_TOP_PAD, 64 << 20)


def share_memory() -> None:
    """Let all threads allocate from one place, so that each can use what another has freed."""
    _set(_ARENA_MAX, 1)


def give_back_memory() -> None:
    """Give back to the system what is free now."""
    with _gnu_only():
        ctypes.CDLL(None).malloc_trim(0)


def _set(number: int, value: int) -> None:
    with _gnu_only():
        ctypes.CDLL(None).mallopt(number, value)


def _gnu_only() -> contextlib.suppress:
    """Suppress what is raised where there is no such function, or no library to ask."""
    return contextlib.suppress(OSError, AttributeError, TypeError)
