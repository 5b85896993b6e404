"""The past of a session, sent to an editor."""

from __future__ import annotations

import asyncio
from typing import Protocol

from holdfast.apps.acp._replaying import replay_some
from holdfast.apps.acp._replaying_log import read_some
from holdfast.apps.wire.lines import next_lines
from holdfast.library import Holdfast
from holdfast.session import Session

__all__ = ["Reader", "tell_past"]


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
    while batch := await asyncio.to_thread(next_lines, lines):
        reader.write(batch)
        await reader.drain()
