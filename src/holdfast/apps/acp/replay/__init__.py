"""Recorded sessions for an editor: the list of them, and the replay of one."""

from __future__ import annotations

import os
from functools import cache, partial
from typing import Any

from holdfast.apps.acp.replay.log import read_some
from holdfast.apps.acp.replay.replay import Watch, replay_some
from holdfast.apps.wire.frames import INVALID_PARAMS, RpcError, next_lines, utc
from holdfast.apps.wire.pipes import Pipe, pour
from holdfast.errors import UsageError
from holdfast.library import Holdfast
from holdfast.model import SessionMetadata
from holdfast.session import Session

__all__ = ["list_sessions", "tell_past"]

_KEPT_BYTES = 4 << 20
_PAGE = 50


async def tell_past(
    hf: Holdfast,
    session: Session,
    reader: Pipe,
    *,
    first: int = 0,
    stop: int,
    close_open: bool,
    marks: bool = False,
    watch: Watch = lambda _: None,
) -> None:
    """Tell of the events with ``first <= seq < stop``, from the log, without holding up others.

    The log is read once, and little of it is held at a time. ``close_open`` and ``marks`` are
    those of ``replay``, ``watch`` that of ``replay_some``: it is called on other threads.
    """
    if first >= stop:
        return
    _keep_memory()
    await session.aflush()
    store, key = hf.store, session.key
    some = read_some(store.log(key), first, stop, store.documents(key))
    lines = replay_some(some, session.id, close_open=close_open, marks=marks, stop=stop, watch=watch)
    await pour(partial(next_lines, lines), reader)


@cache
def _keep_memory() -> None:
    """Let memory that is freed be used again.

    What a log is read into was given back to the system again and again, and with it a page fault for every 4 KiB of
    the next piece: a fifth of a load. Once a larger piece was freed, glibc keeps them.
    """
    bytes(_KEPT_BYTES)


def list_sessions(hf: Holdfast, params: dict[str, Any]) -> dict[str, Any]:
    """Return one page of ``session/list``, newest first. Raises RpcError for a cursor that is none."""
    cwd, cursor = params.get("cwd"), params.get("cursor")
    if not isinstance(cursor, str | None):
        raise RpcError(INVALID_PARAMS, "a cursor is a text")
    if not isinstance(cwd, str | None):
        raise RpcError(INVALID_PARAMS, "cwd is a text")
    try:
        page = hf.list(_PAGE, cwd=None if cwd is None else os.path.normpath(cwd), after=cursor)
    except UsageError as error:
        raise RpcError(INVALID_PARAMS, error.message) from error
    here = os.getcwd()  # of sessions that worked nowhere in particular
    answer: dict[str, Any] = {"sessions": [_entry(row, row.cwd or here) for row in page]}
    if page.next is not None:
        answer["nextCursor"] = page.next
    return answer


def _entry(row: SessionMetadata, cwd: str) -> dict[str, Any]:
    titled = {"title": row.title} if row.title else {}
    return {"sessionId": row.session_id, "cwd": cwd, **titled, "updatedAt": utc(row.updated_at)}
