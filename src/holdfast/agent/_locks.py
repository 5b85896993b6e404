"""One turn at a time in one session, whoever asks: any thread, any event loop, in order."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from collections.abc import AsyncIterator
from contextvars import ContextVar
from weakref import WeakKeyDictionary

from holdfast.errors import UsageError
from holdfast.session import Session

__all__ = ["turn_of"]

_POLL_S = 0.005
_queues: WeakKeyDictionary[Session, deque[object]] = WeakKeyDictionary()
_guard = threading.Lock()
_within: ContextVar[tuple[int, ...]] = ContextVar("holdfast_turns", default=())


@contextlib.asynccontextmanager
async def turn_of(session: Session) -> AsyncIterator[None]:
    """Hold the session's turn for the block; those who wait get it in the order they came.

    Raises UsageError if the caller is inside a turn of the same session: it would wait for itself.
    """
    if id(session) in _within.get():
        raise UsageError(
            "a turn of this session is going on, and this call is part of it",
            remedy="Let the tool return, or give the other agent a session of its own.",
            session_id=session.id,
        )
    ticket = object()
    with _guard:
        queue = _queues.setdefault(session, deque())
        queue.append(ticket)
    token = None
    try:
        while queue[0] is not ticket:  # noqa: ASYNC110 - see below
            # A lock of asyncio belongs to one loop; turns may be asked for from several.
            await asyncio.sleep(_POLL_S)
        token = _within.set((*_within.get(), id(session)))
        yield
    finally:
        if token is not None:
            _within.reset(token)
        with _guard:
            queue.remove(ticket)
