"""The clock and the source of randomness: the only place in this room that uses them."""

from __future__ import annotations

import os
from collections.abc import Callable
from time import time_ns as time_ns  # noqa: PLC0414 - sessions ask this module for the time

from holdfast.model import RANDOM_BYTES, make_id

Clock = Callable[[], int]
"""Returns the time as Unix milliseconds."""

_NS_PER_MS = 1_000_000
_POOL_BYTES = 1024
_ID_DIGITS = 32


def now_ms() -> int:
    """Return the time as Unix milliseconds."""
    return time_ns() // _NS_PER_MS


def new_session_id(clock: Clock = now_ms) -> str:
    """Return an id that sorts by time; 80 random bits distinguish those of one millisecond."""
    return make_id(clock(), os.urandom(RANDOM_BYTES))


def random_hex(size_bytes: int) -> str:
    """Return random bytes as hexadecimal digits."""
    return os.urandom(size_bytes).hex()


# Ids are made in bulk: one system call serves many. Taking one from a list is a single step, so threads need no lock; a
# forked child must not hand out its parent's.
_call_ids: list[str] = []
os.register_at_fork(after_in_child=_call_ids.clear)


def new_call_id() -> str:
    """Return a random UUID (version 4) as text, for a tool call that came without an id."""
    try:
        return _call_ids.pop()
    except IndexError:
        made = os.urandom(_POOL_BYTES).hex()
        first, *others = (_uuid(made[at : at + _ID_DIGITS]) for at in range(0, len(made), _ID_DIGITS))
        _call_ids.extend(others)
        return first


def _uuid(digits: str) -> str:
    """Return 32 digits as a UUID; the digit of the variant has two random bits."""
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
