"""What goes to the editor: never before it is recorded, and in the order in which it came."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from holdfast.apps.acp._channel import Channel
from holdfast.apps.wire.frames import Frame, encode
from holdfast.apps.wire.pipes import Pipe
from holdfast.errors import HoldfastError

__all__ = ["Outbox"]

Failed = Callable[[Channel, HoldfastError], Awaitable[None]]


class Outbox:
    """Lines that wait until what they tell is recorded.

    ``failed`` is called with a session whose store refused it; its lines are given up.
    """

    def __init__(self, editor: Pipe, failed: Failed) -> None:
        self._editor = editor
        self._failed = failed
        self._lines: list[tuple[Channel | None, bytes]] = []
        self._touched: dict[Channel, None] = {}
        self._settling = asyncio.Lock()

    def touch(self, channel: Channel) -> None:
        """Something of this session is to be recorded."""
        self._touched[channel] = None

    def put(self, channel: Channel | None, line: Frame | bytes) -> None:
        """Show the editor a line of a session, or of none, after what came before."""
        self._lines.append((channel, line if isinstance(line, bytes) else encode(line)))

    async def settle(self) -> None:
        """Record what came, wait for the medium where a barrier is, and only then show it.

        Raises ConnectionError if the editor is gone.
        """
        async with self._settling:
            await self._settle()

    async def shown(self) -> None:
        """Return once everything that is recorded has been shown, too, or kept back."""
        async with self._settling:
            return

    async def _settle(self) -> None:
        touched, self._touched = self._touched, {}
        waiting, self._lines = self._lines, []
        for channel in touched:
            try:
                await channel.settle()
            except HoldfastError as error:
                await self._failed(channel, error)
        lines: list[bytes] = []
        for about, line in waiting:
            if about is None or about.broken is None:
                kept = lines if about is None or about.muted is None else about.muted
                kept.append(line)
        if lines:
            self._editor.write(b"".join(lines))
            await self._editor.drain()
