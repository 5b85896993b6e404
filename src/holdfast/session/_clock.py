"""The clock and the source of randomness, in the one place of this room that asks for them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from holdfast.model import RANDOM_BYTES, make_id
from holdfast.storage import forks

__all__ = ["Clock", "new_call_id", "new_session_id", "now_ms", "random_hex"]

Clock = Callable[[], int]
"""Gives the time as Unix milliseconds."""

_NS_PER_MS = 1_000_000
_POOL_BYTES = 4096
_UUID_BYTES = 16


def now_ms() -> int:
    """The time as Unix milliseconds."""
    return time.time_ns() // _NS_PER_MS


def new_session_id(clock: Clock = now_ms) -> str:
    """An id that sorts by time; 80 random bits keep those of one millisecond apart."""
    return make_id(clock(), os.urandom(RANDOM_BYTES))


def random_hex(size_bytes: int) -> str:
    """Random bytes as hexadecimal digits."""
    return os.urandom(size_bytes).hex()


class _Pool:
    """Random bytes fetched in bulk: one system call serves 256 ids."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._bytes = b""
        self._used = 0
        self._forks = forks.count

    def take(self) -> bytes:
        with self._lock:
            if self._used + _UUID_BYTES > len(self._bytes) or self._forks != forks.count:
                # A forked child must not hand out its parent's bytes again.
                self._bytes, self._used, self._forks = os.urandom(_POOL_BYTES), 0, forks.count
            start = self._used
            self._used += _UUID_BYTES
            return self._bytes[start : self._used]


_pool = _Pool()


def new_call_id() -> str:
    """A random UUID (version 4) as text, for a tool call that came without an id."""
    digits = _pool.take().hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
