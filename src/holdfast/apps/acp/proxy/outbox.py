"""What goes to the editor: never before it is recorded, and in the order in which it came."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable

from holdfast.apps.acp.recording.channel import Channel, Said
from holdfast.apps.wire.frames import Frame, encode
from holdfast.apps.wire.pipes import Pipe
from holdfast.errors import HoldfastError

__all__ = ["EditorOutbox"]

Failed = Callable[[Channel, HoldfastError], Awaitable[None]]

# After so long without a word, a word has ended: whoever reads should see it. Only words that a
# secret may begin with wait at all, and a stream that stalls in one of those is to find the rest.
_PAUSE_S = 10.0


# The session that a line is about, the line, how much the session had said with it, and whether
# someone waits for it. One for each frame, so it has to cost little.
_Line = tuple[Channel | None, bytes, Said, bool]
_NOTHING: Said = (0, 0)


class EditorOutbox:
    """Lines that wait until what they tell is recorded.

    While redaction holds the last word of a session back from the log, the line with it waits, and
    so does every later one of that session: for more words, for the end of the message, for
    something that someone waits for, or for a pause.

    ``failed`` is called with a session whose store refused it; its lines are given up.
    """

    def __init__(self, editor: Pipe, failed: Failed) -> None:
        self._editor = editor
        self._failed = failed
        self._lines: list[_Line] = []
        self._late: list[_Line] = []
        self._touched: dict[Channel, None] = {}
        self._behind: dict[Channel, Said] = {}
        self._pause: asyncio.TimerHandle | None = None
        self._pausing: asyncio.Task[None] | None = None
        self._settling = asyncio.Lock()

    def touch(self, channel: Channel) -> None:
        """Something of this session is to be recorded."""
        self._touched[channel] = None

    def put(self, channel: Channel | None, line: Frame | bytes) -> None:
        """Show the editor a line of a session, or of none, after what came before.

        A frame with an id asks or answers: someone waits for it.
        """
        said = _NOTHING if channel is None else channel.said
        if isinstance(line, bytes):
            self._lines.append((channel, line, said, False))
        else:
            self._lines.append((channel, encode(line), said, "id" in line))

    async def settle(self) -> None:
        """Record what came, wait for the medium where a barrier is, and only then show it.

        Raises ConnectionError if the editor is gone.
        """
        async with self._settling:
            await self._settle()

    async def shown(self) -> None:
        """Return once everything that came has been recorded and shown, or kept back.

        Raises ConnectionError if the editor is gone.
        """
        async with self._settling:
            await self._release()

    def close(self) -> None:
        """Nothing more is to be shown."""
        for waiting in (self._pause, self._pausing):
            if waiting is not None:
                waiting.cancel()

    async def _settle(self) -> None:
        touched, self._touched = self._touched, {}
        waiting = [*self._late, *self._lines]
        self._late, self._lines = [], []
        for channel in touched:
            try:
                await channel.settle()
            except HoldfastError as error:
                await self._failed(channel, error)
        self._look([*self._behind, *touched])
        if self._behind:
            urgent = [about for about, _, said, due in waiting if due and self._waits(about, said)]
            await self._record(channel for channel in urgent if channel is not None)
        await self._show(waiting)

    def _look(self, channels: Iterable[Channel]) -> None:
        """Which sessions have a word that is not on record."""
        self._behind = {
            channel: known
            for channel in dict.fromkeys(channels)
            if channel.broken is None and (known := channel.on_record()) is not None
        }

    def _waits(self, about: Channel | None, said: Said) -> bool:
        """Whether some of these words of a session are not on record."""
        known = None if about is None else self._behind.get(about)
        return known is not None and (said[0] > known[0] or said[1] > known[1])

    async def _record(self, channels: Iterable[Channel]) -> None:
        """Record the last words of these sessions as they are."""
        for channel in dict.fromkeys(channels):
            try:
                channel.session.record_held()
            except HoldfastError as error:
                await self._failed(channel, error)
        self._look(list(self._behind))

    async def _release(self) -> None:
        """Record the last words that are held back, and show them."""
        self._look(list(self._behind))
        await self._record(list(self._behind))
        waiting, self._late = self._late, []
        await self._show(waiting)

    def _wait_for_pause(self) -> None:
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self._late:
            self._pause = asyncio.get_running_loop().call_later(_PAUSE_S, self._paused)

    def _paused(self) -> None:
        self._pausing = asyncio.ensure_future(self._end_words())

    async def _end_words(self) -> None:
        with contextlib.suppress(ConnectionError):  # told to whoever settles next
            await self.shown()

    async def _show(self, waiting: list[_Line]) -> None:
        lines: list[bytes] = []
        behind = self._behind
        for one in waiting:
            about, line, said, _ = one
            if about is None:
                lines.append(line)
            elif about.broken is None:
                if behind and self._waits(about, said):
                    self._late.append(one)
                else:
                    (lines if about.muted is None else about.muted).append(line)
        self._wait_for_pause()
        if lines:
            self._editor.write(b"".join(lines))
            await self._editor.drain()
