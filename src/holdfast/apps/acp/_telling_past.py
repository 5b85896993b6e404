"""The past of a session, sent to an editor."""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import Protocol

from holdfast.apps.acp._replaying import replay_some
from holdfast.apps.acp._replaying_log import read_some
from holdfast.apps.wire.ahead import made_ahead
from holdfast.apps.wire.lines import next_lines
from holdfast.library import Holdfast
from holdfast.session import Session

__all__ = ["Reader", "tell_past"]

# What a log is read into is given back to the system again and again, and with it a page fault for
# every 4 KiB of the next piece: a fifth of a load. Once a larger one was freed, glibc keeps them.
_KEPT_BYTES = 4 << 20


class Reader(Protocol):
    """Who is told."""

    def write(self, data: bytes) -> None:
        """Send whole lines."""

    async def drain(self) -> None:
        """Wait until enough was taken."""


async def tell_past(
    hf: Holdfast,
    session: Session,
    reader: Reader,
    *,
    first: int = 0,
    stop: int,
    close_open: bool,
    marks: bool = False,
) -> None:
    """Tell of the events with ``first <= seq < stop``, from the log, without holding up others.

    Little of it is held at a time. ``close_open`` and ``marks`` are those of ``replay``.
    """
    if first >= stop:
        return
    await session.aflush()
    store, key = hf.store, session.key
    some = read_some(
        store.log(key).read(),
        first,
        stop,
        store.documents(key),
        lambda start: hf.events(session.id, start, stop),
    )
    lines = replay_some(some, session.id, close_open=close_open, marks=marks)
    bytes(_KEPT_BYTES)
    async with aclosing(made_ahead(partial(next_lines, lines))) as batches:
        async for batch in batches:
            reader.write(batch)
            await reader.drain()
