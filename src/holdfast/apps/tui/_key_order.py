"""Keys in their order: each goes where the one before it led.

Over a slow line, or on a busy machine, several keys arrive at once. Textual hands all of them to
what has the focus at that moment, so that of ``c``, ``d`` and ``y`` the last two would not be words
to say, but a session deleted. Here a key waits until the one before it has been acted upon.
"""

from __future__ import annotations

import asyncio
from collections import deque

from textual import events
from textual.app import App
from textual.dom import DOMNode

__all__ = ["KeyOrder"]

_SETTLE_S = 10.0  # longer than any screen takes to appear, on a busy machine too; no key is lost


class KeyOrder(App[None]):
    """An app that takes keys and pasted text one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self._pressed: deque[events.Event] = deque()
        self._settling: asyncio.Task[None] | None = None

    async def on_event(self, event: events.Event) -> None:
        """Keep a key back while another is under way; everything else is as ever."""
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded:
            await super().on_event(event)
        elif self._settling is not None:
            self._pressed.append(event)
        else:
            where = self.focused or self.screen
            await super().on_event(event)
            self._settling = asyncio.create_task(self._go_on(where))

    async def _go_on(self, where: DOMNode) -> None:
        """Wait until a key was acted upon; then the next, as long as there are some."""
        try:
            await self._settled(where)
            while self._pressed and self.is_running:
                where = self.focused or self.screen
                await super().on_event(self._pressed.popleft())
                await self._settled(where)
        finally:
            self._settling = None

    async def _settled(self, where: DOMNode) -> None:
        """When a key has risen from ``where`` to the app, and what it led to has the focus."""
        rise = [*where.ancestors_with_self]
        try:
            async with asyncio.timeout(_SETTLE_S):
                # Once for the key, and once for the message that a widget made of it. What was
                # asked of the app then comes next; a new screen has its focus when it can listen.
                for node in (*rise, *rise, self):
                    await _turn_of(node)
                if self.is_running and self.screen_stack:
                    await _turn_of(self.screen)
        except TimeoutError:
            return


async def _turn_of(node: DOMNode) -> None:
    """Wait until a node has dealt with all that it was sent before."""
    done = asyncio.Event()
    is_going = node._pruning  # noqa: SLF001 - it will not come to what it is sent now
    if not is_going and node.call_later(done.set):
        await done.wait()
