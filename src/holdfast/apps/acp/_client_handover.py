"""Updates for whoever reads a turn: handed over in order, once their words are on record."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from holdfast.apps.acp._channel import Channel, Said
from holdfast.apps.acp._client_turn import Turn, Update
from holdfast.errors import HoldfastError

__all__ = ["Handover"]

# As for the editor of a proxy: after so long without a word, a word has ended.
_PAUSE_S = 10.0


class Handover:
    """While redaction holds a last word back from the log, the update with it waits for more.

    ``turn`` gives the turn that is going on, if there is one.
    """

    def __init__(self, turn: Callable[[], Turn | None]) -> None:
        self._turn = turn
        self._waiting: deque[tuple[Update, Said]] = deque()
        self._pause: asyncio.TimerHandle | None = None
        self._ending: asyncio.Task[None] | None = None
        self.lock = asyncio.Lock()
        """Held while something is recorded and handed over, for the order of it."""

    def put(self, update: Update, said: Said) -> None:
        """An update that is to be recorded; ``said`` is what the session had said with it."""
        self._waiting.append((update, said))

    async def give(self, channel: Channel) -> None:
        """Hand over what is on record; waits while the reader's buffer is full."""
        self.stop()
        known = channel.on_record()
        while self._waiting:
            update, said = self._waiting[0]
            if known is not None and (said[0] > known[0] or said[1] > known[1]):
                loop = asyncio.get_running_loop()
                self._pause = loop.call_later(_PAUSE_S, self._after_pause, channel)
                return
            self._waiting.popleft()
            turn = self._turn()
            if turn is not None:
                await turn.put(update)

    def give_last(self) -> None:
        """The turn has been cut off and that is recorded: hand over what there is room for."""
        self.stop()
        waiting, self._waiting = self._waiting, deque()
        turn = self._turn()
        if turn is not None:
            for update, _ in waiting:
                turn.put_last(update)

    def stop(self) -> None:
        """Wait for no pause any more."""
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None

    def _after_pause(self, channel: Channel) -> None:
        self._ending = asyncio.ensure_future(self._end_words(channel))

    async def _end_words(self, channel: Channel) -> None:
        async with self.lock:
            with contextlib.suppress(HoldfastError):  # raised to whoever records next
                channel.session.record_held()
                await self.give(channel)
