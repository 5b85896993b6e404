"""The past of a session, sent to an editor."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, partial

from holdfast.apps.acp.replay.log import read_some
from holdfast.apps.acp.replay.replay import replay_some
from holdfast.apps.wire.ahead import Target, pour
from holdfast.apps.wire.lines import next_lines
from holdfast.library import Holdfast
from holdfast.session import Session, unreadable_from

__all__ = ["tell_past"]

_KEPT_BYTES = 4 << 20


async def tell_past(
    hf: Holdfast,
    session: Session,
    reader: Target,
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
    _keep_memory()
    lines = _lines(hf, session, first, stop, close_open=close_open, marks=marks)
    await pour(partial(next_lines, lines), reader)


def _lines(
    hf: Holdfast, session: Session, first: int, stop: int, *, close_open: bool, marks: bool
) -> Iterator[bytes]:
    """What is told, many lines at once. Nothing is done before the first are asked for."""
    session.flush()
    store, key = hf.store, session.key
    some = read_some(
        store.log(key).read(),
        first,
        stop,
        store.documents(key),
        lambda start: hf.events(session.id, start, stop),
    )
    lost_from = unreadable_from(store.log(key), store.documents(key))
    yield from replay_some(
        some, session.id, close_open=close_open, marks=marks, lost_from=lost_from
    )


@cache
def _keep_memory() -> None:
    """Let memory that is freed be used again.

    What a log is read into was given back to the system again and again, and with it a page fault
    for every 4 KiB of the next piece: a fifth of a load. Once a larger piece was freed, glibc
    keeps them.
    """
    bytes(_KEPT_BYTES)
