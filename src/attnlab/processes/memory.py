"""How the C library reuses freed memory. Each function affects the whole process.

Only the GNU C library has these settings; elsewhere nothing happens.
"""

from __future__ import annotations

import contextlib
import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX, _ARENA_MAX = -1, -2, -4, -8  # parameter numbers of mallopt


def keep_memory() -> None:
    """Keep large blocks between the steps of a computation, and use them again.

    By default every large tensor is a new memory mapping, and the system clears each of its pages: a tenth of the time
    of a training step on a CPU. Only commands that train call this.
    """
    share_memory()
    _set(_MMAP_MAX, 0)
    _set(_TRIM_THRESHOLD, 2**31 - 1)
    _set(_TOP_PAD, 64 << 20)


def share_memory() -> None:
    """Let all threads allocate from one arena, so that each can reuse memory freed by another."""
    _set(_ARENA_MAX, 1)


def give_back_memory() -> None:
    """Return free memory to the system."""
    with _gnu_only():
        ctypes.CDLL(None).malloc_trim(0)


def _set(number: int, value: int) -> None:
    with _gnu_only():
        ctypes.CDLL(None).mallopt(number, value)


def _gnu_only() -> contextlib.suppress:
    """Suppress the errors of systems without such a function or library."""
    return contextlib.suppress(OSError, AttributeError, TypeError)
