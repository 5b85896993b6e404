"""Asking whoever is at the other end of a wire whether a tool may run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from holdfast.agent import Decision, PermissionRequest

__all__ = ["Answered", "Questions", "Scope"]

Scope = Literal["once", "session", "always"]
"""For how long an approval counts."""
Answered = tuple[bool, Scope]
"""Whether the tool may run, and for how long that counts."""


class Questions:
    """The tools that wait for an answer, each under the id of its call. For one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, asyncio.Future[Answered]] = {}

    async def ask(
        self,
        request: PermissionRequest,
        tell: Callable[[dict[str, Any]], Awaitable[None]],
        *,
        wait_s: float | None = None,
    ) -> Decision:
        """What was decided, once ``tell`` has told it; no when ``wait_s`` is over."""
        from holdfast.agent import Decision, plain_result

        waiting: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._waiting[request.call_id] = waiting
        try:
            await tell(
                {
                    "session_id": request.session_id,
                    "tool_id": request.call_id,
                    "tool_name": request.tool,
                    "description": request.description,
                    "params": plain_result(request.args),
                }
            )
            async with asyncio.timeout(wait_s):
                allow, scope = await waiting
        except TimeoutError:
            return Decision(allow=False, reason="nobody answered in time")
        finally:
            self._waiting.pop(request.call_id, None)
        if not allow:
            return Decision(allow=False, reason="the user did not approve it")
        return Decision(allow=True, scope=scope)

    def answer(self, tool_id: str, *, approved: bool, scope: Scope = "once") -> bool:
        """Let a tool run, or not; whether it was waiting for that."""
        waiting = self._waiting.pop(tool_id, None)
        if waiting is None or waiting.done():
            return False
        waiting.set_result((approved, scope))
        return True

    def deny_all(self) -> None:
        """Nobody can answer any more: what waits may not run."""
        for tool_id in list(self._waiting):
            self.answer(tool_id, approved=False)
