"""Streamed words on disk as they come, without a line for every word."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from holdfast.agent._talk import Talk
from holdfast.errors import HoldfastError

__all__ = ["DeltaRecorder"]

HOLD_S = 0.05
HOLD_BYTES = 1024


class DeltaRecorder:
    """Records streamed pieces, put together for at most 50 ms or 1 KiB, and then shows them.

    ``emit`` gets the text of an answer only after it is on record: what a user has seen survives
    the death of the process. ``covers`` holds, for each kind, the first event recorded, which the
    final event names.
    """

    def __init__(self, talk: Talk, emit: Callable[[str], None]) -> None:
        self._talk = talk
        self._emit = emit
        self._kind = "text"
        self._held: list[str] = []
        self._bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._unshown = ""
        self.covers: dict[str, int] = {}

    def take(self, kind: str, text: str) -> None:
        """One more piece."""
        if kind != self._kind:
            self.flush()
            self._kind = kind
        self._held.append(text)
        self._bytes += len(text.encode("utf-8", "replace"))
        if self._bytes >= HOLD_BYTES:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(HOLD_S, self._flush_in_time)

    def end(self) -> None:
        """Nothing more comes: record and show it to the last word."""
        self.flush()
        if self._unshown:
            self._talk.session.record_held(self._talk.run)
            self._show()

    def flush(self) -> None:
        """Record what is held, then show as much of it as is on record."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        text = "".join(self._held)
        if not text:
            return
        extra = {} if self._kind == "text" else {"kind": self._kind}
        event = self._talk.delta(text, agent=self._talk.agent, **extra)
        pieces, self._held, self._bytes = self._held, [], 0
        self.covers.setdefault(self._kind, event.seq)
        if self._kind == "text":
            self._show(pieces)

    def _show(self, pieces: Sequence[str] = ()) -> None:
        """Redaction keeps the last word from the log while a secret may begin with it."""
        waiting = self._talk.session.held_back(self._talk.run).get("text", 0)
        if not waiting and not self._unshown:
            for piece in pieces:
                self._emit(piece)
            return
        said = self._unshown + "".join(pieces)
        known = len(said) - waiting
        self._unshown = said[known:]
        if said[:known]:
            self._emit(said[:known])

    def _flush_in_time(self) -> None:
        self._timer = None
        # Nobody could catch it here. What the store refuses is held, and raised by a later flush.
        with contextlib.suppress(HoldfastError):
            self.flush()
